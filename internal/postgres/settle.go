package postgres

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/tenon-cloud/tenon/internal/cloud"
)

// InstanceRef is an instance that needs a step, with the project whose limits
// are locked before it.
type InstanceRef struct {
	ID        cloud.InstanceID
	ProjectID cloud.ProjectID
}

// SplitRefs gives the projects, each once, and the ids.
func SplitRefs(refs []InstanceRef) (projects []cloud.ProjectID, ids []cloud.InstanceID) {
	for _, r := range refs {
		projects, ids = append(projects, r.ProjectID), append(ids, r.ID)
	}
	slices.SortFunc(projects, func(a, b cloud.ProjectID) int { return cmp.Compare(a.String(), b.String()) })
	return slices.Compact(projects), ids
}

// InstanceUnsettled finds instances whose tenant wants something that nothing
// has been done about; its condition is that of an index.
func InstanceUnsettled(ctx context.Context, q Querier, limit int) ([]InstanceRef, error) {
	return instanceRefs(ctx, q, `
		SELECT id, project_id FROM instance
		WHERE desired_state = 'stopped' AND state IN ('queued', 'starting', 'running')
			OR desired_state = 'deleted' AND state IN ('queued', 'starting', 'running', 'stopping', 'stopped', 'failed')
		ORDER BY id LIMIT $1`, limit)
}

// InstanceOverdue finds instances whose state has lasted past its deadline.
func InstanceOverdue(ctx context.Context, q Querier, limit int) ([]InstanceRef, error) {
	return instanceRefs(ctx, q, `
		SELECT id, project_id FROM instance
		WHERE deadline_at < now() ORDER BY deadline_at LIMIT $1`, limit)
}

func instanceRefs(ctx context.Context, q Querier, sql string, limit int) ([]InstanceRef, error) {
	rows, err := q.Query(ctx, sql, limit)
	if err != nil {
		return nil, fmt.Errorf("find instances: %w", err)
	}
	out, err := pgx.CollectRows(rows, pgx.RowToStructByPos[InstanceRef])
	if err != nil {
		return nil, fmt.Errorf("find instances: %w", err)
	}
	return out, nil
}

// NodeMove is a change of a node's liveness.
type NodeMove struct {
	ID         cloud.NodeID
	Name       string
	From, To   cloud.NodeState
	LastSeenAt *time.Time
}

// SilentSince is when the node of one's own instance was last heard of, if its
// word does not count now; the zero time if it does, or there is none.
func SilentSince(ctx context.Context, q Querier, id cloud.InstanceID) (time.Time, error) {
	var at *time.Time
	err := q.QueryRow(ctx, `SELECT silent_since($1)`, id).Scan(&at)
	if err != nil || at == nil {
		return time.Time{}, wrap("look at an instance's node", err)
	}
	return *at, nil
}

// NodesJudge sets every node's state by when it was last heard of, and gives
// those that changed. Silence counts for as long as somebody has listened, at
// most; only a sign of life makes a node ready, and a fenced one has to prove
// first that nothing is left.
func NodesJudge(ctx context.Context, q Querier, late, lost, listened time.Duration) ([]NodeMove, error) {
	rows, err := q.Query(ctx, `
		WITH judged AS (
			SELECT id, state AS was, last_seen_at AS seen, CASE
				WHEN last_seen_at IS NULL THEN state
				-- The clock was set back: what it said before is no sign of life now.
				WHEN last_seen_at > now() + $1::interval THEN CASE WHEN state = 'ready' AND $3::interval >= $1::interval THEN 'late' ELSE state END
				WHEN now() - last_seen_at < $1::interval THEN CASE WHEN fenced_at IS NULL THEN 'ready' ELSE 'late' END
				WHEN state = 'ready' AND $3::interval < $1::interval THEN 'ready'
				WHEN now() - last_seen_at < $2::interval THEN 'late'
				WHEN state <> 'lost' AND $3::interval < $2::interval THEN 'late'
				ELSE 'lost' END AS becomes
			FROM node WHERE forgotten_at IS NULL
		), locked AS MATERIALIZED (
			SELECT n.id, judged.was, judged.becomes FROM node n JOIN judged ON judged.id = n.id
			WHERE n.state <> judged.becomes AND n.state = judged.was
				AND n.last_seen_at IS NOT DISTINCT FROM judged.seen -- else it has spoken meanwhile
			ORDER BY n.id FOR NO KEY UPDATE OF n
		)
		UPDATE node n SET state = locked.becomes FROM locked WHERE n.id = locked.id
		RETURNING n.id, n.name, locked.was, locked.becomes, n.last_seen_at`, late, lost, listened)
	if err != nil {
		return nil, fmt.Errorf("judge nodes: %w", err)
	}
	out, err := pgx.CollectRows(rows, pgx.RowToStructByPos[NodeMove])
	if err != nil {
		return nil, fmt.Errorf("judge nodes: %w", err)
	}
	return out, nil
}

