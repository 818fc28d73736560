package cloudtest_test

import (
	"context"
	"testing"

	"github.com/tenon-cloud/tenon/api"
	"github.com/tenon-cloud/tenon/internal/cloudtest"
)

const newPassword = "another password for tests"

// TestAnOwnerOpensNoAccounts: whoever owns an organisation can neither set a
// stranger's first password nor learn who has an account.
func TestAnOwnerOpensNoAccounts(t *testing.T) {
	t.Parallel()
	c := cloudtest.StartWith(t, cloudtest.Options{NoNode: true, NoLoops: true})
	mallory, victim := c.Tenant("mallory"), c.Tenant("victim")
	var said []string
	for _, email := range []string{"new@victim.test", victim.Email} {
		_, err := mallory.MemberCreate(t.Context(), "mallory", api.MemberCreate{Email: email, Role: "member", Password: newPassword})
		p := problemOf(t, err)
		if p.Status != 403 || p.Code != "forbidden" {
			t.Errorf("%s: %+v", email, p)
		}
		said = append(said, p.Detail+p.Hint)
	}
	if said[0] != said[1] {
		t.Errorf("the answer tells who has an account: %q", said)
	}
	if _, err := c.Client("").Login(t.Context(), "new@victim.test", newPassword); err == nil {
		t.Error("the attacker's password opens an account")
	}
	if _, err := c.Admin.MemberCreate(t.Context(), "mallory", api.MemberCreate{Email: victim.Email, Role: "member"}); err != nil {
		t.Errorf("an operator adds somebody who exists: %v", err)
	}
}

// TestRemovedMemberIsOut at once, from that organisation alone.
func TestRemovedMemberIsOut(t *testing.T) {
	t.Parallel()
	c := cloudtest.StartWith(t, cloudtest.Options{NoNode: true, NoLoops: true})
	ctx := t.Context()
	acme := c.Tenant("acme")
	worker := c.Member("acme", "worker@acme.test", "member")
	if _, err := c.Admin.MemberCreate(ctx, "default", api.MemberCreate{Email: worker.Email, Role: "auditor"}); err != nil {
		t.Fatal(err)
	}
	if err := worker.MemberDelete(ctx, "acme", acme.Email); problemOf(t, err).Status != 403 {
		t.Errorf("a member removed the owner: %v", err)
	}
	if err := acme.MemberDelete(ctx, "acme", acme.Email); problemOf(t, err).Code != "last_owner" {
		t.Errorf("the last owner: %v", err)
	}
	if err := acme.MemberDelete(ctx, "acme", "stranger@acme.test"); problemOf(t, err).Status != 404 {
		t.Errorf("a stranger: %v", err)
	}
	if err := acme.MemberDelete(ctx, "acme", worker.Email); err != nil {
		t.Fatal(err)
	}
	if _, err := worker.Me(ctx); problemOf(t, err).Status != 401 {
		t.Errorf("the token of who was removed: %v", err)
	}
	session, err := c.Client("").Login(ctx, worker.Email, worker.Password)
	if err != nil {
		t.Fatal(err)
	}
	me, err := c.Client(session.AccessToken).Me(ctx)
	if err != nil || len(me.Organisations) != 1 || me.Organisations[0].Name != "default" {
		t.Errorf("%v %+v", err, me)
	}
}

// TestPasswords changes one's own and resets another's.
func TestPasswords(t *testing.T) {
	t.Parallel()
	c := cloudtest.StartWith(t, cloudtest.Options{NoNode: true, NoLoops: true})
	ctx := t.Context()
	acme := c.Tenant("acme")
	signIn := func(password string) *api.Client {
		s, err := c.Client("").Login(ctx, acme.Email, password)
		if err != nil {
			t.Fatal(err)
		}
		return c.Client(s.AccessToken)
	}
	here, there := signIn(acme.Password), signIn(acme.Password)
	if err := here.PasswordChange(ctx, api.PasswordChange{CurrentPassword: "not the password", Password: newPassword}); problemOf(t, err).Status != 422 {
		t.Errorf("without the present one: %v", err)
	}
	if err := here.PasswordChange(ctx, api.PasswordChange{CurrentPassword: acme.Password, Password: newPassword}); err != nil {
		t.Fatal(err)
	}
	alive := func(who *api.Client) bool { _, err := who.Me(ctx); return err == nil }
	if !alive(here) || alive(there) || !alive(acme.Client) {
		t.Errorf("this session %v, the other %v, the token %v", alive(here), alive(there), alive(acme.Client))
	}
	if _, err := c.Client("").Login(ctx, acme.Email, acme.Password); err == nil {
		t.Error("the old password is still good")
	}
	here = signIn(newPassword)

	if err := acme.PasswordReset(ctx, acme.Email, api.PasswordReset{Password: acme.Password}); problemOf(t, err).Status != 403 {
		t.Errorf("an owner resets a password: %v", err)
	}
	if err := c.Admin.PasswordReset(ctx, "nobody@acme.test", api.PasswordReset{Password: acme.Password}); problemOf(t, err).Status != 404 {
		t.Errorf("nobody's: %v", err)
	}
	if err := c.Admin.PasswordReset(ctx, acme.Email, api.PasswordReset{Password: acme.Password}); err != nil {
		t.Fatal(err)
	}
	if alive(here) || alive(acme.Client) {
		t.Error("a reset leaves a session or a token")
	}
	if !alive(signIn(acme.Password)) {
		t.Error("the new password does not sign in")
	}
	for range 8 { // a stolen session guesses no faster than a sign-in
		err := c.Admin.PasswordChange(context.WithoutCancel(ctx), api.PasswordChange{CurrentPassword: "a guess", Password: newPassword})
		if problemOf(t, err).Status == 429 {
			return
		}
	}
	t.Error("guesses at the present password are not slowed down")
}
