package app

import (
	"context"
	"strings"
	"time"

	"github.com/tenon-cloud/tenon/internal/authn"
	"github.com/tenon-cloud/tenon/internal/authz"
	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/postgres"
)

// nobody is the scope before it is known who asks.
var nobody = postgres.Scope{}

// Login checks a password and opens a session. Whether the e-mail or the
// password was wrong is not told, by the answer or by its time.
func (a *App) Login(ctx context.Context, in LoginInput) (SessionGrant, error) {
	email := strings.ToLower(strings.TrimSpace(in.Email))
	if err := a.throttle.Allow(email, in.Address); err != nil {
		return SessionGrant{}, err
	}
	var user postgres.UserSecret
	err := a.db.InAPI(ctx, nobody, func(tx *postgres.Tx) (err error) {
		user, err = postgres.UserByEmail(ctx, tx, email)
		return err
	})
	if err != nil && !postgres.Missing(err) {
		return SessionGrant{}, err
	}
	ok, err := a.passwords.Check(ctx, user.PasswordHash, in.Password)
	if err != nil {
		return SessionGrant{}, err
	}
	if !ok || user.Disabled {
		return SessionGrant{}, cloud.E(cloud.KindUnauthenticated, "sign_in_failed", "the e-mail or the password is wrong")
	}
	a.throttle.Succeeded(email, in.Address)
	refresh := authn.SecretNew(authn.PrefixRefresh)
	now := a.now()
	s := postgres.Session{ID: cloud.SessionID{}.New(), UserID: user.ID, RefreshHash: authn.SecretHash(refresh), ExpiresAt: now.Add(authn.SessionFor)}
	who := cloud.Actor{UserID: user.ID, Email: user.Email, SessionID: s.ID}
	err = a.db.InSystem(ctx, func(tx *postgres.Tx) error {
		if err := postgres.SessionAdd(ctx, tx, s, in.UserAgent, in.Address); err != nil {
			return err
		}
		return postgres.AuditAdd(ctx, tx, postgres.Audit{Actor: who, Address: in.Address, Action: "session.create", Resource: s.ID.String()})
	})
	if err != nil {
		return SessionGrant{}, err
	}
	return a.grant(s, refresh, cloud.User{ID: user.ID, Email: user.Email, Name: user.Name, Operator: user.Operator})
}

func (a *App) grant(s postgres.Session, refresh string, user cloud.User) (SessionGrant, error) {
	access, until, err := a.keys.AccessIssue(s.UserID, s.ID, a.now())
	return SessionGrant{AccessToken: access, AccessExpiresAt: until, RefreshToken: refresh, RefreshExpiresAt: s.ExpiresAt, SessionID: s.ID, User: user}, err
}

// Refresh trades a refresh token for its successor and a new access token. One
// that was rotated long ago is in somebody else's hands: the session ends.
func (a *App) Refresh(ctx context.Context, refreshToken, userAgent, address string) (SessionGrant, error) {
	over := cloud.E(cloud.KindUnauthenticated, "session_over", "the session is over").WithHint("sign in again")
	if authn.SecretCheck(authn.PrefixRefresh, refreshToken) != nil {
		return SessionGrant{}, over
	}
	var s postgres.Session
	var verdict authn.Verdict
	var standing postgres.UserStanding
	next := a.keys.RefreshNext(refreshToken)
	err := a.db.InSystem(ctx, func(tx *postgres.Tx) (err error) {
		if s, err = postgres.SessionLock(ctx, tx, authn.SecretHash(refreshToken)); err != nil {
			return err
		}
		now := a.now()
		verdict = authn.RefreshJudge(authn.Session(s), refreshToken, now)
		switch verdict {
		case authn.VerdictRotate:
			s.ExpiresAt = now.Add(authn.SessionFor)
			err = postgres.SessionRotate(ctx, tx, s.ID, authn.SecretHash(next), s.ExpiresAt)
		case authn.VerdictStolen:
			who := cloud.Actor{UserID: s.UserID, SessionID: s.ID}
			if err = postgres.SessionRevoke(ctx, tx, s.ID); err == nil {
				err = postgres.AuditAdd(ctx, tx, postgres.Audit{Actor: who, Address: address, Action: "session.reuse_detected", Resource: s.ID.String(),
					Detail: map[string]any{"user_agent": userAgent}})
			}
		}
		if err != nil {
			return err
		}
		standing, err = postgres.UserStandingGet(ctx, tx, s.UserID, s.ID)
		return err
	})
	switch {
	case postgres.Missing(err):
		return SessionGrant{}, over
	case err != nil:
		return SessionGrant{}, err
	case verdict == authn.VerdictStolen:
		a.seen.forget()
		a.log.WarnContext(ctx, "a rotated refresh token was used again: session revoked", "session", s.ID, "address", address)
		return SessionGrant{}, cloud.E(cloud.KindUnauthenticated, "session_revoked", "the session was ended: its token was used twice").WithHint("sign in again")
	case verdict == authn.VerdictOver || !standing.Live:
		return SessionGrant{}, over
	}
	return a.grant(s, next, standing.User)
}

