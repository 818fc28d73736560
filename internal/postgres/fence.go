package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/tenon-cloud/tenon/internal/cloud"
)

// SilentNode is a node without news that runs something which may restart
// elsewhere.
type SilentNode struct {
	ID        cloud.NodeID
	Name      string
	State     cloud.NodeState
	Watchdog  bool
	ContactAt time.Time     // the last that either side may take for contact
	Silent    time.Duration // since then, by the database's clock
}

// An assignment that was sent and not answered may have come, and the node may
// have taken it for contact.
const contactAt = `GREATEST(COALESCE(n.last_seen_at, n.created_at), n.tried_at)`

// takeable is what may be taken from a fenced node n: instances i that restart
// elsewhere and leave no data behind. By its own time-out a node ends only what
// an assignment told it to.
const takeable = `
	i.on_node_loss = 'restart' AND i.state IN ('starting', 'running') AND i.desired_state = 'running'
	AND (n.fenced_by IS NOT NULL OR i.loss_generation <= n.ack_generation)
	AND NOT EXISTS (SELECT FROM volume v WHERE v.instance_id = i.id AND v.node_id = n.id AND (v.state IN ('present', 'lost') OR v.said = 'present'))`

// NodesSilent lists nodes that fencing would help. One that has not yet held an
// assignment of this era may run what no row tells of.
func NodesSilent(ctx context.Context, q Querier) ([]SilentNode, error) {
	rows, err := q.Query(ctx, `
		SELECT n.id, n.name, n.state, n.watchdog, `+contactAt+`, clock_timestamp() - `+contactAt+`
		FROM node n
		WHERE n.state <> 'ready' AND n.fenced_at IS NULL AND n.forgotten_at IS NULL AND n.last_seen_at IS NOT NULL
			AND n.ack_era IS NOT DISTINCT FROM (SELECT era FROM cloud_state)
			AND EXISTS (SELECT FROM instance i WHERE i.node_id = n.id AND `+takeable+`)
		ORDER BY n.id`)
	if err != nil {
		return nil, fmt.Errorf("list silent nodes: %w", err)
	}
	out, err := pgx.CollectRows(rows, pgx.RowToStructByPos[SilentNode])
	if err != nil {
		return nil, fmt.Errorf("list silent nodes: %w", err)
	}
	return out, nil
}

// NodesFence marks nodes as fenced, unless they were heard of since they were
// read, and gives those that it marked. Their next assignment has a generation
// of its own, so that an older report proves nothing.
func NodesFence(ctx context.Context, q Querier, list []SilentNode) ([]cloud.NodeID, error) {
	ids, contacts := make([]uuid.UUID, len(list)), make([]time.Time, len(list))
	for i, n := range list {
		ids[i], contacts[i] = n.ID.UUID(), n.ContactAt
	}
	rows, err := q.Query(ctx, `
		WITH locked AS MATERIALIZED (
			SELECT n.id FROM node n JOIN unnest($1::uuid[], $2::timestamptz[]) AS r (id, contact) ON r.id = n.id
			WHERE n.fenced_at IS NULL AND n.forgotten_at IS NULL AND n.state <> 'ready' AND `+contactAt+` = r.contact
			ORDER BY n.id FOR NO KEY UPDATE OF n
		)
		UPDATE node n SET fenced_at = clock_timestamp(), fenced_by = NULL, leftovers = '{}', generation = n.generation + 1
		FROM locked WHERE n.id = locked.id RETURNING n.id`, ids, contacts)
	if err != nil {
		return nil, fmt.Errorf("fence nodes: %w", err)
	}
	out, err := pgx.CollectRows(rows, pgx.RowTo[cloud.NodeID])
	if err != nil {
		return nil, fmt.Errorf("fence nodes: %w", err)
	}
	return out, nil
}

// InstanceFenceable finds what may be taken from fenced nodes.
func InstanceFenceable(ctx context.Context, q Querier, limit int) ([]InstanceRef, error) {
	return instanceRefs(ctx, q, `
		SELECT i.id, i.project_id FROM node n JOIN instance i ON i.node_id = n.id
		WHERE n.fenced_at IS NOT NULL AND n.forgotten_at IS NULL AND `+takeable+`
		ORDER BY i.id LIMIT $1`, limit)
}

// FenceFacts is what taking a locked instance from its node rests on.
type FenceFacts struct {
	NodeName  string
	State     cloud.NodeState
	Fenced    bool
	Confirmed bool // by a person
	Watchdog  bool
	Takeable  bool
	Data      bool      // something of it lies on that node
	SeenAt    time.Time // the node's last sign of life
}

