package app_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenon-cloud/tenon/internal/app"
	"github.com/tenon-cloud/tenon/internal/authn"
	"github.com/tenon-cloud/tenon/internal/authz"
	"github.com/tenon-cloud/tenon/internal/cloud"
)

// Whatever is another organisation's is as missing as what does not exist.
func TestForeignIsMissing(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	ctx := t.Context()
	mine, other := h.tenant(t, "acme"), h.tenant(t, "rival")
	made, err := h.InstanceCreate(ctx, mine, "default", web("web-1"))
	if err != nil {
		t.Fatal(err)
	}
	img, err := h.ImageCreate(ctx, mine, app.ImageInput{Name: "secret", Ref: "registry.test/secret:1"})
	if err != nil {
		t.Fatal(err)
	}
	tok, err := h.TokenCreate(ctx, mine, app.TokenInput{Name: "ci"})
	if err != nil {
		t.Fatal(err)
	}
	project, id := made.ProjectID.String(), made.ID.String()
	for what, call := range map[string]func(project, id string) error{
		"project": func(p, _ string) error { _, err := h.ProjectGet(ctx, other, p); return err },
		"update": func(p, _ string) error {
			_, err := h.ProjectUpdate(ctx, other, p, app.ProjectChange{DisplayName: new(string)})
			return err
		},
		"quotas": func(p, _ string) error { _, err := h.QuotaList(ctx, other, p); return err },
		"usage":  func(p, _ string) error { _, err := h.Usage(ctx, other, p, app.UsageQuery{}); return err },
		"stream": func(p, _ string) error { _, err := h.EventStream(ctx, other, p, ""); return err },
		"list": func(p, _ string) error {
			_, err := h.InstanceList(ctx, other, p, app.InstanceFilter{}, app.Page{})
			return err
		},
		"create":          func(p, _ string) error { _, err := h.InstanceCreate(ctx, other, p, web("x")); return err },
		"get":             func(p, i string) error { _, err := h.InstanceGet(ctx, other, p, i); return err },
		"get through own": func(_, i string) error { _, err := h.InstanceGet(ctx, other, "default", i); return err },
		"stop through own": func(_, i string) error {
			_, err := h.InstanceStop(ctx, other, "default", i, app.StopInput{}, 0)
			return err
		},
		"delete":              func(p, i string) error { _, err := h.InstanceDelete(ctx, other, p, i, 0); return err },
		"delete through own":  func(_, i string) error { _, err := h.InstanceDelete(ctx, other, "default", i, 0); return err },
		"restart through own": func(_, i string) error { _, err := h.InstanceRestart(ctx, other, "default", i, 0); return err },
		"events": func(_, i string) error {
			_, err := h.InstanceEvents(ctx, other, "default", i, app.Page{})
			return err
		},
		"exec": func(_, i string) error {
			_, err := h.InstanceFor(ctx, other, authz.InstanceExec, "default", i, false)
			return err
		},
		"ticket":       func(_, i string) error { _, err := h.TicketCreate(ctx, other, "default", i, "exec", 0); return err },
		"organisation": func(_, _ string) error { _, err := h.OrgGet(ctx, other, "acme"); return err },
		"members":      func(_, _ string) error { _, err := h.MemberList(ctx, other, "acme", app.Page{}); return err },
		"image":        func(_, _ string) error { _, err := h.ImageGet(ctx, other, img.ID.String()); return err },
		"image delete": func(_, _ string) error { return h.ImageDelete(ctx, other, "secret") },
		"token":        func(_, _ string) error { return h.TokenRevoke(ctx, other, tok.Token.ID.String()) },
		"repository":   func(_, _ string) error { return h.RegistryAuthorise(ctx, tok.Secret, "rival/default/x", false) },
	} {
		foreign := problem(call(project, id))
		missing := problem(call(cloud.ProjectID{}.New().String(), cloud.InstanceID{}.New().String()))
		if foreign.Kind != cloud.KindNotFound || foreign.Kind != missing.Kind || foreign.Code != missing.Code {
			t.Errorf("%s: foreign is %v, missing is %v", what, foreign, missing)
		}
	}
	// An image of another organisation can't be named in a create either.
	in := web("web-2")
	in.Image = img.ID.String()
	_, err = h.InstanceCreate(ctx, other, "default", in)
	wantCode(t, "foreign image", err, cloud.KindInvalid, "invalid")
	if got, err := h.InstanceGet(ctx, mine, "default", "web-1"); err != nil || got.State != cloud.StateQueued || got.Generation != 1 {
		t.Errorf("something was changed: %+v, %v", got, err)
	}
}

