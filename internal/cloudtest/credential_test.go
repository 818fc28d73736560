package cloudtest_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/tenon-cloud/tenon/api"
	"github.com/tenon-cloud/tenon/internal/app"
	"github.com/tenon-cloud/tenon/internal/cloudtest"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

// TestPrivateRegistries walks a password's life: kept sealed, used for one host,
// given to the node of an instance that needs it, never shown.
func TestPrivateRegistries(t *testing.T) {
	t.Parallel()
	const password = "s3cret-of-acme"
	var mu sync.Mutex
	var asked *app.RegistryLogin
	c := cloudtest.StartWith(t, cloudtest.Options{
		CheckLogin: func(_ context.Context, host string, login app.RegistryLogin) error {
			switch {
			case host == "away.example":
				return errors.New("the registry of away.example did not answer in time")
			case login.Password != password:
				return app.ErrLoginRefused
			}
			return nil
		},
		Resolve: func(_ context.Context, ref string, _ bool, login *app.RegistryLogin) (app.Resolved, error) {
			mu.Lock()
			asked = login
			mu.Unlock()
			if strings.Contains(ref, "private") && (login == nil || login.Password != password) {
				return app.Resolved{}, errors.New("the registry wants a password")
			}
			return app.Resolved{Digest: "sha256:" + strings.Repeat("ab", 32), SizeBytes: 1}, nil
		},
	})
	ctx := t.Context()
	acme, other := c.Tenant("acme"), c.Tenant("other")
	create := func(host, word string) (*api.RegistryCredential, error) {
		return acme.RegistryCredentialCreate(ctx, "default", api.RegistryCredentialCreate{Host: host, Username: "ci", Password: word})
	}
	problem := func(err error) *api.Problem {
		t.Helper()
		var p *api.Problem
		if !errors.As(err, &p) {
			t.Fatalf("not a problem: %v", err)
		}
		return p
	}
	if _, err := create("ghcr.io", "guess"); problem(err).Status != 422 || strings.Contains(err.Error(), "guess") {
		t.Errorf("a wrong password: %v", err)
	}
	if _, err := create("no host", password); problem(err).Status != 422 {
		t.Errorf("a host that is none: %v", err)
	}
	if k, err := create("away.example", password); err != nil || !strings.Contains(k.Warning, "not checked") {
		t.Errorf("a registry that can't be asked: %+v, %v", k, err)
	}
	first, err := create("https://GHCR.io/", password)
	if err != nil || first.Host != "ghcr.io" || first.Warning != "" {
		t.Fatalf("the right one: %+v, %v", first, err)
	}
	if again, err := create("ghcr.io", password); err != nil || again.ID != first.ID {
		t.Errorf("replaced: %+v, %v", again, err)
	}
	list, err := acme.RegistryCredentialList(ctx, "default", api.PageOptions{})
	if err != nil || len(list.Items) != 2 {
		t.Fatalf("list: %+v, %v", list, err)
	}
	if shown, _ := json.Marshal(list); strings.Contains(string(shown), password) {
		t.Errorf("the list shows the password: %s", shown)
	}
	if l, err := other.RegistryCredentialList(ctx, "default", api.PageOptions{}); err != nil || len(l.Items) != 0 {
		t.Errorf("another organisation sees %+v, %v", l, err)
	}
	if err := other.RegistryCredentialDelete(ctx, "default", first.ID); problem(err).Status != 404 {
		t.Errorf("another organisation deletes it: %v", err)
	}
	var stored []byte
	if err := c.DB.Owner.QueryRow(ctx, `SELECT secret FROM registry_credential WHERE host = 'ghcr.io'`).Scan(&stored); err != nil || strings.Contains(string(stored), password) {
		t.Errorf("kept as %q, %v", stored, err)
	}

	// Images: with the project's, for its host alone.
	add := func(in api.ImageCreate) error { _, err := acme.ImageCreate(ctx, in); return err }
	if err := add(api.ImageCreate{Name: "bare", Ref: "ghcr.io/acme/private:1"}); problem(err).Status != 422 {
		t.Errorf("without its password: %v", err)
	}
	if err := add(api.ImageCreate{Name: "quay", Ref: "quay.io/acme/private:1", Project: "default"}); problem(err).Status != 422 {
		t.Errorf("of a host without one: %v", err)
	}
	if err := add(api.ImageCreate{Name: "open", Ref: "ghcr.io/acme/open:1"}); err != nil {
		t.Error(err)
	}
	mu.Lock()
	if asked != nil {
		t.Error("a password was used that nobody asked for")
	}
	mu.Unlock()
	if err := add(api.ImageCreate{Name: "private", Ref: "ghcr.io/acme/private:1", Project: "default"}); err != nil {
		t.Fatal(err)
	}
	if err := acme.RegistryCredentialDelete(ctx, "default", "ghcr.io"); problem(err).Code != "credential_in_use" || !strings.Contains(err.Error(), "private") {
		t.Errorf("deleted under an image: %v", err)
	}

	// The node of its instance gets it; of another's, or of none, it doesn't.
	i := c.Running(acme.Client, api.InstanceCreate{Name: "web", Image: "private", Flavor: flavor(t, c, "tiny")})
	open := c.Running(acme.Client, api.InstanceCreate{Name: "open", Image: "open", Flavor: "tiny"})
	node := doorClient(t, c, identityOf(t, c))
	secrets := func(id string) (int, nodewire.Secrets) {
		t.Helper()
		res, err := node.Get(c.DoorURL + strings.Replace(nodewire.PathSecrets, "{id}", id, 1))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = res.Body.Close() }()
		var out nodewire.Secrets
		text, _ := io.ReadAll(res.Body)
		_ = json.Unmarshal(text, &out)
		return res.StatusCode, out
	}
	if status, s := secrets(i.ID); status != 200 || s.Registry == nil || s.Registry.Password != password || s.Registry.Host != "ghcr.io" || s.Registry.Username != "ci" {
		t.Errorf("the node was given %d %+v", status, s)
	}
	if status, s := secrets(open.ID); status != 200 || s.Registry != nil {
		t.Errorf("for an image that anyone may pull: %d %+v", status, s)
	}
	if _, err := acme.InstanceStop(ctx, "default", i.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := acme.WaitInstance(ctx, "default", i.ID, func(i *api.Instance) bool { return i.State == api.StateStopped }, nil); err != nil {
		t.Fatal(err)
	}
	if status, s := secrets(i.ID); status != 404 || s.Registry != nil {
		t.Errorf("off the node, it was given %d %+v", status, s)
	}
	if res, err := doorClient(t, c, nil).Get(c.DoorURL + strings.Replace(nodewire.PathSecrets, "{id}", i.ID, 1)); err != nil || res.StatusCode != 401 {
		t.Errorf("without a certificate: %v, %v", res, err)
	}

	// Nothing of it is in the audit.
	var audits int
	if err := c.DB.Owner.QueryRow(ctx, `SELECT count(*) FROM audit WHERE detail::text LIKE '%' || $1 || '%'`, password).Scan(&audits); err != nil || audits != 0 {
		t.Errorf("%d audit rows hold the password, %v", audits, err)
	}
	if _, err := acme.InstanceDelete(ctx, "default", i.ID); err != nil {
		t.Fatal(err)
	}
}
