package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/tenon-cloud/tenon/internal/cloud"
)

// Condition is what about a node may need a person.
type Condition struct {
	ID             cloud.NodeID
	Name           string
	State          cloud.NodeState
	Fenced         bool
	Confirmed      bool // by a person, to be off
	Watchdog       bool
	Orphans        []cloud.Orphan
	Restarts       int            // instances on it that should restart elsewhere
	UnknownCards   int            // that could not be asked
	CertificateFor *time.Duration // how long its newest certificate is still good; nil: it has none
}

// ConditionList reads every node's.
func ConditionList(ctx context.Context, q Querier) ([]Condition, error) {
	rows, err := q.Query(ctx, `
		SELECT n.id, n.name, n.state, n.fenced_at IS NOT NULL, n.fenced_by IS NOT NULL, n.watchdog, n.orphans,
			COALESCE(i.n, 0), COALESCE(g.n, 0), c.until - now()
		FROM node n
		LEFT JOIN (SELECT node_id, count(*) AS n FROM instance WHERE node_id IS NOT NULL AND on_node_loss = 'restart' AND state IN ('starting', 'running') GROUP BY node_id) i ON i.node_id = n.id
		LEFT JOIN (SELECT node_id, count(*) AS n FROM gpu WHERE state = 'unknown' GROUP BY node_id) g ON g.node_id = n.id
		LEFT JOIN (SELECT node_id, max(not_after) AS until FROM node_certificate WHERE revoked_at IS NULL GROUP BY node_id) c ON c.node_id = n.id
		WHERE n.forgotten_at IS NULL AND n.last_seen_at IS NOT NULL
			AND (n.state = 'lost' OR n.fenced_at IS NOT NULL OR n.orphans <> '[]' OR NOT n.watchdog AND i.n > 0 OR g.n > 0 OR c.until < now() + interval '1 day')
		ORDER BY n.id`)
	if err != nil {
		return nil, fmt.Errorf("read nodes' conditions: %w", err)
	}
	out, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Condition])
	if err != nil {
		return nil, fmt.Errorf("read nodes' conditions: %w", err)
	}
	return out, nil
}

// LostVolume is data that is gone against its owner's will.
type LostVolume struct {
	ID           cloud.VolumeID
	Role         cloud.VolumeRole
	InstanceName string
	OrgName      string
	Node         string // empty: it was given up
	Message      string
}

// VolumesLost lists them. What lies on a node that is merely lost may come back.
func VolumesLost(ctx context.Context, q Querier) ([]LostVolume, error) {
	rows, err := q.Query(ctx, `
		SELECT v.id, v.role, i.name, o.name, CASE WHEN n.forgotten_at IS NULL THEN n.name ELSE '' END, v.message FROM volume v JOIN instance i ON i.id = v.instance_id JOIN organisation o ON o.id = v.org_id JOIN node n ON n.id = v.node_id
		WHERE v.state = 'lost' AND i.state <> 'deleted' AND (n.forgotten_at IS NOT NULL OR v.said IN ('gone', 'failed')) ORDER BY v.id LIMIT 1000`)
	if err != nil {
		return nil, fmt.Errorf("list lost volumes: %w", err)
	}
	out, err := pgx.CollectRows(rows, pgx.RowToStructByPos[LostVolume])
	if err != nil {
		return nil, fmt.Errorf("list lost volumes: %w", err)
	}
	return out, nil
}

// AlarmsSettle makes the open alarms about nodes, cards and volumes those that are
// wanted. One that is open already stays as it is. That of a restore is over when
// somebody has acknowledged it.
func AlarmsSettle(ctx context.Context, q Querier, want []cloud.Alarm) error {
	type row struct {
		ID       uuid.UUID `json:"id"`
		Key      string    `json:"key"`
		Severity string    `json:"severity"`
		Subject  string    `json:"subject"`
		Message  string    `json:"message"`
	}
	list := make([]row, len(want))
	for i, a := range want {
		list[i] = row{uuid.Must(uuid.NewV7()), a.Key, a.Severity, a.Subject, a.Message}
	}
	_, err := q.Exec(ctx, `
		WITH wanted AS (SELECT DISTINCT ON (key) * FROM json_to_recordset($1::json) AS r (id uuid, key text, severity text, subject text, message text) ORDER BY key),
		over AS (
			UPDATE alarm a SET cleared_at = now()
			WHERE a.cleared_at IS NULL AND (a.key LIKE 'node:%' OR a.key LIKE 'volume:%' OR a.key LIKE 'gpu:%'
				OR a.key LIKE 'cloud:restored:%' AND a.acknowledged_at IS NOT NULL) AND NOT EXISTS (SELECT FROM wanted w WHERE w.key = a.key)
		)
		INSERT INTO alarm (id, key, severity, subject, message)
		SELECT id, key, severity, subject, message FROM wanted w WHERE NOT EXISTS (SELECT FROM alarm a WHERE a.key = w.key AND a.cleared_at IS NULL)
		ON CONFLICT (key) WHERE cleared_at IS NULL DO NOTHING`, asJSON(list))
	if err != nil {
		return fmt.Errorf("settle alarms: %w", err)
	}
	return nil
}

// RemovalAdd notes, as an operator, that a node may end what nobody assigned.
// It says whether that is new.
func RemovalAdd(ctx context.Context, q Querier, node cloud.NodeID, what string, by cloud.UserID) (added bool, err error) {
	tag, err := q.Exec(ctx, `INSERT INTO node_removal (node_id, what, asked_by) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING`, node, what, by)
	if err != nil {
		return false, wrap("ask for a removal", err)
	}
	return tag.RowsAffected() > 0, nil
}

// RemovalsClear forgets removals that nodes have carried out, and says of which
// nodes: their reports no longer show what was to go.
func RemovalsClear(ctx context.Context, q Querier) ([]cloud.NodeID, error) {
	rows, err := q.Query(ctx, `
		WITH done AS (
			DELETE FROM node_removal r USING node n
			WHERE n.id = r.node_id AND n.last_seen_at > r.asked_at + interval '1 second' AND n.ack_generation >= n.generation
				AND NOT EXISTS (SELECT FROM jsonb_array_elements(n.orphans) o WHERE o->>'id' = r.what)
			RETURNING r.node_id
		) SELECT DISTINCT node_id FROM done ORDER BY node_id`)
	if err != nil {
		return nil, fmt.Errorf("forget removals: %w", err)
	}
	out, err := pgx.CollectRows(rows, pgx.RowTo[cloud.NodeID])
	if err != nil {
		return nil, fmt.Errorf("forget removals: %w", err)
	}
	return out, nil
}
