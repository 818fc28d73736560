package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tenon-cloud/tenon/internal/cloud"
)

// GPULock locks a card and, before it, its node, as an operator. Until the
// transaction ends nobody places on the card.
func GPULock(ctx context.Context, q Querier, node cloud.NodeID, id cloud.GPUID) error {
	b := &pgx.Batch{}
	b.Queue(`SELECT FROM node WHERE id = $1 FOR NO KEY UPDATE`, node)
	b.Queue(`SELECT FROM gpu WHERE id = $1 FOR NO KEY UPDATE`, id)
	return wrap("lock a card", q.SendBatch(ctx, b).Close())
}

// CardWishPut writes what a locked card is to be, as an operator: its node is told
// by the assignment's next generation.
func CardWishPut(ctx context.Context, q Querier, g cloud.GPU, by cloud.UserID, at time.Time) error {
	w := g.Wish
	_, err := q.Exec(ctx, `
		WITH told AS (UPDATE node SET generation = generation + 1 WHERE id = $2 RETURNING generation)
		UPDATE gpu SET desired_mode = $3, desired_geometry = $4, desired_layout = $5, desired_shares = $6, desired_vgpu_type = $7,
			wish_generation = told.generation, wished_at = $8, wished_by = $9
		FROM told WHERE id = $1`,
		g.ID, g.NodeID, w.Mode, w.Geometry, jsonList(w.Layout), w.Shares, w.VGPUType, at, by)
	return wrap("wish for a card", err)
}

// CardRecover asks a locked card's node to check it again, as an operator.
func CardRecover(ctx context.Context, q Querier, g cloud.GPU) (asked int64, err error) {
	err = q.QueryRow(ctx, `
		WITH told AS (UPDATE node SET generation = generation + 1 WHERE id = $2 RETURNING generation)
		UPDATE gpu SET recover = greatest(recover, recovered) + 1 FROM told WHERE id = $1 RETURNING recover`, g.ID, g.NodeID).Scan(&asked)
	return asked, wrap("ask for a card's check", err)
}

// FaultsWaiting is how many faults of a card may wait for its node.
const FaultsWaiting = 32

// CardFault has a locked card's node show a fault on it, as an operator, after those
// that it has yet to show. asked says whether there was room for one more.
func CardFault(ctx context.Context, q Querier, g cloud.GPU, f cloud.SimulatedFault) (asked bool, err error) {
	tag, err := q.Exec(ctx, `
		WITH g AS (UPDATE gpu SET faults = faults || jsonb_build_array(jsonb_build_object('id', $2::text, 'xid', $3::int))
			WHERE id = $1 AND jsonb_array_length(faults) < $4 RETURNING node_id)
		UPDATE node SET generation = generation + 1 FROM g WHERE id = g.node_id`, g.ID, f.ID, f.XID, FaultsWaiting)
	return tag.RowsAffected() > 0, wrap("simulate a card's fault", err)
}

// faultsShownSQL no longer asks for the faults of a node's cards whose incidents it
// told of.
const faultsShownSQL = `
	WITH shown AS (
		UPDATE gpu SET faults = COALESCE((SELECT jsonb_agg(f ORDER BY n) FROM jsonb_array_elements(faults) WITH ORDINALITY x (f, n) WHERE NOT f->>'id' = ANY($2)), '[]')
		WHERE node_id = $1 AND faults <> '[]' AND EXISTS (SELECT FROM jsonb_array_elements(faults) f WHERE f->>'id' = ANY($2)) RETURNING id)
	SELECT node_told() WHERE EXISTS (SELECT FROM shown)`

// CardForget gives up a locked card that is missing and not held, as an operator.
func CardForget(ctx context.Context, q Querier, id cloud.GPUID) (gone bool, err error) {
	err = q.QueryRow(ctx, `SELECT gpu_forget($1)`, id).Scan(&gone)
	return gone, wrap("forget a card", err)
}

// GPUStayOf finds the card that is meant in what is kept of its holders, also when
// the card itself is forgotten: by its id, or the last one of that UUID.
func GPUStayOf(ctx context.Context, q Querier, ref Ref) (id cloud.GPUID, err error) {
	err = q.QueryRow(ctx, `SELECT gpu_id FROM gpu_stay WHERE gpu_id = $1 OR gpu_uuid = $2 ORDER BY started_at DESC LIMIT 1`, ref.ID, ref.Name).Scan(&id)
	return id, wrap("find a card's history", err)
}

