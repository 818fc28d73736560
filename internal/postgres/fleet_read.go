package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/tenon-cloud/tenon/internal/cloud"
)

// FleetPulse gives each node a number that changes with what is free on it, at a
// fraction of what reading that takes. Whoever keeps the fleet in memory reads
// again those whose number is another. Every change of what a node holds raises
// its generation; what a card's row says counts as a whole.
func FleetPulse(ctx context.Context, q Querier) (map[cloud.NodeID]int64, error) {
	rows, err := q.Query(ctx, `
		SELECT n.id, hashtextextended(concat_ws('|', n.generation, n.state, n.drained, n.simulated OR p.simulated, p.name, n.vcpu, n.memory_mib,
			n.cpu_overcommit, n.kinds, g.count, g.mark, f.mark), 0)
		FROM node n JOIN pool p ON p.id = n.pool_id
		LEFT JOIN (SELECT node_id, count(*), sum(xmin::text::bigint) AS mark FROM gpu GROUP BY node_id) g ON g.node_id = n.id
		LEFT JOIN (SELECT node_id, sum(xmin::text::bigint) AS mark FROM gpu_partition GROUP BY node_id) f ON f.node_id = n.id
		WHERE n.forgotten_at IS NULL`)
	if err != nil {
		return nil, fmt.Errorf("read the fleet's pulse: %w", err)
	}
	out := map[cloud.NodeID]int64{}
	var id cloud.NodeID
	var pulse int64
	_, err = pgx.ForEachRow(rows, []any{&id, &pulse}, func() error {
		out[id] = pulse
		return nil
	})
	return out, wrap("read the fleet's pulse", err)
}

// FleetRead reads nodes with their GPUs, and these with their claims; all, when
// none is named. The statements see slightly different moments; a commit checks
// everything under locks.
func FleetRead(ctx context.Context, q Querier, nodes []cloud.NodeID) (out []cloud.Node, err error) {
	var some any // NULL: all
	if nodes != nil {
		some = uuids(nodes)
	}
	var batch pgx.Batch
	batch.Queue(`
		SELECT n.id, n.name, n.pool_id, p.name, n.state, n.drained, n.simulated OR p.simulated, n.vcpu, n.memory_mib, n.cpu_overcommit,
			COALESCE(u.vcpu, 0), COALESCE(u.memory_mib, 0), n.kinds
		FROM node n
		JOIN pool p ON p.id = n.pool_id
		LEFT JOIN (
			SELECT node_id, sum(vcpu) AS vcpu, sum(memory_mib)::bigint AS memory_mib
			FROM instance WHERE node_id IS NOT NULL AND ($1::uuid[] IS NULL OR node_id = ANY($1)) GROUP BY node_id
		) u ON u.node_id = n.id
		WHERE n.forgotten_at IS NULL AND ($1::uuid[] IS NULL OR n.id = ANY($1))
		ORDER BY n.id`, some).Query(func(rows pgx.Rows) (err error) {
		out, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (n cloud.Node, err error) {
			err = row.Scan(&n.ID, &n.Name, &n.PoolID, &n.PoolName, &n.State, &n.Drained, &n.Simulated, &n.VCPU, &n.MemoryMiB, &n.CPUOvercommit,
				&n.UsedVCPU, &n.UsedMemoryMiB, &n.Kinds)
			return n, err
		})
		return err
	})
	var cards []cloud.GPU
	batch.Queue(`
		SELECT g.id, g.node_id, g.pci_address, g.model, g.geometry, g.mode, g.state, g.numa_node, g.nvlink,
			NOT g.settled, COALESCE(g.desired_mode, ''), g.desired_layout, g.missing, g.bundle, g.not_for_vm
		FROM gpu g
		WHERE $1::uuid[] IS NULL OR g.node_id = ANY($1)
		ORDER BY g.id`, some).Query(func(rows pgx.Rows) (err error) {
		cards, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (g cloud.GPU, err error) {
			err = row.Scan(&g.ID, &g.NodeID, &g.PCIAddress, &g.Model, &g.Geometry, &g.Mode, &g.State, &g.NUMANode, &g.NVLink,
				&g.Changing, &g.Wish.Mode, &g.Wish.Layout, &g.Missing, &g.Bundle, &g.NotForVM)
			return g, err
		})
		return err
	})
	parts := map[cloud.NodeID][]cloud.Partition{}
	batch.Queue(partitionsFrom+` FROM gpu_partition WHERE $1::uuid[] IS NULL OR node_id = ANY($1) ORDER BY node_id, id`, some).Query(func(rows pgx.Rows) error {
		return partitionsInto(rows, func(id cloud.NodeID, p cloud.Partition) { parts[id] = append(parts[id], p) })
	})
	claims := map[cloud.GPUID][]cloud.Claim{}
	batch.Queue(`
		SELECT c.gpu_id, c.org_id, c.profile, lower(c.slots), upper(c.slots) FROM gpu_claim c
		WHERE $1::uuid[] IS NULL OR c.gpu_id IN (SELECT id FROM gpu WHERE node_id = ANY($1))
		ORDER BY c.gpu_id, lower(c.slots)`, some).Query(func(rows pgx.Rows) error {
		var c cloud.Claim
		_, err := pgx.ForEachRow(rows, []any{&c.GPUID, &c.OrgID, &c.Profile, &c.Slots.Start, &c.Slots.End}, func() error {
			claims[c.GPUID] = append(claims[c.GPUID], c)
			return nil
		})
		return err
	})
	if err := q.SendBatch(ctx, &batch).Close(); err != nil {
		return nil, fmt.Errorf("read the fleet: %w", err)
	}
	at := make(map[cloud.NodeID]int, len(out))
	for i, n := range out {
		at[n.ID], out[i].Partitions = i, parts[n.ID]
	}
	for _, g := range cards {
		g.Claims = claims[g.ID]
		if i, ok := at[g.NodeID]; ok { // a node may have come between the statements
			out[i].GPUs = append(out[i].GPUs, g)
		}
	}
	return out, nil
}

// Asked is what an instance asked for when it was made.
type Asked struct {
	Kind  cloud.InstanceKind
	Shape cloud.Shape
}

// AskedRead is what the last so many instances asked for, oldest first, also those
// that are gone.
func AskedRead(ctx context.Context, q Querier, limit int) ([]Asked, error) {
	rows, _ := q.Query(ctx, `
		SELECT kind, gpu_count, gpu_model, gpu_mode, gpu_profile, vcpu, memory_mib
		FROM instance WHERE id IN (SELECT id FROM instance ORDER BY id DESC LIMIT $1) ORDER BY id`, limit)
	out, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (a Asked, err error) {
		err = row.Scan(&a.Kind, &a.Shape.GPUCount, &a.Shape.GPUModel, &a.Shape.GPUMode, &a.Shape.GPUProfile, &a.Shape.VCPU, &a.Shape.MemoryMiB)
		return a, err
	})
	return out, wrap("read what was asked for", err)
}
