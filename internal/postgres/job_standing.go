package postgres

import (
	"context"
	"encoding/json"
	"maps"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tenon-cloud/tenon/internal/cloud"
)

// JobStanding is the part of a job that the loops decide on. A loop locks it,
// before its members, changes it and saves it.
type JobStanding struct {
	ID        cloud.JobID
	OrgID     cloud.OrgID
	ProjectID cloud.ProjectID
	Name      string

	MembersMin    int
	MembersMax    int
	ArrayTasks    int
	ArrayParallel int
	MaxSeconds    *int
	Retries       int
	Desired       cloud.JobDesired
	State         cloud.JobState
	StateAt       time.Time
	Reason        string
	Message       string
	Attempt       int
	Size          int
	Ending        string
	EndingMessage string
	RetriesUsed   int
	FreeRestarts  int
	PlacedAt      *time.Time
	StartedAt     *time.Time
	FinishedAt    *time.Time
	DeletedAt     *time.Time
	LookAt        *time.Time
	Looked        int64
	EventSeq      int64
}

const jobStandingColumns = `id, org_id, project_id, name, members_min, members_max, array_tasks, array_parallel, max_seconds, retries,
	desired_state AS desired, state, state_at, reason, message, attempt, size, ending, ending_message, retries_used, free_restarts,
	placed_at, started_at, finished_at, deleted_at, look_at, looked, event_seq`

// JobRef is a job that needs a step, with the project whose limits are locked
// before it.
type JobRef struct {
	ID        cloud.JobID
	ProjectID cloud.ProjectID
}

// JobUnsettled finds jobs, after one, about which something is to be done: by the
// clock, or since a member of theirs has moved.
func JobUnsettled(ctx context.Context, q Querier, after cloud.JobID, limit int) ([]JobRef, error) {
	rows, _ := q.Query(ctx, `
		SELECT j.id, j.project_id FROM job j
		WHERE (j.state IN ('queued', 'starting', 'running') OR j.desired_state = 'deleted' AND j.state <> 'deleted')
			AND j.id > COALESCE($1, '00000000-0000-0000-0000-000000000000'::uuid)
			AND (j.look_at <= now() OR j.looked <> (SELECT COALESCE(sum(i.event_seq), 0) FROM instance i WHERE i.job_id = j.id))
		ORDER BY j.id LIMIT $2`, after, limit)
	out, err := pgx.CollectRows(rows, pgx.RowToStructByPos[JobRef])
	return out, wrap("find jobs", err)
}

// JobLock locks jobs, in the order of their ids.
func JobLock(ctx context.Context, q Querier, ids ...cloud.JobID) ([]JobStanding, error) {
	rows, _ := q.Query(ctx, `SELECT `+jobStandingColumns+` FROM job WHERE id = ANY($1) ORDER BY id FOR NO KEY UPDATE`, uuids(ids))
	return all[JobStanding](rows, "lock jobs")
}

// JobMembers locks a locked job's members that are not deleted, in the order of
// their ids, and gives them by rank.
func JobMembers(ctx context.Context, q Querier, id cloud.JobID) ([]Standing, error) {
	rows, _ := q.Query(ctx, `
		WITH locked AS MATERIALIZED (SELECT `+standingColumns+` FROM instance WHERE job_id = $1 AND state <> 'deleted' ORDER BY id FOR NO KEY UPDATE)
		SELECT * FROM locked ORDER BY job_rank`, id)
	out, err := pgx.CollectRows(rows, standingScan)
	return out, wrap("lock a job's members", err)
}

// JobSave writes a locked job back. The database refuses an illegal move, and one
// that says that nothing runs while something does.
func JobSave(ctx context.Context, q Querier, s JobStanding) error {
	_, err := q.Exec(ctx, `
		UPDATE job SET state = $2, state_at = $3, reason = $4, message = $5, attempt = $6, size = $7, ending = $8, ending_message = $9,
			retries_used = $10, free_restarts = $11, placed_at = $12, started_at = $13, finished_at = $14, deleted_at = $15,
			look_at = $16, event_seq = $17,
			looked = (SELECT COALESCE(sum(i.event_seq), 0) FROM instance i WHERE i.job_id = $1)
		WHERE id = $1`,
		s.ID, s.State, s.StateAt, s.Reason, s.Message, s.Attempt, s.Size, s.Ending, s.EndingMessage,
		s.RetriesUsed, s.FreeRestarts, s.PlacedAt, s.StartedAt, s.FinishedAt, s.DeletedAt, s.LookAt, s.EventSeq)
	return wrap("save a job", err)
}

// JobAttemptAdd keeps what became of an attempt.
func JobAttemptAdd(ctx context.Context, q Querier, s JobStanding, a cloud.JobAttempt) error {
	members, err := json.Marshal(a.Members)
	if err != nil {
		return wrap("keep an attempt", err)
	}
	_, err = q.Exec(ctx, `
		INSERT INTO job_attempt (job_id, org_id, project_id, number, rank, placed_at, started_at, ended_at, outcome, message, members)
		VALUES ($1, $2, $3, COALESCE($4, (SELECT max(number) FROM job_attempt WHERE job_id = $1), 0) + 1, $5, $6, $7, $8, $9, $10, $11)`,
		s.ID, s.OrgID, s.ProjectID, numberBefore(a.Number), a.Rank, a.PlacedAt, a.StartedAt, a.EndedAt, a.Outcome, a.Message, members)
	return wrap("keep an attempt", err)
}

// numberBefore is nil for an attempt that takes the next number.
func numberBefore(n int) *int {
	if n == 0 {
		return nil
	}
	n--
	return &n
}

// JobMemberTries writes how often a locked task of an array was started again.
func JobMemberTries(ctx context.Context, q Querier, list []Standing) error {
	for _, s := range list {
		if _, err := q.Exec(ctx, `UPDATE instance SET job_tries = $2, job_free = $3 WHERE id = $1`, s.ID, s.JobTries, s.JobFree); err != nil {
			return wrap("count a task's tries", err)
		}
	}
	return nil
}

// JobEvent numbers the next event of a locked job; save the job in the same
// transaction.
func JobEvent(s *JobStanding, verb, message string, at time.Time, data map[string]any) cloud.Event {
	s.EventSeq++
	all := map[string]any{"state": string(s.State), "reason": s.Reason, "attempt": s.Attempt}
	maps.Copy(all, data)
	return cloud.Event{
		ID:    derived(cloud.EventID{}, "job", s.ID.String(), strconv.FormatInt(s.EventSeq, 10)),
		OrgID: s.OrgID, ProjectID: s.ProjectID, Resource: "job", ResourceID: s.ID.String(),
		Seq: s.EventSeq, Verb: verb, Message: message, At: at, Data: all,
	}
}
