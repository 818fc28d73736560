package lifecycle_test

import (
	"testing"

	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/looptest"
)

// A volume is charged from when its node has it until its deletion is asked for,
// each size for its own time.
func TestVolumesAreChargedWhileTheyAreThere(t *testing.T) {
	t.Parallel()
	w, l, m, id := runningVM(t, cloud.StopReleases)
	if got := looptest.One[bool](t, w, `SELECT s.started_at = v.said_at AND s.ended_at IS NULL AND s.size_mib = v.size_mib FROM volume v JOIN volume_segment s ON s.volume_id = v.id`); !got {
		t.Error("it is not charged from when its node had it")
	}
	w.Exec(t, `UPDATE volume SET size_mib = 256, sized_at = now()`)
	l.Turn(t, m)
	if got := looptest.One[string](t, w, `SELECT string_agg(size_mib::text, ' ' ORDER BY started_at) || ' ' || bool_or(ended_at IS NULL) || ' ' ||
		(min(ended_at) = max(started_at)) FROM volume_segment`); got != "128 256 true true" {
		t.Errorf("sizes, one is open, without a gap: %s", got)
	}
	if err := w.Want(t.Context(), id, cloud.DesiredDeleted); err != nil {
		t.Fatal(err)
	}
	l.Until(t, "it is deleted", func() bool { return w.State(t, id) == cloud.StateDeleted && volumeState(t, w) == "deleted" }, m)
	if got := looptest.One[string](t, w, `SELECT count(*) FILTER (WHERE s.ended_at IS NULL) || ' ' || (max(s.ended_at) = max(v.ending_at)) || ' ' || (max(v.ending_at) < max(v.deleted_at))
		FROM volume v JOIN volume_segment s ON s.volume_id = v.id`); got != "0 true true" {
		t.Errorf("open, ended when it was asked for, gone later: %s", got)
	}
	for _, has := range m.Volumes {
		if has {
			t.Error("the node has it still")
		}
	}
	w.Check(t)
	before := looptest.One[int](t, w, `SELECT count(*) FROM volume_segment`)
	l.Turn(t, m)
	if after := looptest.One[int](t, w, `SELECT count(*) FROM volume_segment`); after != before {
		t.Errorf("%d segments became %d with nothing new", before, after)
	}
}

// A larger disk is made, and charged, when its instance is next placed.
func TestADiskGrowsWhenItIsNextPlaced(t *testing.T) {
	t.Parallel()
	w, l, m, id := runningVM(t, cloud.StopReleases)
	if err := w.Want(t.Context(), id, cloud.DesiredStopped); err != nil {
		t.Fatal(err)
	}
	l.Until(t, "it stops", func() bool { return w.State(t, id) == cloud.StateStopped }, m)
	w.Exec(t, `UPDATE instance SET disk_mib = 256`)
	l.Turn(t, m)
	const sizes = `SELECT (SELECT size_mib FROM volume) || ': ' || string_agg(size_mib::text, ' ' ORDER BY started_at) || ' ' || count(*) FILTER (WHERE ended_at IS NULL) FROM volume_segment`
	if got := looptest.One[string](t, w, sizes); got != "128: 128 1" {
		t.Errorf("before its start it has, and is charged: %s", got)
	}
	if ok, err := w.Start(t.Context(), id); err != nil || !ok {
		t.Fatal(ok, err)
	}
	l.Until(t, "it runs", func() bool { return w.State(t, id) == cloud.StateRunning }, m)
	l.Turn(t, m)
	if got := looptest.One[string](t, w, sizes); got != "256: 128 256 1" {
		t.Errorf("after it: %s", got)
	}
	w.Check(t)
}

func TestAVolumeThatWasNeverPlacedIsGoneAtOnce(t *testing.T) {
	t.Parallel()
	w := looptest.New(t)
	l := w.Loops()
	id, err := w.CreateAs(t.Context(), cloud.KindNotebook, cloud.StopReleases, looptest.Slices(1, "1g"))
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Want(t.Context(), id, cloud.DesiredDeleted); err != nil {
		t.Fatal(err)
	}
	l.Turn(t)
	if volumeState(t, w) != "deleted" || looptest.One[int](t, w, `SELECT count(*) FROM volume_segment`) != 0 {
		t.Errorf("it is %s, and charged", volumeState(t, w))
	}
}

