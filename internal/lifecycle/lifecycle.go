// Package lifecycle is the loops that carry instances and nodes from what is to
// what is wanted. They look at rows and take one idempotent step; killed at any
// point, the next one goes on.
//
//	observe   what nodes said        → starting ─► running ─► stopped, failed, deleted; a placement that is over
//	                                   gives back its slots, its node and its quota in one transaction
//	intend    what tenants want      → queued ─► stopped, deleted; placed ─► stopping, deleting
//	jobs      members, intents, times  → an attempt that is over is stopped whole, and queued again or concluded
//	overdue   states past a deadline → a start that is stuck is stopped; the rest is an alarm
//	volumes   what nodes said, sizes   → pending ─► present ─► deleting ─► deleted, and what each is charged for
//	live      nodes' signs of life   → ready ⇄ late ─► lost; silent for long, or confirmed off: fenced, and what may
//	                                   restart elsewhere is queued again; forgotten: nobody waits for its word
//	idle      notebooks' activity    → warned, then stopping, by the project's policy
//	incidents faults of cards           → events of the instances that they concern
//	alarms    what needs a person    → opened, and cleared when it is over
//	clean     expired rows           → gone
//
// Nothing but the node's own word, for the epoch that is placed, frees a claim;
// or a person's, that the node is gone for good.
//
// Imports: cloud, gpu, loop, nodewire, postgres, and the Prometheus client.
package lifecycle

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/loop"
	"github.com/tenon-cloud/tenon/internal/postgres"
)

const (
	stepEvery     = 500 * time.Millisecond
	liveEvery     = 500 * time.Millisecond
	cleanEvery    = 5 * time.Minute
	idleEvery     = 2 * time.Second
	alarmsEvery   = 2 * time.Second
	batchSize     = 300 // rows a transaction
	progressEvery = 500 * time.Millisecond
)

// Leader says whether this process runs the loops, and runs their transactions.
// *postgres.Leadership is one.
type Leader interface {
	loop.Leader
	In(ctx context.Context, fn func(tx *postgres.Tx) error) error
	Since() time.Time // when the present term began
}

// Config is what the loops need.
type Config struct {
	DB       *postgres.DB
	Leader   Leader
	Log      *slog.Logger          // nil: slog.Default
	Register prometheus.Registerer // nil: not counted
	Observer loop.Observer         // nil: none

	// FenceAfter is the silence after which a node with a watchdog is fenced;
	// zero: what its guests' time-out and the margin make.
	FenceAfter time.Duration
	// ByDatabaseClock lets the database's clock alone say how long a node is silent:
	// for tests, in which time passes only there.
	ByDatabaseClock bool
}

// Lifecycle is the loops.
type Lifecycle struct {
	cfg     Config
	log     *slog.Logger
	metrics *metrics
	// When an instance's progress was last written; touched by Step alone.
	progressed map[cloud.InstanceID]time.Time
	silence    silence // touched by Liveness alone
}

// New makes the loops; Run starts them.
func New(cfg Config) *Lifecycle {
	l := &Lifecycle{cfg: cfg, log: cfg.Log, metrics: newMetrics(cfg.Register), progressed: map[cloud.InstanceID]time.Time{},
		silence: silence{clock: time.Now}}
	if l.log == nil {
		l.log = slog.Default()
	}
	if l.cfg.FenceAfter <= 0 {
		l.cfg.FenceAfter = fenceAfterDefault
	}
	return l
}

// Run runs the loops until ctx ends.
func (l *Lifecycle) Run(ctx context.Context) error {
	wake, end := l.cfg.DB.Wakes(postgres.TopicLifecycle)
	defer end()
	runner := func(name string, every time.Duration, wake <-chan struct{}, tick func(context.Context) error) *loop.Runner {
		return &loop.Runner{Name: name, Interval: every, Wake: wake, Tick: tick, Leader: l.cfg.Leader, Log: l.log, Observer: l.cfg.Observer}
	}
	var all sync.WaitGroup
	for _, r := range []*loop.Runner{
		runner("lifecycle", stepEvery, wake, l.Step),
		runner("liveness", liveEvery, nil, l.Liveness),
		runner("cleanup", cleanEvery, nil, l.Clean),
		runner("idle", idleEvery, nil, l.Idle),
		runner("alarms", alarmsEvery, nil, l.Alarms),
	} {
		all.Go(func() { _ = r.Run(ctx) })
	}
	all.Wait()
	return ctx.Err()
}

// Step moves every instance that has news, an intent or a deadline behind it.
func (l *Lifecycle) Step(ctx context.Context) error {
	for _, part := range []func(context.Context) error{l.observe, l.intend, l.overdue, l.jobs, l.volumes, l.incidents} {
		if err := part(ctx); err != nil {
			return ended(err)
		}
	}
	return nil
}

// ended hides the end of a term: another goes on.
func ended(err error) error {
	if errors.Is(err, postgres.ErrNotLeader) {
		return nil
	}
	return err
}
