package lifecycle_test

import (
	"strings"
	"testing"
	"time"

	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/looptest"
	"github.com/tenon-cloud/tenon/internal/nodewire"
	"github.com/tenon-cloud/tenon/internal/postgres"
)

// TestAVMComesBackAfterItsNodesBoot on the same card, which is never free in
// between, and pays for no second in which it didn't run.
func TestAVMComesBackAfterItsNodesBoot(t *testing.T) {
	t.Parallel()
	w, l, m, id := runningVM(t, cloud.StopReleases)
	other := w.MustCreate(t, looptest.Whole(1)) // waits for the card
	card := looptest.One[string](t, w, `SELECT gpu_id::text FROM gpu_claim`)
	m.Guests[id].Boots = true
	l.Until(t, "its node was booted", func() bool { return looptest.One[int64](t, w, `SELECT epoch FROM instance WHERE id = $1`, id) == 2 }, m)
	if got := looptest.One[string](t, w, `SELECT format('%s %s %s', state, reason, holds_quota) FROM instance WHERE id = $1`, id); got != "starting  t" && got != "starting pending t" && got != "starting starting t" {
		t.Errorf("it is %q", got)
	}
	w.Check(t)
	l.Until(t, "it runs again", func() bool { return w.State(t, id) == cloud.StateRunning }, m)
	if claims(t, w) != 1 || looptest.One[string](t, w, `SELECT gpu_id::text FROM gpu_claim`) != card || w.State(t, other) != cloud.StateQueued {
		t.Errorf("%d claims, the other is %s", claims(t, w), w.State(t, other))
	}
	if got := verbs(t, w, id); got != "created placed running restarting running" {
		t.Errorf("events %s", got)
	}
	l.Turn(t, m)
	if n := looptest.One[int](t, w, `SELECT count(*) FROM segment s JOIN event e ON e.resource_id = s.instance_id
		WHERE e.verb = 'restarting' AND s.ended_at = e.at`); n != 1 {
		t.Error("no segment ends when its node went down")
	}
	if n := looptest.One[int](t, w, `SELECT count(*) FROM segment s JOIN event e ON e.resource_id = s.instance_id
		WHERE e.verb = 'running' AND s.ended_at IS NULL AND s.started_at = e.at`); n != 1 {
		t.Error("no segment begins when it ran again")
	}
	w.Check(t)
	if n := looptest.One[int](t, w, `SELECT count(*) FROM usage_correction`); n != 0 {
		t.Errorf("%d corrections where nothing came late", n)
	}
}

func TestAContainerFailsWithItsNodesBootUnlessItIsToRestart(t *testing.T) {
	t.Parallel()
	for policy, want := range map[cloud.RebootPolicy]string{cloud.RebootFails: "failed node_rebooted f 0", cloud.RebootRestarts: "running  t 1"} {
		t.Run(string(policy), func(t *testing.T) {
			t.Parallel()
			w, l, m, id := running(t)
			w.Exec(t, `UPDATE instance SET on_node_reboot = $1`, policy)
			m.Guests[id].Boots = true
			l.Until(t, "its node was booted and it is as it should be", func() bool {
				return looptest.One[string](t, w, `SELECT format('%s %s %s %s', state, reason, holds_quota, (SELECT count(*) FROM gpu_claim)) FROM instance`) == want &&
					(policy == cloud.RebootFails || looptest.One[int64](t, w, `SELECT epoch FROM instance`) == 2)
			}, m)
			w.Check(t)
		})
	}
}

