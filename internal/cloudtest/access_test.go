package cloudtest_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tenon-cloud/tenon/api"
	"github.com/tenon-cloud/tenon/internal/cloudtest"
)

func TestTokensThatAreNoGood(t *testing.T) {
	t.Parallel()
	c := cloudtest.StartWith(t, cloudtest.Options{NoNode: true, NoLoops: true})
	acme := c.Tenant("acme")
	ctx := within(t, 30*time.Second)
	made := func(name string) *api.TokenCreated {
		tok, err := acme.TokenCreate(ctx, api.TokenCreate{Name: name, ExpiresInDays: 1})
		if err != nil {
			t.Fatal(err)
		}
		return tok
	}
	revoked, expired, foreign := made("revoked"), made("expired"), made("foreign")
	if err := acme.TokenRevoke(ctx, "revoked"); err != nil {
		t.Fatal(err)
	}
	for _, q := range []string{
		fmt.Sprintf("UPDATE api_token SET expires_at = now() - interval '1 minute' WHERE name = '%s'", "expired"),
		"DELETE FROM api_token WHERE name = 'foreign'",
	} {
		if _, err := c.DB.Owner.Exec(ctx, q); err != nil {
			t.Fatal(err)
		}
	}
	typo := []byte(acme.Token)
	typo[10] = map[bool]byte{true: 'b', false: 'a'}[typo[10] == 'a']
	session, err := c.Client("").Login(ctx, acme.Email, acme.Password)
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(session.AccessToken, ".")
	for name, tc := range map[string]struct{ token, code string }{
		"mistyped":           {string(typo), "token_malformed"},
		"cut off":            {acme.Token[:20], "token_malformed"},
		"not a token":        {"hello", "token_malformed"},
		"revoked":            {revoked.Secret, "token_revoked"},
		"expired":            {expired.Secret, "token_expired"},
		"unknown":            {foreign.Secret, "token_unknown"},
		"a session, altered": {parts[0] + "." + parts[1] + "." + strings.Repeat("A", len(parts[2])), "token_malformed"},
		"unsigned":           {"eyJhbGciOiJub25lIn0." + parts[1] + ".", "token_malformed"},
	} {
		a := request(t, c, tc.token, "GET", "/v1/me", "")
		if a.status != http.StatusUnauthorized || a.problem.Code != tc.code || !strings.Contains(a.header.Get("WWW-Authenticate"), tc.code) {
			t.Errorf("%s: %d %s %q", name, a.status, a.problem.Code, a.header.Get("WWW-Authenticate"))
		}
		if strings.Contains(string(a.body), tc.token) {
			t.Errorf("%s: the token comes back", name)
		}
	}
}

// TestSessionInABrowser walks through sign-in, refresh and sign-out as a browser
// does.
func TestSessionInABrowser(t *testing.T) {
	t.Parallel()
	c := cloudtest.StartWith(t, cloudtest.Options{NoNode: true, NoLoops: true})
	in := request(t, c, "", "POST", "/v1/auth/login", fmt.Sprintf(`{"email": %q, "password": %q}`, cloudtest.AdminEmail, cloudtest.AdminPassword), "Origin", c.URL)
	if in.status != 200 {
		t.Fatalf("%d %s", in.status, in.body)
	}
	cookie := cookieOf(t, in)
	if !cookie.HttpOnly || cookie.SameSite != http.SameSiteStrictMode || cookie.Path != "/v1/auth" || cookie.Secure || strings.Contains(string(in.body), cookie.Value) {
		t.Errorf("cookie %+v", cookie)
	}
	var session api.Session
	if err := json.Unmarshal(in.body, &session); err != nil || session.TokenType != "Bearer" || time.Until(session.ExpiresAt) > 11*time.Minute {
		t.Errorf("session %v %+v", err, session)
	}
	me, err := c.Client(session.AccessToken).Me(t.Context())
	if err != nil || me.User.Email != cloudtest.AdminEmail || !me.User.Operator || me.Organisation.Name != "default" || len(me.Actions) == 0 {
		t.Errorf("%v %+v", err, me)
	}

	again := request(t, c, "", "POST", "/v1/auth/refresh", "", "Cookie", "tenon_refresh="+cookie.Value, "Sec-Fetch-Site", "same-origin")
	next := cookieOf(t, again)
	if again.status != 200 || next.Value == cookie.Value {
		t.Errorf("refresh: %d %s", again.status, again.body)
	}
	if a := request(t, c, "", "POST", "/v1/auth/refresh", "", "Cookie", "tenon_refresh="+next.Value, "Origin", "https://evil.test"); a.status != 403 || a.problem.Code != "cross_origin" {
		t.Errorf("from another site: %d %s", a.status, a.body)
	}
	out := request(t, c, "", "POST", "/v1/auth/logout", "", "Cookie", "tenon_refresh="+next.Value)
	if gone := cookieOf(t, out); out.status != 204 || gone.MaxAge >= 0 {
		t.Errorf("logout: %d %+v", out.status, gone)
	}
	if a := request(t, c, "", "POST", "/v1/auth/refresh", "", "Cookie", "tenon_refresh="+next.Value); a.status != 401 {
		t.Errorf("refresh after logout: %d %s", a.status, a.body)
	}
	if a := request(t, c, session.AccessToken, "GET", "/v1/me", ""); a.status != 401 || a.problem.Code != "token_revoked" {
		t.Errorf("access token after logout: %d %s", a.status, a.body)
	}
}

