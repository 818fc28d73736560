package backup

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/tenon-cloud/tenon/api"
	"github.com/tenon-cloud/tenon/internal/agent"
	"github.com/tenon-cloud/tenon/internal/app"
	"github.com/tenon-cloud/tenon/internal/authn"
	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/device/sim"
	"github.com/tenon-cloud/tenon/internal/httpapi"
	"github.com/tenon-cloud/tenon/internal/hypervisor"
	"github.com/tenon-cloud/tenon/internal/hypervisor/fake"
	"github.com/tenon-cloud/tenon/internal/lifecycle"
	"github.com/tenon-cloud/tenon/internal/metering"
	"github.com/tenon-cloud/tenon/internal/nodeapi"
	"github.com/tenon-cloud/tenon/internal/pgtest"
	"github.com/tenon-cloud/tenon/internal/placement"
	"github.com/tenon-cloud/tenon/internal/postgres"
	"github.com/tenon-cloud/tenon/internal/scheduler"
	"github.com/tenon-cloud/tenon/internal/tunnel"
	"github.com/tenon-cloud/tenon/internal/volume"
)

// world is a cloud whose control plane can be taken down and put back, with nodes
// that go on all the while.
type world struct {
	t    *testing.T
	db   *pgtest.Database
	dsn  string // as the owner
	key  string
	door string // address, the same every time
	log  *slog.Logger

	nodes map[string]*node
	*control
}

type node struct {
	id     cloud.NodeID
	guests *fake.Engine
	data   *volume.Memory
}

// control is one life of the control plane.
type control struct {
	db   *postgres.DB
	app  *app.App
	call app.Call
	api  *api.Client // over HTTP, as the same operator
	keys *authn.Keys
	stop func()
}

