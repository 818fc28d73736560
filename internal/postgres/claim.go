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

// NodeRoom is what a node has left, summed under its row's lock.
type NodeRoom struct {
	Open      bool // ready and not drained
	VCPU      int64
	MemoryMiB int64
}

// CardRow is what a claim needs to know of a card, under its row's lock.
type CardRow struct {
	NodeID   cloud.NodeID
	Mode     cloud.GPUMode
	Geometry string
	Ready    bool
}

// PlacementLocked is everything that a commit of the scheduler rests on, locked
// until it ends.
type PlacementLocked struct {
	Now       time.Time // by the database's clock, under the locks
	Instances map[cloud.InstanceID]Standing
	Nodes     map[cloud.NodeID]NodeRoom
	Cards     map[cloud.GPUID]CardRow
}

// PlacementLock locks instances, nodes and cards, in this order and each by id,
// in one round trip.
func PlacementLock(ctx context.Context, q Querier, instances []cloud.InstanceID, nodes []cloud.NodeID, cards []cloud.GPUID) (PlacementLocked, error) {
	out := PlacementLocked{Instances: map[cloud.InstanceID]Standing{}, Nodes: map[cloud.NodeID]NodeRoom{}, Cards: map[cloud.GPUID]CardRow{}}
	var batch pgx.Batch
	batch.Queue(`SELECT `+standingColumns+` FROM instance WHERE id = ANY($1) ORDER BY id FOR NO KEY UPDATE`, uuids(instances)).Query(func(rows pgx.Rows) error {
		list, err := pgx.CollectRows(rows, standingScan)
		for _, s := range list {
			out.Instances[s.ID] = s
		}
		return err
	})
	// Also of those that should have made what is now made elsewhere.
	batch.Queue(`SELECT FROM node WHERE id = ANY($1) OR id IN (
		SELECT node_id FROM volume WHERE instance_id = ANY($2) AND state = 'pending') ORDER BY id FOR NO KEY UPDATE`, uuids(nodes), uuids(instances))
	// A statement of its own, so that it sees what was committed while the lock
	// was waited for.
	batch.Queue(`
		SELECT n.id, n.state = 'ready' AND NOT n.drained,
			floor(n.vcpu * n.cpu_overcommit)::bigint - COALESCE(u.vcpu, 0), n.memory_mib - COALESCE(u.memory_mib, 0)
		FROM node n
		LEFT JOIN (
			SELECT node_id, sum(vcpu)::bigint AS vcpu, sum(memory_mib)::bigint AS memory_mib
			FROM instance WHERE node_id = ANY($1) GROUP BY node_id
		) u ON u.node_id = n.id
		WHERE n.id = ANY($1)`, uuids(nodes)).Query(func(rows pgx.Rows) error {
		var id cloud.NodeID
		var r NodeRoom
		_, err := pgx.ForEachRow(rows, []any{&id, &r.Open, &r.VCPU, &r.MemoryMiB}, func() error {
			out.Nodes[id] = r
			return nil
		})
		return err
	})
	batch.Queue(`SELECT id, node_id, mode, geometry, state = 'ready' AND settled FROM gpu WHERE id = ANY($1) ORDER BY id FOR UPDATE`, uuids(cards)).Query(func(rows pgx.Rows) error {
		var id cloud.GPUID
		var c CardRow
		_, err := pgx.ForEachRow(rows, []any{&id, &c.NodeID, &c.Mode, &c.Geometry, &c.Ready}, func() error {
			out.Cards[id] = c
			return nil
		})
		return err
	})
	batch.Queue(`SELECT clock_timestamp()`).QueryRow(func(row pgx.Row) error { return row.Scan(&out.Now) })
	if err := q.SendBatch(ctx, &batch).Close(); err != nil {
		return out, fmt.Errorf("lock a placement: %w", err)
	}
	return out, nil
}

// NewClaim is a claim to be made, with the geometry that its card was found to
// have.
type NewClaim struct {
	cloud.Claim
	Geometry string
}

// ClaimsInsert takes slots, sorted by card and slot, and gives how many each
// instance got: fewer than asked when somebody else holds some. Two plain or
// unsorted inserts of the same slots would deadlock; these wait and step aside.
func ClaimsInsert(ctx context.Context, q Querier, claims []NewClaim) (map[cloud.InstanceID]int, error) {
	got := map[cloud.InstanceID]int{}
	if len(claims) == 0 {
		return got, nil
	}
	slices.SortFunc(claims, func(a, b NewClaim) int {
		return cmp.Or(slices.Compare(a.GPUID[:], b.GPUID[:]), cmp.Compare(a.Slots.Start, b.Slots.Start))
	})
	type row struct {
		ID         uuid.UUID `json:"id"`
		GPUID      uuid.UUID `json:"gpu_id"`
		OrgID      uuid.UUID `json:"org_id"`
		ProjectID  uuid.UUID `json:"project_id"`
		InstanceID uuid.UUID `json:"instance_id"`
		Epoch      int64     `json:"epoch"`
		Mode       string    `json:"mode"`
		Geometry   string    `json:"geometry"`
		Profile    string    `json:"profile"`
		From       int       `json:"slot_from"`
		To         int       `json:"slot_to"`
	}
	in := make([]row, len(claims))
	for i, c := range claims {
		in[i] = row{c.ID.UUID(), c.GPUID.UUID(), c.OrgID.UUID(), c.ProjectID.UUID(), c.InstanceID.UUID(),
			c.Epoch, string(c.Mode), c.Geometry, c.Profile, c.Slots.Start, c.Slots.End}
	}
	rows, err := q.Query(ctx, `
		INSERT INTO gpu_claim (id, gpu_id, org_id, project_id, instance_id, epoch, mode, geometry, profile, slots)
		SELECT id, gpu_id, org_id, project_id, instance_id, epoch, mode, geometry, profile, int4range(slot_from, slot_to)
		FROM json_to_recordset($1::json) AS r (
			id uuid, gpu_id uuid, org_id uuid, project_id uuid, instance_id uuid, epoch bigint,
			mode text, geometry text, profile text, slot_from int, slot_to int)
		ORDER BY gpu_id, slot_from
		ON CONFLICT DO NOTHING
		RETURNING instance_id`, asJSON(in))
	if err != nil {
		return nil, fmt.Errorf("claim slots: %w", err)
	}
	var id cloud.InstanceID
	_, err = pgx.ForEachRow(rows, []any{&id}, func() error { got[id]++; return nil })
	if err != nil {
		return nil, fmt.Errorf("claim slots: %w", err)
	}
	return got, nil
}

// ClaimsDrop takes back, in the same transaction, what an incomplete claim got.
func ClaimsDrop(ctx context.Context, q Querier, instance cloud.InstanceID, epoch int64) error {
	_, err := q.Exec(ctx, `DELETE FROM gpu_claim WHERE instance_id = $1 AND epoch = $2`, instance, epoch)
	if err != nil {
		return fmt.Errorf("drop claims: %w", err)
	}
	return nil
}
