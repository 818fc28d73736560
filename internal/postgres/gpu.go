package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/tenon-cloud/tenon/internal/cloud"
)

// A card is as its node last said, unless that was ready and the node's word no
// longer counts: then nothing is known of it.
const (
	gpuState  = `CASE WHEN g.state = 'ready' AND NOT ` + nodeWell + ` THEN 'unknown' ELSE g.state END`
	gpuReason = `CASE WHEN g.state <> 'ready' OR ` + nodeWell + ` THEN g.reason
		WHEN n.fenced_at IS NOT NULL THEN 'its node is fenced; nothing is placed on it until it has reported that nothing is left, or is forgotten'
		ELSE 'its node has not been heard of since ' || to_char(COALESCE(n.last_seen_at, n.created_at) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') END`
)

const gpuSelect = `
	SELECT g.id, g.node_id, n.name AS node_name, g.uuid, g.pci_address, g.index, g.model, g.geometry, g.mode, ` + gpuState + ` AS state,
		` + gpuReason + ` AS reason, g.memory_mib, g.numa_node, g.nvlink, g.simulated,
		g.vendor, g.device, g.driver, g.modes, g.companions, g.bundle, g.not_for_vm, g.vgpu_types, g.slices, g.profiles, g.missing, NOT g.settled AS changing, g.wish_reason, g.wished_at, g.wish_generation AS revision, g.recover, g.recovered,
		COALESCE(g.desired_mode, '') AS desired_mode, g.desired_geometry, g.desired_layout, g.desired_shares, g.desired_vgpu_type, ` + nodeWell + ` AS node_well, n.drained AS node_drained
	FROM gpu g JOIN node n ON n.id = g.node_id AND n.forgotten_at IS NULL`

// notGhost leaves out where a card was before it came to another slot of its node,
// so that it is counted once. What is held there keeps its place.
const notGhost = `NOT (g.state = 'missing' AND g.uuid <> '' AND NOT EXISTS (SELECT FROM gpu_claim h WHERE h.gpu_id = g.id)
	AND EXISTS (SELECT FROM gpu now WHERE now.node_id = g.node_id AND now.uuid = g.uuid AND now.id <> g.id AND now.state = 'ready'))`

// gpuRow is a card with its wish, as the columns lie.
type gpuRow struct {
	cloud.GPU
	DesiredMode     cloud.GPUMode
	DesiredGeometry string
	DesiredLayout   []cloud.SlicePlace
	DesiredShares   int
	DesiredVGPUType string `db:"desired_vgpu_type"`
}

func gpuScan(row pgx.CollectableRow) (cloud.GPU, error) {
	r, err := pgx.RowToStructByNameLax[gpuRow](row)
	r.Wish = cloud.CardWish{Mode: r.DesiredMode, Geometry: r.DesiredGeometry, Layout: r.DesiredLayout, Shares: r.DesiredShares, VGPUType: r.DesiredVGPUType}
	return r.GPU, err
}

// GPUFilter narrows a list; zero fields do not.
type GPUFilter struct {
	Node  cloud.NodeID
	Model string
	State cloud.GPUState
}

// GPUList lists by id, after one, with claims.
func GPUList(ctx context.Context, q Querier, f GPUFilter, after cloud.GPUID, limit int) ([]cloud.GPU, error) {
	rows, _ := q.Query(ctx, gpuSelect+`
		WHERE g.id > $1 AND ($2::uuid IS NULL OR g.node_id = $2) AND ($3 = '' OR g.model = $3) AND ($4 = '' OR `+gpuState+` = $4)
		ORDER BY g.id LIMIT $5`, after.UUID(), f.Node, f.Model, string(f.State), limit)
	out, err := pgx.CollectRows(rows, gpuScan)
	if err != nil {
		return nil, wrap("list GPUs", err)
	}
	return out, claimsFill(ctx, q, out)
}

