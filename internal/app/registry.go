package app

import (
	"context"
	"strings"

	"github.com/tenon-cloud/tenon/internal/authz"
	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/postgres"
)

// offeredRepositories are the operator's: everyone reads, operators write.
const offeredRepositories = "tenon/"

// RegistryAuthorise lets a token's owner at a repository of the embedded
// registry. An empty repository asks whether the token is good at all.
func (a *App) RegistryAuthorise(ctx context.Context, token, repository string, push bool) error {
	who, err := a.Authenticate(ctx, token, "")
	if err != nil || repository == "" {
		return err
	}
	return a.mayUseRepository(ctx, Call{Actor: who}, repository, push)
}

func (a *App) mayUseRepository(ctx context.Context, c Call, repository string, push bool) error {
	if strings.HasPrefix(repository, offeredRepositories) {
		if push {
			return may(c, authz.RegistryPublish, c.Actor.OrgID)
		}
		return nil
	}
	action := authz.RegistryPull
	if push {
		action = authz.RegistryPush
	}
	// <organisation>/<project>/<name>: another organisation's is as missing.
	parts := strings.SplitN(repository, "/", 3)
	if len(parts) < 3 {
		return cloud.NotFound("repository", repository)
	}
	return a.db.InAPI(ctx, postgres.Scope{Org: c.Actor.OrgID}, func(tx *postgres.Tx) error {
		o, err := postgres.OrgGet(ctx, tx, postgres.RefTo(c.Actor.OrgID))
		if err != nil || o.Name != parts[0] {
			return orNotFound(err, repository)
		}
		if _, err := postgres.ProjectGet(ctx, tx, o.ID, postgres.Ref{Name: &parts[1]}); err != nil {
			return orNotFound(err, repository)
		}
		return may(c, action, o.ID)
	})
}

func orNotFound(err error, repository string) error {
	if err == nil || postgres.Missing(err) {
		return cloud.NotFound("repository", repository)
	}
	return err
}
