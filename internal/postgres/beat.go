package postgres

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/tenon-cloud/tenon/internal/cloud"
)

// Beat is a report that says what the node's last one said.
type Beat struct {
	NodeID cloud.NodeID
	Digest []byte // of what it says
}

// NodesBeat notes that nodes were heard of, as tenon_system, if the database
// still holds all that they say and there is nothing else to do about them: the
// row of a node that is late, fenced or just locked is left alone. It gives the
// generations of those that it noted.
func NodesBeat(ctx context.Context, q Querier, beats []Beat) (era string, generations map[cloud.NodeID]int64, err error) {
	ids, digests := make([]uuid.UUID, len(beats)), make([][]byte, len(beats))
	for i, b := range beats {
		ids[i], digests[i] = b.NodeID.UUID(), b.Digest
	}
	rows, _ := q.Query(ctx, `
		WITH said AS (SELECT * FROM unnest($1::uuid[], $2::bytea[]) AS s (id, digest)),
		locked AS MATERIALIZED (
			SELECT n.id FROM node n JOIN said ON said.id = n.id AND said.digest = n.report_digest
			WHERE n.state = 'ready' AND n.fenced_at IS NULL AND n.forgotten_at IS NULL
			ORDER BY n.id FOR NO KEY UPDATE OF n SKIP LOCKED
		)
		UPDATE node n SET last_seen_at = now() FROM locked, cloud_state c WHERE n.id = locked.id
		RETURNING n.id, n.generation, c.era::text`, ids, digests)
	generations = map[cloud.NodeID]int64{}
	var id cloud.NodeID
	var generation int64
	_, err = pgx.ForEachRow(rows, []any{&id, &generation, &era}, func() error {
		generations[id] = generation
		return nil
	})
	return era, generations, wrap("note nodes", err)
}

// NodeSaid keeps the digest of a report all of which is kept, as tenon_node.
func NodeSaid(ctx context.Context, q Querier, id cloud.NodeID, digest []byte) error {
	_, err := q.Exec(ctx, `UPDATE node SET report_digest = $2 WHERE id = $1`, id, digest)
	return wrap("keep a report's digest", err)
}

// NodeGenerations gives the generations of assignments, and the era, as
// tenon_system.
func NodeGenerations(ctx context.Context, q Querier, nodes []cloud.NodeID) (era string, generations map[cloud.NodeID]int64, err error) {
	ids := make([]uuid.UUID, len(nodes))
	for i, n := range nodes {
		ids[i] = n.UUID()
	}
	rows, _ := q.Query(ctx, `SELECT n.id, n.generation, c.era::text FROM node n, cloud_state c WHERE n.id = ANY($1)`, ids)
	generations = map[cloud.NodeID]int64{}
	var id cloud.NodeID
	var generation int64
	_, err = pgx.ForEachRow(rows, []any{&id, &generation, &era}, func() error {
		generations[id] = generation
		return nil
	})
	return era, generations, wrap("read generations", err)
}

// CertificatesLive gives those of some certificates that are not revoked, with
// their nodes, as tenon_system.
func CertificatesLive(ctx context.Context, q Querier, serials []string) (map[string]cloud.NodeID, error) {
	rows, _ := q.Query(ctx, `SELECT serial, node_id FROM node_certificate WHERE serial = ANY($1) AND revoked_at IS NULL`, serials)
	out := make(map[string]cloud.NodeID, len(serials))
	var serial string
	var id cloud.NodeID
	_, err := pgx.ForEachRow(rows, []any{&serial, &id}, func() error {
		out[serial] = id
		return nil
	})
	return out, wrap("check certificates", err)
}
