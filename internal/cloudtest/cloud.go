// Package cloudtest is a whole cloud in one process, for tests: a database of
// its own, the use-cases, both doors, the loops, and a node that enrolled over
// real TLS with simulated cards and simulated guests. Nothing but the guests and
// the cards is pretended.
//
// Tests only; nothing in production imports it.
package cloudtest

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tenon-cloud/tenon/api"
	"github.com/tenon-cloud/tenon/internal/app"
	"github.com/tenon-cloud/tenon/internal/authn"
	"github.com/tenon-cloud/tenon/internal/device"
	"github.com/tenon-cloud/tenon/internal/device/sim"
	"github.com/tenon-cloud/tenon/internal/httpapi"
	"github.com/tenon-cloud/tenon/internal/hypervisor"
	"github.com/tenon-cloud/tenon/internal/hypervisor/fake"
	"github.com/tenon-cloud/tenon/internal/lifecycle"
	"github.com/tenon-cloud/tenon/internal/loop"
	"github.com/tenon-cloud/tenon/internal/metering"
	"github.com/tenon-cloud/tenon/internal/metrics"
	"github.com/tenon-cloud/tenon/internal/nodeapi"
	"github.com/tenon-cloud/tenon/internal/pgtest"
	"github.com/tenon-cloud/tenon/internal/placement"
	"github.com/tenon-cloud/tenon/internal/postgres"
	"github.com/tenon-cloud/tenon/internal/scheduler"
	"github.com/tenon-cloud/tenon/internal/tunnel"
)

// The administrator of every test cloud.
const (
	AdminEmail    = "admin@example.test"
	AdminPassword = "correct horse battery staple"
	CloudID       = "7e577e57"
	AppsDomain    = "apps.localhost" // below it are the hosts of instances
)

// Options change a cloud; the zero value is the usual one.
type Options struct {
	NoNode       bool // no agent: nothing can be placed
	NoLoops      bool // nothing is scheduled, moved or metered
	Guests       fake.Options
	Driver       hypervisor.Driver // of the node's guests, instead of simulated ones
	Board        string            // of the node's cards; empty: local
	Cards        device.Board      // the node's, instead of simulated ones
	Change       time.Duration     // how long a change of a card takes
	Console      fs.FS
	Registry     http.Handler                // of the API's door
	NodeRegistry func(*app.App) http.Handler // of the nodes' door
	Resolve      app.Resolver                // nil: every reference has a digest
	CheckLogin   func(ctx context.Context, host string, login app.RegistryLogin) error
	Now          func() time.Time
	Listened     time.Duration // the leader has led for so long when it begins
}

// Cloud is a running one.
type Cloud struct {
	URL     string // of the API
	DoorURL string // of the nodes' door
	Admin   *api.Client
	App     *app.App
	DB      *pgtest.Database
	boot    func(boot string) // starts the node's agent
	halt    func()            // ends it
	Keys    *authn.Keys
	Pool    *tunnel.Pool
	Guests  *fake.Engine // of the node
	Board   *sim.Board   // of the node; nil: it has others
	NodeID  string
	NodeDir string // the node's state folder

	t       testing.TB
	log     *slog.Logger
	ctx     context.Context // of everything that runs
	running *sync.WaitGroup

	listened time.Duration
}

// Start makes a cloud that ends with the test.
func Start(t testing.TB) *Cloud { return StartWith(t, Options{}) }