// FenceFactsGet reads them under the instance's lock.
func FenceFactsGet(ctx context.Context, q Querier, id cloud.InstanceID) (FenceFacts, error) {
	rows, _ := q.Query(ctx, `
		SELECT n.name, n.state, n.fenced_at IS NOT NULL, n.fenced_by IS NOT NULL, n.watchdog, n.fenced_at IS NOT NULL AND `+takeable+`,
			EXISTS (SELECT FROM volume v WHERE v.instance_id = i.id AND v.node_id = n.id AND (v.state IN ('present', 'lost') OR v.said = 'present')),
			COALESCE(n.last_seen_at, n.created_at)
		FROM instance i JOIN node n ON n.id = i.node_id WHERE i.id = $1`, id)
	out, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[FenceFacts])
	return out, wrap("read a fenced instance's node", err)
}

// ClaimsFence keeps what instances hold of a node that they leave without its
// word: nobody else gets the slots before the node has spoken. What was not made
// there yet is made where they run next.
func ClaimsFence(ctx context.Context, q Querier, list []Standing) error {
	if len(list) == 0 {
		return nil
	}
	ids, epochs, nodes := make([]uuid.UUID, len(list)), make([]int64, len(list)), make([]uuid.UUID, len(list))
	for i, s := range list {
		ids[i], epochs[i], nodes[i] = s.ID.UUID(), s.Epoch, s.NodeID.UUID()
	}
	_, err := q.Exec(ctx, `
		UPDATE gpu_claim c SET fenced = true FROM unnest($1::uuid[], $2::bigint[]) AS r (id, epoch)
		WHERE c.instance_id = r.id AND c.epoch = r.epoch`, ids, epochs)
	if err != nil {
		return fmt.Errorf("fence claims: %w", err)
	}
	_, err = q.Exec(ctx, `
		UPDATE volume v SET node_id = NULL FROM unnest($1::uuid[], $2::uuid[]) AS r (id, node_id)
		WHERE v.instance_id = r.id AND v.node_id = r.node_id AND v.state = 'pending'`, ids, nodes)
	if err != nil {
		return fmt.Errorf("unbind volumes: %w", err)
	}
	return nil
}

// Requeued sets since when instances that were taken from a node wait.
func Requeued(ctx context.Context, q Querier, ids []cloud.InstanceID) error {
	if len(ids) == 0 {
		return nil
	}
	if _, err := q.Exec(ctx, `UPDATE instance SET queued_at = clock_timestamp() WHERE id = ANY($1)`, uuids(ids)); err != nil {
		return fmt.Errorf("queue instances again: %w", err)
	}
	return nil
}

// Leftover is what a fenced node's report shows of an instance that is not, or
// no longer, placed on it at that epoch. An orphan has no epoch.
type Leftover struct {
	ID     uuid.UUID `json:"id"`
	Epoch  int64     `json:"epoch"`
	Over   bool      `json:"over"` // it has ended, and nothing of it is left
	RanFor float64   `json:"ran_for"`
}

// LeftoversPut keeps, as tenon_node, what a report on one assignment shows of
// others' instances. How a run ended is kept although the node says it only once.
func LeftoversPut(ctx context.Context, q Querier, node cloud.NodeID, era string, generation int64, list []Leftover) error {
	if list == nil {
		list = []Leftover{}
	}
	_, err := q.Exec(ctx, `
		UPDATE node SET leftovers = jsonb_build_object('era', $2::text, 'generation', $3::bigint, 'at', clock_timestamp(), 'instances', (
			WITH said AS (SELECT * FROM jsonb_to_recordset($4::jsonb) AS r (id uuid, epoch bigint, over boolean, ran_for float8))
			SELECT COALESCE(jsonb_agg(r), '[]') FROM (
				SELECT * FROM said
				UNION ALL
				SELECT * FROM jsonb_to_recordset(leftovers->'instances') AS o (id uuid, epoch bigint, over boolean, ran_for float8)
				WHERE o.over AND NOT EXISTS (SELECT FROM said WHERE said.id = o.id AND said.epoch = o.epoch)
			) r WHERE NOT EXISTS (SELECT FROM instance i WHERE i.id = r.id AND i.node_id = $1 AND i.epoch = r.epoch)))
		WHERE id = $1 AND fenced_at IS NOT NULL`, node, era, generation, asJSON(list))
	if err != nil {
		return fmt.Errorf("keep what a fenced node shows: %w", err)
	}
	return nil
}

