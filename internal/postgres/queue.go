package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tenon-cloud/tenon/internal/cloud"
)

// Waiting is an instance in the queue.
type Waiting struct {
	ID         cloud.InstanceID
	OrgID      cloud.OrgID
	ProjectID  cloud.ProjectID
	Kind       cloud.InstanceKind
	Shape      cloud.Shape
	Pool       string
	Generation int64
	QueuedAt   time.Time
	Reason     string
	Message    string
	Home       cloud.NodeID // where its data lies; zero: it has none yet
	HomeName   string
	HomeState  cloud.NodeState
	Priority   int         // higher first
	Job        *WaitingJob // the gang that it is placed with; nil: it is placed alone
}

// homeSQL finds the node that an instance's data lies on, which is the only one
// that it can run on.
const homeSQL = `
	SELECT n.id, n.name, n.state FROM volume v JOIN node n ON n.id = v.node_id
	WHERE v.instance_id = i.id AND (v.state IN ('present', 'lost') OR v.state = 'pending' AND v.said = 'present') LIMIT 1`

// QueueRead reads what waits, oldest first.
func QueueRead(ctx context.Context, q Querier, limit int) ([]Waiting, error) {
	rows, _ := q.Query(ctx, `
		SELECT i.id, i.org_id, i.project_id, i.kind, i.gpu_count, i.gpu_model, i.gpu_mode, i.gpu_profile, i.vcpu, i.memory_mib, i.disk_mib,
			p.name, i.generation, i.queued_at, i.reason, i.message, h.id, COALESCE(h.name, ''), COALESCE(h.state, ''),
			`+waitingJobColumns+`
		FROM instance i JOIN pool p ON p.id = i.pool_id LEFT JOIN job j ON j.id = i.job_id
		LEFT JOIN LATERAL (`+homeSQL+`) h ON true
		WHERE i.state = 'queued' AND i.desired_state = 'running' AND `+waitingJobSQL+`
		ORDER BY i.queued_at, i.id LIMIT $1`, limit)
	out, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (w Waiting, err error) {
		var job WaitingJob
		var tasks int
		var priority string
		err = row.Scan(&w.ID, &w.OrgID, &w.ProjectID, &w.Kind, &w.Shape.GPUCount, &w.Shape.GPUModel, &w.Shape.GPUMode, &w.Shape.GPUProfile,
			&w.Shape.VCPU, &w.Shape.MemoryMiB, &w.Shape.DiskMiB, &w.Pool, &w.Generation, &w.QueuedAt, &w.Reason, &w.Message,
			&w.Home, &w.HomeName, &w.HomeState,
			&job.ID, &job.Rank, &job.Min, &job.Max, &job.AcrossNodes, &tasks, &priority)
		w.gang(job, tasks, priority)
		return w, err
	})
	return out, wrap("read the queue", err)
}

// Refused is why an instance waits.
type Refused struct {
	ID         cloud.InstanceID
	Generation int64
	Reason     string
	Message    string
	Reasons    string // JSON: [{reason, count}]
}

// QueueRefuse writes why instances wait, where that is not what is written
// already. It gives those that had no reason before, locked, for their event.
func QueueRefuse(ctx context.Context, q Querier, list []Refused) (first []Standing, projects []cloud.ProjectID, err error) {
	if len(list) == 0 {
		return nil, nil, nil
	}
	type row struct {
		ID         string `json:"id"`
		Generation int64  `json:"generation"`
		Reason     string `json:"reason"`
		Message    string `json:"message"`
		Reasons    string `json:"reasons"`
	}
	in := make([]row, len(list))
	for i, r := range list {
		in[i] = row{r.ID.UUID().String(), r.Generation, r.Reason, r.Message, r.Reasons}
	}
	rows, err := q.Query(ctx, `
		WITH said AS (
			SELECT * FROM json_to_recordset($1::json) AS r (id uuid, generation bigint, reason text, message text, reasons text)
		), locked AS MATERIALIZED (
			SELECT i.id, i.reason AS old_reason, said.reason, said.message, said.reasons
			FROM instance i JOIN said ON said.id = i.id
			WHERE i.state = 'queued' AND i.desired_state = 'running' AND i.generation = said.generation
				AND (i.reason, i.message) IS DISTINCT FROM (said.reason, said.message)
			ORDER BY i.id FOR NO KEY UPDATE OF i
		)
		UPDATE instance i SET reason = l.reason, message = l.message, reasons = l.reasons::jsonb
		FROM locked l WHERE i.id = l.id
		RETURNING i.id, i.project_id, l.old_reason = ''`, asJSON(in))
	if err != nil {
		return nil, nil, fmt.Errorf("write why instances wait: %w", err)
	}
	var fresh []cloud.InstanceID
	seen := map[cloud.ProjectID]bool{}
	var id cloud.InstanceID
	var project cloud.ProjectID
	var isFirst bool
	_, err = pgx.ForEachRow(rows, []any{&id, &project, &isFirst}, func() error {
		if isFirst {
			fresh = append(fresh, id)
		}
		if !seen[project] {
			seen[project] = true
			projects = append(projects, project)
		}
		return nil
	})
	if err != nil {
		return nil, nil, fmt.Errorf("write why instances wait: %w", err)
	}
	if len(fresh) > 0 {
		first, err = StandingLock(ctx, q, fresh)
	}
	return first, projects, err
}

// QueueOf lists what waits in a pool, oldest first, as tenon_system.
func QueueOf(ctx context.Context, q Querier, pool cloud.PoolID, limit int) ([]Waiting, error) {
	rows, _ := q.Query(ctx, `
		SELECT i.id, i.kind, i.gpu_count, i.gpu_model, i.gpu_mode, i.gpu_profile, i.vcpu, i.memory_mib, i.disk_mib, i.queued_at, h.id
		FROM instance i LEFT JOIN LATERAL (`+homeSQL+`) h ON true
		WHERE i.state = 'queued' AND i.desired_state = 'running' AND i.pool_id = $1
		ORDER BY i.queued_at, i.id LIMIT $2`, pool, limit)
	out, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (w Waiting, err error) {
		err = row.Scan(&w.ID, &w.Kind, &w.Shape.GPUCount, &w.Shape.GPUModel, &w.Shape.GPUMode, &w.Shape.GPUProfile,
			&w.Shape.VCPU, &w.Shape.MemoryMiB, &w.Shape.DiskMiB, &w.QueuedAt, &w.Home)
		return w, err
	})
	return out, wrap("list the queue", err)
}
