package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/tenon-cloud/tenon/internal/cloud"
)

// StayList lists what stays on a node, for an operator: its instances, the data
// of instances that are not placed there, and what fenced claims still hold.
// Words are package app's.
func StayList(ctx context.Context, q Querier, node cloud.NodeID, limit int) ([]cloud.Stay, error) {
	var out []cloud.Stay
	b := &pgx.Batch{}
	collect := func(rows pgx.Rows) error {
		list, err := pgx.CollectRows(rows, pgx.RowToStructByNameLax[cloud.Stay])
		out = append(out, list...)
		return err
	}
	b.Queue(`
		SELECT i.id AS instance_id, i.name AS instance_name, o.name AS org_name, i.kind, i.state,
			CASE WHEN i.held THEN 'held' WHEN i.state IN ('stopping', 'deleting') THEN 'stopping' ELSE 'running' END AS reason
		FROM instance i JOIN organisation o ON o.id = i.org_id
		WHERE i.node_id = $1 ORDER BY i.id LIMIT $2`, node, limit).Query(collect)
	b.Queue(`
		SELECT i.id AS instance_id, i.name AS instance_name, o.name AS org_name, v.id AS volume_id, i.kind, i.state, 'volume' AS reason
		FROM volume v JOIN instance i ON i.id = v.instance_id JOIN organisation o ON o.id = i.org_id
		WHERE v.node_id = $1 AND v.state IN ('present', 'lost', 'deleting') AND i.node_id IS DISTINCT FROM v.node_id ORDER BY v.id LIMIT $2`, node, limit).Query(collect)
	b.Queue(`
		SELECT DISTINCT i.id AS instance_id, i.name AS instance_name, o.name AS org_name, i.kind, i.state, 'fenced_claim' AS reason
		FROM gpu g JOIN gpu_claim c ON c.gpu_id = g.id JOIN instance i ON i.id = c.instance_id JOIN organisation o ON o.id = i.org_id
		WHERE g.node_id = $1 AND c.fenced ORDER BY i.id LIMIT $2`, node, limit).Query(collect)
	return out, wrap("list what stays on a node", q.SendBatch(ctx, b).Close())
}

// StayCount counts it.
func StayCount(ctx context.Context, q Querier, node cloud.NodeID) (out cloud.StayCounts, err error) {
	err = q.QueryRow(ctx, `
		SELECT count(*) FILTER (WHERE state IN ('starting', 'running')), count(*) FILTER (WHERE state IN ('stopping', 'deleting')), count(*) FILTER (WHERE held),
			(SELECT count(*) FROM volume v JOIN instance i ON i.id = v.instance_id
				WHERE v.node_id = $1 AND v.state IN ('present', 'lost', 'deleting') AND i.node_id IS DISTINCT FROM v.node_id),
			(SELECT count(DISTINCT c.instance_id) FROM gpu g JOIN gpu_claim c ON c.gpu_id = g.id WHERE g.node_id = $1 AND c.fenced),
			(SELECT jsonb_array_length(orphans) FROM node WHERE id = $1)
		FROM instance WHERE node_id = $1`, node).
		Scan(&out.Running, &out.Stopping, &out.Held, &out.Volumes, &out.FencedClaims, &out.Orphans)
	return out, wrap("count what stays on a node", err)
}