// What is on a lost node is neither charged nor gone, and is there again when its
// node is.
func TestALostNodesVolumeSaysSo(t *testing.T) {
	t.Parallel()
	w, l, m, id := runningVM(t, cloud.StopReleases)
	if err := w.Want(t.Context(), id, cloud.DesiredStopped); err != nil {
		t.Fatal(err)
	}
	l.Until(t, "it stops", func() bool { return w.State(t, id) == cloud.StateStopped }, m)
	w.Exec(t, `UPDATE node SET state = 'lost', last_seen_at = clock_timestamp()`)
	l.Turn(t)
	if got := looptest.One[string](t, w, `SELECT format('%s %s', v.state, (SELECT s.ended_at = n.last_seen_at FROM volume_segment s)) FROM volume v JOIN node n ON n.id = v.node_id`); got != "lost t" {
		t.Errorf("its state, and whether its charge ended with the last sign of life: %s", got)
	}
	if message := looptest.One[string](t, w, `SELECT message FROM volume`); message == "" {
		t.Error("it does not say why")
	}
	w.Exec(t, `UPDATE node SET state = 'ready'`)
	l.Until(t, "it is there again", func() bool { return volumeState(t, w) == "present" }, m)
	l.Turn(t, m)
	if n := looptest.One[int](t, w, `SELECT count(*) FROM volume_segment WHERE ended_at IS NULL`); n != 1 {
		t.Errorf("%d open segments", n)
	}
	w.Check(t)
}

// Data that is missing is neither deleted nor charged, and an alarm until it is
// back or nobody wants it any more.
func TestAVolumeThatVanishesIsAnAlarm(t *testing.T) {
	t.Parallel()
	const (
		look = `SELECT format('%s, %s open, charged: %s', state, (SELECT count(*) FROM alarm WHERE key LIKE 'volume:%' AND cleared_at IS NULL),
			EXISTS (SELECT FROM volume_segment WHERE ended_at IS NULL)) FROM volume`
		lost = "lost, 1 open, charged: f"
	)
	for _, said := range []string{"gone", "failed"} {
		w, l, m, id := runningVM(t, cloud.StopReleases)
		see := func(when, want string) {
			t.Helper()
			l.Turn(t)
			if err := l.Lifecycle.Alarms(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := looptest.One[string](t, w, look); got != want {
				t.Errorf("said to be %s, %s: %s", said, when, got)
			}
		}
		if err := w.Want(t.Context(), id, cloud.DesiredStopped); err != nil {
			t.Fatal(err)
		}
		l.Until(t, "it stops", func() bool { return w.State(t, id) == cloud.StateStopped }, m)
		vanish := func() { w.Exec(t, `UPDATE volume SET said = $1, said_at = clock_timestamp()`, said) }
		vanish()
		see("it is gone", lost)
		see("it stays so", lost)
		if err := m.Act(t.Context()); err != nil {
			t.Fatal(err)
		}
		see("it is back", "present, 0 open, charged: t")
		vanish()
		see("it is gone again", lost)
		if err := w.Want(t.Context(), id, cloud.DesiredDeleted); err != nil {
			t.Fatal(err)
		}
		l.Until(t, "it is deleted", func() bool { return volumeState(t, w) == "deleted" }, m)
		see("nobody wants it", "deleted, 0 open, charged: f")
		w.Check(t)
	}
}

// A clock that is set back after a deletion was asked for doesn't keep it waiting,
// and what its node said before that answers nothing.
func TestADeletionWaitsForNoClock(t *testing.T) {
	t.Parallel()
	w, l, m, id := runningVM(t, cloud.StopReleases)
	if err := w.Want(t.Context(), id, cloud.DesiredStopped); err != nil {
		t.Fatal(err)
	}
	l.Until(t, "it stops", func() bool { return w.State(t, id) == cloud.StateStopped }, m)
	w.Exec(t, `UPDATE volume SET said = 'gone', said_at = clock_timestamp() + interval '1 hour'`)
	if err := w.Want(t.Context(), id, cloud.DesiredDeleted); err != nil {
		t.Fatal(err)
	}
	l.Turn(t)
	if got := volumeState(t, w); got != "deleting" {
		t.Fatalf("by what was said before, it is %s", got)
	}
	w.Exec(t, `UPDATE volume SET ending_at = clock_timestamp() + interval '1 hour'`)
	l.Until(t, "it is deleted", func() bool { return volumeState(t, w) == "deleted" }, m)
	w.Check(t)
}
