package looptest_test

import (
	"testing"
	"time"

	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/looptest"
	"github.com/tenon-cloud/tenon/internal/nodewire"
	"github.com/tenon-cloud/tenon/internal/postgres"
)

// lateEnd is an instance that has run for five minutes, as its node says, and is
// metered.
func lateEnd(t *testing.T) (*looptest.World, looptest.Loops, *looptest.Machine, cloud.InstanceID) {
	t.Helper()
	w := looptest.New(t)
	l := w.Loops()
	m := looptest.NewMachine(w.Node(t, 16, 16384, "h100-80gb", cloud.ModeMIG, 1))
	id := w.MustCreate(t, looptest.Slices(1, "1g"))
	l.Turn(t)
	w.Exec(t, `UPDATE instance SET state_at = now() - interval '10 minutes'`)
	w.Exec(t, `UPDATE event SET at = at - interval '11 minutes'`)
	say(t, m, l, postgres.Observation{InstanceID: id, Epoch: 1, Generation: 1, State: nodewire.GuestRunning, RanFor: 5 * time.Minute})
	if w.State(t, id) != cloud.StateRunning || looptest.One[int](t, w, `SELECT count(*) FROM segment WHERE ended_at IS NULL`) != 1 {
		t.Fatalf("it is %s", w.State(t, id))
	}
	return w, l, m, id
}

func say(t *testing.T, m *looptest.Machine, l looptest.Loops, o postgres.Observation) {
	t.Helper()
	if err := m.Say(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if err := l.Step(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// charged is how long all of it is charged, corrections worked in.
func charged(t *testing.T, w *looptest.World) time.Duration {
	t.Helper()
	if n := looptest.One[int](t, w, `SELECT count(*) FROM segment WHERE ended_at IS NULL`); n != 0 {
		t.Fatalf("%d segments are open", n)
	}
	s := looptest.One[float64](t, w, `SELECT (sum(extract(epoch FROM ended_at - started_at)) + COALESCE((SELECT sum(seconds) FROM usage_correction), 0))::float8 FROM segment`)
	return time.Duration(s * float64(time.Second))
}

func about(d, want time.Duration) bool { return d > want-3*time.Second && d < want+3*time.Second }

// TestAnEndThatIsHeardLateIsChargedUntilItWas: an engine that was down tells, once it
// answers, when the guest ended, and its node how long ago that was.
func TestAnEndThatIsHeardLateIsChargedUntilItWas(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ ago, ran, want time.Duration }{
		"two minutes ago":                          {2 * time.Minute, 3 * time.Minute, 3 * time.Minute},
		"before its start, by a clock that is off": {20 * time.Minute, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, l, m, id := lateEnd(t)
			code := 1
			say(t, m, l, postgres.Observation{InstanceID: id, Epoch: 1, Generation: 1, State: nodewire.GuestFailed, Reason: nodewire.ReasonExited,
				ExitCode: &code, StateFor: c.ago, RanFor: c.ran})
			if got := charged(t, w); !about(got, c.want) {
				t.Errorf("it is charged for %s, and ran for %s", got, c.want)
			}
			if looptest.One[bool](t, w, `SELECT bool_or(ended_at < started_at) FROM segment`) {
				t.Error("a segment ends before its start")
			}
			w.Check(t)
		})
	}
}

// TestAnEndBeforeWhatIsClosedLeavesThatClosed: the node was lost and found while its
// engine was down, which closed a stretch; what is heard after that shortens what
// is open, and nothing overlaps or ends before its start.
func TestAnEndBeforeWhatIsClosedLeavesThatClosed(t *testing.T) {
	t.Parallel()
	w, l, m, id := lateEnd(t)
	w.Exec(t, `UPDATE node SET last_seen_at = now() - interval '20 minutes'`)
	w.Exec(t, `UPDATE observation SET received_at = now() - interval '1 minute'`)
	if err := l.Lifecycle.Liveness(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := l.Step(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := looptest.One[string](t, w, `SELECT reason FROM instance`); got != postgres.ReasonNodeLost {
		t.Fatalf("its reason is %q", got)
	}
	was := looptest.One[string](t, w, `SELECT string_agg(id::text || started_at || ended_at, ' ' ORDER BY started_at) FROM segment WHERE ended_at IS NOT NULL`)
	say(t, m, l, postgres.Observation{InstanceID: id, Epoch: 1, Generation: 1, State: nodewire.GuestRunning, RanFor: 5*time.Minute + time.Second})
	for range 3 { // found, and metered
		if err := l.Lifecycle.Liveness(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := l.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if got := looptest.One[string](t, w, `SELECT reason FROM instance`); got != "" {
		t.Fatalf("it is not found again: %q", got)
	}
	code := 1
	say(t, m, l, postgres.Observation{InstanceID: id, Epoch: 1, Generation: 1, State: nodewire.GuestFailed, Reason: nodewire.ReasonExited,
		ExitCode: &code, StateFor: 2 * time.Minute, RanFor: 3 * time.Minute})
	t.Logf("charged for %s", charged(t, w))
	if now := looptest.One[string](t, w, `SELECT string_agg(id::text || started_at || ended_at, ' ' ORDER BY started_at) FROM segment WHERE position(id::text in $1) > 0`, was); now != was {
		t.Errorf("what was closed is\n%s\nand was\n%s", now, was)
	}
	if looptest.One[bool](t, w, `SELECT bool_or(ended_at < started_at) FROM segment`) {
		t.Error("a segment ends before its start")
	}
	if n := looptest.One[int](t, w, `SELECT count(*) FROM instance WHERE metered_seq < event_seq`); n != 0 {
		t.Error("its books do not go on")
	}
	if got := charged(t, w); got > 5*time.Minute+5*time.Second {
		t.Errorf("it is charged for %s", got)
	}
}
