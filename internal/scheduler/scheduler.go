// Package scheduler is the loop that gives queued instances a place: it reads
// the queue and the fleet, lets package placement decide, and commits what was
// decided in batches. The decision rests on a snapshot that may be stale; the
// commit checks everything again under locks, so any number of schedulers may
// run and none can place twice.
//
//	wake "schedule" ─► what waits, what changed ─► board.Try ─┬─► placed: commit, ≤ 64 a transaction ─► wake "node:…"
//	                       ▲                                   └─► refused: why, written when it changed
//	                       └── some lost a race: once more
//
// The board lives from one tick to the next. Nodes are read again when their pulse
// (postgres.FleetPulse) is another, which a place of one's own changes too; every 30
// seconds the whole fleet is, and a difference is corrected, logged and counted.
//
// Imports: cloud, loop, placement, postgres, and the Prometheus client.
package scheduler

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/loop"
	"github.com/tenon-cloud/tenon/internal/placement"
	"github.com/tenon-cloud/tenon/internal/postgres"
)

const (
	interval      = time.Second // what a lost wake-up costs
	batchSize     = 64          // instances a transaction
	queueSize     = 20000       // instances looked at in one tick
	maxRounds     = 4           // plans in one tick, when commits lose races
	refuseRefresh = time.Second // a reason that changes is rewritten at most this often
)

// Leader says whether this process schedules, and runs its transactions.
// *postgres.Leadership is one.
type Leader interface {
	loop.Leader
	In(ctx context.Context, fn func(tx *postgres.Tx) error) error
}

// Config is what a scheduler needs.
type Config struct {
	DB       *postgres.DB
	Leader   Leader
	Policy   placement.Policy
	Log      *slog.Logger          // nil: slog.Default
	Register prometheus.Registerer // nil: not counted
	Observer loop.Observer         // nil: none
}

// Scheduler is the loop.
type Scheduler struct {
	cfg       Config
	log       *slog.Logger
	metrics   *metrics
	refreshed time.Time // when all reasons were last written
	ticked    time.Time // last
	fleet     fleet
}

// New makes the loop; Run starts it.
func New(cfg Config) *Scheduler {
	s := &Scheduler{cfg: cfg, log: cfg.Log, metrics: newMetrics(cfg.Register)}
	if s.log == nil {
		s.log = slog.Default()
	}
	return s
}

// Run schedules until ctx ends.
func (s *Scheduler) Run(ctx context.Context) error {
	wake, end := s.cfg.DB.Wakes(postgres.TopicSchedule)
	defer end()
	r := loop.Runner{Name: "scheduler", Tick: s.Tick, Interval: interval, Wake: wake,
		Leader: s.cfg.Leader, Log: s.log, Observer: s.cfg.Observer}
	return r.Run(ctx)
}

// Tick places what can be placed now. It may be run at any time, any number of
// times.
func (s *Scheduler) Tick(ctx context.Context) error {
	if now := time.Now(); now.Sub(s.ticked) > unseen {
		s.fleet = fleet{}
	}
	defer func() { s.ticked = time.Now() }()
	for range maxRounds {
		lost, err := s.round(ctx)
		if errors.Is(err, postgres.ErrNotLeader) {
			return nil // another goes on
		}
		if err != nil || lost == 0 {
			return err
		}
	}
	return nil // the interval gives the rest another chance
}

// round makes one plan and commits it; lost counts the places that were taken
// by somebody else meanwhile.
func (s *Scheduler) round(ctx context.Context) (lost int, err error) {
	list, err := s.look(ctx)
	if err != nil || len(list) == 0 {
		return 0, err
	}
	waiting := make(map[cloud.InstanceID]postgres.Waiting, len(list))
	for _, w := range list {
		waiting[w.ID] = w
	}
	alone, whole := gangs(list)
	requests := make([]placement.Request, len(alone), len(alone)+len(whole))
	for i, w := range alone {
		requests[i] = placement.Request{InstanceID: w.ID, Org: w.OrgID, Kind: w.Kind, Shape: w.Shape, Pool: w.Pool, Priority: w.Priority, Order: w.QueuedAt.UnixMicro(), Home: w.Home}
	}
	for _, g := range whole {
		requests = append(requests, g.request())
	}
	began := time.Now()
	plan := decide(s.fleet.board, requests, whole)
	s.metrics.decide.Observe(time.Since(began).Seconds())

	var placed []planned
	var refused []postgres.Refused
	for _, d := range plan.Decisions {
		w, g := waiting[d.InstanceID], whole[d.InstanceID]
		switch {
		case g != nil && d.Refusal == nil:
			list := g.places(d.Members)
			won, err := s.commitGang(ctx, g, list)
			if !won {
				s.fleet.doubt(list)
			}
			if err != nil && !postgres.RowRefused(err) {
				return lost, err
			}
			if err != nil {
				s.broken(planned{waiting: w, place: d.Members[0]}, err)
			} else if !won {
				lost++
			}
		case g != nil:
			refused = append(refused, g.refused(*d.Refusal)...)
		case d.Refusal == nil:
			placed = append(placed, planned{waiting: w, place: d.Members[0]})
		default:
			refused = append(refused, refusedRow(w, *d.Refusal))
		}
	}
	s.metrics.decisions.WithLabelValues("placed").Add(float64(len(placed)))
	s.metrics.decisions.WithLabelValues("refused").Add(float64(len(refused)))
	for len(placed) > 0 {
		n := min(batchSize, len(placed))
		err := postgres.Isolate(placed[:n], func(list []planned) error {
			won, err := s.commit(ctx, list)
			if err == nil {
				lost += len(list) - won
			}
			if won < len(list) {
				s.fleet.doubt(list)
			}
			return err
		}, s.broken)
		if err != nil {
			return lost, err
		}
		placed = placed[n:]
	}
	s.metrics.lost.Add(float64(lost))
	return lost, s.refuse(ctx, waiting, refused)
}

// broken tells of a place that the database refuses whatever is free.
func (s *Scheduler) broken(p planned, err error) {
	s.metrics.broken.Inc()
	s.log.Error("place instance", "instance", p.waiting.ID.String(), "node", p.place.NodeID.String(), "error", err)
}
