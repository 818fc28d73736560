// Package metering is the loop that turns events into charged segments: it
// locks instances that have new events, lets package billing say what they mean,
// and writes segments, corrections and how far it has come in one transaction.
// Killed at any point, the next one goes on from there, and nothing is counted
// twice: ids follow from what they are about.
//
//	wake "meter" ─► events after metered_seq ─► billing.Meter ─► segments, corrections, metered_seq
//
// Imports: billing, cloud, loop, postgres, and the Prometheus client.
package metering

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tenon-cloud/tenon/internal/billing"
	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/loop"
	"github.com/tenon-cloud/tenon/internal/postgres"
)

const (
	interval  = 2 * time.Second // what a lost wake-up costs
	batchSize = 200             // instances a transaction
)

// Leader says whether this process meters, and runs its transactions.
// *postgres.Leadership is one.
type Leader interface {
	loop.Leader
	In(ctx context.Context, fn func(tx *postgres.Tx) error) error
}

// Config is what the loop needs.
type Config struct {
	DB       *postgres.DB
	Leader   Leader
	Log      *slog.Logger          // nil: slog.Default
	Register prometheus.Registerer // nil: not counted
	Observer loop.Observer         // nil: none
}

// Metering is the loop.
type Metering struct {
	cfg     Config
	log     *slog.Logger
	metrics *metrics
}

// New makes the loop; Run starts it.
func New(cfg Config) *Metering {
	m := &Metering{cfg: cfg, log: cfg.Log, metrics: newMetrics(cfg.Register)}
	if m.log == nil {
		m.log = slog.Default()
	}
	return m
}

// Run meters until ctx ends.
func (m *Metering) Run(ctx context.Context) error {
	wake, end := m.cfg.DB.Wakes(postgres.TopicMeter)
	defer end()
	r := loop.Runner{Name: "metering", Tick: m.Tick, Interval: interval, Wake: wake,
		Leader: m.cfg.Leader, Log: m.log, Observer: m.cfg.Observer}
	return r.Run(ctx)
}

// Tick meters all that has happened so far. When the database refuses a row of
// a batch, its instances are taken one by one, and the broken one is left.
func (m *Metering) Tick(ctx context.Context) error {
	var after cloud.InstanceID
	alone := 0
	for {
		size := batchSize
		if alone > 0 {
			size, alone = 1, alone-1
		}
		list, err := m.page(ctx, after, size)
		switch {
		case errors.Is(err, postgres.ErrNotLeader):
			return nil // another goes on
		case postgres.RowRefused(err) && size > 1 && len(list) > 1:
			alone = len(list)
			continue
		case postgres.RowRefused(err):
			m.metrics.broken.Inc()
			m.log.Error("write segments", "instance", list[0].ID.String(), "error", err)
			if err := m.raise(ctx, list[0].ID, "the database refused a row"); err != nil {
				return err
			}
		case err != nil:
			return err
		}
		if len(list) < size {
			return nil
		}
		after = list[len(list)-1].ID
	}
}

// page meters the next instances in one transaction, and gives them also when
// it fails.
func (m *Metering) page(ctx context.Context, after cloud.InstanceID, size int) (list []postgres.Unmetered, err error) {
	err = m.cfg.Leader.In(ctx, func(tx *postgres.Tx) error {
		var err error
		list, err = postgres.MeterLock(ctx, tx, after, size)
		if err != nil || len(list) == 0 {
			return err
		}
		return m.batch(ctx, tx, list)
	})
	return list, err
}

func (m *Metering) batch(ctx context.Context, tx *postgres.Tx, list []postgres.Unmetered) error {
	ids := make([]cloud.InstanceID, len(list))
	for i, u := range list {
		ids[i] = u.ID
	}
	history, err := postgres.MeterRead(ctx, tx, ids)
	if err != nil {
		return err
	}
	var write postgres.MeterWrite
	var over []string
	for _, u := range list {
		one, err := meter(u, history)
		if err != nil {
			// One broken history must not stop everybody's meter.
			m.log.Error("meter instance", "instance", u.ID.String(), "error", err)
			m.metrics.broken.Inc()
			if err := postgres.AlarmRaise(ctx, tx, alarm(u.ID, err.Error())); err != nil {
				return err
			}
			continue
		}
		write.Ends = append(write.Ends, one.Ends...)
		write.Segments = append(write.Segments, one.Segments...)
		write.Corrections = append(write.Corrections, one.Corrections...)
		write.Metered = append(write.Metered, u)
		over = append(over, alarmKey(u.ID))
	}
	if err := postgres.MeterSave(ctx, tx, write); err != nil {
		return err
	}
	if err := postgres.AlarmsClear(ctx, tx, over); err != nil {
		return err
	}
	m.metrics.events.Add(float64(len(write.Metered)))
	m.metrics.segments.Add(float64(len(write.Segments)))
	return nil
}

