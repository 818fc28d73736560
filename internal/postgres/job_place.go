package postgres

import (
	"context"

	"github.com/tenon-cloud/tenon/internal/cloud"
)

// WaitingJob is the gang that an instance in the queue belongs to.
type WaitingJob struct {
	ID          cloud.JobID
	Rank        int
	Min, Max    int // members, all placed at once
	AcrossNodes bool
}

// The columns of a WaitingJob and its priority, of instance i and job j.
const waitingJobColumns = `j.id, COALESCE(i.job_rank, 0), COALESCE(j.members_min, 0), COALESCE(j.members_max, 0), COALESCE(j.across_nodes, false), COALESCE(j.array_tasks, 0), COALESCE(j.priority, '')`

// waitingJobSQL is true of what may be placed now: a gang only while it waits as a
// whole. A member that lost its place waits for the others to end.
const waitingJobSQL = `(i.job_id IS NULL OR j.desired_state = 'running' AND (j.state = 'queued' OR j.array_tasks > 0))`

// gang completes what is waiting with the columns of its job.
func (w *Waiting) gang(job WaitingJob, tasks int, priority string) {
	if job.ID.IsZero() {
		return
	}
	w.Priority = cloud.Priority(priority).Rank()
	if tasks == 0 {
		w.Job = &job
	}
}

// JobPlacing locks a gang's job, before its members, and gives it if it still
// waits.
func JobPlacing(ctx context.Context, q Querier, id cloud.JobID) (JobStanding, bool, error) {
	list, err := JobLock(ctx, q, id)
	if err != nil || len(list) == 0 {
		return JobStanding{}, false, err
	}
	j := list[0]
	return j, j.State == cloud.JobQueued && j.Desired == cloud.JobWanted && j.Ending == "", nil
}
