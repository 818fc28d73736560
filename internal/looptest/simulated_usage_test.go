package looptest_test

import (
	"testing"
	"time"

	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/looptest"
	"github.com/tenon-cloud/tenon/internal/postgres"
)

// TestUsageStaysMarkedAsSimulated: when its instance is gone, and its card and
// whoever held that are forgotten.
func TestUsageStaysMarkedAsSimulated(t *testing.T) {
	t.Parallel()
	w := looptest.New(t)
	l := w.Loops()
	m := looptest.NewMachine(w.Node(t, 16, 16384, "h100-80gb", cloud.ModeMIG, 1))
	real := looptest.NewMachine(w.Node(t, 16, 16384, "h100-80gb", cloud.ModeWhole, 1))
	w.Exec(t, `UPDATE gpu SET simulated = true WHERE node_id = $1`, m.ID)
	pretend, err := w.CreateAs(t.Context(), cloud.KindContainer, cloud.StopReleases, looptest.Slices(1, "1g"))
	if err != nil {
		t.Fatal(err)
	}
	genuine := w.MustCreate(t, looptest.Whole(1))
	runs := func(id cloud.InstanceID) bool { return w.State(t, id) == cloud.StateRunning }
	l.Until(t, "they run", func() bool { return runs(pretend) && runs(genuine) }, m, real)
	for _, id := range []cloud.InstanceID{pretend, genuine} {
		if err := w.Want(t.Context(), id, cloud.DesiredDeleted); err != nil {
			t.Fatal(err)
		}
	}
	l.Until(t, "they are gone and metered", func() bool {
		return looptest.One[int](t, w, `SELECT count(*) FROM instance WHERE state <> 'deleted' OR metered_seq < event_seq`) == 0
	}, m, real)
	w.Exec(t, `DELETE FROM gpu_stay`)
	w.Exec(t, `DELETE FROM gpu`)
	var rows []postgres.UsageSegment
	err = w.DB.InSystem(t.Context(), func(tx *postgres.Tx) (err error) {
		rows, err = postgres.UsageSegments(t.Context(), tx, w.Project, time.Now().Add(-time.Hour), time.Now().Add(time.Hour))
		return err
	})
	if err != nil || len(rows) != 2 {
		t.Fatalf("%d segments, %v", len(rows), err)
	}
	for _, r := range rows {
		if r.Simulated != (r.InstanceID == pretend) {
			t.Errorf("instance %s is marked as simulated: %v", r.InstanceID, r.Simulated)
		}
	}
}
