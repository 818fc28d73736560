package httpapi

import (
	"context"

	"github.com/tenon-cloud/tenon/api"
	"github.com/tenon-cloud/tenon/internal/app"
	"github.com/tenon-cloud/tenon/internal/authz"
	"github.com/tenon-cloud/tenon/internal/cloud"
)

func (s *server) credentialOperations() {
	const tag = "Offers"
	const path = "/v1/projects/{project}/registry-credentials"
	register(s, operation{method: "GET", path: path, action: authz.CredentialList, tag: tag, summary: "List a project's registry credentials", description: "Without their passwords, which are never shown."}, s.credentialList)
	register(s, operation{method: "POST", path: path, action: authz.CredentialCreate, tag: tag, summary: "Add or replace a registry credential",
		description: "One for each registry. The registry is asked first: a password that it refuses is 422, one of a registry that can't be asked is kept with a warning. The password is kept sealed and shown never again.", status: 201}, s.credentialCreate)
	register(s, operation{method: "DELETE", path: path + "/{credential}", action: authz.CredentialDelete, tag: tag, summary: "Delete a registry credential",
		description: "Refused while an image is pulled with it.", status: 204}, s.credentialDelete)
}

func (s *server) credentialList(ctx context.Context, in *struct {
	Paged
	ProjectPath
}) (*out[api.Page[api.RegistryCredential]], error) {
	l, err := s.app.CredentialList(ctx, call(ctx, ""), in.Project, in.page())
	return pageOf(l, err, credentialOf)
}

func (s *server) credentialCreate(ctx context.Context, in *struct {
	Strict
	ProjectPath
	Body api.RegistryCredentialCreate
}) (*out[api.RegistryCredential], error) {
	made, err := s.app.CredentialCreate(ctx, call(ctx, ""), in.Project, app.CredentialInput{Host: in.Body.Host, Username: in.Body.Username, Password: in.Body.Password})
	return oneOf(made, err, func(made app.CredentialMade) api.RegistryCredential {
		c := credentialOf(made.RegistryCredential)
		c.Warning = made.Warning
		return c
	})
}

func (s *server) credentialDelete(ctx context.Context, in *struct {
	Strict
	ProjectPath
	Credential string `path:"credential" maxLength:"255" doc:"Host or id"`
}) (*none, error) {
	return nil, s.app.CredentialDelete(ctx, call(ctx, ""), in.Project, in.Credential)
}

func credentialOf(c cloud.RegistryCredential) api.RegistryCredential {
	return api.RegistryCredential{ID: c.ID.String(), Host: c.Host, Username: c.Username, CreatedAt: c.CreatedAt.UTC()}
}
