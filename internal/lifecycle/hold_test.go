package lifecycle_test

import (
	"testing"

	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/looptest"
)

// runningVM is a world with one VM that runs with a whole card.
func runningVM(t *testing.T, onStop cloud.StopPolicy) (*looptest.World, looptest.Loops, *looptest.Machine, cloud.InstanceID) {
	t.Helper()
	w := looptest.New(t)
	l := w.Loops()
	m := looptest.NewMachine(w.Node(t, 16, 16384, "h100-80gb", cloud.ModeWhole, 1))
	id, err := w.CreateAs(t.Context(), cloud.KindVM, onStop, looptest.Whole(1))
	if err != nil {
		t.Fatal(err)
	}
	l.Until(t, "it runs and its disk is there", func() bool {
		return w.State(t, id) == cloud.StateRunning && volumeState(t, w) == "present"
	}, m)
	return w, l, m, id
}

func volumeState(t *testing.T, w *looptest.World) string {
	t.Helper()
	return looptest.One[string](t, w, `SELECT state FROM volume`)
}

func TestC21AGuestThatSwitchesItselfOffGoesByItsPolicy(t *testing.T) {
	t.Parallel()
	for policy, want := range map[cloud.StopPolicy]struct {
		claims, open int
		gpuMilli     int64
		held         bool
		states       string
	}{
		cloud.StopReleases: {0, 0, 0, false, "running"},
		cloud.StopHolds:    {1, 1, 1000, true, "running stopped"},
	} {
		t.Run(string(policy), func(t *testing.T) {
			t.Parallel()
			w, l, m, id := runningVM(t, policy)
			m.Guests[id].Ends, m.Guests[id].Off = true, true
			l.Until(t, "it is stopped", func() bool { return w.State(t, id) == cloud.StateStopped }, m)
			l.Turn(t, m)
			if got := looptest.One[string](t, w, `SELECT format('%s %s %s', reason, held, node_id IS NOT NULL) FROM instance`); got != map[bool]string{true: "power_off t t", false: "power_off f f"}[want.held] {
				t.Errorf("reason, held, on a node: %s", got)
			}
			if claims(t, w) != want.claims || used(t, w, cloud.QuotaGPUMilli) != want.gpuMilli {
				t.Errorf("%d claims, %d thousandths of a GPU", claims(t, w), used(t, w, cloud.QuotaGPUMilli))
			}
			if got := looptest.One[string](t, w, `SELECT string_agg(state, ' ' ORDER BY started_at, ended_at) FROM segment`); got != want.states {
				t.Errorf("segments of %s, want %s", got, want.states)
			}
			if n := looptest.One[int](t, w, `SELECT count(*) FROM segment WHERE ended_at IS NULL`); n != want.open {
				t.Errorf("%d segments are open", n)
			}
			// Released, it was charged until it ended; held, without a gap.
			if n := looptest.One[int](t, w, `SELECT count(*) FROM segment s JOIN instance i ON i.id = s.instance_id WHERE s.ended_at = i.state_at`); n != 1 {
				t.Errorf("no segment ends when it stopped")
			}
			if volumeState(t, w) != "present" {
				t.Error("its disk has gone")
			}
			w.Check(t)
		})
	}
}

