package metrics

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/postgres"
)

// census shows what the database counted, at most so old. Every replica shows
// the same numbers: take one's, or the maximum, never the sum.
type census struct {
	take  func(context.Context) (postgres.Census, error)
	every time.Duration
	log   *slog.Logger

	mu   sync.Mutex // also held while the database is asked: others wait for the same answer
	at   time.Time
	held postgres.Census
	err  error

	up, queue, wait, instances, nodes, drained, gpus, slots, used, alarms *prometheus.Desc
}

func newCensus(take func(context.Context) (postgres.Census, error), every time.Duration, log *slog.Logger) *census {
	d := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	return &census{
		take: take, every: every, log: log,
		up:        d("tenon_census_up", "1 where the database answered what is counted below, 0 where it did not and nothing is."),
		queue:     d("tenon_queue_length", "Instances that want a place."),
		wait:      d("tenon_queue_oldest_wait_seconds", "How long the first of the queue has waited."),
		instances: d("tenon_instances", "Instances, without deleted ones.", "state"),
		nodes:     d("tenon_nodes", "Nodes.", "state"),
		drained:   d("tenon_nodes_drained", "Nodes that take no new work, whatever their state."),
		gpus:      d("tenon_gpus", "Cards.", "mode", "state"),
		slots:     d("tenon_gpu_slots", "Slots that the cards have in their mode; a whole card has eight.", "mode", "state"),
		used:      d("tenon_gpu_slots_used", "Slots that somebody holds.", "mode", "state"),
		alarms:    d("tenon_alarms_open", "Alarms whose cause is not gone.", "severity"),
	}
}

// Describe implements prometheus.Collector.
func (c *census) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.up, c.queue, c.wait, c.instances, c.nodes, c.drained, c.gpus, c.slots, c.used, c.alarms} {
		out <- d
	}
}

func (c *census) now() (postgres.Census, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at.IsZero() || time.Since(c.at) >= c.every {
		ctx, cancel := context.WithTimeout(context.Background(), censusWithin)
		defer cancel()
		if c.held, c.err = c.take(ctx); c.err != nil {
			c.log.Warn("metrics lack what the database counts", "error", c.err)
		}
		c.at = time.Now()
	}
	return c.held, c.err
}

// Collect implements prometheus.Collector. Every state is shown, most of them
// at 0, so that an alert can tell none from unknown.
func (c *census) Collect(out chan<- prometheus.Metric) {
	show := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	n, err := c.now()
	if err != nil {
		show(c.up, 0)
		return
	}
	show(c.up, 1)
	show(c.queue, float64(n.Queue))
	show(c.wait, n.OldestWait.Seconds())
	for _, s := range []cloud.InstanceState{cloud.StateQueued, cloud.StateStarting, cloud.StateRunning, cloud.StateStopping, cloud.StateStopped, cloud.StateFailed, cloud.StateDeleting} {
		show(c.instances, float64(n.Instances[s]), string(s))
	}
	for _, s := range []cloud.NodeState{cloud.NodeReady, cloud.NodeLate, cloud.NodeLost} {
		show(c.nodes, float64(n.Nodes[s]), string(s))
	}
	show(c.drained, float64(n.Drained))
	for _, g := range everyState(n.Cards) {
		show(c.gpus, float64(g.Cards), string(g.Mode), string(g.State))
		show(c.slots, float64(g.Slots), string(g.Mode), string(g.State))
		show(c.used, float64(g.SlotsUsed), string(g.Mode), string(g.State))
	}
	for _, s := range []string{"warning", "critical"} {
		show(c.alarms, float64(n.Alarms[s]), s)
	}
}

// everyState adds the states in which a mode has no cards.
func everyState(cards []postgres.CensusCards) []postgres.CensusCards {
	type at struct {
		mode  cloud.GPUMode
		state cloud.GPUState
	}
	known := map[at]bool{}
	for _, g := range cards {
		known[at{g.Mode, g.State}] = true
	}
	for _, g := range cards { // the range is over those that were there
		for _, s := range []cloud.GPUState{cloud.GPUReady, cloud.GPUCleaning, cloud.GPUQuarantined, cloud.GPUUnhealthy, cloud.GPUMissing, cloud.GPUUnknown} {
			if !known[at{g.Mode, s}] {
				known[at{g.Mode, s}] = true
				cards = append(cards, postgres.CensusCards{Mode: g.Mode, State: s})
			}
		}
	}
	return cards
}
