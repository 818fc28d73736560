package app

import (
	"context"

	"github.com/tenon-cloud/tenon/internal/authz"
	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/postgres"
)

// Place is whose resource a request names; empty: it names none of a kind.
type Place struct{ Org, Project, Instance string }

// Reach says whether a caller may do something at a place, and does nothing. A door
// asks before it tells what else is wrong with a request: a stranger learns nothing
// of what a request should look like, nor from whose place it is.
func (a *App) Reach(ctx context.Context, c Call, action authz.Action, at Place) error {
	scope, _ := authz.ScopeOf(action)
	switch {
	case at.Org != "":
		return a.inOrg(ctx, c, action, at.Org, func(*postgres.Tx, cloud.Org) error { return nil })
	case at.Project == "" || scope == authz.ScopePlatform:
		return may(c, action, c.Actor.OrgID)
	}
	return a.inProject(ctx, c, action, at.Project, func(tx *postgres.Tx, p cloud.Project) error {
		if at.Instance == "" {
			return nil
		}
		_, err := postgres.InstanceGet(ctx, tx, p.ID, postgres.RefOf(cloud.InstanceID{}, at.Instance))
		return notFound(err, "instance", at.Instance)
	})
}
