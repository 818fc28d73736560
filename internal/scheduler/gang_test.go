package scheduler_test

import (
	"io"
	"log/slog"
	"testing"

	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/looptest"
	"github.com/tenon-cloud/tenon/internal/scheduler"
)

const onNode = `SELECT count(*)::int FROM instance WHERE job_id = $1 AND node_id IS NOT NULL`

// TestAGangThatLosesOnePlaceTakesNone when the world changes between plan and commit.
func TestAGangThatLosesOnePlaceTakesNone(t *testing.T) {
	t.Parallel()
	for what, sql := range map[string]string{
		"a card of four is cleaned":    `UPDATE gpu SET state = 'cleaning' WHERE id = (SELECT max(id::text)::uuid FROM gpu)`,
		"a member's generation is new": `UPDATE instance SET generation = generation + 1 WHERE job_rank = 2`,
		"the job is cancelled":         `UPDATE job SET desired_state = 'cancelled'`,
		"the node is drained":          `UPDATE node SET drained = true`,
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			w := looptest.New(t)
			w.Node(t, 16, 16384, "h100-80gb", cloud.ModeWhole, 4)
			job, _ := w.MustCreateJob(t, looptest.Job{Min: 4, Max: 4}, looptest.Whole(1))
			spoiled := false
			s := scheduler.New(scheduler.Config{DB: w.DB, Log: slog.New(slog.NewTextHandler(io.Discard, nil)), Leader: spoiler{looptest.Leader{DB: w.DB}, func() {
				if !spoiled {
					spoiled = true
					w.Exec(t, sql)
				}
			}}})
			tick(t, s)
			if n := looptest.One[int](t, w, onNode, job); n != 0 && n != 4 {
				t.Errorf("%d of 4 members are placed", n)
			}
			if what != "a member's generation is new" && looptest.One[int](t, w, onNode, job) != 0 { // that one is planned again at once
				t.Error("it was placed all the same")
			}
			if n, claims := looptest.One[int](t, w, onNode, job), looptest.One[int](t, w, `SELECT count(*)::int FROM gpu_claim`); claims != n {
				t.Errorf("%d claims for %d members", claims, n)
			}
			w.Check(t)
		})
	}
}

func TestAGangMayLieOnSeveralNodesOnlyIfItSaysSo(t *testing.T) {
	t.Parallel()
	w := looptest.New(t)
	w.Node(t, 16, 16384, "h100-80gb", cloud.ModeWhole, 2)
	w.Node(t, 16, 16384, "h100-80gb", cloud.ModeWhole, 2)
	s := newScheduler(w.DB)
	together, _ := w.MustCreateJob(t, looptest.Job{Min: 3, Max: 3}, looptest.Whole(1))
	tick(t, s)
	if n := looptest.One[int](t, w, onNode, together); n != 0 {
		t.Fatalf("%d members of a gang that meets are placed where no node has room for it", n)
	}
	if got := looptest.One[string](t, w, `SELECT reason FROM instance WHERE job_id = $1 LIMIT 1`, together); got != "never_fits" {
		t.Errorf("it waits for %q", got)
	}
	apart, _ := w.MustCreateJob(t, looptest.Job{Min: 3, Max: 3, AcrossNodes: true}, looptest.Whole(1))
	tick(t, s)
	if got := looptest.One[string](t, w, `SELECT format('%s on %s', count(*), count(DISTINCT node_id)) FROM instance WHERE job_id = $1 AND node_id IS NOT NULL`, apart); got != "3 on 2" {
		t.Errorf("members are placed: %s", got)
	}
	w.Check(t)
}

func TestAJobOfHigherPriorityGoesFirst(t *testing.T) {
	t.Parallel()
	w := looptest.New(t)
	w.Node(t, 16, 16384, "h100-80gb", cloud.ModeWhole, 2)
	first, _ := w.MustCreateJob(t, looptest.Job{Min: 2, Max: 2}, looptest.Whole(1))
	second, _ := w.MustCreateJob(t, looptest.Job{Min: 2, Max: 2}, looptest.Whole(1))
	w.Exec(t, `UPDATE job SET priority = 'high' WHERE id = $1`, second)
	tick(t, newScheduler(w.DB))
	if a, b := looptest.One[int](t, w, onNode, first), looptest.One[int](t, w, onNode, second); a != 0 || b != 2 {
		t.Errorf("%d members of the first job and %d of the more urgent one are placed", a, b)
	}
}
