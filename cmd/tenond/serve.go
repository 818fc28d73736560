package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"github.com/tenon-cloud/tenon/internal/app"
	"github.com/tenon-cloud/tenon/internal/gateway"
	"github.com/tenon-cloud/tenon/internal/httpapi"
	"github.com/tenon-cloud/tenon/internal/lifecycle"
	"github.com/tenon-cloud/tenon/internal/loop"
	"github.com/tenon-cloud/tenon/internal/metering"
	"github.com/tenon-cloud/tenon/internal/metrics"
	"github.com/tenon-cloud/tenon/internal/nodeapi"
	"github.com/tenon-cloud/tenon/internal/placement"
	"github.com/tenon-cloud/tenon/internal/postgres"
	"github.com/tenon-cloud/tenon/internal/registry"
	"github.com/tenon-cloud/tenon/internal/replica"
	"github.com/tenon-cloud/tenon/internal/scheduler"
	"github.com/tenon-cloud/tenon/internal/tunnel"
	"github.com/tenon-cloud/tenon/web"
)

func serveCommand() *cobra.Command {
	var state string
	cmd := &cobra.Command{
		Use: "serve", Short: "Run the control plane", Args: cobra.NoArgs,
		Long: "Run the control plane. It is configured by the environment; see the operator's manual.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			getenv := os.Getenv
			if state != "" {
				getenv = func(name string) string {
					if name == "TENON_STATE_DIR" {
						return state
					}
					return os.Getenv(name)
				}
			}
			c, err := readConfig(getenv)
			if err != nil {
				return fmt.Errorf("the configuration is wrong:\n%w", err)
			}
			return serve(cmd.Context(), c)
		},
	}
	cmd.Flags().StringVar(&state, "state", "", "state folder, in place of TENON_STATE_DIR")
	return cmd
}

// serve runs the doors and the loops until ctx ends or one of them can't go on.
func serve(ctx context.Context, c config) error {
	log := c.logger()
	slog.SetDefault(log)
	log.Info("control plane starts", "version", version, "config", c)
	id := holder()
	core, err := openCore(ctx, c, log, id)
	if err != nil {
		return err
	}
	defer core.db.Close()
	if c.AdminEmail != "" {
		if _, err := core.app.Setup(ctx, app.SetupInput{AdminEmail: c.AdminEmail, AdminName: "Administrator", AdminPassword: c.AdminPassword}); err != nil {
			return fmt.Errorf("first boot: %w", err)
		}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var running sync.WaitGroup
	run := func(what string, f func(context.Context) error) {
		running.Go(func() {
			if err := f(ctx); err != nil && ctx.Err() == nil {
				cancel(fmt.Errorf("%s: %w", what, err))
			}
		})
	}
	pool, registry := &tunnel.Pool{}, prometheus.NewRegistry()
	observer := metrics.Register(registry, metrics.Config{DB: core.db, Version: version, Tunnels: pool.Count, Log: log})
	if err := core.doors(ctx, c, log, id, pool, registry, observer, run); err != nil {
		return err
	}
	core.loops(log, id, registry, observer, run)
	log.Info("control plane is up", "listen", c.Listen, "node_listen", c.NodeListen)
	<-ctx.Done()
	running.Wait()
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		return cause
	}
	log.Info("control plane has stopped")
	return nil
}

