package postgres

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tenon-cloud/tenon/internal/cloud"
)

// reportedSQL keeps what a node says of a card at an address: of what was there,
// only what it says otherwise is written.
const reportedSQL = `
	INSERT INTO gpu AS g (id, node_id, pci_address, uuid, index, model, geometry, mode, state, reason, memory_mib, numa_node, nvlink, simulated,
		vendor, device, driver, modes, companions, bundle, vgpu_types, slices, missing, wish_reason, recovered, said_generation, not_for_vm, profiles)
	VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25, $26, $27, $28)
	ON CONFLICT (node_id, pci_address) DO UPDATE SET
		uuid = excluded.uuid, index = excluded.index, model = excluded.model, geometry = excluded.geometry, mode = excluded.mode,
		state = excluded.state, reason = excluded.reason, memory_mib = excluded.memory_mib, numa_node = excluded.numa_node,
		nvlink = excluded.nvlink, simulated = excluded.simulated, vendor = excluded.vendor, device = excluded.device, driver = excluded.driver,
		modes = excluded.modes, companions = excluded.companions, bundle = excluded.bundle, vgpu_types = excluded.vgpu_types, slices = excluded.slices,
		missing = excluded.missing, wish_reason = excluded.wish_reason, recovered = excluded.recovered, said_generation = excluded.said_generation,
		not_for_vm = excluded.not_for_vm, profiles = excluded.profiles, updated_at = now()
	WHERE (g.uuid, g.index, g.model, g.geometry, g.mode, g.state, g.reason, g.memory_mib, g.numa_node, g.nvlink, g.simulated,
			g.vendor, g.device, g.driver, g.modes, g.companions, g.bundle, g.vgpu_types, g.slices, g.missing, g.wish_reason, g.recovered, g.not_for_vm, g.profiles)
		IS DISTINCT FROM (excluded.uuid, excluded.index, excluded.model, excluded.geometry, excluded.mode, excluded.state, excluded.reason,
			excluded.memory_mib, excluded.numa_node, excluded.nvlink, excluded.simulated, excluded.vendor, excluded.device, excluded.driver, excluded.modes,
			excluded.companions, excluded.bundle, excluded.vgpu_types, excluded.slices, excluded.missing, excluded.wish_reason, excluded.recovered, excluded.not_for_vm, excluded.profiles)
		OR g.said_generation < g.wish_generation AND excluded.said_generation >= g.wish_generation`

