package metering_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tenon-cloud/tenon/internal/billing"
	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/looptest"
	"github.com/tenon-cloud/tenon/internal/nodewire"
	"github.com/tenon-cloud/tenon/internal/postgres"
)

// ran places an instance and lets its node report that it ran for a while, which
// ended some time ago.
func ran(t *testing.T, w *looptest.World, n looptest.Node, shape cloud.Shape, ran, ago time.Duration) cloud.InstanceID {
	t.Helper()
	l := w.Loops()
	id := w.MustCreate(t, shape)
	if err := l.Step(t.Context()); err != nil {
		t.Fatal(err)
	}
	past(t, w, id)
	code := 0
	if err := n.Say(t.Context(), postgres.Observation{InstanceID: id, Epoch: 1, Generation: 1, State: nodewire.GuestStopped,
		ExitCode: &code, RanFor: ran, StateFor: ago}); err != nil {
		t.Fatal(err)
	}
	if err := l.Step(t.Context()); err != nil {
		t.Fatal(err)
	}
	return id
}

// past moves a placement and what led to it a day back.
func past(t *testing.T, w *looptest.World, id cloud.InstanceID) {
	t.Helper()
	w.Exec(t, `UPDATE instance SET state_at = state_at - interval '1 day' WHERE id = $1`, id)
	w.Exec(t, `UPDATE event SET at = at - interval '1 day' WHERE resource_id = $1`, id)
}

// usage is the books with their corrections worked in.
func usage(t *testing.T, w *looptest.World) []billing.Usage {
	t.Helper()
	rows, err := w.Owner.Query(t.Context(), `
		SELECT s.id, s.instance_id, s.gpu_count, s.gpu_model, s.gpu_mode, s.gpu_profile, s.started_at, s.ended_at,
			COALESCE((SELECT sum(seconds) FROM usage_correction WHERE segment_id = s.id), 0)::float8
		FROM segment s ORDER BY s.started_at`)
	if err != nil {
		t.Fatal(err)
	}
	out, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (u billing.Usage, err error) {
		var ended *time.Time
		var moved float64
		err = row.Scan(&u.SegmentID, &u.InstanceID, &u.Shape.GPUCount, &u.Shape.GPUModel, &u.Shape.GPUMode, &u.Shape.GPUProfile, &u.From, &ended, &moved)
		if u.Open = ended == nil; !u.Open {
			u.To = ended.Add(time.Duration(moved * float64(time.Second))).Round(time.Microsecond)
		}
		return u, err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// C17: GPUs times time, from what nodes report to the books.
func TestC17GPUHours(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		first, second int
		want          string
	}{
		"4 GPUs for 30 min, then 1 for 20": {4, 1, "2.3333"},
		"1 GPU for 30 min, then 4 for 20":  {1, 4, "1.8333"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := looptest.New(t)
			n := w.Node(t, 16, 16384, "h100-80gb", cloud.ModeWhole, 4)
			ran(t, w, n, looptest.Whole(c.first), 30*time.Minute, 20*time.Minute)
			ran(t, w, n, looptest.Whole(c.second), 20*time.Minute, 0)
			if got := billing.GPUHours(usage(t, w)).FloatString(4); got != c.want {
				t.Errorf("%s GPU-hours, want %s", got, c.want)
			}
			w.Check(t)
		})
	}
}

