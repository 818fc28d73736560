package app

import (
	"context"
	"strings"

	"github.com/tenon-cloud/tenon/internal/authn"
	"github.com/tenon-cloud/tenon/internal/authz"
	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/postgres"
)

// PasswordChange sets the actor's own password. Who does not know the present
// one can't, though a session be open; every other session ends.
func (a *App) PasswordChange(ctx context.Context, c Call, current, next string) error {
	if err := may(c, authz.PasswordUpdate, c.Actor.OrgID); err != nil {
		return err
	}
	if why := authn.PasswordProblem(next); why != "" {
		return cloud.Invalid(cloud.Field{Location: "body.password", Message: why})
	}
	// Guessed at here as at the sign-in.
	if err := a.throttle.Allow(c.Actor.Email, c.Address); err != nil {
		return err
	}
	var user postgres.UserSecret
	err := a.db.InAPI(ctx, nobody, func(tx *postgres.Tx) (err error) {
		user, err = postgres.UserByEmail(ctx, tx, c.Actor.Email)
		return err
	})
	if err != nil {
		return err
	}
	ok, err := a.passwords.Check(ctx, user.PasswordHash, current)
	if err != nil {
		return err
	}
	if !ok || user.ID != c.Actor.UserID {
		return cloud.Invalid(cloud.Field{Location: "body.current_password", Message: "is not your password"})
	}
	a.throttle.Succeeded(c.Actor.Email, c.Address)
	hash, err := a.passwords.Hash(ctx, next)
	if err != nil {
		return err
	}
	defer a.seen.forget()
	return a.db.InSystem(ctx, func(tx *postgres.Tx) error {
		if err := postgres.UserPasswordSet(ctx, tx, user.ID, hash); err != nil {
			return err
		}
		if err := postgres.SessionRevokeAll(ctx, tx, user.ID, c.Actor.SessionID); err != nil {
			return err
		}
		return audit(ctx, tx, c, c.Actor.OrgID, authz.PasswordUpdate, user.ID.String(), nil)
	})
}

// PasswordReset sets anybody's password, for an operator. Whoever may have had
// the account is out: its sessions and its API tokens end.
func (a *App) PasswordReset(ctx context.Context, c Call, userRef, next string) error {
	if err := may(c, authz.PasswordReset, c.Actor.OrgID); err != nil {
		return err
	}
	if why := authn.PasswordProblem(next); why != "" {
		return cloud.Invalid(cloud.Field{Location: "body.password", Message: why})
	}
	hash, err := a.passwords.Hash(ctx, next)
	if err != nil {
		return err
	}
	defer a.seen.forget()
	return a.db.InSystem(ctx, func(tx *postgres.Tx) error {
		id, email := userRefOf(userRef)
		user, err := postgres.UserFind(ctx, tx, id, email)
		if err != nil {
			return notFound(err, "user", userRef)
		}
		now, err := postgres.Now(ctx, tx)
		if err != nil {
			return err
		}
		if err := postgres.UserPasswordSet(ctx, tx, user, hash); err != nil {
			return err
		}
		if err := postgres.SessionRevokeAll(ctx, tx, user, cloud.SessionID{}); err != nil {
			return err
		}
		if err := postgres.TokenRevokeAll(ctx, tx, user, now); err != nil {
			return err
		}
		return audit(ctx, tx, c, cloud.OrgID{}, authz.PasswordReset, user.String(), nil)
	})
}

// MemberRemove takes a person out of an organisation: their tokens for it go with
// the membership, and their streams end. The account stays.
func (a *App) MemberRemove(ctx context.Context, c Call, org, member string) error {
	var in cloud.Org
	if err := a.inOrg(ctx, c, authz.MemberDelete, org, func(_ *postgres.Tx, o cloud.Org) error { in = o; return nil }); err != nil {
		return err
	}
	defer a.seen.forget()
	return a.db.InSystem(ctx, func(tx *postgres.Tx) error {
		id, email := userRefOf(member)
		list, err := postgres.MemberLock(ctx, tx, in.ID)
		if err != nil {
			return err
		}
		owners := 0
		var found *postgres.Member
		for i, m := range list {
			if m.Role == cloud.RoleOwner {
				owners++
			}
			if m.UserID == id || m.Email == email {
				found = &list[i]
			}
		}
		switch {
		case found == nil:
			return cloud.NotFound("member", member)
		case found.Role == cloud.RoleOwner && owners == 1:
			return cloud.E(cloud.KindConflict, "last_owner", "%s is the only owner of %s", found.Email, in.Name).WithHint("an organisation keeps an owner: another must be added first")
		}
		if err := postgres.MemberRemove(ctx, tx, in.ID, found.UserID); err != nil {
			return err
		}
		return audit(ctx, tx, c, in.ID, authz.MemberDelete, found.UserID.String(), map[string]any{"email": found.Email, "role": string(found.Role)})
	})
}

// userRefOf reads a path segment that is a user's id or e-mail address.
func userRefOf(s string) (id cloud.UserID, email string) {
	if err := id.UnmarshalText([]byte(s)); err == nil {
		return id, ""
	}
	return cloud.UserID{}, strings.ToLower(strings.TrimSpace(s))
}