// Logout ends the session of a refresh token.
func (a *App) Logout(ctx context.Context, refreshToken string) error {
	if authn.SecretCheck(authn.PrefixRefresh, refreshToken) != nil {
		return nil
	}
	defer a.seen.forget()
	err := a.db.InSystem(ctx, func(tx *postgres.Tx) error {
		s, err := postgres.SessionLock(ctx, tx, authn.SecretHash(refreshToken))
		if err != nil {
			return err
		}
		return postgres.SessionRevoke(ctx, tx, s.ID)
	})
	if postgres.Missing(err) {
		return nil
	}
	return err
}

// Authenticate tells who a bearer is, from an access token or an API token.
func (a *App) Authenticate(ctx context.Context, credential, orgRef string) (cloud.Actor, error) {
	if credential == "" {
		return cloud.Actor{}, cloud.E(cloud.KindUnauthenticated, "unauthenticated", "no credentials were sent").
			WithHint("send Authorization: Bearer followed by a token")
	}
	now := a.now()
	if who, ok := a.seen.get(credential, orgRef, now); ok {
		return who, nil
	}
	api := strings.HasPrefix(credential, authn.PrefixAPI)
	until := now.Add(seenFor)
	var who cloud.Actor
	var err error
	if api {
		if err = authn.SecretCheck(authn.PrefixAPI, credential); err == nil {
			if who, err = a.byToken(ctx, credential, now); err == nil && orgRef != "" {
				err = a.tokenIsFor(ctx, who, orgRef)
			}
		}
	} else {
		var access authn.Access
		if access, err = a.keys.AccessRead(credential, now); err == nil {
			who, err = a.bySession(ctx, access.UserID, access.SessionID, orgRef)
			if access.ExpiresAt.Before(until) {
				until = access.ExpiresAt
			}
		}
	}
	if err != nil {
		return cloud.Actor{}, err
	}
	a.seen.put(credential, orgRef, who, until)
	return who, nil
}

func (a *App) byToken(ctx context.Context, credential string, now time.Time) (cloud.Actor, error) {
	var t postgres.TokenStanding
	err := a.db.InAPI(ctx, nobody, func(tx *postgres.Tx) (err error) {
		if t, err = postgres.TokenStandingGet(ctx, tx, authn.SecretHash(credential)); err != nil {
			return err
		}
		if t.LastUsedAt == nil || now.Sub(*t.LastUsedAt) > time.Minute {
			return postgres.TokenUsed(ctx, tx, t.TokenID)
		}
		return nil
	})
	if postgres.Missing(err) {
		return cloud.Actor{}, cloud.E(cloud.KindUnauthenticated, "token_unknown", "this cloud does not know the token, or its owner has left the organisation").
			WithHint("make a new one: tenon token create")
	}
	if err != nil {
		return cloud.Actor{}, err
	}
	return tokenActor(t, now)
}

// tokenIsFor refuses a request that names another organisation than its token's:
// it would be carried out where nobody meant it.
func (a *App) tokenIsFor(ctx context.Context, who cloud.Actor, orgRef string) error {
	if orgRef == who.OrgID.String() {
		return nil
	}
	return a.db.InAPI(ctx, postgres.Scope{Org: who.OrgID}, func(tx *postgres.Tx) error {
		own, err := postgres.OrgGet(ctx, tx, postgres.RefTo(who.OrgID))
		if err != nil {
			return err
		}
		if own.Name == orgRef {
			return nil
		}
		e := cloud.Invalid(cloud.Field{Location: "header.Tenon-Org", Message: "the token is for organisation " + own.Name + " alone"})
		return e.WithHint("leave the header out, or take a token of the organisation that you mean")
	})
}