// TestWhatWasAskedForBeatsTheBoot: what is to be stopped or deleted is not started
// again.
func TestWhatWasAskedForBeatsTheBoot(t *testing.T) {
	t.Parallel()
	for desired, want := range map[cloud.DesiredState]cloud.InstanceState{cloud.DesiredStopped: cloud.StateFailed, cloud.DesiredDeleted: cloud.StateDeleted} {
		t.Run(string(desired), func(t *testing.T) {
			t.Parallel()
			w, l, m, id := runningVM(t, cloud.StopReleases)
			m.Guests[id].Boots = true
			if err := m.Act(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := w.Want(t.Context(), id, desired); err != nil {
				t.Fatal(err)
			}
			l.Until(t, "it ends", func() bool { return w.State(t, id) == want }, m)
			if got := looptest.One[int](t, w, `SELECT count(*) FROM event WHERE verb = 'running'`); got != 1 {
				t.Errorf("it ran %d times", got)
			}
			w.Check(t)
		})
	}
}

// TestAGuestThatTakesItsHostDownIsNotStartedForEver: four times soon after its
// start is enough; a long run between them counts anew.
func TestAGuestThatTakesItsHostDownIsNotStartedForEver(t *testing.T) {
	t.Parallel()
	w, l, m, id := runningVM(t, cloud.StopReleases)
	boot := func(epoch int64) {
		t.Helper()
		m.Guests[id].Boots = true
		l.Until(t, "it was booted under", func() bool {
			return w.State(t, id) == cloud.StateFailed || looptest.One[int64](t, w, `SELECT epoch FROM instance`) == epoch && w.State(t, id) == cloud.StateRunning
		}, m)
	}
	boot(2)
	boot(3)
	w.Exec(t, `UPDATE instance SET started_at = started_at - interval '1 hour'`)
	boot(4)
	boot(5)
	boot(6)
	if w.State(t, id) != cloud.StateRunning {
		t.Fatalf("%s after three in a row", w.State(t, id))
	}
	boot(7)
	if got := looptest.One[string](t, w, `SELECT format('%s %s %s', state, reason, message) FROM instance`); !strings.HasPrefix(got, "failed node_rebooted") || !strings.Contains(got, "4 times in a row") {
		t.Errorf("it is %s", got)
	}
	if claims(t, w) != 0 {
		t.Error("its card is still held")
	}
	if ok, err := w.Start(t.Context(), id); err != nil || !ok {
		t.Fatal(ok, err)
	}
	l.Until(t, "it runs again", func() bool { return w.State(t, id) == cloud.StateRunning }, m)
	boot(looptest.One[int64](t, w, `SELECT epoch FROM instance`) + 1)
	if w.State(t, id) != cloud.StateRunning {
		t.Error("a person's start doesn't count anew")
	}
	w.Check(t)
}

// TestANodeThatWasLostAndBooted: what is charged ends with the last proof, and the
// time down is no correction.
func TestANodeThatWasLostAndBooted(t *testing.T) {
	t.Parallel()
	w, l, m, id := runningVM(t, cloud.StopReleases)
	w.Exec(t, `UPDATE node SET last_seen_at = now() - interval '10 minutes', state = 'ready'`)
	w.Exec(t, `UPDATE observation SET received_at = now() - interval '10 minutes'`)
	if err := l.Lifecycle.Liveness(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := looptest.One[string](t, w, `SELECT reason FROM instance`); got != postgres.ReasonNodeLost {
		t.Fatalf("it is %s", got)
	}
	m.Guests[id].Boots = true
	l.Until(t, "it runs again", func() bool {
		return w.State(t, id) == cloud.StateRunning && looptest.One[int64](t, w, `SELECT epoch FROM instance`) == 2
	}, m)
	l.Turn(t, m)
	if n := looptest.One[int](t, w, `SELECT count(*) FROM segment WHERE ended_at IS NULL`); n != 1 {
		t.Errorf("%d segments are open", n)
	}
	if got := verbs(t, w, id); got != "created placed running node_lost restarting running" {
		t.Errorf("events %s", got)
	}
	if time.Since(looptest.One[time.Time](t, w, `SELECT started_at FROM instance`)) > time.Minute {
		t.Error("it counts as started with its first run")
	}
	w.Check(t)
}

// TestAStartThatTakesItsHostDownCounts though nobody saw it run.
func TestAStartThatTakesItsHostDownCounts(t *testing.T) {
	t.Parallel()
	w, l, m, id := runningVM(t, cloud.StopReleases)
	m.Guests[id].Boots = true
	dies := func() bool {
		if g := m.Guests[id]; g != nil && g.Epoch > 1 && g.State == nodewire.GuestStarting {
			g.Boots = true
		}
		return w.State(t, id) == cloud.StateFailed
	}
	l.Until(t, "it is given up", dies, m)
	if got := looptest.One[int64](t, w, `SELECT epoch FROM instance WHERE id = $1`, id); got != 4 {
		t.Errorf("it came to epoch %d", got)
	}
	w.Check(t)
}
