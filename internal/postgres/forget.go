package postgres

import (
	"context"
	"time"

	"github.com/tenon-cloud/tenon/internal/cloud"
)

// InstanceForgotten finds what has its place, or data, on a node that was given
// up.
func InstanceForgotten(ctx context.Context, q Querier, limit int) ([]InstanceRef, error) {
	return instanceRefs(ctx, q, `
		SELECT i.id, i.project_id FROM instance i WHERE i.id IN (
			SELECT i.id FROM node n JOIN instance i ON i.node_id = n.id WHERE n.forgotten_at IS NOT NULL
			UNION
			SELECT v.instance_id FROM node n JOIN volume v ON v.node_id = n.id
			WHERE n.forgotten_at IS NOT NULL AND (v.state IN ('pending', 'present', 'deleting') OR v.state = 'lost' AND v.ending_at IS NULL))
		ORDER BY i.id LIMIT $1`, limit)
}

// VolumesLose gives up for good (ending_at says so) what of a locked instance lay on a forgotten node, charged
// no further than that node was heard of. What was to be deleted is. It gives how
// many are lost, and when a forgotten node of the instance was last heard of.
func VolumesLose(ctx context.Context, q Querier, id cloud.InstanceID, now time.Time) (lost int, seen time.Time, err error) {
	seen = now
	if _, err = q.Exec(ctx, `
		UPDATE volume v SET node_id = NULL FROM node n
		WHERE v.instance_id = $1 AND n.id = v.node_id AND n.forgotten_at IS NOT NULL AND v.state = 'pending' AND v.said <> 'present'`, id); err != nil {
		return 0, seen, wrap("unbind volumes", err)
	}
	if _, err = q.Exec(ctx, `
		UPDATE volume v SET state = 'deleted', deleted_at = $2, message = 'its node was given up' FROM node n
		WHERE v.instance_id = $1 AND n.id = v.node_id AND n.forgotten_at IS NOT NULL AND v.state = 'deleting'`, id, now); err != nil {
		return 0, seen, wrap("end volumes", err)
	}
	tag, err := q.Exec(ctx, `
		UPDATE volume v SET state = 'lost', ending_at = LEAST($2, GREATEST(v.created_at, COALESCE(n.last_seen_at, n.created_at))), message = 'its node was given up'
		FROM node n
		WHERE v.instance_id = $1 AND n.id = v.node_id AND n.forgotten_at IS NOT NULL AND (v.state IN ('pending', 'present') OR v.state = 'lost' AND v.ending_at IS NULL)`, id, now)
	if err != nil {
		return 0, seen, wrap("give up volumes", err)
	}
	err = q.QueryRow(ctx, `SELECT COALESCE(n.last_seen_at, n.created_at) FROM instance i JOIN node n ON n.id = i.node_id WHERE i.id = $1`, id).Scan(&seen)
	if Missing(err) {
		err = nil
	}
	return int(tag.RowsAffected()), seen, wrap("read a node's last sign of life", err)
}

// OnForgotten reports that a node was given up.
func OnForgotten(ctx context.Context, q Querier, id cloud.NodeID) (yes bool, err error) {
	err = q.QueryRow(ctx, `SELECT EXISTS (SELECT FROM node WHERE id = $1 AND forgotten_at IS NOT NULL)`, id).Scan(&yes)
	return yes, wrap("look at a node", err)
}

// ForgottenClear deletes what is left of forgotten nodes once nothing is placed
// on them: claims of what went elsewhere, then their cards.
func ForgottenClear(ctx context.Context, q Querier) (int64, error) {
	const cards = `SELECT g.id FROM node n JOIN gpu g ON g.node_id = n.id
		WHERE n.forgotten_at IS NOT NULL AND NOT EXISTS (SELECT FROM instance i WHERE i.node_id = n.id)`
	if _, err := q.Exec(ctx, `
		DELETE FROM gpu_claim c USING (SELECT k.id FROM gpu_claim k WHERE k.fenced AND k.gpu_id IN (`+cards+`) ORDER BY k.gpu_id, k.slots FOR UPDATE) d
		WHERE c.id = d.id`); err != nil {
		return 0, wrap("release a forgotten node's claims", err)
	}
	tag, err := q.Exec(ctx, `
		DELETE FROM gpu g USING (SELECT id FROM gpu WHERE id IN (`+cards+`) ORDER BY id FOR UPDATE) d
		WHERE g.id = d.id AND NOT EXISTS (SELECT FROM gpu_claim c WHERE c.gpu_id = g.id)`)
	if err != nil {
		return 0, wrap("delete a forgotten node's cards", err)
	}
	_, err = q.Exec(ctx, `DELETE FROM node_removal r USING node n WHERE n.id = r.node_id AND n.forgotten_at IS NOT NULL`)
	return tag.RowsAffected(), wrap("delete a forgotten node's removals", err)
}

// NodeForget gives a node up for good, as an operator: its name is free again,
// its certificates end, and nothing of it counts.
func NodeForget(ctx context.Context, q Querier, id cloud.NodeID, by cloud.UserID) error {
	_, err := q.Exec(ctx, `
		UPDATE node SET name = 'forgotten-' || replace(id::text, '-', ''), forgotten_at = clock_timestamp(), state = 'lost', drained = true, generation = generation + 1,
			fenced_at = COALESCE(fenced_at, clock_timestamp()), fenced_by = COALESCE(fenced_by, $2), leftovers = '{}'
		WHERE id = $1 AND forgotten_at IS NULL`, id, by)
	if err != nil {
		return wrap("forget a node", err)
	}
	_, err = q.Exec(ctx, `UPDATE node_certificate SET revoked_at = now() WHERE node_id = $1 AND revoked_at IS NULL`, id)
	return wrap("revoke a node's certificates", err)
}

// NodeFence notes that a person has confirmed that a node is off.
func NodeFence(ctx context.Context, q Querier, id cloud.NodeID, by cloud.UserID) error {
	_, err := q.Exec(ctx, `
		UPDATE node SET fenced_at = clock_timestamp(), fenced_by = $2, leftovers = '{}', generation = generation + 1
		WHERE id = $1 AND forgotten_at IS NULL`, id, by)
	return wrap("fence a node", err)
}

// NodeLock locks a node's row and reads its state again under the lock.
func NodeLock(ctx context.Context, q Querier, id cloud.NodeID) (state cloud.NodeState, fenced bool, err error) {
	err = q.QueryRow(ctx, `SELECT state, fenced_at IS NOT NULL FROM node WHERE id = $1 AND forgotten_at IS NULL FOR NO KEY UPDATE`, id).Scan(&state, &fenced)
	return state, fenced, wrap("lock a node", err)
}