// StartWith makes one with options.
func StartWith(t testing.TB, o Options) *Cloud {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	// The database and the folder come first: they go when all that uses them has
	// ended.
	c := &Cloud{t: t, DB: pgtest.New(t), NodeDir: t.TempDir(), Pool: &tunnel.Pool{}, log: logger()}
	var running sync.WaitGroup
	t.Cleanup(func() { cancel(); running.Wait() })
	c.ctx, c.running, c.listened = ctx, &running, o.Listened

	if _, err := c.DB.Owner.Exec(ctx, `INSERT INTO cloud_state (cloud_id, era) VALUES ($1, gen_random_uuid()) ON CONFLICT DO NOTHING`, CloudID); err != nil {
		t.Fatalf("cloudtest: %v", err)
	}
	var err error
	if c.Keys, err = authn.KeysLoad(ctx, authn.MasterNew(), app.KeyStore(c.DB.DB), time.Now()); err != nil {
		t.Fatalf("cloudtest: keys: %v", err)
	}
	if o.Resolve == nil {
		o.Resolve = resolve
	}
	c.App = app.New(app.Config{DB: c.DB.DB, Keys: c.Keys, Resolve: o.Resolve, CheckLogin: o.CheckLogin, Now: o.Now, Log: c.log})
	if _, err := c.App.Setup(ctx, app.SetupInput{AdminEmail: AdminEmail, AdminName: "Admin", AdminPassword: AdminPassword}); err != nil {
		t.Fatalf("cloudtest: first boot: %v", err)
	}
	secret, err := c.App.SetupToken(ctx, AdminEmail, "cloudtest", 24*time.Hour)
	if err != nil {
		t.Fatalf("cloudtest: %v", err)
	}

	registry := prometheus.NewRegistry()
	observer := metrics.Register(registry, metrics.Config{DB: c.DB.DB, Version: "test", Tunnels: c.Pool.Count, Log: c.log})
	front := listen(t)
	c.URL = "http://" + front.Addr().String()
	gate := c.gateway(c.App, c.Pool, c.URL, registry)
	handler, err := httpapi.New(httpapi.Config{
		App: c.App, Gateway: gate, Registry: o.Registry, Console: o.Console, NotBuilt: "not built", Metrics: registry, Log: c.log, CloudID: CloudID, Version: "test",
		Ready: []httpapi.ReadyCheck{
			{Name: "database", Check: c.DB.DB.Ping}, {Name: "migrations", Check: c.DB.DB.Prepared},
			{Name: "leader", Check: func(ctx context.Context) error { return c.DB.DB.LeaderKnown(ctx, "cloud") }},
		},
	})
	if err != nil {
		t.Fatalf("cloudtest: %v", err)
	}
	c.serve(ctx, &running, front, httpapi.NewServer(handler, c.log))
	c.Admin = c.Client(secret)

	ln := listen(t)
	c.DoorURL = "https://" + ln.Addr().String()
	var nodeRegistry http.Handler
	if o.NodeRegistry != nil {
		nodeRegistry = o.NodeRegistry(c.App)
	}
	door := nodeapi.New(nodeapi.Config{
		App: c.App, Keys: c.Keys, Pool: c.Pool, Hosts: []string{"127.0.0.1"}, Wakes: c.DB.DB.Wakes, NodeTopic: postgres.TopicNode, Registry: nodeRegistry, Log: c.log, Observer: observer,
		Timing: nodeapi.Timing{Check: 200 * time.Millisecond},
	})
	c.peer(ctx, &running, "replica-1", c.App, c.Pool)
	running.Go(func() {
		if err := door.Serve(ctx, ln); err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("cloudtest: node door: %v", err)
		}
	})
	if !o.NoLoops {
		c.loops(ctx, &running, registry, observer)
	}
	if !o.NoNode {
		c.node(ctx, &running, o)
	}
	return c
}

// Client is a client with another token; empty: anonymous.
func (c *Cloud) Client(token string) *api.Client {
	client := api.NewClient(c.URL, token)
	c.t.Cleanup(client.HTTP.CloseIdleConnections)
	return client
}

func (c *Cloud) serve(ctx context.Context, running *sync.WaitGroup, ln net.Listener, srv *http.Server) {
	srv.BaseContext = func(net.Listener) context.Context { return ctx }
	running.Go(func() { _ = srv.Serve(ln) })
	c.t.Cleanup(func() { _ = srv.Close() })
}

func listen(t testing.TB) net.Listener {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("cloudtest: %v", err)
	}
	return ln
}

func (c *Cloud) loops(ctx context.Context, running *sync.WaitGroup, reg *prometheus.Registry, observer loop.Observer) {
	leader := c.DB.DB.Leadership("cloud", "replica-1", c.log)
	running.Go(func() { _ = leader.Run(ctx) })
	s := scheduler.New(scheduler.Config{DB: c.DB.DB, Leader: leader, Policy: placement.Policy{}, Log: c.log, Register: reg, Observer: observer})
	l := lifecycle.New(lifecycle.Config{DB: c.DB.DB, Leader: veteran{leader, c.listened}, Log: c.log, Register: reg, Observer: observer, ByDatabaseClock: c.listened > 0})
	m := metering.New(metering.Config{DB: c.DB.DB, Leader: leader, Log: c.log, Register: reg, Observer: observer})
	running.Go(func() { _ = s.Run(ctx) })
	running.Go(func() { _ = l.Run(ctx) })
	running.Go(func() { _ = m.Run(ctx) })
	pgtest.Eventually(c.t, "this process leads", func() bool { ok, _ := leader.Lead(ctx); return ok })
}

// veteran is a leader that has listened for longer than it has led.
type veteran struct {
	*postgres.Leadership
	before time.Duration
}

func (v veteran) Since() time.Time { return v.Leadership.Since().Add(-v.before) }

// resolve plays the registries: every reference has a digest but those that say
// that they are missing.
func resolve(_ context.Context, ref string, _ bool, _ *app.RegistryLogin) (app.Resolved, error) {
	if strings.Contains(ref, "missing") {
		return app.Resolved{}, errors.New("the registry has no such repository or tag")
	}
	return app.Resolved{Digest: fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(ref))), SizeBytes: 1 << 20}, nil
}

// logger is silent unless TENON_TEST_LOG is set.
func logger() *slog.Logger {
	var w io.Writer = io.Discard
	if os.Getenv("TENON_TEST_LOG") != "" {
		w = os.Stderr
	}
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelDebug}))
}
