package httpapi

import (
	"context"

	"github.com/tenon-cloud/tenon/api"
	"github.com/tenon-cloud/tenon/internal/app"
	"github.com/tenon-cloud/tenon/internal/authz"
	"github.com/tenon-cloud/tenon/internal/cloud"
)

// OrgPath names an organisation.
type OrgPath struct {
	Org string `path:"org" maxLength:"100" doc:"Name or id"`
}

func (s *server) orgOperations() {
	const tag = "Organisations"
	register(s, operation{method: "GET", path: "/v1/organisations", action: authz.OrganisationList, tag: tag, summary: "List organisations",
		description: "Those that you belong to; operators see all."}, s.orgList)
	register(s, operation{method: "POST", path: "/v1/organisations", action: authz.OrganisationCreate, tag: tag, summary: "Make an organisation", description: "Operators only.", status: 201}, s.orgCreate)
	register(s, operation{method: "GET", path: "/v1/organisations/{org}", action: authz.OrganisationRead, tag: tag, summary: "Show an organisation"}, s.orgGet)
	register(s, operation{method: "GET", path: "/v1/organisations/{org}/members", action: authz.MemberList, tag: tag, summary: "List its people"}, s.memberList)
	register(s, operation{method: "POST", path: "/v1/organisations/{org}/members", action: authz.MemberCreate, tag: tag, summary: "Add a person",
		description: "Operators only. Makes the account, with the password given, when the address is new.", status: 201}, s.memberCreate)
	register(s, operation{method: "DELETE", path: "/v1/organisations/{org}/members/{member}", action: authz.MemberDelete, tag: tag, summary: "Remove a person",
		description: "Their tokens for this organisation end at once; their account stays. An organisation keeps an owner.", status: 204}, s.memberDelete)
	register(s, operation{method: "POST", path: "/v1/users/{user}/password", action: authz.PasswordReset, tag: tag, summary: "Set a person's password",
		description: "Operators only, for somebody who lost it. All of the person's sessions and API tokens end.", status: 204}, s.passwordReset)
}

func (s *server) orgList(ctx context.Context, in *struct{ Paged }) (*out[api.Page[api.Organisation]], error) {
	l, err := s.app.OrgList(ctx, call(ctx, ""), in.page())
	return pageOf(l, err, orgOf)
}

func (s *server) orgGet(ctx context.Context, in *struct {
	Strict
	OrgPath
}) (*out[api.Organisation], error) {
	o, err := s.app.OrgGet(ctx, call(ctx, ""), in.Org)
	return oneOf(o, err, orgOf)
}

func (s *server) orgCreate(ctx context.Context, in *struct {
	Creating
	Body api.OrganisationCreate
}) (*out[api.Organisation], error) {
	o, err := s.app.OrgCreate(ctx, call(ctx, in.IdempotencyKey), app.OrgInput{Name: in.Body.Name, DisplayName: in.Body.DisplayName})
	return oneOf(o, err, orgOf)
}

func (s *server) memberList(ctx context.Context, in *struct {
	Paged
	OrgPath
}) (*out[api.Page[api.Member]], error) {
	l, err := s.app.MemberList(ctx, call(ctx, ""), in.Org, in.page())
	return pageOf(l, err, memberOf)
}

func (s *server) memberCreate(ctx context.Context, in *struct {
	Creating
	OrgPath
	Body api.MemberCreate
}) (*out[api.Member], error) {
	m, err := s.app.MemberAdd(ctx, call(ctx, in.IdempotencyKey), in.Org, app.MemberInput{
		Email: in.Body.Email, Name: in.Body.Name, Password: in.Body.Password, Role: cloud.OrgRole(in.Body.Role),
	})
	return oneOf(m, err, memberOf)
}

func (s *server) memberDelete(ctx context.Context, in *struct {
	Strict
	OrgPath
	Member string `path:"member" maxLength:"254" doc:"Id or e-mail address of the person"`
}) (*none, error) {
	return nil, s.app.MemberRemove(ctx, call(ctx, ""), in.Org, in.Member)
}

func (s *server) passwordReset(ctx context.Context, in *struct {
	Strict
	User string `path:"user" maxLength:"254" doc:"Id or e-mail address"`
	Body api.PasswordReset
}) (*none, error) {
	return nil, s.app.PasswordReset(ctx, call(ctx, ""), in.User, in.Body.Password)
}

func orgOf(o cloud.Org) api.Organisation {
	return api.Organisation{ID: o.ID.String(), Name: o.Name, DisplayName: o.DisplayName, CreatedAt: o.CreatedAt.UTC()}
}

func memberOf(m app.Member) api.Member {
	return api.Member{UserID: m.UserID.String(), Email: m.Email, Name: m.Name, Role: string(m.Role), CreatedAt: m.CreatedAt.UTC()}
}
