package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tenon-cloud/tenon/internal/cloud"
)

// UsageSegment is a segment with its instance's name and its corrections, for
// reports.
type UsageSegment struct {
	ID           cloud.SegmentID
	InstanceID   cloud.InstanceID
	InstanceName string
	Kind         cloud.InstanceKind
	State        cloud.InstanceState
	Shape        cloud.Shape
	StartedAt    time.Time
	EndedAt      *time.Time
	Corrected    time.Duration // signed
	ProvenUntil  time.Time     // of an open one: the last that its node said
	Simulated    bool          // its GPUs, or the whole of it, were
}

// UsageSegments lists a project's segments that touch [from, to).
func UsageSegments(ctx context.Context, q Querier, project cloud.ProjectID, from, to time.Time) ([]UsageSegment, error) {
	rows, _ := q.Query(ctx, `
		SELECT s.id, s.instance_id, COALESCE((SELECT i.name FROM instance i WHERE i.id = s.instance_id), ''), s.kind, s.state, s.gpu_count, s.gpu_model, s.gpu_mode, s.gpu_profile, s.vcpu, s.memory_mib,
			s.started_at, s.ended_at,
			make_interval(secs => COALESCE(c.seconds, 0)::float8),
			CASE WHEN s.ended_at IS NULL THEN COALESCE(proven_until(s.instance_id), now()) ELSE s.ended_at END,
			s.simulated OR COALESCE((SELECT o.simulated FROM instance i JOIN pool o ON o.id = i.pool_id WHERE i.id = s.instance_id), false)
		FROM segment s
		LEFT JOIN LATERAL (SELECT sum(u.seconds) AS seconds FROM usage_correction u WHERE u.segment_id = s.id) c ON true
		WHERE s.project_id = $1 AND s.started_at < $3 AND (s.ended_at IS NULL OR s.ended_at > $2 OR c.seconds > 0)
		ORDER BY s.started_at, s.id`, project, from, to)
	out, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (u UsageSegment, err error) {
		s := &u.Shape
		err = row.Scan(&u.ID, &u.InstanceID, &u.InstanceName, &u.Kind, &u.State, &s.GPUCount, &s.GPUModel, &s.GPUMode, &s.GPUProfile, &s.VCPU, &s.MemoryMiB,
			&u.StartedAt, &u.EndedAt, &u.Corrected, &u.ProvenUntil, &u.Simulated)
		return u, err
	})
	return out, wrap("list segments", err)
}