// BackNode is a fenced node that has reported since.
type BackNode struct {
	ID        cloud.NodeID
	Name      string
	At        time.Time // of the report
	Current   bool      // it was on an assignment that was made since the fence, and on the newest
	Leftovers []Leftover
}

// NodesBack lists fenced nodes that have spoken.
func NodesBack(ctx context.Context, q Querier) ([]BackNode, error) {
	rows, err := q.Query(ctx, `
		SELECT id, name, (leftovers->>'at')::timestamptz, (leftovers->>'generation')::bigint >= generation, leftovers->'instances' FROM node
		WHERE fenced_at IS NOT NULL AND forgotten_at IS NULL AND leftovers ? 'at'
			AND (leftovers->>'era')::text = COALESCE((SELECT era::text FROM cloud_state), '')
		ORDER BY id`)
	if err != nil {
		return nil, fmt.Errorf("list fenced nodes that are back: %w", err)
	}
	out, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (n BackNode, err error) {
		var raw []byte
		if err = row.Scan(&n.ID, &n.Name, &n.At, &n.Current, &raw); err == nil {
			err = json.Unmarshal(raw, &n.Leftovers)
		}
		return n, err
	})
	if err != nil {
		return nil, fmt.Errorf("list fenced nodes that are back: %w", err)
	}
	return out, nil
}

// FencedRelease deletes the fenced claims of a node's cards but for those of
// instances that it still shows, and lifts the fence when nothing is left. It
// gives how many claims went, and whether the fence did.
func FencedRelease(ctx context.Context, q Querier, n BackNode) (released int64, lifted bool, err error) {
	still := []uuid.UUID{}
	for _, l := range n.Leftovers {
		if !l.Over {
			still = append(still, l.ID)
		}
	}
	var same bool
	err = q.QueryRow(ctx, `SELECT fenced_at IS NOT NULL AND leftovers->>'at' IS NOT NULL AND (leftovers->>'at')::timestamptz = $2
		FROM node WHERE id = $1 FOR NO KEY UPDATE`, n.ID, n.At).Scan(&same)
	if err != nil || !same { // it has spoken again meanwhile: the next look takes that
		return 0, false, wrap("lock a fenced node", err)
	}
	if _, err = q.Exec(ctx, `SELECT FROM gpu WHERE node_id = $1 ORDER BY id FOR UPDATE`, n.ID); err != nil {
		return 0, false, wrap("lock a fenced node's cards", err)
	}
	tag, err := q.Exec(ctx, `
		DELETE FROM gpu_claim c USING gpu g
		WHERE g.node_id = $1 AND c.gpu_id = g.id AND c.fenced AND NOT c.instance_id = ANY($2)`, n.ID, still)
	if err != nil {
		return 0, false, wrap("release fenced claims", err)
	}
	lift, err := q.Exec(ctx, `
		UPDATE node SET fenced_at = NULL, fenced_by = NULL, leftovers = '{}'
		WHERE id = $1 AND cardinality($2::uuid[]) = 0
			AND NOT EXISTS (SELECT FROM gpu g JOIN gpu_claim c ON c.gpu_id = g.id WHERE g.node_id = $1 AND c.fenced)`, n.ID, still)
	return tag.RowsAffected(), lift.RowsAffected() > 0, wrap("lift a fence", err)
}

// FencedRun is when a run that was taken from its node had begun; false when
// what became of it is known already, or it never ran.
func FencedRun(ctx context.Context, q Querier, id cloud.InstanceID, epoch int64) (began time.Time, unknown bool, err error) {
	err = q.QueryRow(ctx, `
		SELECT min(at) FILTER (WHERE data->>'state' = 'running'), COALESCE(bool_or(verb = 'restarting' AND data->>'reason' = 'node_lost'), false) AND NOT COALESCE(bool_or(data ? 'ran_until'), false)
		FROM event WHERE resource_id = $1 AND (data->>'epoch')::bigint = $2`, id, epoch).Scan(&nullTime{&began}, &unknown)
	return began, unknown && !began.IsZero(), wrap("read a fenced run", err)
}

// nullTime reads NULL as the zero time.
type nullTime struct{ at *time.Time }

// Scan implements sql.Scanner.
func (n *nullTime) Scan(src any) error {
	*n.at = time.Time{}
	if at, ok := src.(time.Time); ok {
		*n.at = at
	}
	return nil
}
