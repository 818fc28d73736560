package api

import (
	"context"
	"net/http"
)

// Login signs in with a password. Keep the session's access token; make an API
// token with it for anything that lasts.
func (c *Client) Login(ctx context.Context, email, password string) (*Session, error) {
	var out Session
	return &out, c.do(ctx, http.MethodPost, "/v1/auth/login", nil, Login{Email: email, Password: password}, &out)
}

// Logout ends the session that the access token belongs to.
func (c *Client) Logout(ctx context.Context) error {
	return c.do(ctx, http.MethodPost, "/v1/auth/logout", nil, nil, nil)
}

// Me says who asks, in which organisation.
func (c *Client) Me(ctx context.Context) (*Me, error) {
	var out Me
	return &out, c.do(ctx, http.MethodGet, "/v1/me", nil, nil, &out)
}

// TokenList reads the caller's API tokens.
func (c *Client) TokenList(ctx context.Context, o PageOptions) (*Page[Token], error) {
	var out Page[Token]
	return &out, c.do(ctx, http.MethodGet, "/v1/tokens", o.query(), nil, &out)
}

// TokenCreate makes an API token; the answer carries its secret, this once.
func (c *Client) TokenCreate(ctx context.Context, in TokenCreate, opts ...CallOption) (*TokenCreated, error) {
	var out TokenCreated
	return &out, c.do(ctx, http.MethodPost, "/v1/tokens", nil, in, &out, opts...)
}

// TokenRevoke ends a token by name or id, at once and for good.
func (c *Client) TokenRevoke(ctx context.Context, token string) error {
	return c.do(ctx, http.MethodDelete, "/v1/tokens/"+seg(token), nil, nil, nil)
}

// OrganisationList reads those that the caller belongs to; operators read all.
func (c *Client) OrganisationList(ctx context.Context, o PageOptions) (*Page[Organisation], error) {
	var out Page[Organisation]
	return &out, c.do(ctx, http.MethodGet, "/v1/organisations", o.query(), nil, &out)
}

// OrganisationCreate makes a tenant; operators only.
func (c *Client) OrganisationCreate(ctx context.Context, in OrganisationCreate, opts ...CallOption) (*Organisation, error) {
	var out Organisation
	return &out, c.do(ctx, http.MethodPost, "/v1/organisations", nil, in, &out, opts...)
}

// OrganisationGet reads one by name or id.
func (c *Client) OrganisationGet(ctx context.Context, org string) (*Organisation, error) {
	var out Organisation
	return &out, c.do(ctx, http.MethodGet, "/v1/organisations/"+seg(org), nil, nil, &out)
}

// MemberList reads the people of an organisation.
func (c *Client) MemberList(ctx context.Context, org string, o PageOptions) (*Page[Member], error) {
	var out Page[Member]
	return &out, c.do(ctx, http.MethodGet, "/v1/organisations/"+seg(org)+"/members", o.query(), nil, &out)
}

// MemberDelete removes a person, by id or e-mail address, from an organisation.
func (c *Client) MemberDelete(ctx context.Context, org, member string) error {
	return c.do(ctx, http.MethodDelete, "/v1/organisations/"+seg(org)+"/members/"+seg(member), nil, nil, nil)
}

// PasswordChange sets the caller's own password and ends their other sessions.
func (c *Client) PasswordChange(ctx context.Context, in PasswordChange) error {
	return c.do(ctx, http.MethodPut, "/v1/me/password", nil, in, nil)
}

// PasswordReset sets the password of a person, by id or e-mail address, and ends
// their sessions and tokens; operators only.
func (c *Client) PasswordReset(ctx context.Context, user string, in PasswordReset) error {
	return c.do(ctx, http.MethodPost, "/v1/users/"+seg(user)+"/password", nil, in, nil)
}

// MemberCreate adds a person to an organisation; operators only.
func (c *Client) MemberCreate(ctx context.Context, org string, in MemberCreate, opts ...CallOption) (*Member, error) {
	var out Member
	return &out, c.do(ctx, http.MethodPost, "/v1/organisations/"+seg(org)+"/members", nil, in, &out, opts...)
}

// ProjectList reads the projects of the current organisation.
func (c *Client) ProjectList(ctx context.Context, o PageOptions) (*Page[Project], error) {
	var out Page[Project]
	return &out, c.do(ctx, http.MethodGet, "/v1/projects", o.query(), nil, &out)
}

// ProjectCreate makes a project.
func (c *Client) ProjectCreate(ctx context.Context, in ProjectCreate, opts ...CallOption) (*Project, error) {
	var out Project
	return &out, c.do(ctx, http.MethodPost, "/v1/projects", nil, in, &out, opts...)
}

// ProjectGet reads one by name or id.
func (c *Client) ProjectGet(ctx context.Context, project string) (*Project, error) {
	var out Project
	return &out, c.do(ctx, http.MethodGet, "/v1/projects/"+seg(project), nil, nil, &out)
}

// QuotaList reads a project's limits and what it uses of them.
func (c *Client) QuotaList(ctx context.Context, project string) (*List[Quota], error) {
	var out List[Quota]
	return &out, c.do(ctx, http.MethodGet, "/v1/projects/"+seg(project)+"/quotas", nil, nil, &out)
}

// QuotaUpdate sets the limits that it names.
func (c *Client) QuotaUpdate(ctx context.Context, project string, in QuotaUpdate) (*List[Quota], error) {
	var out List[Quota]
	return &out, c.do(ctx, http.MethodPut, "/v1/projects/"+seg(project)+"/quotas", nil, in, &out)
}

// ProjectUpdate changes how a project is shown.
func (c *Client) ProjectUpdate(ctx context.Context, project string, in ProjectUpdate) (*Project, error) {
	var out Project
	return &out, c.do(ctx, http.MethodPatch, "/v1/projects/"+seg(project), nil, in, &out)
}