// GPUsReported writes the cards that a node sees, as tenon_node. A card is the
// one at its PCI address; one that is no longer seen is missing, with its claims
// held. With probed false the list is not to be trusted: no card comes or goes,
// and all are unknown (case C5). generation is that of the assignment, of this
// era, that the node held when it looked; 0: of another era.
func GPUsReported(ctx context.Context, q Querier, node cloud.NodeID, generation int64, list []cloud.GPU, probed bool) (changed bool, err error) {
	// Cards are locked by id, everywhere; a node may list them in any order.
	held, known := map[string]cloud.GPU{}, map[string]bool{}
	var places []heldPlace
	b := &pgx.Batch{}
	b.Queue(`SELECT FROM node WHERE id = $1 FOR NO KEY UPDATE`, node) // its generation may be raised
	var told string
	b.Queue(cardsToldSQL, node).QueryRow(func(row pgx.Row) error { return row.Scan(&told) })
	b.Queue(`SELECT pci_address FROM gpu WHERE node_id = $1 ORDER BY id FOR NO KEY UPDATE`, node).Query(func(rows pgx.Rows) error {
		var at string
		_, err := pgx.ForEachRow(rows, []any{&at}, func() error {
			known[at] = true
			return nil
		})
		return err
	})
	if probed {
		b.Queue(`SELECT pci_address, mode, geometry FROM gpu g WHERE node_id = $1 AND EXISTS (SELECT FROM gpu_claim k WHERE k.gpu_id = g.id)`, node).
			Query(func(rows pgx.Rows) error {
				var g cloud.GPU
				_, err := pgx.ForEachRow(rows, []any{&g.PCIAddress, &g.Mode, &g.Geometry}, func() error {
					held[g.PCIAddress] = g
					return nil
				})
				return err
			})
	}
	if probed {
		uuids := make([]string, len(list))
		for i := range list {
			uuids[i] = list[i].UUID
		}
		b.Queue(`SELECT pci_address, gpu_uuid, here FROM gpus_held($1)`, uuids).Query(func(rows pgx.Rows) (err error) {
			places, err = pgx.CollectRows(rows, pgx.RowToStructByPos[heldPlace])
			return err
		})
	}
	if err := q.SendBatch(ctx, b).Close(); err != nil {
		return false, wrap("lock cards", err)
	}
	if !probed {
		tag, err := q.Exec(ctx, `
			UPDATE gpu SET state = 'unknown', reason = 'the probe of the node''s cards failed', updated_at = now()
			WHERE node_id = $1 AND state <> 'unknown'`, node)
		return tag.RowsAffected() > 0, wrap("keep cards", err)
	}
	seen := make([]string, len(list))
	b = &pgx.Batch{}
	for i, g := range list {
		seen[i] = g.PCIAddress
		if g.State == cloud.GPUMissing && !known[g.PCIAddress] {
			continue // its node remembers what was forgotten here
		}
		// What is held can't change under its holder, whatever the card says now.
		if h, ok := held[g.PCIAddress]; ok && (h.Mode != g.Mode || h.Geometry != g.Geometry) {
			g.State = cloud.GPUQuarantined
			g.Reason = fmt.Sprintf("it is held in mode %s (%s), and its node finds it in mode %s (%s)", h.Mode, h.Geometry, g.Mode, g.Geometry)
			g.Mode, g.Geometry = h.Mode, h.Geometry
		}
		if why := movedUnderClaim(g, places); why != "" && g.State != cloud.GPUMissing {
			g.State, g.Reason = cloud.GPUQuarantined, why
		}
		b.Queue(reportedSQL, uuid.Must(uuid.NewV7()), node, g.PCIAddress, g.UUID, g.Index, g.Model, g.Geometry, g.Mode, g.State, g.Reason, g.MemoryMiB, g.NUMANode,
			orEmpty(g.NVLink), g.Simulated, g.Vendor, g.Device, g.Driver, orEmpty(g.Modes), orEmpty(g.Companions), orEmpty(g.Bundle), jsonList(g.VGPUTypes),
			jsonList(g.Slices), jsonList(g.Missing), g.WishReason, g.Recovered, generation, g.NotForVM, jsonList(g.Profiles)).Exec(noting(&changed))
	}
	b.Queue(`
		UPDATE gpu SET state = 'missing', reason = 'the node no longer sees this card', updated_at = now()
		WHERE node_id = $1 AND state <> 'missing' AND NOT pci_address = ANY($2)`, node, seen).Exec(noting(&changed))
	if err := q.SendBatch(ctx, b).Close(); err != nil || !changed {
		return changed, wrap("keep cards", err)
	}
	_, err = q.Exec(ctx, `SELECT node_told() WHERE (`+cardsToldSQL+`) <> $2`, node, told)
	return changed, wrap("raise a node's generation", err)
}

// cardsToldSQL is what a node's assignment tells of its cards and its own reports
// change: which card a claim is of, and the mode that one without a wish stays in.
const cardsToldSQL = `
	SELECT COALESCE(string_agg(g.pci_address || ' ' || CASE WHEN c.held THEN g.uuid ELSE '' END || ' ' ||
		CASE WHEN g.desired_mode IS NULL AND (g.recover > 0 OR g.faults <> '[]') THEN g.mode || ' ' || g.geometry ELSE '' END, ',' ORDER BY g.pci_address), '')
	FROM gpu g CROSS JOIN LATERAL (SELECT EXISTS (SELECT FROM gpu_claim k WHERE k.gpu_id = g.id) AS held) c
	WHERE g.node_id = $1 AND (c.held OR g.desired_mode IS NULL AND (g.recover > 0 OR g.faults <> '[]'))`

// heldPlace is a card that a claim is of, and the slot that the claim is on.
type heldPlace struct {
	Address string
	UUID    string
	Here    bool // a slot of the node that reports
}

// movedUnderClaim says why nobody gets a card that is not where it is held, nor the
// one that is there instead. The claim stays with its slot until it is released.
func movedUnderClaim(g cloud.GPU, places []heldPlace) string {
	for _, p := range places {
		switch slot := p.Here && p.Address == g.PCIAddress; {
		case slot && p.UUID != g.UUID:
			return fmt.Sprintf("card %s is held in this slot, and its node finds %s there", p.UUID, g.UUID)
		case !slot && p.UUID == g.UUID && p.Here:
			return fmt.Sprintf("it is held in slot %s, where it was before", p.Address)
		case !slot && p.UUID == g.UUID:
			return fmt.Sprintf("it is held in slot %s of another node, where it was before", p.Address)
		}
	}
	return ""
}

func noting(changed *bool) func(pgconn.CommandTag) error {
	return func(tag pgconn.CommandTag) error {
		*changed = *changed || tag.RowsAffected() > 0
		return nil
	}
}

func orEmpty[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

// jsonList writes a list for a jsonb column; no list is an empty one.
func jsonList[T any](s []T) json.RawMessage {
	raw, err := json.Marshal(orEmpty(s))
	if err != nil {
		return json.RawMessage("[]") // plain fields can't fail to encode
	}
	return raw
}
