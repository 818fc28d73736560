package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/tenon-cloud/tenon/internal/cloud"
)

// FleetGPU is a card of the fleet with what of it is held, without by whom.
type FleetGPU struct {
	ID         cloud.GPUID
	PCIAddress string
	Model      string
	Geometry   string
	Mode       cloud.GPUMode
	State      cloud.GPUState
	NUMANode   int
	NVLink     []string
	Taken      []cloud.Slots
	Media      bool               // its media engines are held
	Changing   bool               // it is not yet what an operator wishes
	Layout     []cloud.SlicePlace // fixed places, but for those that are missing; nil: anywhere
	Bundled    bool               // a VM can only get it together with others
	NotForVM   bool               // no VM can have it whole
	Others     bool               // shares of it are another organisation's
}

// FleetNode is a node with what is free on it.
type FleetNode struct {
	ID            cloud.NodeID
	Name          string
	PoolID        cloud.PoolID
	PoolName      string
	PoolSimulated bool
	State         cloud.NodeState
	Drained       bool
	Simulated     bool
	VCPU          int // sold in all
	MemoryMiB     int64
	FreeVCPU      int
	FreeMemoryMiB int64
	Kinds         []string // of instances that it can run
	GPUs          []FleetGPU
	Partitions    []cloud.Partition // of its NVSwitches
}

// FleetFree reads what is free everywhere. Anyone may ask: it tells amounts, not
// tenants.
func FleetFree(ctx context.Context, q Querier) ([]FleetNode, error) {
	rows, _ := q.Query(ctx, `
		SELECT node_id, node_name, pool_id, pool_name, pool_simulated, node_state, drained, node_simulated,
			vcpu_total, memory_total_mib, free_vcpu, free_memory_mib,
			gpu_id, COALESCE(pci_address, ''), COALESCE(model, ''), COALESCE(geometry, ''), COALESCE(mode, ''), COALESCE(gpu_state, ''),
			COALESCE(numa_node, -1), COALESCE(nvlink, '{}'), taken, cardinality(media) > 0, kinds,
			NOT COALESCE(c.settled, true), COALESCE(c.layout, '[]'), COALESCE(c.missing, '[]'), COALESCE(c.bundled, false), COALESCE(c.others, false), COALESCE(c.not_for_vm, false)
		FROM fleet_free() JOIN fleet_kinds() USING (node_id) LEFT JOIN fleet_cards() c USING (gpu_id)
		ORDER BY node_id, gpu_id`)
	var out []FleetNode
	var n FleetNode
	var g FleetGPU
	var taken pgtype.Multirange[pgtype.Range[pgtype.Int4]]
	var layout, missing []cloud.SlicePlace
	_, err := pgx.ForEachRow(rows, []any{&n.ID, &n.Name, &n.PoolID, &n.PoolName, &n.PoolSimulated, &n.State, &n.Drained, &n.Simulated,
		&n.VCPU, &n.MemoryMiB, &n.FreeVCPU, &n.FreeMemoryMiB,
		&g.ID, &g.PCIAddress, &g.Model, &g.Geometry, &g.Mode, &g.State, &g.NUMANode, &g.NVLink, &taken, &g.Media, &n.Kinds,
		&g.Changing, &layout, &missing, &g.Bundled, &g.Others, &g.NotForVM}, func() error {
		if len(out) == 0 || out[len(out)-1].ID != n.ID {
			out = append(out, n)
		}
		if g.ID.IsZero() {
			return nil
		}
		card := g
		card.Taken, card.Layout = nil, cloud.Shown(layout, missing)
		for _, r := range taken {
			card.Taken = append(card.Taken, cloud.Slots{Start: int(r.Lower.Int32), End: int(r.Upper.Int32)})
		}
		last := &out[len(out)-1]
		last.GPUs = append(last.GPUs, card)
		return nil
	})
	if err != nil {
		return out, wrap("read the fleet", err)
	}
	at := make(map[cloud.NodeID]int, len(out))
	for i := range out {
		at[out[i].ID] = i
	}
	rows, _ = q.Query(ctx, partitionsFrom+` FROM fleet_partitions() ORDER BY node_id, id`)
	err = partitionsInto(rows, func(id cloud.NodeID, p cloud.Partition) {
		if i, ok := at[id]; ok { // a node may have come between the statements
			out[i].Partitions = append(out[i].Partitions, p)
		}
	})
	return out, wrap("read the fleet's partitions", err)
}

// CapacityRow counts cards of a model.
type CapacityRow struct {
	Model      string
	Simulated  bool
	Total      int
	Healthy    int
	Used       int
	Free       int
	SlotsTotal int
	SlotsUsed  int
}

// nodeWell is a node, n, whose word counts now.
const nodeWell = `(n.state = 'ready' AND n.fenced_at IS NULL)`

// Capacity counts every card once (case C25): healthy is what is ready on a node
// that answers, used what anybody holds, free what is healthy, held by nobody and
// not drained.
func Capacity(ctx context.Context, q Querier) ([]CapacityRow, error) {
	rows, _ := q.Query(ctx, `
		SELECT g.model, g.simulated, count(*) AS total,
			count(*) FILTER (WHERE g.state = 'ready' AND `+nodeWell+`) AS healthy,
			count(*) FILTER (WHERE k.slots IS NOT NULL) AS used,
			count(*) FILTER (WHERE g.state = 'ready' AND `+nodeWell+` AND NOT n.drained AND g.settled AND k.slots IS NULL) AS free,
			COALESCE(sum(CASE WHEN g.geometry = 'mig4' THEN 4 WHEN g.geometry ~ '^(share|vgpu)[0-9]+$' THEN substring(g.geometry from '[0-9]+')::int ELSE 8 END)
				FILTER (WHERE g.mode <> 'whole'), 0)::int AS slots_total,
			COALESCE(sum(k.slots) FILTER (WHERE g.mode <> 'whole'), 0)::int AS slots_used
		FROM gpu g JOIN node n ON n.id = g.node_id AND n.forgotten_at IS NULL
		LEFT JOIN LATERAL (SELECT sum(upper(c.slots) - lower(c.slots)) AS slots FROM gpu_claim c WHERE c.gpu_id = g.id) k ON true
		WHERE `+notGhost+`
		GROUP BY g.model, g.simulated ORDER BY g.model, g.simulated`)
	return all[CapacityRow](rows, "count capacity")
}