// InstanceForsaken finds what ran, or kept its place, on nodes that are lost or
// fenced, stays there, and is not marked so.
func InstanceForsaken(ctx context.Context, q Querier, limit int) ([]InstanceRef, error) {
	return instanceRefs(ctx, q, `
		SELECT i.id, i.project_id FROM node n JOIN instance i ON i.node_id = n.id
		WHERE (n.state = 'lost' OR n.fenced_at IS NOT NULL) AND n.forgotten_at IS NULL AND (i.state = 'running' OR i.held)
			AND i.reason <> 'node_lost' AND NOT (n.fenced_at IS NOT NULL AND `+takeable+`)
		ORDER BY i.id LIMIT $1`, limit)
}

// InstanceRegained finds what keeps its place on nodes that were lost and are
// back, and is marked still.
func InstanceRegained(ctx context.Context, q Querier, limit int) ([]InstanceRef, error) {
	return instanceRefs(ctx, q, `
		SELECT i.id, i.project_id FROM node n JOIN instance i ON i.node_id = n.id
		WHERE n.state = 'ready' AND n.fenced_at IS NULL AND n.forgotten_at IS NULL AND i.held AND i.reason = 'node_lost'
		ORDER BY i.id LIMIT $1`, limit)
}

// ObservationRevive makes news of what nodes that are back say of instances
// that were given up, where it is fresh.
func ObservationRevive(ctx context.Context, q Querier, fresh time.Duration) (int64, error) {
	tag, err := q.Exec(ctx, `
		WITH locked AS MATERIALIZED (
			SELECT o.instance_id FROM instance i
			JOIN node n ON n.id = i.node_id
			JOIN observation o ON o.instance_id = i.id AND o.node_id = n.id
			WHERE i.node_id IS NOT NULL AND i.state = 'running' AND i.reason = 'node_lost' AND n.state = 'ready'
				AND o.received_at > now() - $1::interval AND o.handled_seq >= o.seq
			ORDER BY o.instance_id FOR NO KEY UPDATE OF o
		)
		UPDATE observation o SET seq = o.seq + 1 FROM locked WHERE o.instance_id = locked.instance_id`, fresh)
	if err != nil {
		return 0, fmt.Errorf("revive observations: %w", err)
	}
	return tag.RowsAffected(), nil
}

// AlarmRaise opens an alarm unless one with its key is open.
func AlarmRaise(ctx context.Context, q Querier, a cloud.Alarm) error {
	_, err := q.Exec(ctx, `
		INSERT INTO alarm (id, key, severity, subject, message) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (key) WHERE cleared_at IS NULL DO NOTHING`,
		uuid.Must(uuid.NewV7()), a.Key, a.Severity, a.Subject, a.Message)
	if err != nil {
		return fmt.Errorf("raise alarm %s: %w", a.Key, err)
	}
	return nil
}

// AlarmsClear clears open alarms whose cause is over.
func AlarmsClear(ctx context.Context, q Querier, keys []string) error {
	if len(keys) == 0 {
		return nil
	}
	if _, err := q.Exec(ctx, `UPDATE alarm SET cleared_at = now() WHERE key = ANY($1) AND cleared_at IS NULL`, keys); err != nil {
		return fmt.Errorf("clear alarms: %w", err)
	}
	return nil
}

// SessionPrune forgets sessions that have expired, as tenon_system.
func SessionPrune(ctx context.Context, q Querier) (int64, error) {
	tag, err := q.Exec(ctx, `DELETE FROM session WHERE expires_at < now()`)
	if err != nil {
		return 0, fmt.Errorf("forget sessions: %w", err)
	}
	return tag.RowsAffected(), nil
}