func TestRolesAndOperators(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	ctx := t.Context()
	owner := h.tenant(t, "acme")
	if _, err := h.MemberAdd(ctx, h.admin, "acme", app.MemberInput{Email: "Looks@Acme.test", Password: adminPassword, Role: cloud.RoleAuditor}); err != nil {
		t.Fatal(err)
	}
	auditor := h.signIn(t, "looks@acme.test", adminPassword)
	_, err := h.InstanceCreate(ctx, auditor, "default", web("web-1"))
	wantCode(t, "an auditor creates", err, cloud.KindForbidden, "forbidden")
	if _, err := h.InstanceList(ctx, auditor, "default", app.InstanceFilter{}, app.Page{}); err != nil {
		t.Error(err)
	}
	_, err = h.NodeList(ctx, owner, app.Page{})
	wantCode(t, "an owner lists nodes", err, cloud.KindForbidden, "forbidden")
	_, err = h.QuotaSet(ctx, owner, "default", one(9))
	wantCode(t, "an owner raises the limit", err, cloud.KindForbidden, "forbidden")
	// An operator reaches another organisation's limits, by id, but not its instances.
	p, err := h.ProjectGet(ctx, owner, "default")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := h.QuotaSet(ctx, h.admin, p.ID.String(), one(9)); err != nil || got[1].Limit == nil || *got[1].Limit != 9 {
		t.Errorf("an operator sets limits: %+v, %v", got, err)
	}
	if n := count(t, h, `SELECT count(*) FROM audit WHERE action = 'quota.update' AND org_id = $1`, p.OrgID); n != 1 {
		t.Errorf("%d audit rows in the tenant's own log, want 1", n)
	}
	_, err = h.InstanceList(ctx, h.admin, p.ID.String(), app.InstanceFilter{}, app.Page{})
	wantCode(t, "an operator lists a tenant's instances", err, cloud.KindNotFound, "not_found")
	orgs, err := h.OrgList(ctx, h.admin, app.Page{})
	if err != nil || len(orgs.Items) != 2 {
		t.Errorf("an operator sees %+v, %v", orgs, err)
	}
	if orgs, err = h.OrgList(ctx, owner, app.Page{}); err != nil || len(orgs.Items) != 1 || orgs.Items[0].Name != "acme" {
		t.Errorf("an owner sees %+v, %v", orgs, err)
	}
	me, err := h.Me(ctx, auditor)
	if err != nil || me.OrgName != "acme" || me.Role != cloud.RoleAuditor || me.User.Email != "looks@acme.test" || len(me.Actions) == 0 {
		t.Errorf("me: %+v, %v", me, err)
	}
}

func TestSessions(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	ctx := t.Context()
	for _, in := range []app.LoginInput{{Email: adminEmail, Password: "wrong password"}, {Email: "nobody@tenon.test", Password: adminPassword}, {}} {
		_, err := h.Login(ctx, in)
		wantCode(t, in.Email, err, cloud.KindUnauthenticated, "sign_in_failed")
	}
	g, err := h.Login(ctx, app.LoginInput{Email: " Admin@Tenon.test", Password: adminPassword})
	if err != nil {
		t.Fatal(err)
	}
	next, err := h.Refresh(ctx, g.RefreshToken, "", "")
	if err != nil || next.RefreshToken == g.RefreshToken {
		t.Fatal("no rotation", err)
	}
	again, err := h.Refresh(ctx, g.RefreshToken, "", "")
	if err != nil || again.RefreshToken != next.RefreshToken {
		t.Fatalf("within the grace the same successor must come: %v", err)
	}
	who, err := h.Authenticate(ctx, next.AccessToken, "default")
	if err != nil || !who.Operator || who.Role != cloud.RoleOwner {
		t.Fatalf("%+v, %v", who, err)
	}
	_, err = h.Authenticate(ctx, next.AccessToken, "nowhere")
	wantCode(t, "another organisation", err, cloud.KindNotFound, "not_found")
	exec(t, h, `UPDATE session SET rotated_at = rotated_at - interval '31 seconds'`)
	_, err = h.Refresh(ctx, g.RefreshToken, "", "")
	wantCode(t, "reuse after the grace", err, cloud.KindUnauthenticated, "session_revoked")
	_, err = h.Refresh(ctx, next.RefreshToken, "", "")
	wantCode(t, "the thief's or the owner's other token", err, cloud.KindUnauthenticated, "session_over")
	_, err = h.Authenticate(ctx, next.AccessToken, "")
	wantCode(t, "an access token of an ended session", err, cloud.KindUnauthenticated, "token_revoked")
	wantCode(t, "a stream of an ended session", h.StillValid(ctx, who), cloud.KindUnauthenticated, "token_revoked")

	if g, err = h.Login(ctx, app.LoginInput{Email: adminEmail, Password: adminPassword}); err != nil {
		t.Fatal(err)
	}
	if _, err = h.Authenticate(ctx, g.AccessToken, ""); err != nil {
		t.Fatal(err)
	}
	if err := h.Logout(ctx, g.RefreshToken); err != nil {
		t.Fatal(err)
	}
	_, err = h.Authenticate(ctx, g.AccessToken, "")
	wantCode(t, "after a sign-out", err, cloud.KindUnauthenticated, "token_revoked")
}

