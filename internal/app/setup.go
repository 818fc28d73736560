package app

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/tenon-cloud/tenon/internal/authn"
	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/postgres"
)

const defaultName = "default"

// Setup makes what a new cloud needs: an organisation and a project named
// default, the pool, the flavors, the price list and an administrator, who owns
// the organisation and operates the platform. At a later start it adds nothing
// that is there, and what was taken away stays away.
func (a *App) Setup(ctx context.Context, in SetupInput) (SetupResult, error) {
	email := strings.ToLower(strings.TrimSpace(in.AdminEmail))
	out, done, err := a.setUp(ctx, email)
	if done || err != nil {
		return out, err
	}
	if why := authn.PasswordProblem(in.AdminPassword); why != "" {
		return out, cloud.Invalid(cloud.Field{Location: "password", Message: why})
	}
	hash, err := a.passwords.Hash(ctx, in.AdminPassword)
	if err != nil {
		return out, err
	}
	err = a.db.InSystem(ctx, func(tx *postgres.Tx) error {
		now, err := postgres.Now(ctx, tx)
		if err != nil {
			return err
		}
		out = SetupResult{AdminCreated: true, OrgID: cloud.OrgID{}.New(), ProjectID: cloud.ProjectID{}.New(), UserID: cloud.UserID{}.New()}
		steps := []func() error{
			func() error {
				return postgres.OrgAdd(ctx, tx, cloud.Org{ID: out.OrgID, Name: defaultName, DisplayName: "Default", CreatedAt: now})
			},
			func() error {
				p := cloud.Project{ID: out.ProjectID, OrgID: out.OrgID, Name: defaultName, DisplayName: "Default", CreatedAt: now}
				return postgres.ProjectAdd(ctx, tx, p, firstLimits())
			},
			func() error { return postgres.UserAdd(ctx, tx, out.UserID, email, in.AdminName, hash) },
			func() error { return postgres.UserMakeOperator(ctx, tx, out.UserID) },
			func() error { return postgres.MemberAdd(ctx, tx, out.OrgID, out.UserID, cloud.RoleOwner, now) },
			func() error {
				return postgres.PoolAdd(ctx, tx, cloud.Pool{ID: cloud.PoolID{}.New(), Name: defaultName})
			},
			func() error { // gets work only when it is named
				return postgres.PoolAdd(ctx, tx, cloud.Pool{ID: cloud.PoolID{}.New(), Name: cloud.SimulatedPool, Simulated: true})
			},
			func() error { return firstOffers(ctx, tx, now) },
			func() error {
				return postgres.AuditAdd(ctx, tx, postgres.Audit{Actor: cloud.Actor{UserID: out.UserID}, Action: "cloud.setup", Resource: out.OrgID.String()})
			},
		}
		for _, step := range steps {
			if err := step(); err != nil {
				return err
			}
		}
		return nil
	})
	if postgres.Constraint(err) == "organisation_name_key" { // another process was first
		out, _, err = a.setUp(ctx, email)
	}
	return out, err
}

// setUp looks whether it is done.
func (a *App) setUp(ctx context.Context, email string) (out SetupResult, done bool, err error) {
	err = a.db.InSystem(ctx, func(tx *postgres.Tx) error {
		name := defaultName
		o, err := postgres.OrgGet(ctx, tx, postgres.Ref{Name: &name})
		if postgres.Missing(err) {
			return nil
		}
		if err != nil {
			return err
		}
		done, out.OrgID = true, o.ID
		p, err := postgres.ProjectGet(ctx, tx, o.ID, postgres.Ref{Name: &name})
		if err != nil && !postgres.Missing(err) {
			return err
		}
		out.ProjectID = p.ID
		u, err := postgres.UserByEmail(ctx, tx, email)
		if err != nil && !postgres.Missing(err) {
			return err
		}
		out.UserID = u.ID
		return laterOffers(ctx, tx)
	})
	return out, done, err
}

// SetupToken replaces a user's token of a name with a fresh one, for the scripts
// on this machine.
func (a *App) SetupToken(ctx context.Context, email, name string, validFor time.Duration) (string, error) {
	defer a.seen.forget()
	secret := authn.SecretNew(authn.PrefixAPI)
	err := a.db.InSystem(ctx, func(tx *postgres.Tx) error {
		u, err := postgres.UserByEmail(ctx, tx, strings.ToLower(email))
		if err != nil {
			return fmt.Errorf("find the token's owner: %w", err)
		}
		orgs, err := postgres.MembershipList(ctx, tx, u.ID)
		if err != nil {
			return err
		}
		if len(orgs) == 0 {
			return fmt.Errorf("make a token for %s: a member of no organisation", email)
		}
		now, err := postgres.Now(ctx, tx)
		if err != nil {
			return err
		}
		org := orgs[0].OrgID
		if _, err := postgres.TokenRevoke(ctx, tx, org, u.ID, postgres.Ref{Name: &name}, now); err != nil && !postgres.Missing(err) {
			return err
		}
		until := now.Add(validFor)
		t := cloud.Token{ID: cloud.TokenID{}.New(), OrgID: org, UserID: u.ID, Name: name, Hint: authn.SecretHint(authn.PrefixAPI, secret), CreatedAt: now, ExpiresAt: &until}
		if err := postgres.TokenAdd(ctx, tx, t, authn.SecretHash(secret)); err != nil {
			return err
		}
		return postgres.AuditAdd(ctx, tx, postgres.Audit{Actor: cloud.Actor{UserID: u.ID}, Org: org, Action: "token.create", Resource: t.ID.String(), Detail: map[string]any{"name": name}})
	})
	return secret, err
}
