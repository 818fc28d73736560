package scheduler_test

import (
	"context"
	"io"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/looptest"
	"github.com/tenon-cloud/tenon/internal/pgtest"
	"github.com/tenon-cloud/tenon/internal/postgres"
	"github.com/tenon-cloud/tenon/internal/scheduler"
)

func newScheduler(db *postgres.DB) *scheduler.Scheduler {
	return scheduler.New(scheduler.Config{DB: db, Leader: looptest.Leader{DB: db}, Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
}

func tick(t testing.TB, s *scheduler.Scheduler) {
	t.Helper()
	if err := s.Tick(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestPlacesAndTellsWhyTheRestWaits(t *testing.T) {
	t.Parallel()
	w := looptest.New(t)
	n := w.Node(t, 16, 16384, "h100-80gb", cloud.ModeMIG, 1)
	s := newScheduler(w.DB)
	nodeWake, end := w.DB.Wakes(postgres.TopicNode(n.ID))
	defer end()
	a, b, c := w.MustCreate(t, looptest.Slices(1, "3g")), w.MustCreate(t, looptest.Slices(1, "4g")), w.MustCreate(t, looptest.Slices(1, "1g"))
	for range 3 { // a second and a third look change nothing
		tick(t, s)
	}
	for id, want := range map[cloud.InstanceID]cloud.InstanceState{a: cloud.StateStarting, b: cloud.StateStarting, c: cloud.StateQueued} {
		if got := w.State(t, id); got != want {
			t.Errorf("instance is %s, want %s", got, want)
		}
	}
	if got := looptest.One[string](t, w, `SELECT string_agg(profile || '@' || lower(slots), ',' ORDER BY slots) FROM gpu_claim`); got != "4g@0,3g@4" {
		t.Errorf("claims %s, want 4g@0,3g@4", got)
	}
	if got := looptest.One[string](t, w, `SELECT reason || '|' || message || '|' || reasons::text FROM instance WHERE id = $1`, c); got !=
		`no_capacity|waits: 1 GPU: in use|[{"count": 1, "reason": "gpu_busy", "message": "1 GPU: in use"}]` {
		t.Errorf("the one that waits says %s", got)
	}
	if got := looptest.One[string](t, w, `SELECT string_agg(verb, ',' ORDER BY seq) FROM event WHERE resource_id = $1`, c); got != "created,waiting" {
		t.Errorf("its events are %s", got)
	}
	row := looptest.One[string](t, w, `SELECT format('%s %s %s', epoch, node_id = $2, deadline_at > now()) FROM instance WHERE id = $1`, a, n.ID)
	if row != "1 t t" {
		t.Errorf("the placed one is %s, want epoch 1, on the node, with a deadline", row)
	}
	if len(nodeWake) != 1 || looptest.One[int64](t, w, `SELECT generation FROM node WHERE id = $1`, n.ID) == 0 {
		t.Error("the node does not learn of its new assignment")
	}
}

// spoiler changes the world between the plan and its commit.
type spoiler struct {
	looptest.Leader
	spoil func()
}

func (s spoiler) In(ctx context.Context, fn func(tx *postgres.Tx) error) error {
	s.spoil()
	return s.Leader.In(ctx, fn)
}

func TestNothingIsPlacedOnWhatIsNotReady(t *testing.T) {
	t.Parallel()
	for name, sql := range map[string]string{
		"node late":     `UPDATE node SET state = 'late'`,
		"node drained":  `UPDATE node SET drained = true`,
		"card cleaning": `UPDATE gpu SET state = 'cleaning'`,
		"vCPU sold":     `UPDATE node SET vcpu = 0`,
		"memory sold":   `UPDATE node SET memory_mib = 100`,
		"stop asked":    `UPDATE instance SET desired_state = 'stopped', generation = 2`,
		"changed since": `UPDATE instance SET generation = generation + 1`,
		"card whole":    `UPDATE gpu SET mode = 'whole'`,
		"slots taken":   `INSERT INTO gpu_claim SELECT gen_random_uuid(), g.id, i.org_id, i.project_id, i.id, 99, 'mig', 'mig8', '7g', '[0,8)' FROM gpu g, instance i ON CONFLICT DO NOTHING`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := looptest.New(t)
			n := w.Node(t, 16, 16384, "h100-80gb", cloud.ModeMIG, 1)
			id := w.MustCreate(t, looptest.Slices(1, "1g"))
			// Planned on what was, committed on what is.
			s := scheduler.New(scheduler.Config{DB: w.DB, Log: slog.New(slog.DiscardHandler),
				Leader: spoiler{looptest.Leader{DB: w.DB}, func() { w.Exec(t, sql) }}})
			tick(t, s)
			if got := w.State(t, id); got != cloud.StateQueued {
				t.Errorf("instance is %s", got)
			}
			if n := looptest.One[int](t, w, `SELECT count(*) FROM gpu_claim WHERE epoch <> 99`); n != 0 {
				t.Errorf("%d claims are held", n)
			}
			if g := looptest.One[int](t, w, `SELECT generation FROM node WHERE id = $1`, n.ID); g != 0 {
				t.Error("the node's assignment was raised for nothing")
			}
		})
	}
}

// A card that the database lets nobody claim costs the instance that was to have
// it, not those of its batch.
func TestABrokenPlaceHoldsUpNobodyElse(t *testing.T) {
	t.Parallel()
	w := looptest.New(t)
	n := w.Node(t, 16, 16384, "h100-80gb", cloud.ModeWhole, 3)
	w.Exec(t, `UPDATE gpu SET geometry = 'odd' WHERE id = $1`, n.Cards[0])
	for range 3 {
		w.MustCreate(t, looptest.Whole(1))
	}
	s := newScheduler(w.DB)
	tick(t, s)
	tick(t, s)
	if got := looptest.One[string](t, w, `SELECT string_agg(state, ' ' ORDER BY state) FROM instance`); got != "queued starting starting" {
		t.Errorf("they are %s, want all but one placed", got)
	}
	w.Check(t)
}

// Schedulers that run at once, as two leaders would for an instant, never place
// twice, never deadlock, and leave nothing behind that fits.
func TestSchedulersAtOnceNeverDouble(t *testing.T) {
	t.Parallel()
	w := looptest.New(t)
	for range 3 {
		w.Node(t, 64, 65536, "h100-80gb", cloud.ModeMIG, 2)
	}
	for i := range 60 {
		w.MustCreate(t, looptest.Slices(1+i%2, []string{"1g", "2g", "3g"}[i%3]))
	}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			s := newScheduler(w.DB)
			for range 5 {
				if err := s.Tick(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	w.Check(t)
	if n := looptest.One[int](t, w, `SELECT count(*) FROM instance WHERE state = 'starting'`); n < 10 {
		t.Errorf("only %d were placed", n)
	}
	before := looptest.One[int](t, w, `SELECT count(*) FROM gpu_claim`)
	tick(t, newScheduler(w.DB))
	if after := looptest.One[int](t, w, `SELECT count(*) FROM gpu_claim`); after != before {
		t.Errorf("room was left: %d claims became %d", before, after)
	}
}

// A whole loop under a real leader: woken by a commit, not by the interval.
func TestWokenByACreate(t *testing.T) {
	t.Parallel()
	w := looptest.New(t)
	w.Node(t, 64, 65536, "h100-80gb", cloud.ModeMIG, 4)
	quiet := slog.New(slog.DiscardHandler)
	leader := w.DB.Leadership("loops", "one", quiet)
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() { _ = leader.Run(ctx) })
	all.Go(func() { _ = scheduler.New(scheduler.Config{DB: w.DB, Leader: leader, Log: quiet}).Run(ctx) })
	defer all.Wait()
	defer cancel()
	first := w.MustCreate(t, looptest.Slices(1, "1g"))
	pgtest.Eventually(t, "the first is placed", func() bool { return w.State(t, first) == cloud.StateStarting })
	var took []time.Duration
	for range 10 {
		id := w.MustCreate(t, looptest.Slices(1, "1g"))
		began := time.Now()
		pgtest.Eventually(t, "placed", func() bool { return w.State(t, id) == cloud.StateStarting })
		took = append(took, time.Since(began))
	}
	best := took[0]
	for _, d := range took {
		best = min(best, d)
	}
	t.Logf("from the create's commit to a place: %v", took)
	if best > 500*time.Millisecond { // the interval alone gives at least 900
		t.Errorf("the best of ten took %s: the loop was not woken", best)
	}
}

// replica is one process of the control plane: its own pools, its own
// leadership.
func replica(t *testing.T, w *looptest.World, name string) (stop func()) {
	t.Helper()
	db, err := postgres.Open(t.Context(), postgres.Config{DSN: w.DSN})
	if err != nil {
		t.Fatal(err)
	}
	<-db.WakesReady()
	quiet := slog.New(slog.DiscardHandler)
	leader := db.Leadership("loops", name, quiet)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var all sync.WaitGroup
	all.Go(func() { _ = leader.Run(ctx) })
	all.Go(func() { _ = scheduler.New(scheduler.Config{DB: db, Leader: leader, Log: quiet}).Run(ctx) })
	return sync.OnceFunc(func() {
		cancel()
		all.Wait()
		db.Close()
	})
}

// Two replicas: one leads; when it is shut down the other places what comes.
func TestASecondReplicaTakesOver(t *testing.T) {
	t.Parallel()
	w := looptest.New(t)
	w.Node(t, 64, 65536, "h100-80gb", cloud.ModeMIG, 4)
	stopFirst := replica(t, w, "one")
	defer stopFirst()
	first := w.MustCreate(t, looptest.Slices(1, "1g"))
	pgtest.Eventually(t, "the first is placed", func() bool { return w.State(t, first) == cloud.StateStarting })
	stopSecond := replica(t, w, "two")
	defer stopSecond()
	stopFirst()
	began := time.Now()
	second := w.MustCreate(t, looptest.Slices(1, "1g"))
	pgtest.Eventually(t, "the other replica places", func() bool { return w.State(t, second) == cloud.StateStarting })
	took := time.Since(began)
	t.Logf("placed by the other replica %s after the first was shut down", took)
}

// The queue of the issue: 1,000 wanted, 100 slices free.
func TestAThousandQueuedOnAHundredSlices(t *testing.T) {
	t.Parallel()
	took := thousand(t)
	t.Logf("1,000 queued on 100 free slices: placed and refused in %s", took)
}

func thousand(t testing.TB) time.Duration {
	w := looptest.New(t)
	for range 5 {
		w.Node(t, 256, 262144, "h100-80gb", cloud.ModeMIG, 5) // four double-memory 1g each
	}
	for range 1000 {
		w.MustCreate(t, looptest.Slices(1, "1g2"))
	}
	s := newScheduler(w.DB)
	began := time.Now()
	tick(t, s)
	took := time.Since(began)
	got := looptest.One[string](t, w, `SELECT format('%s placed, %s waiting with a reason, %s claims',
		count(*) FILTER (WHERE state = 'starting'), count(*) FILTER (WHERE state = 'queued' AND reason = 'no_capacity'), (SELECT count(*) FROM gpu_claim)) FROM instance`)
	if want := "100 placed, 900 waiting with a reason, 100 claims"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	oldest := looptest.One[int](t, w, `SELECT count(*) FROM (SELECT state FROM instance ORDER BY queued_at, id LIMIT 100) AS first WHERE state = 'starting'`)
	if oldest != 100 {
		t.Errorf("of the 100 oldest, %d were placed", oldest)
	}
	w.Check(t)
	return took
}

func BenchmarkThousandQueuedOnAHundredSlices(b *testing.B) {
	var sum time.Duration
	for range b.N {
		sum += thousand(b)
	}
	b.ReportMetric(float64(sum.Milliseconds())/float64(b.N), "ms/tick")
}