// C17 as one instance that is resized while it runs.
func TestC17OneInstanceResized(t *testing.T) {
	t.Parallel()
	w := looptest.New(t)
	l := w.Loops()
	id := w.MustCreate(t, looptest.Whole(4))
	noon := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	happen := func(verb string, at time.Time, change func(*postgres.Standing)) {
		t.Helper()
		event(t, w, id, verb, at, nil, change)
		if err := l.Metering.Tick(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	happen("running", noon, state(cloud.StateRunning))
	happen("resized", noon.Add(30*time.Minute), func(s *postgres.Standing) { s.State, s.Shape.GPUCount = cloud.StateRunning, 1 })
	happen("stopped", noon.Add(50*time.Minute), state(cloud.StateStopped))
	if got := billing.GPUHours(usage(t, w)).FloatString(4); got != "2.3333" {
		t.Errorf("%s GPU-hours, want 2.3333", got)
	}
	if got := looptest.One[int](t, w, `SELECT extract(epoch FROM sum(ended_at - started_at))::int FROM segment`); got != 3000 {
		t.Errorf("%d seconds, want 3000", got)
	}
}

func state(s cloud.InstanceState) func(*postgres.Standing) {
	return func(in *postgres.Standing) { in.State = s }
}

// event writes an event of an instance alone: what the meter reads.
func event(t *testing.T, w *looptest.World, id cloud.InstanceID, verb string, at time.Time, data map[string]any, change func(*postgres.Standing)) {
	t.Helper()
	err := w.DB.InSystem(t.Context(), func(tx *postgres.Tx) error {
		list, err := postgres.StandingLock(t.Context(), tx, []cloud.InstanceID{id})
		if err != nil {
			return err
		}
		was := list[0]
		change(&list[0])
		e := postgres.InstanceEvent(&list[0], verb, verb, at, data)
		was.EventSeq = list[0].EventSeq // the instance itself stays as it is
		if err := postgres.StandingSave(t.Context(), tx, []postgres.Standing{was}); err != nil {
			return err
		}
		return postgres.EventsAppend(t.Context(), tx, []cloud.Event{e})
	})
	if err != nil {
		t.Fatal(err)
	}
}

// C19: deleted at t, nothing after t, however late and however often the news.
func TestC19NothingAfterADeletion(t *testing.T) {
	t.Parallel()
	w := looptest.New(t)
	n := w.Node(t, 16, 16384, "h100-80gb", cloud.ModeWhole, 1)
	l := w.Loops()
	step := func() {
		t.Helper()
		if err := l.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	say := func(state string, ran, ago time.Duration) {
		t.Helper()
		if err := n.Say(t.Context(), postgres.Observation{InstanceID: looptest.One[cloud.InstanceID](t, w, `SELECT id FROM instance`),
			Epoch: 1, Generation: 1, State: state, RanFor: ran, StateFor: ago}); err != nil {
			t.Fatal(err)
		}
	}
	id := w.MustCreate(t, looptest.Whole(1))
	step()
	past(t, w, id)
	say(nodewire.GuestRunning, time.Hour, time.Hour)
	step()
	if err := w.Want(t.Context(), id, cloud.DesiredDeleted); err != nil {
		t.Fatal(err)
	}
	step()
	asked := looptest.One[time.Time](t, w, `SELECT at FROM event WHERE verb = 'deleting'`)
	say(nodewire.GuestGone, 3*time.Hour, 0) // a node that claims more than there was
	step()
	say(nodewire.GuestRunning, 5*time.Hour, time.Hour) // and once more, after the end
	step()
	event(t, w, id, "late", asked.Add(10*time.Minute), map[string]any{"state": "unknown", "ran_until": asked.Add(time.Hour)}, func(*postgres.Standing) {})
	for range 3 {
		step()
	}
	list := usage(t, w)
	if len(list) != 1 || list[0].Open || list[0].To.After(looptest.One[time.Time](t, w, `SELECT deleted_at FROM instance`)) {
		t.Fatalf("the books say %+v, want one stretch that ends by the deletion", list)
	}
	hours := billing.GPUHours(list)
	// From the hour that it had run when its node spoke, to when its end was asked for.
	ran := asked.Sub(list[0].From).Hours()
	if got, _ := hours.Float64(); got > ran+0.0001 || got < 0.9999 {
		t.Errorf("%s GPU-hours, want the %.6f that it ran", hours.FloatString(6), ran)
	}
	if n := looptest.One[int](t, w, `SELECT count(*) FROM instance WHERE metered_seq <> event_seq`); n != 0 {
		t.Error("it is never done metering")
	}
	w.Check(t)
}

// C19: the same event twice is one; its id with another payload is refused.
func TestC19AnEventIsWrittenOnce(t *testing.T) {
	t.Parallel()
	w := looptest.New(t)
	id := w.MustCreate(t, looptest.Whole(1))
	noon := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	var e cloud.Event
	write := func(message string) error {
		return w.DB.InSystem(t.Context(), func(tx *postgres.Tx) error {
			list, err := postgres.StandingLock(t.Context(), tx, []cloud.InstanceID{id})
			if err != nil {
				return err
			}
			list[0].EventSeq = 1 // as a loop that has not seen the second event yet
			e = postgres.InstanceEvent(&list[0], "running", message, noon, map[string]any{"state": "running"})
			return postgres.EventsAppend(t.Context(), tx, []cloud.Event{e})
		})
	}
	if err := write("started"); err != nil {
		t.Fatal(err)
	}
	w.Exec(t, `UPDATE instance SET event_seq = 2`)
	for _, message := range []string{"started", "started otherwise"} {
		if err := write(message); postgres.Code(err) != "23505" {
			t.Errorf("a second event with its id is not refused: %v", err)
		}
	}
	l := w.Loops()
	for range 3 {
		if err := l.Metering.Tick(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if n := looptest.One[int](t, w, `SELECT count(*) FROM segment`); n != 1 {
		t.Errorf("%d segments for one event", n)
	}
}

// An instance whose books can't be written holds up nobody else's.
func TestBrokenBooksHoldUpNobodyElse(t *testing.T) {
	t.Parallel()
	w := looptest.New(t)
	l := w.Loops()
	noon := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	var ids []cloud.InstanceID
	for range 3 {
		id := w.MustCreate(t, looptest.Whole(1))
		event(t, w, id, "running", noon, nil, state(cloud.StateRunning))
		ids = append(ids, id)
	}
	// A stretch that no event tells of, in the way of the first one's.
	w.Exec(t, `INSERT INTO segment (id, org_id, project_id, instance_id, kind, state, gpu_count, gpu_model, gpu_mode, gpu_profile, vcpu, memory_mib, started_at)
		SELECT gen_random_uuid(), org_id, project_id, id, kind, 'running', 0, '', '', '', 1, 1, $2::timestamptz - interval '1 h' FROM instance WHERE id = $1`, ids[0], noon)
	for range 2 {
		if err := l.Metering.Tick(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if got := looptest.One[int](t, w, `SELECT count(*) FROM instance WHERE metered_seq = event_seq AND id <> $1`, ids[0]); got != 2 {
		t.Errorf("%d of the two others are metered", got)
	}
	// A second one, whose event can't be read.
	event(t, w, ids[1], "unreadable", noon.Add(time.Minute), map[string]any{"epoch": "one"}, state(cloud.StateRunning))
	alarms := func(when string, want int) {
		t.Helper()
		if err := l.Metering.Tick(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := looptest.One[int](t, w, `SELECT count(*) FROM alarm WHERE key LIKE 'instance:%:meter' AND cleared_at IS NULL`); got != want {
			t.Errorf("%s: %d alarms, want %d", when, got, want)
		}
	}
	alarms("both are broken", 2)
	alarms("they still are", 2)
	w.Exec(t, `UPDATE event SET data = data || '{"epoch": 1}' WHERE verb = 'unreadable'`)
	alarms("one is mended", 1)
	w.Exec(t, `UPDATE segment SET ended_at = $2 WHERE instance_id = $1 AND ended_at IS NULL`, ids[0], noon)
	alarms("so is the other", 0)
}

// The books of a lost node end at its last proof of life; when it comes back and
// the instance ran all the while, a correction says so and nothing is edited.
func TestALostNodesStretchEndsAtItsLastProof(t *testing.T) {
	t.Parallel()
	w := looptest.New(t)
	n := w.Node(t, 16, 16384, "h100-80gb", cloud.ModeWhole, 1)
	l := w.Loops()
	id := w.MustCreate(t, looptest.Whole(1))
	turn := func() {
		t.Helper()
		if err := l.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := l.Lifecycle.Liveness(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := l.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	turn()
	past(t, w, id)
	say := func(ran time.Duration) {
		t.Helper()
		if err := n.Say(t.Context(), postgres.Observation{InstanceID: id, Epoch: 1, Generation: 1, State: nodewire.GuestRunning, RanFor: ran}); err != nil {
			t.Fatal(err)
		}
	}
	say(2 * time.Hour)
	turn()
	w.Exec(t, `UPDATE node SET last_seen_at = now() - interval '1 hour'`)
	w.Exec(t, `UPDATE observation SET received_at = now() - interval '1 hour'`)
	turn()
	list := usage(t, w)
	if len(list) != 1 || list[0].Open {
		t.Fatalf("lost: the books say %+v, want one closed stretch", list)
	}
	if got := list[0].To.Sub(list[0].From); got < 59*time.Minute || got > 61*time.Minute {
		t.Errorf("lost: %s are charged, want the hour until the last proof", got)
	}
	stored := looptest.One[time.Time](t, w, `SELECT ended_at FROM segment`)
	turn() // still lost: nothing more, whatever its tenant asks for
	event(t, w, id, "restarting", time.Now(), nil, func(*postgres.Standing) {})
	turn()
	if got := usage(t, w); len(got) != 1 || got[0].Open {
		t.Errorf("still lost: the books say %+v", got)
	}
	w.Exec(t, `UPDATE node SET last_seen_at = now()`)
	turn() // the node is back, but has not spoken of the instance yet
	if got := usage(t, w); len(got) != 1 {
		t.Errorf("before the node has spoken the books say %+v", got)
	}
	say(2 * time.Hour)
	turn()
	turn()
	list = usage(t, w)
	if len(list) != 2 || list[0].Open || !list[1].Open || !list[0].To.Equal(list[1].From) {
		t.Fatalf("back: the books say %+v, want the whole run without a gap", list)
	}
	if got := list[0].To.Sub(list[0].From); got < 119*time.Minute || got > 121*time.Minute {
		t.Errorf("back: %s are charged, want the two hours", got)
	}
	if now := looptest.One[time.Time](t, w, `SELECT ended_at FROM segment WHERE ended_at IS NOT NULL`); !now.Equal(stored) {
		t.Error("the closed segment was edited")
	}
	w.Check(t)
}
