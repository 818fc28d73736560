package postgres

import (
	"context"
	"encoding/json"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tenon-cloud/tenon/internal/cloud"
)

// Job is a job with what its pages show besides.
type Job struct {
	cloud.Job
	Waiting string          // while queued: why, as its first waiting member says
	Reasons json.RawMessage // of that
	First   cloud.InstanceID
	Shape   cloud.Shape // of each member
	// Its members by where they are.
	Queued, Active, Succeeded, Failed int
}

const jobSelect = `
	SELECT j.id, j.org_id, j.project_id, p.name, j.name, j.image_id, m.name, j.flavor_id, f.name, o.name,
		o.simulated OR EXISTS (SELECT FROM instance i, LATERAL instance_devices(i.id) d WHERE i.job_id = j.id AND i.node_id IS NOT NULL AND i.gpu_count > 0 AND d.simulated),
		j.command, j.env, j.labels, j.members_min, j.members_max, j.array_tasks, j.array_parallel, j.across_nodes,
		j.priority, j.tier, j.spot, j.expected_seconds, j.max_seconds, j.retries,
		j.desired_state, j.generation, j.state, j.state_at, j.reason, j.message, j.attempt, j.size, j.retries_used,
		j.placed_at, j.started_at, j.finished_at, j.deleted_at, j.created_by, j.created_at,
		COALESCE(w.message, ''), COALESCE(w.reasons, '[]'), w.id,
		COALESCE(c.queued, 0), COALESCE(c.active, 0), COALESCE(c.succeeded, 0), COALESCE(c.failed, 0),
		COALESCE(c.gpu_count, 0), COALESCE(c.gpu_model, ''), COALESCE(c.gpu_mode, ''), COALESCE(c.gpu_profile, ''), COALESCE(c.vcpu, 0), COALESCE(c.memory_mib, 0), COALESCE(c.disk_mib, 0)
	FROM job j
	JOIN project p ON p.id = j.project_id
	JOIN image m ON m.org_id = j.image_org_id AND m.id = j.image_id
	JOIN flavor f ON f.id = j.flavor_id
	JOIN pool o ON o.id = j.pool_id
	LEFT JOIN LATERAL (SELECT i.id, i.message, i.reasons FROM instance i WHERE i.job_id = j.id AND i.state = 'queued' ORDER BY i.job_rank LIMIT 1) w ON true
	LEFT JOIN LATERAL (SELECT
		count(*) FILTER (WHERE i.state = 'queued' OR i.state = 'stopped' AND i.reason = 'waits_turn')::int AS queued,
		count(*) FILTER (WHERE i.state IN ('starting', 'running', 'stopping', 'deleting'))::int AS active,
		count(*) FILTER (WHERE i.state = 'stopped' AND i.reason = 'exited')::int AS succeeded,
		count(*) FILTER (WHERE i.state = 'failed')::int AS failed,
		min(i.gpu_count) AS gpu_count, min(i.gpu_model) AS gpu_model, min(i.gpu_mode) AS gpu_mode, min(i.gpu_profile) AS gpu_profile,
		min(i.vcpu) AS vcpu, min(i.memory_mib) AS memory_mib, min(i.disk_mib) AS disk_mib
		FROM instance i WHERE i.job_id = j.id) c ON true`

func jobScan(row pgx.CollectableRow) (j Job, err error) {
	s := &j.Shape
	err = row.Scan(&j.ID, &j.OrgID, &j.ProjectID, &j.ProjectName, &j.Name, &j.ImageID, &j.ImageName, &j.FlavorID, &j.FlavorName, &j.PoolName, &j.Simulated,
		&j.Command, &j.Env, &j.Labels, &j.MembersMin, &j.MembersMax, &j.ArrayTasks, &j.ArrayParallel, &j.AcrossNodes,
		&j.Priority, &j.Tier, &j.Spot, &j.ExpectedSeconds, &j.MaxSeconds, &j.Retries,
		&j.Desired, &j.Generation, &j.State, &j.StateAt, &j.Reason, &j.Message, &j.Attempt, &j.Size, &j.RetriesUsed,
		&j.PlacedAt, &j.StartedAt, &j.FinishedAt, &j.DeletedAt, &j.CreatedBy, &j.CreatedAt,
		&j.Waiting, &j.Reasons, &j.First, &j.Queued, &j.Active, &j.Succeeded, &j.Failed,
		&s.GPUCount, &s.GPUModel, &s.GPUMode, &s.GPUProfile, &s.VCPU, &s.MemoryMiB, &s.DiskMiB)
	return j, err
}

// JobGet finds one of a project; by name only while it is not deleted.
func JobGet(ctx context.Context, q Querier, project cloud.ProjectID, ref Ref) (Job, error) {
	rows, _ := q.Query(ctx, jobSelect+`
		WHERE j.project_id = $1 AND (j.id = $2 OR j.name = $3 AND j.state <> 'deleted')`, project, ref.ID, ref.Name)
	out, err := pgx.CollectExactlyOneRow(rows, jobScan)
	return out, wrap("get job", err)
}

