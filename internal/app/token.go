package app

import (
	"context"
	"time"

	"github.com/tenon-cloud/tenon/internal/authn"
	"github.com/tenon-cloud/tenon/internal/authz"
	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/postgres"
)

const (
	tokenDefaultFor = 90 * 24 * time.Hour
	tokenMaximumFor = 366 * 24 * time.Hour
)

// TokenList lists the actor's own live tokens; who may manage the others' sees
// all of the organisation's.
func (a *App) TokenList(ctx context.Context, c Call, p Page) (List[cloud.Token], error) {
	if err := may(c, authz.TokenList, c.Actor.OrgID); err != nil {
		return List[cloud.Token]{}, err
	}
	limit, err := p.size()
	if err != nil {
		return List[cloud.Token]{}, err
	}
	before, err := afterID(cloud.TokenID{}, p)
	if err != nil {
		return List[cloud.Token]{}, err
	}
	whose := c.Actor.UserID
	if authz.Can(c.Actor, authz.TokenManage, c.Actor.OrgID) {
		whose = cloud.UserID{}
	}
	var rows []cloud.Token
	err = a.db.InAPI(ctx, postgres.ScopeOf(c.Actor), func(tx *postgres.Tx) (err error) {
		rows, err = postgres.TokenList(ctx, tx, c.Actor.OrgID, whose, before, limit+1)
		return err
	})
	return paged(rows, limit, func(t cloud.Token) string { return t.ID.String() }), err
}

// TokenCreate makes a token that can do what its owner can. Its secret is not
// kept, so an idempotency key can't repeat the answer: a repeated request meets
// its own name.
func (a *App) TokenCreate(ctx context.Context, c Call, in TokenInput) (TokenSecret, error) {
	if err := may(c, authz.TokenCreate, c.Actor.OrgID); err != nil {
		return TokenSecret{}, err
	}
	now := a.now()
	fields := nameFields(in.Name, "")
	until := now.Add(tokenDefaultFor)
	if in.ExpiresAt != nil {
		if until = *in.ExpiresAt; !until.After(now) || until.Sub(now) > tokenMaximumFor {
			fields = append(fields, cloud.Field{Location: "body.expires_at", Message: "in the future, and within 366 days", Value: until})
		}
	}
	if len(fields) > 0 {
		return TokenSecret{}, cloud.Invalid(fields...)
	}
	secret := authn.SecretNew(authn.PrefixAPI)
	t := cloud.Token{ID: cloud.TokenID{}.New(), OrgID: c.Actor.OrgID, UserID: c.Actor.UserID, Name: in.Name,
		Hint: authn.SecretHint(authn.PrefixAPI, secret), ExpiresAt: &until}
	err := a.db.InAPI(ctx, postgres.ScopeOf(c.Actor), func(tx *postgres.Tx) (err error) {
		if t.CreatedAt, err = postgres.Now(ctx, tx); err != nil {
			return err
		}
		if err := postgres.TokenAdd(ctx, tx, t, authn.SecretHash(secret)); err != nil {
			return taken(err, "api_token_name", "token", in.Name)
		}
		return audit(ctx, tx, c, t.OrgID, authz.TokenCreate, t.ID.String(), map[string]any{"name": t.Name})
	})
	if err != nil {
		return TokenSecret{}, err
	}
	return TokenSecret{Token: t, Secret: secret}, nil
}

// TokenRevoke ends a token: one's own by name or id, another member's by id.
func (a *App) TokenRevoke(ctx context.Context, c Call, token string) error {
	if err := may(c, authz.TokenDelete, c.Actor.OrgID); err != nil {
		return err
	}
	defer a.seen.forget()
	ref := postgres.RefOf(cloud.TokenID{}, token)
	return a.db.InAPI(ctx, postgres.ScopeOf(c.Actor), func(tx *postgres.Tx) error {
		t, err := postgres.TokenGet(ctx, tx, c.Actor.OrgID, c.Actor.UserID, ref)
		if err != nil {
			return notFound(err, "token", token)
		}
		action := authz.TokenDelete
		if t.UserID != c.Actor.UserID {
			action = authz.TokenManage
			if !authz.Can(c.Actor, action, t.OrgID) {
				return cloud.NotFound("token", token) // others' tokens are not theirs to see
			}
		}
		now, err := postgres.Now(ctx, tx)
		if err != nil {
			return err
		}
		if _, err := postgres.TokenRevoke(ctx, tx, t.OrgID, t.UserID, postgres.RefTo(t.ID), now); err != nil {
			return notFound(err, "token", token)
		}
		return audit(ctx, tx, c, t.OrgID, action, t.ID.String(), map[string]any{"name": t.Name})
	})
}
