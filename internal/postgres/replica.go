package postgres

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/tenon-cloud/tenon/internal/cloud"
)

// Replica is a process of the control plane.
type Replica struct {
	ID        string
	Address   string // of its door for the others; empty: it has none
	Version   string
	Leader    bool
	Nodes     int // how many are connected to it
	StartedAt time.Time
	SeenAt    time.Time
}

// ReplicaBeat writes that a process lives; fresh tells that its row was not
// there, so that its nodes must be written again.
func ReplicaBeat(ctx context.Context, q Querier, r Replica) (fresh bool, err error) {
	err = q.QueryRow(ctx, `
		INSERT INTO replica (id, address, version, started_at) VALUES ($1, $2, $3, $4)
		ON CONFLICT (id) DO UPDATE SET address = EXCLUDED.address, version = EXCLUDED.version, seen_at = now()
		RETURNING xmax = 0`, r.ID, r.Address, r.Version, r.StartedAt).Scan(&fresh)
	return fresh, wrap("write the replica", err)
}

// ReplicaNodes makes the nodes that are connected to a process exactly these.
func ReplicaNodes(ctx context.Context, q Querier, id string, nodes []cloud.NodeID) error {
	ids := make([]uuid.UUID, len(nodes))
	for i, n := range nodes {
		ids[i] = n.UUID()
	}
	if _, err := q.Exec(ctx, `DELETE FROM node_connection WHERE replica_id = $1 AND node_id <> ALL ($2)`, id, ids); err != nil {
		return wrap("write what is connected", err)
	}
	_, err := q.Exec(ctx, `
		INSERT INTO node_connection (node_id, replica_id)
		SELECT n.id, $1 FROM node n WHERE n.id = ANY ($2)
		ON CONFLICT DO NOTHING`, id, ids)
	return wrap("write what is connected", err)
}

// ReplicaPrune forgets processes that were not heard of for an age.
func ReplicaPrune(ctx context.Context, q Querier, age time.Duration) error {
	_, err := q.Exec(ctx, `DELETE FROM replica WHERE seen_at < now() - make_interval(secs => $1)`, age.Seconds())
	return wrap("forget replicas", err)
}

// ReplicaDelete says that a process has ended.
func ReplicaDelete(ctx context.Context, q Querier, id string) error {
	_, err := q.Exec(ctx, `DELETE FROM replica WHERE id = $1`, id)
	return wrap("forget the replica", err)
}

// ReplicasOf lists the other processes that a node is connected to and that were
// heard of within an age, the latest connection first.
func ReplicasOf(ctx context.Context, q Querier, node cloud.NodeID, but string, age time.Duration) ([]Replica, error) {
	rows, _ := q.Query(ctx, `
		SELECT r.id, r.address, r.version, false AS leader, 0 AS nodes, r.started_at, r.seen_at
		FROM node_connection c JOIN replica r ON r.id = c.replica_id
		WHERE c.node_id = $1 AND r.id <> $2 AND r.address <> '' AND r.seen_at > now() - make_interval(secs => $3)
		ORDER BY c.since DESC`, node, but, age.Seconds())
	return all[Replica](rows, "find the node's replicas")
}

// ReplicaList lists all of them, the oldest first, as tenon_system. One that was
// not heard of within an age has no nodes: they are connected elsewhere by now.
func ReplicaList(ctx context.Context, q Querier, leadership string, age time.Duration) ([]Replica, error) {
	rows, _ := q.Query(ctx, `
		SELECT r.id, r.address, r.version,
			EXISTS (SELECT FROM leader l WHERE l.name = $1 AND l.holder = r.id AND l.expires_at > clock_timestamp()) AS leader,
			(SELECT count(*) FROM node_connection c WHERE c.replica_id = r.id AND r.seen_at > now() - make_interval(secs => $2))::int AS nodes, r.started_at, r.seen_at
		FROM replica r ORDER BY r.started_at, r.id`, leadership, age.Seconds())
	return all[Replica](rows, "list replicas")
}