func cookieOf(t *testing.T, a answer) *http.Cookie {
	t.Helper()
	for _, line := range a.header.Values("Set-Cookie") {
		if cookie, err := http.ParseSetCookie(line); err == nil && cookie.Name == "tenon_refresh" {
			return cookie
		}
	}
	t.Fatalf("no refresh cookie: %d %s", a.status, a.body)
	return nil
}

// TestIdempotency: one key, twenty times at once, is one instance (case C14).
func TestIdempotency(t *testing.T) {
	t.Parallel()
	c := cloudtest.StartWith(t, cloudtest.Options{NoNode: true, NoLoops: true})
	acme := c.Tenant("acme")
	img, flv := image(t, c), flavor(t, c, "small")
	ctx := within(t, 30*time.Second)
	in := api.InstanceCreate{Name: "once", Image: img, Flavor: flv}
	ids := make([]string, 20)
	var all sync.WaitGroup
	for n := range ids {
		all.Go(func() {
			i, err := acme.InstanceCreate(ctx, "default", in, api.IdempotencyKey("k-1"))
			if err != nil {
				t.Errorf("create: %v", err)
				return
			}
			ids[n] = i.ID
		})
	}
	all.Wait()
	for _, id := range ids {
		if id != ids[0] {
			t.Errorf("%s and %s for one key", ids[0], id)
		}
	}
	list, err := acme.InstanceListAll(ctx, "default", api.InstanceListOptions{})
	if err != nil || len(list) != 1 {
		t.Errorf("%d instances: %v", len(list), err)
	}
	quotas, err := acme.QuotaList(ctx, "default")
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range quotas.Items {
		if q.Resource == "instances" && q.Used != 1 {
			t.Errorf("%d instances are counted", q.Used)
		}
	}
	in.Name = "another"
	_, err = acme.InstanceCreate(ctx, "default", in, api.IdempotencyKey("k-1"))
	if p := problemOf(t, err); p.Status != 422 || p.Code != "idempotency_key_reused" {
		t.Errorf("%+v", p)
	}
}

func problemOf(t *testing.T, err error) *api.Problem {
	t.Helper()
	p, ok := err.(*api.Problem)
	if !ok {
		t.Fatalf("not a problem: %v", err)
	}
	return p
}

// TestPaging reads a list in pages while it grows: what was there is read once.
func TestPaging(t *testing.T) {
	t.Parallel()
	c := cloudtest.StartWith(t, cloudtest.Options{NoNode: true, NoLoops: true})
	acme := c.Tenant("acme")
	img, flv := image(t, c), flavor(t, c, "small")
	ctx := within(t, 30*time.Second)
	make1 := func(name string) string {
		i, err := acme.InstanceCreate(ctx, "default", api.InstanceCreate{Name: name, Image: img, Flavor: flv})
		if err != nil {
			t.Fatal(err)
		}
		return i.ID
	}
	there := map[string]bool{}
	for n := range 7 {
		there[make1(fmt.Sprintf("old-%d", n))] = true
	}
	got := map[string]int{}
	o := api.InstanceListOptions{PageOptions: api.PageOptions{Limit: 2}}
	pages := 0
	for {
		page, err := acme.InstanceList(ctx, "default", o)
		if err != nil {
			t.Fatal(err)
		}
		pages++
		for _, i := range page.Items {
			got[i.ID]++
		}
		make1(fmt.Sprintf("new-%d", pages))
		if page.NextPageToken == "" {
			break
		}
		o.PageToken = page.NextPageToken
	}
	for id := range there {
		if got[id] != 1 {
			t.Errorf("%s was read %d times", id, got[id])
		}
	}
	if pages != 4 {
		t.Errorf("%d pages", pages)
	}
}

func TestETag(t *testing.T) {
	t.Parallel()
	c := cloudtest.StartWith(t, cloudtest.Options{NoNode: true, NoLoops: true})
	acme := c.Tenant("acme")
	ctx := within(t, 30*time.Second)
	i, err := acme.InstanceCreate(ctx, "default", api.InstanceCreate{Name: "web-1", Image: image(t, c), Flavor: flavor(t, c, "small")})
	if err != nil {
		t.Fatal(err)
	}
	a := request(t, c, acme.Token, "GET", "/v1/projects/default/instances/web-1", "")
	if want := fmt.Sprintf("%q", fmt.Sprint(i.Generation)); a.header.Get("ETag") != want {
		t.Errorf("ETag %q, want %q", a.header.Get("ETag"), want)
	}
	if _, err := acme.InstanceStop(ctx, "default", "web-1", api.IfGeneration(i.Generation)); err != nil {
		t.Errorf("with its own generation: %v", err)
	}
	_, err = acme.InstanceDelete(ctx, "default", "web-1", api.IfGeneration(i.Generation))
	if p := problemOf(t, err); p.Status != 412 {
		t.Errorf("with the generation of before: %+v", p)
	}
}
