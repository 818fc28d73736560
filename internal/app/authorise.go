package app

import (
	"context"
	"encoding/base64"
	"strings"
	"unicode/utf8"

	"github.com/tenon-cloud/tenon/internal/authz"
	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/postgres"
)

// may refuses what the actor's role does not allow. It is asked about things
// that the actor may know of; what is foreign was NotFound before.
func may(c Call, action authz.Action, org cloud.OrgID) error {
	if authz.Can(c.Actor, action, org) {
		return nil
	}
	if c.Actor.UserID.IsZero() {
		return cloud.E(cloud.KindUnauthenticated, "unauthenticated", "sign in first")
	}
	e := cloud.E(cloud.KindForbidden, "forbidden", "you may not do this (%s)", action).With("action", string(action))
	if scope, _ := authz.ScopeOf(action); scope == authz.ScopePlatform {
		return e.WithHint("it is for platform operators")
	}
	return e.WithHint("your role here is %q; an owner of the organisation can change it", c.Actor.Role)
}

// inPlatform runs an operator's use-case.
func (a *App) inPlatform(ctx context.Context, c Call, action authz.Action, f func(tx *postgres.Tx) error) error {
	if err := may(c, action, c.Actor.OrgID); err != nil {
		return err
	}
	return a.db.InAPI(ctx, postgres.ScopeOf(c.Actor), f)
}

// inOrg runs a use-case about one organisation: the actor's own, or for an
// operator any.
func (a *App) inOrg(ctx context.Context, c Call, action authz.Action, org string, f func(tx *postgres.Tx, o cloud.Org) error) error {
	var o cloud.Org
	ref := postgres.RefOf(cloud.OrgID{}, org)
	if org == "" {
		ref = postgres.RefTo(c.Actor.OrgID)
	}
	err := a.db.InAPI(ctx, postgres.ScopeOf(c.Actor), func(tx *postgres.Tx) (err error) {
		o, err = postgres.OrgGet(ctx, tx, ref)
		return notFound(err, "organisation", org)
	})
	if err != nil {
		return err
	}
	if err := may(c, action, o.ID); err != nil {
		return err
	}
	return a.db.InAPI(ctx, postgres.Scope{Org: o.ID, Operator: c.Actor.Operator}, func(tx *postgres.Tx) error { return f(tx, o) })
}

// inProject runs a use-case about one project of the actor's organisation. An
// operator reaches another organisation's by its id, for what the table lets
// operators do.
func (a *App) inProject(ctx context.Context, c Call, action authz.Action, project string, f func(tx *postgres.Tx, p cloud.Project) error) error {
	ref := postgres.RefOf(cloud.ProjectID{}, project)
	foreign := cloud.Project{}
	err := a.db.InAPI(ctx, postgres.ScopeOf(c.Actor), func(tx *postgres.Tx) error {
		foreign = cloud.Project{}
		p, err := postgres.ProjectGet(ctx, tx, c.Actor.OrgID, ref)
		if postgres.Missing(err) && c.Actor.Operator && ref.ID != nil {
			if p, err = postgres.ProjectGet(ctx, tx, cloud.OrgID{}, ref); err == nil && authz.Can(c.Actor, action, p.OrgID) {
				foreign = p
				return nil
			}
			return cloud.NotFound("project", project)
		}
		if err != nil {
			return notFound(err, "project", project)
		}
		if err := may(c, action, p.OrgID); err != nil {
			return err
		}
		return f(tx, p)
	})
	if err != nil || foreign.ID.IsZero() {
		return err
	}
	return a.db.InAPI(ctx, postgres.Scope{Org: foreign.OrgID, Operator: true}, func(tx *postgres.Tx) error { return f(tx, foreign) })
}

// notFound turns a query's "no row" into the one answer for what is missing and
// what is foreign.
func notFound(err error, what, ref string) error {
	if postgres.Missing(err) {
		return cloud.NotFound(what, ref)
	}
	return err
}

// audit writes what was done, in the transaction that does it.
func audit(ctx context.Context, tx *postgres.Tx, c Call, org cloud.OrgID, action authz.Action, resource string, detail map[string]any) error {
	return postgres.AuditAdd(ctx, tx, auditRow(c, org, action, resource, detail))
}

func auditRow(c Call, org cloud.OrgID, action authz.Action, resource string, detail map[string]any) postgres.Audit {
	return postgres.Audit{Actor: c.Actor, Org: org, Address: c.Address, Action: string(action), Resource: resource, Detail: detail}
}

const (
	pageDefault = 50
	pageMax     = 200
)

// size checks a page's limit.
func (p Page) size() (int, error) {
	switch {
	case p.Limit == 0:
		return pageDefault, nil
	case p.Limit < 0 || p.Limit > pageMax:
		return 0, cloud.Invalid(cloud.Field{Location: "query.limit", Message: "1 to 200", Value: p.Limit})
	}
	return p.Limit, nil
}

// after reads the key that a page begins after.
func (p Page) after() (string, error) {
	if p.Token == "" {
		return "", nil
	}
	b, err := base64.RawURLEncoding.DecodeString(p.Token)
	if err != nil || len(b) == 0 || len(b) > 200 || strings.IndexByte(string(b), 0) >= 0 || !utf8.Valid(b) {
		return "", cloud.Invalid(cloud.Field{Location: "query.page_token", Message: "not a token that this list gave", Value: p.Token})
	}
	return string(b), nil
}

// afterID reads a key that is an id; nil: from the beginning.
func afterID[R cloud.Resource](kind cloud.ID[R], p Page) (*cloud.ID[R], error) {
	s, err := p.after()
	if s == "" || err != nil {
		return nil, err
	}
	id := kind
	if err := id.UnmarshalText([]byte(s)); err != nil {
		return nil, cloud.Invalid(cloud.Field{Location: "query.page_token", Message: "not a token that this list gave", Value: p.Token})
	}
	return &id, nil
}

// paged cuts a list of limit+1 rows to a page; key names a row.
func paged[T any](rows []T, limit int, key func(T) string) List[T] {
	out := List[T]{Items: rows}
	if len(rows) > limit {
		out.Items = rows[:limit]
		out.NextPageToken = base64.RawURLEncoding.EncodeToString([]byte(key(rows[limit-1])))
	}
	return out
}