func tokenActor(t postgres.TokenStanding, now time.Time) (cloud.Actor, error) {
	switch {
	case t.RevokedAt != nil:
		return cloud.Actor{}, cloud.E(cloud.KindUnauthenticated, "token_revoked", "the token was revoked at %s", t.RevokedAt.UTC().Format(time.RFC3339)).
			WithHint("make a new one: tenon token create")
	case t.ExpiresAt != nil && !now.Before(*t.ExpiresAt):
		return cloud.Actor{}, cloud.E(cloud.KindUnauthenticated, "token_expired", "the token expired at %s", t.ExpiresAt.UTC().Format(time.RFC3339)).
			WithHint("make a new one: tenon token create")
	case t.Disabled:
		return cloud.Actor{}, cloud.E(cloud.KindUnauthenticated, "user_disabled", "the token's owner is disabled")
	}
	return cloud.Actor{UserID: t.UserID, Email: t.Email, OrgID: t.OrgID, Role: t.Role, Operator: t.Operator, TokenID: t.TokenID}, nil
}

func (a *App) bySession(ctx context.Context, user cloud.UserID, session cloud.SessionID, orgRef string) (cloud.Actor, error) {
	var s postgres.UserStanding
	err := a.db.InAPI(ctx, nobody, func(tx *postgres.Tx) (err error) {
		s, err = postgres.UserStandingGet(ctx, tx, user, session)
		return err
	})
	if err != nil && !postgres.Missing(err) {
		return cloud.Actor{}, err
	}
	if err != nil || !s.Live {
		return cloud.Actor{}, cloud.E(cloud.KindUnauthenticated, "token_revoked", "the session was ended").WithHint("sign in again")
	}
	who := cloud.Actor{UserID: user, Email: s.User.Email, Operator: s.User.Operator, SessionID: session}
	for i, m := range s.Memberships {
		if orgRef == "" && i == 0 || orgRef != "" && (m.OrgName == orgRef || m.OrgID.String() == orgRef) {
			who.OrgID, who.Role = m.OrgID, m.Role
			return who, nil
		}
	}
	if orgRef != "" {
		return cloud.Actor{}, cloud.NotFound("organisation", orgRef)
	}
	return who, nil
}

// StillValid asks again whether an actor may go on, for streams that outlive
// the request's own check.
func (a *App) StillValid(ctx context.Context, who cloud.Actor) error {
	var now cloud.Actor
	if !who.TokenID.IsZero() {
		var t postgres.TokenStanding
		err := a.db.InAPI(ctx, nobody, func(tx *postgres.Tx) (err error) {
			t, err = postgres.TokenStandingByID(ctx, tx, who.TokenID)
			return err
		})
		if postgres.Missing(err) {
			return cloud.E(cloud.KindUnauthenticated, "token_revoked", "the token is no longer valid")
		}
		if err != nil {
			return err
		}
		if now, err = tokenActor(t, a.now()); err != nil {
			return err
		}
	} else {
		org := ""
		if !who.OrgID.IsZero() {
			org = who.OrgID.String()
		}
		var err error
		if now, err = a.bySession(ctx, who.UserID, who.SessionID, org); err != nil {
			if cloud.KindOf(err) == cloud.KindNotFound {
				return cloud.E(cloud.KindUnauthenticated, "membership_over", "you are no longer a member of the organisation")
			}
			return err
		}
	}
	if now.Role != who.Role || now.Operator != who.Operator {
		return cloud.E(cloud.KindUnauthenticated, "membership_changed", "what you may do has changed").WithHint("connect again")
	}
	return nil
}

// Me says who is signed in and what they may do here.
func (a *App) Me(ctx context.Context, c Call) (Me, error) {
	if err := may(c, authz.MeRead, c.Actor.OrgID); err != nil {
		return Me{}, err
	}
	out := Me{OrgID: c.Actor.OrgID, Role: c.Actor.Role, Actions: authz.Allowed(c.Actor, c.Actor.OrgID)}
	err := a.db.InAPI(ctx, nobody, func(tx *postgres.Tx) error {
		s, err := postgres.UserStandingGet(ctx, tx, c.Actor.UserID, c.Actor.SessionID)
		if err != nil {
			return err
		}
		out.User, out.Memberships = s.User, nil
		for _, m := range s.Memberships {
			out.Memberships = append(out.Memberships, Membership{OrgID: m.OrgID, OrgName: m.OrgName, Role: m.Role})
			if m.OrgID == c.Actor.OrgID {
				out.OrgName = m.OrgName
			}
		}
		return nil
	})
	return out, err
}