func TestTheDatabaseRefusesHalfAHold(t *testing.T) {
	t.Parallel()
	w, l, m, id := runningVM(t, cloud.StopHolds)
	m.Guests[id].Ends, m.Guests[id].Off = true, true
	l.Until(t, "it is held", func() bool { return looptest.One[bool](t, w, `SELECT held FROM instance`) }, m)
	for what, c := range map[string]struct{ sql, constraint string }{
		"leaving with claims held":  {`UPDATE instance SET held = false, node_id = NULL`, "instance_claims_held"},
		"held without a place":      {`UPDATE instance SET held = false`, "instance_node"},
		"held and queued":           {`UPDATE instance SET state = 'queued'`, "instance_hold"},
		"a disk that shrinks":       {`UPDATE volume SET size_mib = size_mib - 1`, "volume_shrinks"},
		"a disk that moves":         {`UPDATE volume SET node_id = NULL`, ""},
		"a second disk":             {`INSERT INTO volume (id, org_id, project_id, instance_id, role, size_mib) SELECT gen_random_uuid(), org_id, project_id, instance_id, role, size_mib FROM volume`, "volume_of_instance"},
		"two segments of one disk":  {`INSERT INTO volume_segment SELECT gen_random_uuid(), org_id, project_id, volume_id, instance_id, size_mib, now(), NULL FROM volume_segment`, "volume_segment_overlap"},
		"a segment that is changed": {`UPDATE volume_segment SET started_at = started_at - interval '1 hour'`, "segment_record"},
	} {
		if got := w.Refused(t, c.sql); got == "" || c.constraint != "" && got != c.constraint {
			t.Errorf("%s: refused by %q, want %q", what, got, c.constraint)
		}
	}
	w.Exec(t, `INSERT INTO node (id, name, pool_id, state, vcpu, memory_mib) SELECT gen_random_uuid(), 'elsewhere', pool_id, 'ready', 1, 64 FROM node`)
	if got := w.Refused(t, `UPDATE volume SET node_id = (SELECT id FROM node WHERE name = 'elsewhere')`); got != "volume_moves" {
		t.Errorf("a disk that moves to another node: refused by %q", got)
	}
	for _, kind := range []string{"container", "notebook"} {
		if got := w.Refused(t, `UPDATE instance SET held = false, kind = '`+kind+`', state = 'stopped', node_id = node_id`); got == "" {
			t.Errorf("a %s that holds was let in", kind)
		}
	}
	w.Check(t)
}

// A disk binds its instance to its node: while that one is away nothing else will
// do, and it says so.
func TestDataBindsToItsNode(t *testing.T) {
	t.Parallel()
	w, l, m, id := runningVM(t, cloud.StopReleases)
	if err := w.Want(t.Context(), id, cloud.DesiredStopped); err != nil {
		t.Fatal(err)
	}
	l.Until(t, "it stops", func() bool { return w.State(t, id) == cloud.StateStopped }, m)
	other := looptest.NewMachine(w.Node(t, 16, 16384, "h100-80gb", cloud.ModeWhole, 1))
	w.Exec(t, `UPDATE node SET drained = true WHERE id = $1`, m.ID)
	if ok, err := w.Start(t.Context(), id); err != nil || !ok {
		t.Fatal(ok, err)
	}
	l.Until(t, "it says why it waits", func() bool { return looptest.One[string](t, w, `SELECT message FROM instance`) != "" }, m, other)
	if got := looptest.One[string](t, w, `SELECT format('%s %s', state, (SELECT string_agg(r->>'reason', ' ') FROM jsonb_array_elements(reasons) r)) FROM instance`); got != "queued node_drained volume_elsewhere" {
		t.Errorf("it waits as %s", got)
	}
	w.Exec(t, `UPDATE node SET drained = false WHERE id = $1`, m.ID)
	l.Until(t, "it runs again", func() bool { return w.State(t, id) == cloud.StateRunning }, m, other)
	if node := looptest.One[cloud.NodeID](t, w, `SELECT node_id FROM instance`); node != m.ID {
		t.Errorf("it runs on %s, and its disk is on %s", node, m.ID)
	}
	w.Check(t)
}

func TestAVMWaitsForANodeThatRunsVMs(t *testing.T) {
	t.Parallel()
	w := looptest.New(t)
	l := w.Loops()
	n := w.Node(t, 16, 16384, "h100-80gb", cloud.ModeWhole, 1)
	w.Exec(t, `UPDATE node SET kinds = '{container,notebook}'`)
	m := looptest.NewMachine(n)
	id, err := w.CreateAs(t.Context(), cloud.KindVM, cloud.StopReleases, looptest.Whole(1))
	if err != nil {
		t.Fatal(err)
	}
	l.Until(t, "it says why it waits", func() bool { return looptest.One[string](t, w, `SELECT message FROM instance`) != "" }, m)
	if got := looptest.One[string](t, w, `SELECT reasons->0->>'reason' FROM instance`); got != "kind_unsupported" {
		t.Errorf("it waits for %s", got)
	}
	w.Exec(t, `UPDATE node SET kinds = '{vm}'`)
	l.Until(t, "it runs", func() bool { return w.State(t, id) == cloud.StateRunning }, m)
}