// doors opens every listener before anything is served, so that a port in use
// is an error at the start.
func (k *core) doors(ctx context.Context, c config, log *slog.Logger, id string, pool *tunnel.Pool, metrics *prometheus.Registry, observer loop.Observer, run func(string, func(context.Context) error)) error {
	gate := gateway.New(gateway.Config{App: k.app, Pool: pool, Log: log, Register: metrics, Apps: gateway.Apps{Domain: c.AppsDomain, Console: c.ConsoleURL}})
	handler, err := httpapi.New(httpapi.Config{
		App: k.app, Gateway: gate, Registry: k.tenants, NotBuilt: web.NotBuilt, Console: console(), Metrics: metrics, Log: log,
		CloudID: k.keys.CloudID(), Version: version, TLS: c.TLSCertFile != "",
		Ready: []httpapi.ReadyCheck{
			{Name: "database", Check: k.db.Ping},
			{Name: "migrations", Check: k.db.Prepared},
			{Name: "leader", Check: func(ctx context.Context) error { return k.db.LeaderKnown(ctx, app.Leadership) }},
		},
	})
	if err != nil {
		return fmt.Errorf("build the API: %w", err)
	}
	front, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return fmt.Errorf("listen for the console and the API: %w", err)
	}
	back, err := net.Listen("tcp", c.NodeListen)
	if err != nil {
		_ = front.Close()
		return fmt.Errorf("listen for nodes: %w", err)
	}
	var side net.Listener
	if c.PeerListen != "" {
		if side, err = net.Listen("tcp", c.PeerListen); err != nil {
			_, _ = front.Close(), back.Close()
			return fmt.Errorf("listen for other replicas: %w", err)
		}
	}
	server := httpapi.NewServer(handler, log)
	server.BaseContext = func(net.Listener) context.Context { return ctx }
	run("console and API", func(ctx context.Context) error { return serveHTTP(ctx, server, front, c) })
	door := nodeapi.New(nodeapi.Config{
		App: k.app, Keys: k.keys, Pool: pool, Hosts: c.NodeHosts, Wakes: k.db.Wakes, NodeTopic: postgres.TopicNode, Registry: k.nodes, Log: log, Observer: observer,
	})
	// It joins the pool after the nodes' door did, and before that serves.
	self := replica.New(replica.Config{App: k.app, Keys: k.keys, Pool: pool, ID: id, Address: c.PeerAddress, Version: version, Log: log})
	run("node door", func(ctx context.Context) error { return door.Serve(ctx, back) })
	run("replica", self.Run)
	if side != nil {
		run("replicas' door", func(ctx context.Context) error { return self.Serve(ctx, side) })
	}
	return nil
}

// serveHTTP lets requests under way end, for a while.
func serveHTTP(ctx context.Context, server *http.Server, listener net.Listener, c config) error {
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		select {
		case <-ended:
		case <-ctx.Done():
			grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
			defer cancel()
			_ = server.Shutdown(grace)
			_ = server.Close()
		}
	}()
	var err error
	if c.TLSCertFile != "" {
		err = server.ServeTLS(listener, c.TLSCertFile, c.TLSKeyFile)
	} else {
		err = server.Serve(listener)
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// loops run in every replica; one of them leads.
func (k *core) loops(log *slog.Logger, id string, metrics prometheus.Registerer, observer loop.Observer, run func(string, func(context.Context) error)) {
	leader := k.db.Leadership(app.Leadership, id, log)
	run("leadership", leader.Run)
	s := scheduler.New(scheduler.Config{DB: k.db, Leader: leader, Policy: placement.Policy{}, Log: log, Register: metrics, Observer: observer})
	run("scheduler", s.Run)
	l := lifecycle.New(lifecycle.Config{DB: k.db, Leader: leader, Log: log, Register: metrics, Observer: observer})
	run("lifecycle", l.Run)
	m := metering.New(metering.Config{DB: k.db, Leader: leader, Log: log, Register: metrics, Observer: observer})
	run("metering", m.Run)
}

// holder names this process among the replicas.
func holder() string {
	host, _ := os.Hostname()
	var b [4]byte
	_, _ = rand.Read(b[:])
	return fmt.Sprintf("%s-%d-%s", host, os.Getpid(), hex.EncodeToString(b[:]))
}

// registries opens the embedded registry three times over one folder: for
// tenants, for nodes, and for our own look-ups.
func (k *core) registries(ctx context.Context, c config, secret []byte) error {
	open := func(authorise registry.Authoriser) (*registry.Handler, error) {
		return registry.New(ctx, registry.Config{Folder: filepath.Join(c.StateDir, "registry"), Secret: secret, Authorise: authorise})
	}
	own, err := open(registry.AllowPull)
	if err != nil {
		return err
	}
	// The use-cases ask the registry, and the registry's doors ask the use-cases.
	asks := registry.Resolver{Embedded: own, Private: c.PrivateRegistry}
	k.app = app.New(app.Config{DB: k.db, Keys: k.keys, Log: slog.Default(), Resolve: resolver(asks), CheckLogin: loginCheck(asks)})
	tenants, err := open(tenantAuthoriser(k.app))
	if err != nil {
		return err
	}
	nodes, err := open(nodeapi.RegistryAuthoriser(k.app))
	if err != nil {
		return err
	}
	k.tenants, k.nodes = tenants, nodes
	return nil
}