// GPUStayList lists who held a card, newest first, before one: the card that is or
// was last known under an id, in whatever slot it was then.
func GPUStayList(ctx context.Context, q Querier, card cloud.GPUID, before *cloud.GPUStayID, limit int) ([]cloud.GPUStay, error) {
	rows, _ := q.Query(ctx, `
		SELECT s.id, s.gpu_id, s.instance_id, i.name, o.name, s.epoch, s.model, s.mode, s.profile, lower(s.slots), upper(s.slots), s.started_at, s.ended_at
		FROM gpu_stay s JOIN instance i ON i.id = s.instance_id JOIN organisation o ON o.id = s.org_id
		WHERE s.gpu_uuid = COALESCE((SELECT g.uuid FROM gpu g WHERE g.id = $1),
				(SELECT l.gpu_uuid FROM gpu_stay l WHERE l.gpu_id = $1 ORDER BY l.started_at DESC LIMIT 1))
			AND ($2::uuid IS NULL OR (s.started_at, s.id) < (SELECT b.started_at, b.id FROM gpu_stay b WHERE b.id = $2))
		ORDER BY s.started_at DESC, s.id DESC LIMIT $3`, card, before, limit)
	out, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (s cloud.GPUStay, err error) {
		err = row.Scan(&s.ID, &s.GPUID, &s.InstanceID, &s.InstanceName, &s.OrgName, &s.Epoch, &s.Model, &s.Mode, &s.Profile, &s.Slots.Start, &s.Slots.End, &s.From, &s.To)
		return s, err
	})
	return out, wrap("list a card's holders", err)
}

// GPUStaysExpire forgets who held a card long ago.
func GPUStaysExpire(ctx context.Context, q Querier, after time.Duration) error {
	_, err := q.Exec(ctx, `DELETE FROM gpu_stay WHERE ended_at < now() - $1::interval`, after)
	return wrap("forget cards' holders", err)
}

// AssignedCard is what a card of a node is to be.
type AssignedCard struct {
	PCIAddress string
	Mode       string
	Geometry   string
	Layout     []cloud.SlicePlace
	Shares     int
	VGPUType   string
	Recover    int64
	Faults     []cloud.SimulatedFault
}

// cardsAssignedSQL lists the cards of which anybody wants anything. One without a
// wish stays in the mode that it is in.
const cardsAssignedSQL = `
	SELECT pci_address, COALESCE(desired_mode, mode), CASE WHEN desired_mode IS NULL THEN geometry ELSE desired_geometry END,
		desired_layout, desired_shares, desired_vgpu_type, recover, faults
	FROM gpu WHERE node_id = $1 AND (desired_mode IS NOT NULL OR recover > 0 OR faults <> '[]') ORDER BY pci_address`

// ExcludedReported keeps which functions a node does not offer, as tenon_node.
func ExcludedReported(ctx context.Context, q Querier, node cloud.NodeID, list []cloud.Excluded) error {
	seen := make([]string, len(list))
	b := &pgx.Batch{}
	for i, x := range list {
		seen[i] = x.PCIAddress
		b.Queue(`
			INSERT INTO gpu_excluded AS e (node_id, pci_address, vendor, device, reason) VALUES ($1, $2, $3, $4, $5)
			ON CONFLICT (node_id, pci_address) DO UPDATE SET vendor = excluded.vendor, device = excluded.device, reason = excluded.reason
			WHERE (e.vendor, e.device, e.reason) IS DISTINCT FROM (excluded.vendor, excluded.device, excluded.reason)`,
			node, x.PCIAddress, x.Vendor, x.Device, x.Reason)
	}
	b.Queue(`DELETE FROM gpu_excluded WHERE node_id = $1 AND NOT pci_address = ANY($2)`, node, seen)
	return wrap("keep excluded devices", q.SendBatch(ctx, b).Close())
}

// excludedFill gives nodes what they don't offer.
func excludedFill(ctx context.Context, q Querier, nodes []cloud.Node) error {
	rows, _ := q.Query(ctx, `SELECT node_id, pci_address, vendor, device, reason FROM gpu_excluded WHERE node_id = ANY($1) ORDER BY node_id, pci_address`, nodeUUIDs(nodes))
	at := make(map[cloud.NodeID]int, len(nodes))
	for i := range nodes {
		at[nodes[i].ID], nodes[i].Excluded = i, nil
	}
	var id cloud.NodeID
	var x cloud.Excluded
	_, err := pgx.ForEachRow(rows, []any{&id, &x.PCIAddress, &x.Vendor, &x.Device, &x.Reason}, func() error {
		n := &nodes[at[id]]
		n.Excluded = append(n.Excluded, x)
		return nil
	})
	return wrap("list excluded devices", err)
}

// CardCondition is what about a card may need a person.
type CardCondition struct {
	ID      cloud.GPUID
	Node    string
	Address string
	Model   string
	State   cloud.GPUState
	Reason  string
	Missing int // slices of its layout that its driver does not show
	Held    bool
}

// CardConditionList reads the cards that are out or not whole.
func CardConditionList(ctx context.Context, q Querier) ([]CardCondition, error) {
	rows, _ := q.Query(ctx, `
		SELECT g.id, n.name, g.pci_address, g.model, g.state, g.reason, jsonb_array_length(g.missing), EXISTS (SELECT FROM gpu_claim k WHERE k.gpu_id = g.id)
		FROM gpu g JOIN node n ON n.id = g.node_id AND n.forgotten_at IS NULL
		WHERE g.state IN ('needs_reset', 'quarantined', 'unhealthy', 'missing') OR g.missing <> '[]' ORDER BY g.id`)
	out, err := pgx.CollectRows(rows, pgx.RowToStructByPos[CardCondition])
	return out, wrap("read cards' conditions", err)
}
