package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/tenon-cloud/tenon/internal/cloud"
)

// PartitionsReported keeps which sets of its cards a node can join for one VM, as
// tenon_node, and says whether that is news. A node whose probe failed says nothing.
func PartitionsReported(ctx context.Context, q Querier, node cloud.NodeID, list []cloud.Partition, probeOK bool) (changed bool, err error) {
	if !probeOK {
		return false, nil
	}
	err = q.QueryRow(ctx, `
		WITH said AS (
			SELECT id, ARRAY(SELECT jsonb_array_elements_text(gpus)) AS gpus, "foreign" AS not_ours
			FROM jsonb_to_recordset($2::jsonb) AS s(id int, gpus jsonb, "foreign" boolean)
		), gone AS (
			DELETE FROM gpu_partition p WHERE node_id = $1 AND NOT EXISTS (SELECT FROM said WHERE said.id = p.id) RETURNING 1
		), come AS (
			INSERT INTO gpu_partition AS p (node_id, id, gpus, not_ours) SELECT $1, id, gpus, not_ours FROM said
			ON CONFLICT (node_id, id) DO UPDATE SET gpus = excluded.gpus, not_ours = excluded.not_ours
			WHERE (p.gpus, p.not_ours) IS DISTINCT FROM (excluded.gpus, excluded.not_ours) RETURNING 1
		)
		SELECT EXISTS (SELECT FROM gone) OR EXISTS (SELECT FROM come)`, node, jsonList(list)).Scan(&changed)
	return changed, wrap("keep partitions", err)
}

// partitionsFrom are the columns and the order of what partitionsInto reads.
const partitionsFrom = `SELECT node_id, id, gpus, not_ours`

// partitionsInto gives each row to the node that it is of.
func partitionsInto(rows pgx.Rows, give func(cloud.NodeID, cloud.Partition)) error {
	var node cloud.NodeID
	var p cloud.Partition
	_, err := pgx.ForEachRow(rows, []any{&node, &p.ID, &p.GPUs, &p.Foreign}, func() error {
		q := p
		q.GPUs = append([]string(nil), p.GPUs...)
		give(node, q)
		return nil
	})
	return err
}

// partitionsFill gives nodes the partitions of their NVSwitches.
func partitionsFill(ctx context.Context, q Querier, nodes []cloud.Node) error {
	at := make(map[cloud.NodeID]int, len(nodes))
	for i := range nodes {
		at[nodes[i].ID], nodes[i].Partitions = i, nil
	}
	rows, _ := q.Query(ctx, partitionsFrom+` FROM gpu_partition WHERE node_id = ANY($1) ORDER BY node_id, id`, nodeUUIDs(nodes))
	return wrap("list partitions", partitionsInto(rows, func(id cloud.NodeID, p cloud.Partition) {
		n := &nodes[at[id]]
		n.Partitions = append(n.Partitions, p)
	}))
}