func TestTokens(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	ctx := t.Context()
	owner := h.tenant(t, "acme")
	made, err := h.TokenCreate(ctx, owner, app.TokenInput{Name: "ci"})
	if err != nil {
		t.Fatal(err)
	}
	who, err := h.Authenticate(ctx, made.Secret, "")
	want := cloud.Actor{UserID: owner.Actor.UserID, Email: owner.Actor.Email, OrgID: owner.Actor.OrgID, Role: cloud.RoleOwner, TokenID: made.Token.ID}
	if diff := cmp.Diff(want, who); diff != "" || err != nil {
		t.Fatalf("%v %s", err, diff)
	}
	if n := count(t, h, `SELECT count(*) FROM api_token t WHERE position(convert_to($1, 'UTF8') IN t.hash) > 0 OR row_to_json(t)::text LIKE '%' || $1 || '%'`, made.Secret); n != 0 {
		t.Error("the secret is kept")
	}
	_, err = h.TokenCreate(ctx, owner, app.TokenInput{Name: "ci"})
	wantCode(t, "same name", err, cloud.KindConflict, "name_taken")
	_, err = h.Authenticate(ctx, made.Secret[:len(made.Secret)-1], "")
	wantCode(t, "cut", err, cloud.KindUnauthenticated, "token_malformed")
	_, err = h.Authenticate(ctx, authn.SecretNew(authn.PrefixAPI), "")
	wantCode(t, "unknown", err, cloud.KindUnauthenticated, "token_unknown")
	_, err = h.Authenticate(ctx, "", "")
	wantCode(t, "none", err, cloud.KindUnauthenticated, "unauthenticated")
	if err := h.TokenRevoke(ctx, owner, "ci"); err != nil {
		t.Fatal(err)
	}
	_, err = h.Authenticate(ctx, made.Secret, "")
	wantCode(t, "revoked", err, cloud.KindUnauthenticated, "token_revoked")
	if list, err := h.TokenList(ctx, owner, app.Page{}); err != nil || len(list.Items) != 0 {
		t.Errorf("list %+v, %v", list, err)
	}
	short, err := h.SetupToken(ctx, owner.Actor.Email, "console", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	replaced, err := h.SetupToken(ctx, owner.Actor.Email, "console", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	_, err = h.Authenticate(ctx, short, "")
	wantCode(t, "replaced", err, cloud.KindUnauthenticated, "token_revoked")
	exec(t, h, `UPDATE api_token SET expires_at = now() - interval '1 second' WHERE revoked_at IS NULL`)
	_, err = h.Authenticate(ctx, replaced, "")
	wantCode(t, "expired", err, cloud.KindUnauthenticated, "token_expired")
}

func TestFirstBootIsOnce(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	again, err := h.Setup(t.Context(), app.SetupInput{AdminEmail: adminEmail, AdminPassword: "something else entirely"})
	want := h.setup
	want.AdminCreated = false
	if diff := cmp.Diff(want, again); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
	h.signIn(t, adminEmail, adminPassword)
}
