package scheduler_test

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/looptest"
	"github.com/tenon-cloud/tenon/internal/scheduler"
)

// counted is a scheduler and what it counts.
func counted(w *looptest.World) (*scheduler.Scheduler, func(name string) float64) {
	reg := prometheus.NewRegistry()
	s := scheduler.New(scheduler.Config{DB: w.DB, Leader: looptest.Leader{DB: w.DB}, Log: slog.New(slog.DiscardHandler), Register: reg})
	return s, func(name string) float64 {
		families, _ := reg.Gather()
		for _, f := range families {
			if f.GetName() == name {
				return f.GetMetric()[0].GetCounter().GetValue()
			}
		}
		return -1
	}
}

// Whatever changes on a node is seen at the next tick, though the fleet is kept in
// memory; and only what changed is read.
func TestWhatChangesIsSeenAtTheNextTick(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ spoil, mend string }{
		"drained":         {`UPDATE node SET drained = true WHERE id = $1`, `UPDATE node SET drained = false WHERE id = $1`},
		"late":            {`UPDATE node SET state = 'late' WHERE id = $1`, `UPDATE node SET state = 'ready' WHERE id = $1`},
		"vCPU":            {`UPDATE node SET vcpu = 0 WHERE id = $1`, `UPDATE node SET vcpu = 16 WHERE id = $1`},
		"memory":          {`UPDATE node SET memory_mib = 100 WHERE id = $1`, `UPDATE node SET memory_mib = 16384 WHERE id = $1`},
		"kinds":           {`UPDATE node SET kinds = '{vm}' WHERE id = $1`, `UPDATE node SET kinds = '{container}' WHERE id = $1`},
		"a card's state":  {`UPDATE gpu SET state = 'cleaning' WHERE node_id = $1`, `UPDATE gpu SET state = 'ready' WHERE node_id = $1`},
		"the node itself": {`UPDATE node SET forgotten_at = now() WHERE id = $1`, `UPDATE node SET forgotten_at = NULL WHERE id = $1`},
		"its pool": {`UPDATE node SET pool_id = (SELECT id FROM pool WHERE name = 'elsewhere') WHERE id = $1`,
			`UPDATE node SET pool_id = (SELECT id FROM pool WHERE name = 'default') WHERE id = $1`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := looptest.New(t)
			n := w.Node(t, 16, 16384, "h100-80gb", cloud.ModeMIG, 1)
			w.Exec(t, `INSERT INTO pool (id, name) VALUES (gen_random_uuid(), 'elsewhere') ON CONFLICT DO NOTHING`)
			s, count := counted(w)
			first := w.MustCreate(t, looptest.Slices(1, "1g"))
			tick(t, s)
			w.Exec(t, c.spoil, n.ID)
			second := w.MustCreate(t, looptest.Slices(1, "1g"))
			tick(t, s)
			if w.State(t, first) != cloud.StateStarting || w.State(t, second) != cloud.StateQueued {
				t.Errorf("spoilt: %s, %s", w.State(t, first), w.State(t, second))
			}
			w.Exec(t, c.mend, n.ID)
			tick(t, s)
			if got := w.State(t, second); got != cloud.StateStarting {
				t.Errorf("mended: %s", got)
			}
			if lost, drift := count("tenon_scheduler_lost_total"), count("tenon_scheduler_drift_total"); lost != 0 || drift != 0 {
				t.Errorf("%g places were planned on what was, %g nodes had drifted", lost, drift)
			}
		})
	}
}

func TestOnlyWhatChangedIsRead(t *testing.T) {
	t.Parallel()
	w := looptest.New(t)
	for range 5 {
		w.Node(t, 16, 16384, "h100-80gb", cloud.ModeMIG, 1)
	}
	s, count := counted(w)
	w.MustCreate(t, looptest.Slices(1, "1g"))
	tick(t, s) // all five
	w.MustCreate(t, looptest.Slices(1, "1g"))
	tick(t, s) // the one that the first went to
	w.MustCreate(t, looptest.Slices(1, "1g"))
	w.Node(t, 16, 16384, "h100-80gb", cloud.ModeMIG, 1)
	tick(t, s) // the one that the second went to, and a new one
	if got := count("tenon_scheduler_nodes_read_total"); got != 5+1+2 {
		t.Errorf("%g nodes were read", got)
	}
	if got := looptest.One[int](t, w, `SELECT count(DISTINCT node_id) FROM instance`); got != 1 {
		t.Errorf("three slices are on %d nodes", got)
	}
}

// What changes without a sign is lost once, at most: a place that turns out to be
// taken has its node read again.
func TestWhatChangesWithoutASignCostsOneTry(t *testing.T) {
	t.Parallel()
	w := looptest.New(t)
	w.Node(t, 16, 16384, "h100-80gb", cloud.ModeMIG, 1)
	s, count := counted(w)
	w.MustCreate(t, looptest.Slices(1, "1g"))
	tick(t, s)
	w.MustCreate(t, looptest.Slices(1, "7g"))
	tick(t, s) // reads what the first changed, and places nothing
	w.Exec(t, `INSERT INTO gpu_claim SELECT gen_random_uuid(), g.id, i.org_id, i.project_id, i.id, 99, 'mig', 'mig8', '4g', '[0,4)' FROM gpu g, instance i LIMIT 1`)
	next := w.MustCreate(t, looptest.Slices(1, "4g"))
	tick(t, s)
	if got := looptest.One[string](t, w, `SELECT message FROM instance WHERE id = $1`, next); !strings.Contains(got, "fragmented") && !strings.Contains(got, "in use") {
		t.Errorf("it waits: %s", got)
	}
	if lost := count("tenon_scheduler_lost_total"); lost != 1 {
		t.Errorf("%g places were lost", lost)
	}
}

// The mix is that of the cluster's history, also after a restart: where many ask
// for whole cards with many vCPUs, work without a GPU leaves them.
func TestTheMixComesFromTheHistory(t *testing.T) {
	t.Parallel()
	w := looptest.New(t)
	lean := w.Node(t, 16, 65536, "h100-80gb", cloud.ModeWhole, 1)
	rich := w.Node(t, 64, 65536, "h100-80gb", cloud.ModeWhole, 1)
	big := looptest.Whole(1)
	big.VCPU = 12
	for range 20 {
		w.MustCreate(t, big)
	}
	w.Exec(t, `UPDATE instance SET desired_state = 'stopped'`) // they were asked for, and no longer wait
	id := w.MustCreate(t, cloud.Shape{VCPU: 8, MemoryMiB: 1024})
	s, _ := counted(w)
	tick(t, s)
	if got := looptest.One[cloud.NodeID](t, w, `SELECT node_id FROM instance WHERE id = $1`, id); got != rich.ID {
		t.Errorf("it is on %s, want the node with vCPUs to spare, not %s", got, lean.ID)
	}
}
