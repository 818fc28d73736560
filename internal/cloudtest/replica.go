package cloudtest

import (
	"context"
	"errors"
	"net/url"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tenon-cloud/tenon/api"
	"github.com/tenon-cloud/tenon/internal/app"
	"github.com/tenon-cloud/tenon/internal/gateway"
	"github.com/tenon-cloud/tenon/internal/httpapi"
	"github.com/tenon-cloud/tenon/internal/postgres"
	"github.com/tenon-cloud/tenon/internal/replica"
	"github.com/tenon-cloud/tenon/internal/tunnel"
)

// Replica is another process of a cloud's control plane, as far as requests go:
// pools, use-cases and doors of its own over the same database. No node is
// connected to it.
type Replica struct {
	URL  string
	App  *app.App
	Pool *tunnel.Pool
}

// Replica starts another one.
func (c *Cloud) Replica() *Replica {
	c.t.Helper()
	db, err := postgres.Open(c.ctx, postgres.Config{DSN: c.DB.DSN, Log: c.log})
	if err != nil {
		c.t.Fatalf("cloudtest: %v", err)
	}
	r := &Replica{App: app.New(app.Config{DB: db, Keys: c.Keys, Resolve: resolve, Log: c.log}), Pool: &tunnel.Pool{}}
	front := listen(c.t)
	r.URL = "http://" + front.Addr().String()
	handler, err := httpapi.New(httpapi.Config{
		App: r.App, Gateway: c.gateway(r.App, r.Pool, r.URL, prometheus.NewRegistry()), NotBuilt: "not built", Log: c.log, CloudID: CloudID, Version: "test",
	})
	if err != nil {
		c.t.Fatalf("cloudtest: %v", err)
	}
	ctx, cancel := context.WithCancel(c.ctx)
	var running sync.WaitGroup
	c.t.Cleanup(func() { cancel(); running.Wait(); db.Close() })
	c.serve(ctx, &running, front, httpapi.NewServer(handler, c.log))
	c.peer(ctx, &running, "replica-2", r.App, r.Pool)
	return r
}

// At is a client with the same token that talks to another replica.
func (c *Cloud) At(r *Replica, client *api.Client) *api.Client {
	out := api.NewClient(r.URL, client.Token)
	c.t.Cleanup(out.HTTP.CloseIdleConnections)
	return out
}

func (c *Cloud) gateway(a *app.App, pool *tunnel.Pool, at string, registry prometheus.Registerer) *gateway.Gateway {
	console, err := url.Parse(at)
	if err != nil {
		c.t.Fatalf("cloudtest: %v", err)
	}
	return gateway.New(gateway.Config{App: a, Pool: pool, Log: c.log, Register: registry, Watch: 200 * time.Millisecond, Ping: time.Second,
		Apps: gateway.Apps{Domain: AppsDomain, Console: console}})
}

// peer makes a replica one of several.
func (c *Cloud) peer(ctx context.Context, running *sync.WaitGroup, id string, a *app.App, pool *tunnel.Pool) {
	ln := listen(c.t)
	r := replica.New(replica.Config{App: a, Keys: c.Keys, Pool: pool, ID: id, Address: ln.Addr().String(), Version: "test", Log: c.log,
		Timing: replica.Timing{Beat: 200 * time.Millisecond}})
	running.Go(func() { _ = r.Run(ctx) })
	running.Go(func() {
		if err := r.Serve(ctx, ln); err != nil && !errors.Is(err, context.Canceled) {
			c.t.Errorf("cloudtest: replicas' door: %v", err)
		}
	})
}
