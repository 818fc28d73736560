package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tenon-cloud/tenon/internal/cloud"
)

// IncidentSaid is a fault as a node tells of it.
type IncidentSaid struct {
	cloud.Incident
	PCIAddress string
	Age        time.Duration
}

// IncidentsReported keeps faults of a node's cards, as tenon_node: each once,
// however often it is told, and told of again when it got worse. An instance that
// isn't on the node is not named.
func IncidentsReported(ctx context.Context, q Querier, node cloud.NodeID, list []IncidentSaid) (added bool, err error) {
	if len(list) == 0 {
		return false, nil
	}
	b := &pgx.Batch{}
	ids := make([]string, len(list))
	for i, x := range list {
		ids[i] = x.ID
		var instance any
		if !x.InstanceID.IsZero() {
			instance = x.InstanceID
		}
		b.Queue(`
			INSERT INTO gpu_incident AS x (node_id, id, gpu_id, kind, xid, action, message, instance_id, at)
			SELECT $1, $2, g.id, $4, $5, $6, $7, (SELECT i.id FROM instance i WHERE i.id = $8 AND i.node_id = $1), now() - $9::interval
			FROM gpu g WHERE g.node_id = $1 AND g.pci_address = $3
			ON CONFLICT (node_id, id) DO UPDATE SET kind = excluded.kind, xid = excluded.xid, action = excluded.action, message = excluded.message, told = false
			WHERE array_position(ARRAY['none', 'needs_reset', 'out'], x.action) < array_position(ARRAY['none', 'needs_reset', 'out'], excluded.action)`,
			node, x.ID, x.PCIAddress, x.Kind, x.XID, x.Action, x.Message, instance, x.Age).Exec(noting(&added))
	}
	b.Queue(faultsShownSQL, node, ids)
	return added, wrap("keep incidents", q.SendBatch(ctx, b).Close())
}

// IncidentList lists a card's faults, newest first.
func IncidentList(ctx context.Context, q Querier, card cloud.GPUID, limit int) ([]cloud.Incident, error) {
	rows, _ := q.Query(ctx, `
		SELECT id, gpu_id, kind, xid, action, message, instance_id, at, received_at FROM gpu_incident
		WHERE gpu_id = $1 ORDER BY at DESC, id DESC LIMIT $2`, card, limit)
	out, err := pgx.CollectRows(rows, pgx.RowToStructByNameLax[cloud.Incident])
	return out, wrap("list incidents", err)
}

// Untold is an instance that has yet to hear of a fault.
type Untold struct {
	NodeID     cloud.NodeID
	IncidentID string
	Kind       string
	XID        int
	Action     string
	Message    string
	At         time.Time
	ProjectID  cloud.ProjectID
	InstanceID cloud.InstanceID // zero: nobody is concerned
}

// IncidentsUntold reads faults of which nobody was told, with those concerned:
// the program's owner and, of a card that is out or of which nobody is known, whoever
// holds some of it. A program's own fault is nobody else's.
func IncidentsUntold(ctx context.Context, q Querier, limit int) ([]Untold, error) {
	rows, _ := q.Query(ctx, `
		SELECT x.node_id, x.id, x.kind, x.xid, x.action, x.message, x.at, i.project_id, i.id
		FROM (SELECT * FROM gpu_incident WHERE NOT told ORDER BY node_id, id LIMIT $1) x
		LEFT JOIN LATERAL (
			SELECT x.instance_id AS id WHERE x.instance_id IS NOT NULL
			UNION SELECT k.instance_id FROM gpu_claim k WHERE (x.action = 'out' OR x.action = 'needs_reset' AND x.instance_id IS NULL) AND k.gpu_id = x.gpu_id AND NOT k.fenced
		) c ON true
		LEFT JOIN instance i ON i.id = c.id
		ORDER BY x.node_id, x.id, i.id`, limit)
	out, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Untold])
	return out, wrap("read incidents", err)
}

// IncidentTold notes that those concerned have their event. It says whether that
// is new: another may have been first.
func IncidentTold(ctx context.Context, q Querier, node cloud.NodeID, id string) (first bool, err error) {
	tag, err := q.Exec(ctx, `UPDATE gpu_incident SET told = true WHERE node_id = $1 AND id = $2 AND NOT told`, node, id)
	return tag.RowsAffected() > 0, wrap("note that an incident was told", err)
}

// IncidentsExpire forgets faults of long ago.
func IncidentsExpire(ctx context.Context, q Querier, after time.Duration) error {
	_, err := q.Exec(ctx, `DELETE FROM gpu_incident WHERE told AND received_at < now() - $1::interval`, after)
	return wrap("forget incidents", err)
}
