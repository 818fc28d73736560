package lifecycle_test

import (
	"testing"

	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/looptest"
)

// TestAHeldPlaceIsNotChargedWhileItsNodeIsLost: nobody can start in it then. It
// counts again from when the node is back, and what lay between is never charged.
func TestAHeldPlaceIsNotChargedWhileItsNodeIsLost(t *testing.T) {
	t.Parallel()
	w, l, m, id := runningVM(t, cloud.StopHolds)
	m.Guests[id].Ends, m.Guests[id].Off = true, true
	l.Until(t, "it is held and metered", func() bool {
		return looptest.One[bool](t, w, `SELECT held AND metered_seq = event_seq FROM instance`)
	}, m)
	w.Exec(t, `UPDATE node SET last_seen_at = now() - interval '20 minutes'`)
	for range 2 { // marked, and metered; the second changes nothing
		if err := l.Lifecycle.Liveness(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := l.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if got := looptest.One[string](t, w, `SELECT format('%s %s %s', state, held, reason) FROM instance`); got != "stopped t node_lost" {
		t.Fatalf("state, held, reason: %s", got)
	}
	if n := looptest.One[int](t, w, `SELECT count(*) FROM segment WHERE ended_at IS NULL`); n != 0 {
		t.Fatalf("%d segments are open while its node is lost", n)
	}
	// The last sign of life came before it stopped here: nothing of the hold is proven.
	if n := looptest.One[int](t, w, `SELECT count(*) FROM segment s JOIN instance i ON i.id = s.instance_id WHERE s.ended_at > i.state_at OR s.ended_at < s.started_at`); n != 0 {
		t.Errorf("%d segments go past the last sign of life", n)
	}
	if claims(t, w) != 1 || used(t, w, cloud.QuotaGPUMilli) != 1000 {
		t.Error("its place is not held any more")
	}
	w.Check(t)
	l.Until(t, "it counts again", func() bool {
		if err := l.Lifecycle.Liveness(t.Context()); err != nil {
			t.Fatal(err)
		}
		return looptest.One[string](t, w, `SELECT format('%s %s %s', state, held, reason) FROM instance`) == "stopped t asked" &&
			looptest.One[int](t, w, `SELECT count(*) FROM segment WHERE ended_at IS NULL AND state = 'stopped'`) == 1
	}, m)
	if n := looptest.One[int](t, w, `SELECT count(*) FROM segment s WHERE s.ended_at IS NULL AND s.started_at < (SELECT max(at) FROM event WHERE verb = 'node_lost')`); n != 0 {
		t.Error("the time that its node was away is charged")
	}
	if n := looptest.One[int](t, w, `SELECT count(*) FROM usage_correction`); n != 0 {
		t.Errorf("%d corrections", n)
	}
	w.Check(t)
}
