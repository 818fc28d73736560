// Package metrics is what an operator's Prometheus reads of the cloud as a whole
// and of this process: the census of the database, the loops, the connections.
// What only one package can count, that package registers itself. No metric
// names a tenant, an instance, a node or a card: series don't grow with the cloud.
//
// Imports: cloud, loop, postgres, and the Prometheus client.
package metrics

import (
	"context"
	"log/slog"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/tenon-cloud/tenon/internal/postgres"
)

// Config is what is looked at.
type Config struct {
	DB      *postgres.DB
	Version string
	// Tunnels counts the nodes that are connected here and their connections:
	// tunnel.Pool.Count.
	Tunnels func() (nodes, connections int)
	Log     *slog.Logger // nil: slog.Default
}

// Register adds it all to a registry and gives the observer for the loops.
func Register(r prometheus.Registerer, c Config) *Loops {
	if c.Log == nil {
		c.Log = slog.Default()
	}
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "tenon_build_info", Help: "Always 1; what runs is in the labels.",
		ConstLabels: prometheus.Labels{"version": c.Version, "go_version": runtime.Version()},
	})
	build.Set(1)
	tunnel := func(name, help string, pick func(nodes, connections int) int) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return float64(pick(c.Tunnels())) })
	}
	take := func(ctx context.Context) (out postgres.Census, err error) {
		err = c.DB.InSystem(ctx, func(tx *postgres.Tx) error {
			out, err = postgres.CensusTake(ctx, tx)
			return err
		})
		return out, err
	}
	loops := newLoops()
	r.MustRegister(
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), build,
		tunnel("tenon_nodes_connected", "Nodes with a connection to this process.", func(n, _ int) int { return n }),
		tunnel("tenon_node_connections", "Reverse connections of nodes to this process, idle and in use.", func(_, n int) int { return n }),
		newCensus(take, censusEvery, c.Log), pools{db: c.DB},
		loops.ticks, loops.failures, loops.took, loops.leading, loops.succeeded,
	)
	return loops
}

// censusEvery is how often the database is asked at most, however often it is
// scraped; censusWithin is how long it may take to answer.
const (
	censusEvery  = 5 * time.Second
	censusWithin = 3 * time.Second
)
