package looptest

import (
	"context"
	"fmt"
	"testing"

	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/postgres"
)

// Job is what a test asks for of a job.
type Job struct {
	Min, Max    int // members; zero: 1
	Tasks       int // of an array, AtOnce of them at once
	AtOnce      int
	AcrossNodes bool
	Retries     int
	MaxSeconds  *int
}

// CreateJob admits a job with its members, as package app does.
func (w *World) CreateJob(ctx context.Context, j Job, s cloud.Shape) (id cloud.JobID, members []cloud.InstanceID, err error) {
	ID(&id)
	j.Min, j.Max = max(j.Min, 1), max(j.Max, j.Min, 1)
	n, begin := max(j.Max, j.Tasks), max(j.Max, j.AtOnce)
	name := fmt.Sprintf("job-%d", w.serial.Add(1))
	err = w.DB.InSystem(ctx, func(tx *postgres.Tx) error {
		members = nil
		sum := postgres.Amounts{cloud.QuotaInstances: int64(n)}
		for r, one := range amounts(s) {
			sum[r] = one * int64(begin)
		}
		if err := postgres.QuotaReserve(ctx, tx, w.Project, sum); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `
			INSERT INTO job (id, org_id, project_id, name, image_org_id, image_id, flavor_id, pool_id, created_by,
				members_min, members_max, array_tasks, array_parallel, across_nodes, retries, max_seconds)
			VALUES ($1, $2, $3, $4, $2, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)`,
			id, w.Org, w.Project, name, w.image, w.flavor, w.pool, w.user, j.Min, j.Max, j.Tasks, j.AtOnce, j.AcrossNodes, j.Retries, j.MaxSeconds)
		if err != nil {
			return err
		}
		for rank := range n {
			var m cloud.InstanceID
			ID(&m)
			state, reason := cloud.StateQueued, ""
			if rank >= begin {
				state, reason = cloud.StateStopped, postgres.ReasonTurn
			}
			_, err := tx.Exec(ctx, `
				INSERT INTO instance (id, org_id, project_id, name, image_org_id, image_id, image_digest, flavor_id, pool_id,
					gpu_count, gpu_model, gpu_mode, gpu_profile, vcpu, memory_mib, disk_mib, created_by, kind, job_id, job_rank, state, reason, holds_quota, on_node_loss, on_node_reboot)
				VALUES ($1, $2, $3, $4, $2, $5, 'sha256:0', $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, 'container', $16, $17, $18, $19, $20, 'restart', 'fail')`,
				m, w.Org, w.Project, cloud.MemberName(name, rank), w.image, w.flavor, w.pool,
				s.GPUCount, s.GPUModel, s.GPUMode, s.GPUProfile, s.VCPU, s.MemoryMiB, s.DiskMiB, w.user, id, rank, state, reason, state == cloud.StateQueued)
			if err != nil {
				return err
			}
			members = append(members, m)
			if err := w.say(ctx, tx, m, "created", postgres.TopicSchedule, nil); err != nil {
				return err
			}
		}
		return nil
	})
	return id, members, err
}

// MustCreateJob is CreateJob for a test that can't go on without it.
func (w *World) MustCreateJob(t testing.TB, j Job, s cloud.Shape) (cloud.JobID, []cloud.InstanceID) {
	t.Helper()
	id, members, err := w.CreateJob(t.Context(), j, s)
	if err != nil {
		t.Fatal(err)
	}
	return id, members
}

// WantJob writes an intent, as package app does.
func (w *World) WantJob(ctx context.Context, id cloud.JobID, desired cloud.JobDesired) error {
	return w.DB.InSystem(ctx, func(tx *postgres.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE job SET desired_state = $2, generation = generation + 1, look_at = now() WHERE id = $1`, id, desired)
		tx.Wake(postgres.TopicLifecycle)
		return err
	})
}

// JobState reads where a job is.
func (w *World) JobState(t testing.TB, id cloud.JobID) cloud.JobState {
	t.Helper()
	return cloud.JobState(One[string](t, w, `SELECT state FROM job WHERE id = $1`, id))
}