// JobList lists a project's jobs, newest first, before one.
func JobList(ctx context.Context, q Querier, project cloud.ProjectID, state cloud.JobState, deleted bool, before *cloud.JobID, limit int) ([]Job, error) {
	rows, _ := q.Query(ctx, jobSelect+`
		WHERE j.project_id = $1 AND ($2::uuid IS NULL OR j.id < $2) AND ($3 = '' OR j.state = $3) AND ($4 OR j.state <> 'deleted')
		ORDER BY j.id DESC LIMIT $5`, project, before, string(state), deleted, limit)
	out, err := pgx.CollectRows(rows, jobScan)
	return out, wrap("list jobs", err)
}

// JobInstances lists a job's members by rank, deleted ones only with it.
func JobInstances(ctx context.Context, q Querier, id cloud.JobID) ([]Instance, error) {
	rows, _ := q.Query(ctx, instanceSelect+`
		WHERE i.job_id = $1 ORDER BY i.job_rank`, id)
	out, err := pgx.CollectRows(rows, instanceScan)
	return out, wrap("list a job's members", err)
}

// JobAttempts lists what became of a job's attempts, newest first.
func JobAttempts(ctx context.Context, q Querier, id cloud.JobID, limit int) ([]cloud.JobAttempt, error) {
	rows, _ := q.Query(ctx, `
		SELECT number, rank, placed_at, started_at, ended_at, outcome, message, members
		FROM job_attempt WHERE job_id = $1 ORDER BY number DESC LIMIT $2`, id, limit)
	return all[cloud.JobAttempt](rows, "list a job's attempts")
}

// JobAdmission is all that must be so for a new job to exist.
type JobAdmission struct {
	Job         cloud.Job
	PoolID      cloud.PoolID
	ImageOrg    cloud.OrgID // zero: offered
	Takes       Amounts
	Members     []Admission // their instances, events and audit rows
	Event       cloud.Event
	Audit       Audit
	Idempotency *Idempotency
}

// JobAdmit commits a job with its members, all or none, in one message, and wakes
// who waits for them.
func JobAdmit(ctx context.Context, db *DB, a JobAdmission) error {
	wakes := []string{TopicSchedule, TopicMeter, TopicLifecycle, TopicChange(a.Job.ProjectID)}
	return db.PipeAPI(ctx, Scope{Org: a.Job.OrgID}, wakes, func(b *pgx.Batch) {
		if a.Idempotency != nil {
			b.Queue(idempotencySQL, a.Idempotency.args()...)
		}
		resources, amounts := a.Takes.arrays()
		b.Queue(quotaReserveSQL, a.Job.ProjectID, resources, amounts)
		b.Queue(jobAddSQL, a.args()...)
		for _, m := range a.Members {
			b.Queue(instanceAddSQL, m.args()...)
			b.Queue(eventSQL, eventArgs(m.Event, m.Instance.ID.UUID())...)
		}
		b.Queue(eventSQL, eventArgs(a.Event, a.Job.ID.UUID())...)
		b.Queue(auditSQL, a.Audit.args()...)
	})
}

const jobAddSQL = `
	INSERT INTO job (id, org_id, project_id, name, image_org_id, image_id, flavor_id, pool_id, command, env, labels,
		members_min, members_max, array_tasks, array_parallel, across_nodes, priority, tier, spot, expected_seconds, max_seconds, retries,
		created_by, created_at, state_at, event_seq)
	VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $24, 1)`

func (a JobAdmission) args() []any {
	j := a.Job
	imageOrg := a.ImageOrg
	if imageOrg.IsZero() {
		imageOrg = OfferedOrg
	}
	return []any{j.ID, j.OrgID, j.ProjectID, j.Name, imageOrg, j.ImageID, j.FlavorID, a.PoolID, j.Command, words(j.Env), words(j.Labels),
		j.MembersMin, j.MembersMax, j.ArrayTasks, j.ArrayParallel, j.AcrossNodes, j.Priority, j.Tier, j.Spot, j.ExpectedSeconds, j.MaxSeconds, j.Retries,
		j.CreatedBy, j.CreatedAt}
}

// JobFind resolves a name or id to an id, without the rest.
func JobFind(ctx context.Context, q Querier, project cloud.ProjectID, ref Ref) (id cloud.JobID, err error) {
	err = q.QueryRow(ctx, `
		SELECT id FROM job WHERE project_id = $1 AND state <> 'deleted' AND (id = $2 OR name = $3)`, project, ref.ID, ref.Name).Scan(&id)
	return id, wrap("find job", err)
}

// JobIntent writes what is wanted of a locked job, with the event's number; the
// lifecycle loop looks at it at once.
func JobIntent(ctx context.Context, q Querier, s JobStanding, desired cloud.JobDesired, now time.Time) error {
	_, err := q.Exec(ctx, `
		UPDATE job SET desired_state = $2, generation = generation + 1, event_seq = $3, look_at = $4 WHERE id = $1`, s.ID, desired, s.EventSeq, now)
	return wrap("save an intent", err)
}