// GPUGet finds a card by its id, by the driver's UUID or by its PCI address, with
// claims. Of several places that a UUID was seen at, it is at the one where it isn't
// missing; an address is a place, whatever is or was there.
func GPUGet(ctx context.Context, q Querier, ref Ref) (cloud.GPU, error) {
	var address *string
	if ref.Name != nil {
		if at, err := cloud.ParsePCIAddress(*ref.Name); err == nil {
			text := at.String()
			address = &text
		}
	}
	rows, _ := q.Query(ctx, gpuSelect+` WHERE g.id = $1 OR g.uuid = $2 OR g.pci_address = $3 ORDER BY g.id`, ref.ID, ref.Name, address)
	list, err := pgx.CollectRows(rows, gpuScan)
	if err != nil {
		return cloud.GPU{}, wrap("get GPU", err)
	}
	missing := func(g cloud.GPU) bool { return g.State == cloud.GPUMissing }
	if address == nil && slices.ContainsFunc(list, func(g cloud.GPU) bool { return !missing(g) }) {
		list = slices.DeleteFunc(list, missing)
	}
	switch len(list) {
	case 0:
		return cloud.GPU{}, wrap("get GPU", pgx.ErrNoRows)
	case 1:
	default:
		return cloud.GPU{}, gpuAmbiguous(*ref.Name, list)
	}
	err = claimsFill(ctx, q, list)
	return list[0], err
}

// gpuAmbiguous tells which cards a name may mean.
func gpuAmbiguous(name string, list []cloud.GPU) error {
	places := make([]string, 0, 4)
	for i, g := range list {
		if i == 3 {
			places = append(places, fmt.Sprintf("and %d more", len(list)-i))
			break
		}
		places = append(places, fmt.Sprintf("%s (%s on node %s, %s)", g.ID, g.PCIAddress, g.NodeName, g.State))
	}
	return cloud.E(cloud.KindConflict, "gpu_ambiguous", "%d GPUs are known as %s: %s", len(list), name, strings.Join(places, ", ")).WithHint("name it by its id")
}

func claimsFill(ctx context.Context, q Querier, list []cloud.GPU) error {
	at := make(map[cloud.GPUID]int, len(list))
	ids := make([]uuid.UUID, len(list))
	for i, g := range list {
		at[g.ID], ids[i] = i, g.ID.UUID()
	}
	rows, _ := q.Query(ctx, `
		SELECT k.id, k.gpu_id, k.org_id, k.project_id, k.instance_id, i.name, o.name, k.epoch, k.mode, k.profile,
			lower(k.slots), upper(k.slots), k.created_at
		FROM gpu_claim k JOIN instance i ON i.id = k.instance_id JOIN organisation o ON o.id = k.org_id
		WHERE k.gpu_id = ANY($1) ORDER BY k.gpu_id, lower(k.slots)`, ids)
	claims, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (c cloud.Claim, err error) {
		err = row.Scan(&c.ID, &c.GPUID, &c.OrgID, &c.ProjectID, &c.InstanceID, &c.InstanceName, &c.OrgName, &c.Epoch, &c.Mode, &c.Profile,
			&c.Slots.Start, &c.Slots.End, &c.CreatedAt)
		return c, err
	})
	if err != nil {
		return wrap("list claims", err)
	}
	for _, c := range claims {
		g := &list[at[c.GPUID]]
		g.Claims = append(g.Claims, c)
	}
	return nil
}

// NodesFill gives nodes their cards, with claims, each once.
func NodesFill(ctx context.Context, q Querier, nodes []cloud.Node) error {
	rows, _ := q.Query(ctx, gpuSelect+` WHERE g.node_id = ANY($1) AND `+notGhost+` ORDER BY g.node_id, g.pci_address`, nodeUUIDs(nodes))
	list, err := pgx.CollectRows(rows, gpuScan)
	if err != nil {
		return wrap("list nodes' GPUs", err)
	}
	if err := claimsFill(ctx, q, list); err != nil {
		return err
	}
	if err := partitionsFill(ctx, q, nodes); err != nil {
		return err
	}
	if err := excludedFill(ctx, q, nodes); err != nil {
		return err
	}
	at := make(map[cloud.NodeID]int, len(nodes))
	for i := range nodes {
		at[nodes[i].ID], nodes[i].GPUs = i, nil
	}
	for _, g := range list {
		n := &nodes[at[g.NodeID]]
		n.GPUs = append(n.GPUs, g)
	}
	return nil
}

func nodeUUIDs(nodes []cloud.Node) []uuid.UUID {
	out := make([]uuid.UUID, len(nodes))
	for i, n := range nodes {
		out[i] = n.ID.UUID()
	}
	return out
}
