package app_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tenon-cloud/tenon/internal/app"
	"github.com/tenon-cloud/tenon/internal/authn"
	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/pgtest"
)

const (
	adminEmail    = "admin@tenon.test"
	adminPassword = "correct horse battery"
	digest        = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
)

// house is a cloud after its first boot, with one image and no nodes.
type house struct {
	*app.App
	pg    *pgtest.Database
	keys  *authn.Keys
	admin app.Call // operator and owner of default
	now   time.Time
	setup app.SetupResult
}

func newHouse(t *testing.T) *house {
	t.Helper()
	h := &house{pg: pgtest.New(t)}
	ctx := t.Context()
	var err error
	if h.keys, err = authn.KeysLoad(ctx, authn.MasterNew(), app.KeyStore(h.pg.DB), time.Now()); err != nil {
		t.Fatal(err)
	}
	h.App = app.New(app.Config{DB: h.pg.DB, Keys: h.keys, Now: func() time.Time { return time.Now().Add(h.now.Sub(time.Time{})) },
		Resolve: func(_ context.Context, ref string, _ bool, _ *app.RegistryLogin) (app.Resolved, error) {
			if strings.Contains(ref, "missing") {
				return app.Resolved{}, errors.New("no such manifest")
			}
			return app.Resolved{Digest: digest, SizeBytes: 1000}, nil
		}})
	if h.setup, err = h.Setup(ctx, app.SetupInput{AdminEmail: adminEmail, AdminName: "Ada", AdminPassword: adminPassword}); err != nil {
		t.Fatal(err)
	}
	h.admin = h.signIn(t, adminEmail, adminPassword)
	if _, err := h.ImageCreate(ctx, h.admin, app.ImageInput{Name: "debian-12", Ref: "tenon/debian-12:latest", Offered: true}); err != nil {
		t.Fatal(err)
	}
	return h
}

func (h *house) signIn(t *testing.T, email, password string) app.Call {
	t.Helper()
	g, err := h.Login(t.Context(), app.LoginInput{Email: email, Password: password, Address: "127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	who, err := h.Authenticate(t.Context(), g.AccessToken, "")
	if err != nil {
		t.Fatal(err)
	}
	return app.Call{Actor: who, Address: "127.0.0.1"}
}

// tenant makes another organisation with a project named default and an owner
// who is no operator.
func (h *house) tenant(t *testing.T, name string) app.Call {
	t.Helper()
	ctx := t.Context()
	if _, err := h.OrgCreate(ctx, h.admin, app.OrgInput{Name: name}); err != nil {
		t.Fatal(err)
	}
	email := "owner@" + name + ".test"
	if _, err := h.MemberAdd(ctx, h.admin, name, app.MemberInput{Email: email, Password: adminPassword, Role: cloud.RoleOwner}); err != nil {
		t.Fatal(err)
	}
	c := h.signIn(t, email, adminPassword)
	if _, err := h.ProjectCreate(ctx, c, app.ProjectInput{Name: "default"}); err != nil {
		t.Fatal(err)
	}
	return c
}

// node adds a ready node that only books, with H100 cards that are cut.
func (h *house) node(t *testing.T, cards int, mode cloud.GPUMode) cloud.NodeID {
	t.Helper()
	id := cloud.NodeID{}.New()
	exec(t, h, `INSERT INTO node (id, name, pool_id, state, vcpu, memory_mib, last_seen_at)
		SELECT $1, $2, id, 'ready', 64, 262144, now() FROM pool WHERE name = 'default'`, id, "n"+id.String()[25:])
	for i := range cards {
		exec(t, h, `INSERT INTO gpu (id, node_id, uuid, pci_address, model, geometry, mode, state, memory_mib)
			VALUES ($1, $2, $5, $3, 'h100-80gb', 'mig8', $4, 'ready', 81559)`,
			cloud.GPUID{}.New(), id, fmt.Sprintf("0000:%02x:00.0", i), mode, "GPU-"+cloud.GPUID{}.New().UUID().String())
	}
	return id
}

func exec(t *testing.T, h *house, sql string, args ...any) {
	t.Helper()
	if _, err := h.pg.Owner.Exec(t.Context(), sql, args...); err != nil {
		t.Fatal(err)
	}
}

func count(t *testing.T, h *house, sql string, args ...any) (n int) {
	t.Helper()
	if err := h.pg.Owner.QueryRow(t.Context(), sql, args...).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func used(t *testing.T, h *house, c app.Call, project string, r cloud.QuotaResource) int64 {
	t.Helper()
	list, err := h.QuotaList(t.Context(), c, project)
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range list {
		if q.Resource == r {
			return q.Used
		}
	}
	t.Fatalf("no quota %s", r)
	return 0
}

func problem(err error) *cloud.Error {
	var e *cloud.Error
	if errors.As(err, &e) {
		return e
	}
	return &cloud.Error{Kind: cloud.KindInternal, Code: fmt.Sprint(err)}
}

func wantCode(t *testing.T, what string, err error, kind cloud.Kind, code string) *cloud.Error {
	t.Helper()
	p := problem(err)
	if err == nil || p.Kind != kind || p.Code != code {
		t.Fatalf("%s: %v, want %s %s", what, err, kind, code)
	}
	return p
}

func one(v int64) map[cloud.QuotaResource]*int64 {
	return map[cloud.QuotaResource]*int64{cloud.QuotaInstances: &v}
}

func web(name string) app.InstanceInput {
	return app.InstanceInput{Name: name, Image: "debian-12", Flavor: "h100-1g-10gb"}
}