// alarm tells that an instance's books don't go on; it is over when they do.
func alarm(id cloud.InstanceID, why string) cloud.Alarm {
	return cloud.Alarm{Key: alarmKey(id), Severity: "critical", Subject: id.String(), Message: "its events can not be metered: " + why}
}

func alarmKey(id cloud.InstanceID) string { return "instance:" + id.String() + ":meter" }

// raise opens an instance's alarm after the transaction that failed with it.
func (m *Metering) raise(ctx context.Context, id cloud.InstanceID, why string) error {
	err := m.cfg.Leader.In(ctx, func(tx *postgres.Tx) error { return postgres.AlarmRaise(ctx, tx, alarm(id, why)) })
	if errors.Is(err, postgres.ErrNotLeader) {
		return nil
	}
	return err
}

// meter says what the new events of one instance add to the books.
func meter(u postgres.Unmetered, h postgres.MeterHistory) (postgres.MeterWrite, error) {
	var known, fresh []billing.Event
	for _, e := range h.Events[u.ID] {
		b, ok, err := event(e)
		if err != nil {
			return postgres.MeterWrite{}, err
		}
		switch {
		case !ok || e.Seq > u.EventSeq:
		case e.Seq <= u.MeteredSeq:
			known = append(known, b)
		default:
			fresh = append(fresh, b)
		}
	}
	var segments []billing.Segment
	for _, s := range h.Segments[u.ID] {
		segments = append(segments, billing.Segment{ID: s.ID, InstanceID: s.InstanceID, Kind: s.Kind, State: s.State, Shape: s.Shape, StartedAt: s.StartedAt, EndedAt: s.EndedAt})
	}
	var corrections []billing.Correction
	for _, c := range h.Corrections[u.ID] {
		corrections = append(corrections, billing.Correction{ID: billing.CorrectionID(c.ID), SegmentID: c.SegmentID, By: c.By, Cause: c.Cause})
	}
	books := billing.Resume(u.ID, u.Kind, known, segments, corrections)
	var add entries
	for _, e := range fresh {
		c, err := books.Add(e)
		if err != nil {
			return postgres.MeterWrite{}, err
		}
		add.take(u, c)
	}
	return add.MeterWrite, nil
}

// entries gathers changes; a segment that is opened and closed by the events of
// one batch is written once.
type entries struct{ postgres.MeterWrite }

func (w *entries) take(u postgres.Unmetered, c billing.Change) {
closes:
	for _, e := range c.Closes {
		for i := range w.Segments {
			if w.Segments[i].ID == e.SegmentID {
				at := e.EndedAt
				w.Segments[i].EndedAt = &at
				continue closes
			}
		}
		w.Ends = append(w.Ends, postgres.SegmentEnd{ID: e.SegmentID, EndedAt: e.EndedAt})
	}
	for _, s := range c.Opens {
		w.Segments = append(w.Segments, postgres.Segment{ID: s.ID, OrgID: u.OrgID, ProjectID: u.ProjectID, InstanceID: s.InstanceID,
			Kind: s.Kind, State: s.State, Shape: s.Shape, StartedAt: s.StartedAt, EndedAt: s.EndedAt})
	}
	for _, f := range c.Corrections {
		w.Corrections = append(w.Corrections, postgres.UsageCorrection{ID: f.ID.UUID(), OrgID: u.OrgID, SegmentID: f.SegmentID, By: f.By, Cause: f.Cause})
	}
}

// event reads a stored event; false means that it says nothing of money.
func event(e postgres.MeterEvent) (billing.Event, bool, error) {
	var data struct {
		State       cloud.InstanceState `json:"state"`
		Epoch       int64               `json:"epoch"`
		Held        bool                `json:"held"`
		Shape       cloud.Shape         `json:"shape"`
		ProvenUntil time.Time           `json:"proven_until"`
		RanUntil    time.Time           `json:"ran_until"`
	}
	if err := json.Unmarshal(e.Data, &data); err != nil {
		return billing.Event{}, false, fmt.Errorf("read event %d: %w", e.Seq, err)
	}
	return billing.Event{ID: e.ID, Seq: e.Seq, Epoch: data.Epoch, State: data.State, Held: data.Held, Shape: data.Shape, At: e.At,
		ProvenUntil: data.ProvenUntil, RanUntil: data.RanUntil}, data.State != "", nil
}
