package api

import (
	"context"
	"net/http"
)

// RegistryCredentialList reads a project's, without passwords.
func (c *Client) RegistryCredentialList(ctx context.Context, project string, o PageOptions) (*Page[RegistryCredential], error) {
	var out Page[RegistryCredential]
	return &out, c.do(ctx, http.MethodGet, "/v1/projects/"+seg(project)+"/registry-credentials", o.query(), nil, &out)
}

// RegistryCredentialCreate adds a password for a registry, or replaces it.
func (c *Client) RegistryCredentialCreate(ctx context.Context, project string, in RegistryCredentialCreate) (*RegistryCredential, error) {
	var out RegistryCredential
	return &out, c.do(ctx, http.MethodPost, "/v1/projects/"+seg(project)+"/registry-credentials", nil, in, &out)
}

// RegistryCredentialDelete forgets one, by its host or id.
func (c *Client) RegistryCredentialDelete(ctx context.Context, project, credential string) error {
	return c.do(ctx, http.MethodDelete, "/v1/projects/"+seg(project)+"/registry-credentials/"+seg(credential), nil, nil, nil)
}
