package httpapi

import (
	"context"
	"time"

	"github.com/tenon-cloud/tenon/api"
	"github.com/tenon-cloud/tenon/internal/app"
	"github.com/tenon-cloud/tenon/internal/authz"
	"github.com/tenon-cloud/tenon/internal/cloud"
)

func (s *server) tokenOperations() {
	const tag = "Sign-in"
	register(s, operation{method: "GET", path: "/v1/tokens", action: authz.TokenList, tag: tag, summary: "List your API tokens"}, s.tokenList)
	register(s, operation{method: "POST", path: "/v1/tokens", action: authz.TokenCreate, tag: tag, summary: "Make an API token",
		description: "It belongs to the current organisation and can do what you can do there. The secret is shown this once and not kept, so an Idempotency-Key can't repeat the answer.", status: 201}, s.tokenCreate)
	register(s, operation{method: "DELETE", path: "/v1/tokens/{token}", action: authz.TokenDelete, tag: tag, summary: "Revoke an API token", status: 204}, s.tokenRevoke)
}

func (s *server) tokenList(ctx context.Context, in *struct{ Paged }) (*out[api.Page[api.Token]], error) {
	l, err := s.app.TokenList(ctx, call(ctx, ""), in.page())
	return pageOf(l, err, tokenOf)
}

func (s *server) tokenCreate(ctx context.Context, in *struct {
	Strict
	Body api.TokenCreate
}) (*out[api.TokenCreated], error) {
	until := time.Now().Add(time.Duration(in.Body.ExpiresInDays) * 24 * time.Hour)
	t, err := s.app.TokenCreate(ctx, call(ctx, ""), app.TokenInput{Name: in.Body.Name, ExpiresAt: &until})
	return oneOf(t, err, func(t app.TokenSecret) api.TokenCreated {
		return api.TokenCreated{Token: tokenOf(t.Token), Secret: t.Secret}
	})
}

func (s *server) tokenRevoke(ctx context.Context, in *struct {
	Strict
	Token string `path:"token" maxLength:"100" doc:"Name or id"`
}) (*none, error) {
	return nil, s.app.TokenRevoke(ctx, call(ctx, ""), in.Token)
}

func tokenOf(t cloud.Token) api.Token {
	return api.Token{
		ID: t.ID.String(), Name: t.Name, Hint: t.Hint, CreatedAt: t.CreatedAt.UTC(),
		ExpiresAt: utc(t.ExpiresAt), RevokedAt: utc(t.RevokedAt), LastUsedAt: utc(t.LastUsedAt),
	}
}

func utc(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	u := t.UTC()
	return &u
}