func newWorld(t *testing.T) *world {
	t.Helper()
	if pgtest.Binary("pg_dump") == "" || pgtest.Binary("pg_restore") == "" || pgtest.Binary("psql") == "" {
		t.Skip("pg_dump, pg_restore and psql are not beside the Postgres server here: nothing can be backed up")
	}
	var out io.Writer = io.Discard
	if os.Getenv("TENON_TEST_LOG") != "" {
		out = os.Stderr
	}
	w := &world{t: t, db: pgtest.New(t), nodes: map[string]*node{}, log: slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	w.db.DB.Close() // this test opens and closes its own
	w.dsn = w.db.DSN + " user=tenon_owner"
	w.key = filepath.Join(t.TempDir(), "master.key")
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w.door = ln.Addr().String()
	w.up(ln)
	return w
}

// up starts a control plane on the database as it is.
func (w *world) up(ln net.Listener) {
	t := w.t
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	master, err := authn.MasterLoad(w.key)
	if err != nil {
		t.Fatal(err)
	}
	if err := postgres.Bootstrap(ctx, postgres.BootstrapConfig{OwnerDSN: w.dsn}); err != nil {
		t.Fatal(err)
	}
	c := &control{}
	w.control = c
	if c.db, err = postgres.Open(ctx, postgres.Config{DSN: w.db.DSN, Log: w.log}); err != nil {
		t.Fatal(err)
	}
	if c.keys, err = authn.KeysLoad(ctx, master, app.KeyStore(c.db), time.Now()); err != nil {
		t.Fatal(err)
	}
	c.app = app.New(app.Config{DB: c.db, Keys: c.keys, Log: w.log, Resolve: func(context.Context, string, bool, *app.RegistryLogin) (app.Resolved, error) {
		return app.Resolved{Digest: "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", SizeBytes: 1}, nil
	}})
	const email = "admin@example.test"
	if _, err := c.app.Setup(ctx, app.SetupInput{AdminEmail: email, AdminName: "Admin", AdminPassword: "correct horse battery staple"}); err != nil {
		t.Fatal(err)
	}
	token, err := c.app.SetupToken(ctx, email, "test", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if c.call.Actor, err = c.app.Authenticate(ctx, token, ""); err != nil {
		t.Fatal(err)
	}
	handler, err := httpapi.New(httpapi.Config{App: c.app, Log: w.log, Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	front := httptest.NewServer(handler)
	c.api = api.NewClient(front.URL, token)
	if ln == nil {
		pgtest.Eventually(t, "the door's port is free", func() bool { ln, err = net.Listen("tcp", w.door); return err == nil })
	}
	var running sync.WaitGroup
	door := nodeapi.New(nodeapi.Config{App: c.app, Keys: c.keys, Pool: &tunnel.Pool{}, Hosts: []string{"127.0.0.1"}, Wakes: c.db.Wakes, NodeTopic: postgres.TopicNode, Log: w.log,
		Timing: nodeapi.Timing{Check: 200 * time.Millisecond}})
	running.Go(func() {
		if err := door.Serve(ctx, ln); err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("node door: %v", err)
		}
	})
	leader := c.db.Leadership("cloud", "test", w.log)
	s := scheduler.New(scheduler.Config{DB: c.db, Leader: leader, Policy: placement.Policy{}, Log: w.log})
	l := lifecycle.New(lifecycle.Config{DB: c.db, Leader: leader, Log: w.log})
	m := metering.New(metering.Config{DB: c.db, Leader: leader, Log: w.log})
	for _, run := range []func(context.Context) error{leader.Run, s.Run, l.Run, m.Run} {
		running.Go(func() { _ = run(ctx) })
	}
	c.stop = sync.OnceFunc(func() { front.Close(); cancel(); running.Wait(); c.db.Close() })
	t.Cleanup(c.stop)
}

// down ends the control plane, and waits until the database has noticed.
func (w *world) down() {
	w.t.Helper()
	w.stop()
	pgtest.Eventually(w.t, "its sessions are over", func() bool {
		there, err := postgres.RestoreLook(context.Background(), w.dsn)
		return err == nil && there.Sessions == 0 && there.Leader == ""
	})
}

// join adds a node that lives as long as the test, whatever the control plane
// does.
func (w *world) join(name string) *node {
	t := w.t
	t.Helper()
	ctx := context.Background()
	made, err := w.app.JoinTokenCreate(ctx, w.call, app.JoinTokenInput{Pool: "default"})
	if err != nil {
		t.Fatal(err)
	}
	dir, host := t.TempDir(), agent.Host{VCPU: 64, MemoryMiB: 512 << 10, BootID: "boot-1"}
	enrolling, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	id, err := agent.Enrol(enrolling, agent.Enrolment{StateDir: dir, DoorURL: "https://" + w.door, JoinToken: made.Secret, Name: name, CA: []byte(w.keys.CAPEM()), Host: host, Log: w.log})
	if err != nil {
		t.Fatal(err)
	}
	door, err := agent.NewDoor(id, "https://"+w.door, name, dir, w.log)
	if err != nil {
		t.Fatal(err)
	}
	n := &node{guests: fake.New(fake.Options{}), data: volume.NewMemory()}
	if err := n.id.UnmarshalText([]byte(id.NodeID)); err != nil {
		t.Fatal(err)
	}
	board, err := sim.Open(sim.Config{Board: "local", CloudID: id.CloudID, StateDir: dir, Log: w.log})
	if err != nil {
		t.Fatal(err)
	}
	a, err := agent.New(agent.Config{NodeID: id.NodeID, CloudID: id.CloudID, Version: "test", Drivers: []hypervisor.Driver{n.guests}, Board: board, Door: door,
		Store: agent.FileStore(filepath.Join(dir, "ledger.json")), Volumes: n.data, Host: host, Log: w.log,
		Timing: agent.Timing{Report: 300 * time.Millisecond, Resync: time.Second, MaxBackoff: time.Second, GiveUp: 3 * time.Second}})
	if err != nil {
		t.Fatal(err)
	}
	living, end := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { _ = a.Run(living) })
	t.Cleanup(func() { end(); running.Wait() })
	w.nodes[name] = n
	pgtest.Eventually(t, name+" is ready", func() bool {
		got, err := w.app.NodeGet(ctx, w.call, name)
		return err == nil && got.State == cloud.NodeReady
	})
	return n
}

// guest finds what runs on a node of an instance.
func (n *node) guest(id cloud.InstanceID) (hypervisor.Guest, bool) {
	list, err := n.guests.List(context.Background())
	if err != nil {
		return hypervisor.Guest{}, false
	}
	for _, g := range list {
		if g.ID == id.String() {
			return g, g.State == hypervisor.Running
		}
	}
	return hypervisor.Guest{}, false
}

func (w *world) get(id cloud.InstanceID) cloud.Instance {
	w.t.Helper()
	i, err := w.app.InstanceGet(context.Background(), w.call, "default", id.String())
	if err != nil {
		w.t.Fatal(err)
	}
	return i.Instance
}

func (w *world) until(what string, id cloud.InstanceID, state cloud.InstanceState) {
	w.t.Helper()
	pgtest.Eventually(w.t, what+" is "+string(state), func() bool { return w.get(id).State == state })
}

// run makes an instance and waits until it runs.
func (w *world) run(name string) cloud.InstanceID {
	w.t.Helper()
	return w.runAs(app.InstanceInput{Name: name, Image: "test", Flavor: "cpu-small"})
}

func (w *world) runAs(in app.InstanceInput) cloud.InstanceID {
	w.t.Helper()
	i, err := w.app.InstanceCreate(context.Background(), w.call, "default", in)
	if err != nil {
		w.t.Fatal(err)
	}
	w.until(in.Name, i.ID, cloud.StateRunning)
	return i.ID
}
