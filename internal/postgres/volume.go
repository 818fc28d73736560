package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/tenon-cloud/tenon/internal/cloud"
)

// Volumes are locked after claims and observations, by id; an instance's own are
// changed under the instance's lock.

const volumeColumns = `v.id, v.org_id, v.project_id, v.instance_id, v.role, v.size_mib, v.used_mib, v.node_id, COALESCE(n.name, ''), v.state, v.state = 'lost' AND v.ending_at IS NOT NULL, v.message, v.created_at, v.deleted_at`

func volumeScan(row pgx.CollectableRow) (v cloud.Volume, err error) {
	err = row.Scan(&v.ID, &v.OrgID, &v.ProjectID, &v.InstanceID, &v.Role, &v.SizeMiB, &v.UsedMiB, &v.NodeID, &v.NodeName, &v.State, &v.Gone, &v.Message, &v.CreatedAt, &v.DeletedAt)
	return v, err
}

// VolumesOf lists what instances have that is not deleted, by instance. Nodes'
// names are for operators.
func VolumesOf(ctx context.Context, q Querier, ids []cloud.InstanceID) (map[cloud.InstanceID][]cloud.Volume, error) {
	rows, _ := q.Query(ctx, `
		SELECT `+volumeColumns+` FROM volume v LEFT JOIN node n ON n.id = v.node_id
		WHERE v.instance_id = ANY($1) AND v.state <> 'deleted' ORDER BY v.instance_id, v.id`, uuids(ids))
	list, err := pgx.CollectRows(rows, volumeScan)
	out := make(map[cloud.InstanceID][]cloud.Volume, len(ids))
	for _, v := range list {
		out[v.InstanceID] = append(out[v.InstanceID], v)
	}
	return out, wrap("list volumes", err)
}

const volumeAddSQL = `
	INSERT INTO volume (id, org_id, project_id, instance_id, role, size_mib, created_at, sized_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $7)`

func volumeArgs(v cloud.Volume) []any {
	return []any{v.ID, v.OrgID, v.ProjectID, v.InstanceID, v.Role, v.SizeMiB, v.CreatedAt}
}

// VolumeAdd inserts one that its node has still to make.
func VolumeAdd(ctx context.Context, q Querier, v cloud.Volume) error {
	_, err := q.Exec(ctx, volumeAddSQL, volumeArgs(v)...)
	return wrap("add volume", err)
}

// VolumesEnd asks for the end of all that instances have: what was never given
// to a node is gone at once, the rest when its node says so. Nothing is charged
// from then on. The nodes' generations are raised before, where VolumeNodes says.
func VolumesEnd(ctx context.Context, q Querier, ids []cloud.InstanceID, at time.Time) error {
	if len(ids) == 0 {
		return nil
	}
	_, err := q.Exec(ctx, `
		WITH locked AS MATERIALIZED (
			SELECT id FROM volume WHERE instance_id = ANY($1) AND state IN ('pending', 'present', 'lost') ORDER BY id FOR NO KEY UPDATE
		)
		UPDATE volume v SET ending_at = $2::timestamptz, message = '',
			state = CASE WHEN v.node_id IS NULL THEN 'deleted' ELSE 'deleting' END,
			deleted_at = CASE WHEN v.node_id IS NULL THEN $2::timestamptz END
		FROM locked WHERE v.id = locked.id`, uuids(ids), at)
	return wrap("end volumes", err)
}

// VolumeNodes lists the nodes that keep, or should make, something of locked
// instances.
func VolumeNodes(ctx context.Context, q Querier, ids []cloud.InstanceID) ([]cloud.NodeID, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	rows, _ := q.Query(ctx, `
		SELECT DISTINCT node_id FROM volume
		WHERE instance_id = ANY($1) AND state IN ('pending', 'present', 'lost') AND node_id IS NOT NULL ORDER BY node_id`, uuids(ids))
	out, err := pgx.CollectRows(rows, pgx.RowTo[cloud.NodeID])
	return out, wrap("list volumes' nodes", err)
}

// VolumesPlace gives what instances have still to be made to the nodes that they
// are placed on, and what they keep the size that they have by now: a resize
// takes effect, and is charged, from here. It gives the instances whose data lies
// elsewhere, and the nodes that no longer have to make something.
func VolumesPlace(ctx context.Context, q Querier, places map[cloud.InstanceID]cloud.NodeID) (elsewhere []cloud.InstanceID, left []cloud.NodeID, err error) {
	if len(places) == 0 {
		return nil, nil, nil
	}
	instances, nodes := make([]uuid.UUID, 0, len(places)), make([]uuid.UUID, 0, len(places))
	for i, n := range places {
		instances, nodes = append(instances, i.UUID()), append(nodes, n.UUID())
	}
	rows, _ := q.Query(ctx, `
		WITH place AS (SELECT * FROM unnest($1::uuid[], $2::uuid[]) AS p (instance_id, node_id)),
		locked AS MATERIALIZED (
			SELECT v.id, v.instance_id, p.node_id AS wanted, v.node_id AS has, v.state = 'pending' AND v.said <> 'present' AS free,
				CASE WHEN v.node_id IS NULL THEN i.disk_mib ELSE GREATEST(v.size_mib, i.disk_mib) END AS size
			FROM volume v JOIN place p ON p.instance_id = v.instance_id JOIN instance i ON i.id = v.instance_id
			WHERE v.state IN ('pending', 'present', 'lost') ORDER BY v.id FOR NO KEY UPDATE OF v
		), moved AS (
			UPDATE volume v SET node_id = l.wanted, size_mib = l.size,
				sized_at = CASE WHEN v.size_mib = l.size THEN v.sized_at ELSE clock_timestamp() END,
				said = CASE WHEN l.has = l.wanted THEN v.said ELSE '' END, said_at = CASE WHEN l.has = l.wanted THEN v.said_at END,
				message = CASE WHEN l.has = l.wanted THEN v.message ELSE '' END
			FROM locked l WHERE v.id = l.id AND (l.free AND l.has IS DISTINCT FROM l.wanted OR l.has = l.wanted AND v.size_mib <> l.size)
		)
		SELECT instance_id, has, NOT free FROM locked WHERE has IS DISTINCT FROM wanted AND (NOT free OR has IS NOT NULL)`, instances, nodes)
	var instance cloud.InstanceID
	var has cloud.NodeID
	var bound bool
	_, err = pgx.ForEachRow(rows, []any{&instance, &has, &bound}, func() error {
		if bound {
			elsewhere = append(elsewhere, instance)
		} else {
			left = append(left, has)
		}
		return nil
	})
	return elsewhere, left, wrap("place volumes", err)
}

// VolumeSaid is what a node says of a volume.
type VolumeSaid struct {
	ID      cloud.VolumeID
	State   string // a nodewire.Volume… word
	UsedMiB int64
	Message string
}

// VolumesReported keeps what a node says of its volumes, as tenon_node: row
// security leaves only those that are given to it. The node's row is locked. It
// reports whether any of it is news, and whether the node's assignment is another
// by it: whether its data binds an instance to it, and what is left to remove.
func VolumesReported(ctx context.Context, q Querier, node cloud.NodeID, list []VolumeSaid) (news, told bool, err error) {
	if len(list) == 0 {
		return false, false, nil
	}
	type row struct {
		ID      uuid.UUID `json:"id"`
		State   string    `json:"state"`
		UsedMiB int64     `json:"used_mib"`
		Message string    `json:"message"`
	}
	in := make([]row, len(list))
	for i, v := range list {
		in[i] = row{v.ID.UUID(), v.State, max(0, v.UsedMiB), v.Message}
	}
	err = q.QueryRow(ctx, `
		WITH said AS (
			SELECT DISTINCT ON (id) * FROM json_to_recordset($2::json) AS r (id uuid, state text, used_mib bigint, message text) ORDER BY id
		), locked AS MATERIALIZED (
			SELECT v.id, s.state, s.used_mib, s.message, v.said IS DISTINCT FROM s.state OR v.state = 'lost' AND s.state = 'present' AS news,
				v.state = 'pending' AND (v.said = 'present') <> (s.state = 'present') OR v.state = 'deleting' AND (v.said = 'gone') <> (s.state = 'gone') AS told
			FROM volume v JOIN said s ON s.id = v.id WHERE v.node_id = $1 AND v.state <> 'deleted' ORDER BY v.id FOR NO KEY UPDATE OF v
		), kept AS (
			UPDATE volume v SET said = l.state, said_at = CASE WHEN l.news THEN now() ELSE v.said_at END,
				used_mib = CASE WHEN l.state = 'present' THEN l.used_mib ELSE v.used_mib END,
				message = CASE WHEN v.state = 'lost' AND l.state = 'present' THEN v.message ELSE l.message END
			FROM locked l WHERE v.id = l.id
			AND (l.news OR v.used_mib IS DISTINCT FROM l.used_mib OR v.message IS DISTINCT FROM l.message)
		)
		SELECT s.news, s.told AND node_told() > 0 FROM (SELECT COALESCE(bool_or(COALESCE(news, false)), false) AS news, COALESCE(bool_or(told), false) AS told FROM locked) s`,
		node, asJSON(in)).Scan(&news, &told)
	return news, told, wrap("keep what a node says of volumes", err)
}

// AssignedVolume is a volume as its node must make it.
type AssignedVolume struct {
	ID         cloud.VolumeID
	OrgID      cloud.OrgID
	InstanceID cloud.InstanceID
	Role       cloud.VolumeRole
	SizeMiB    int64
	Gone       bool // its deletion is asked for
	Made       bool // the node has had it: its instance can't run elsewhere
}

// Each part of it changes only where the node's generation is raised: with what a
// node says (VolumesReported), and not when the loop settles that later.
const volumesAssignedSQL = `
	SELECT id, org_id, instance_id, role, size_mib, state = 'deleting', state IN ('present', 'lost') OR state = 'pending' AND said = 'present'
	FROM volume WHERE node_id = $1 AND state <> 'deleted' AND NOT (state = 'deleting' AND said = 'gone') ORDER BY id`

// VolumesAssigned lists what a node must keep or remove, as tenon_node.
func VolumesAssigned(ctx context.Context, q Querier, node cloud.NodeID) ([]AssignedVolume, error) {
	rows, _ := q.Query(ctx, volumesAssignedSQL, node)
	out, err := pgx.CollectRows(rows, pgx.RowToStructByPos[AssignedVolume])
	return out, wrap("list a node's volumes", err)
}

// VolumeStanding is a volume as the loop decides on it.
type VolumeStanding struct {
	ID         cloud.VolumeID
	OrgID      cloud.OrgID
	ProjectID  cloud.ProjectID
	InstanceID cloud.InstanceID
	NodeID     cloud.NodeID
	Role       cloud.VolumeRole
	SizeMiB    int64
	State      string
	Message    string
	Said       string
	SaidAt     *time.Time
	SizedAt    time.Time
	EndingAt   *time.Time
	DeletedAt  *time.Time
	ChargedMiB *int64     // of its open segment; nil: none
	ChargedAt  *time.Time // when that began
	NodeLost   bool
	NodeName   string
	NodeSeenAt *time.Time
}

// VolumesUnsettled locks volumes that a step must be taken with: its condition is
// that of an index, and of the nodes that are lost or back.
func VolumesUnsettled(ctx context.Context, q Querier, after cloud.VolumeID, limit int) ([]VolumeStanding, error) {
	rows, _ := q.Query(ctx, `
		WITH due AS MATERIALIZED (
			(SELECT id FROM volume
			WHERE id > $2 AND (state = 'pending' AND said = 'present' OR state = 'present' AND said IN ('gone', 'failed') OR state = 'deleting' AND said = 'gone'
				OR state = 'present' AND charged_mib IS DISTINCT FROM size_mib OR state <> 'present' AND charged_mib IS NOT NULL)
			ORDER BY id LIMIT $1)
			UNION
			(SELECT v.id FROM node n JOIN volume v ON v.node_id = n.id AND v.state <> 'deleted'
			WHERE n.state = 'lost' AND v.state = 'present' AND v.id > $2 ORDER BY v.id LIMIT $1)
			UNION
			(SELECT v.id FROM node n JOIN volume v ON v.node_id = n.id AND v.state <> 'deleted'
			WHERE n.state = 'ready' AND v.state = 'lost' AND v.said = 'present' AND v.said_at >= n.last_seen_at - interval '1 minute' AND v.id > $2 ORDER BY v.id LIMIT $1)
		)
		SELECT v.id, v.org_id, v.project_id, v.instance_id, v.node_id, v.role, v.size_mib, v.state, v.message, v.said, v.said_at, v.sized_at,
			v.ending_at, v.deleted_at, v.charged_mib, (SELECT s.started_at FROM volume_segment s WHERE s.volume_id = v.id AND s.ended_at IS NULL),
			COALESCE(n.state = 'lost', false), COALESCE(n.name, ''), n.last_seen_at
		FROM volume v JOIN due ON due.id = v.id LEFT JOIN node n ON n.id = v.node_id
		ORDER BY v.id LIMIT $1 FOR NO KEY UPDATE OF v`, limit, after.UUID())
	out, err := pgx.CollectRows(rows, pgx.RowToStructByPos[VolumeStanding])
	return out, wrap("lock volumes", err)
}

// VolumeSegment is a stretch in which a volume was there with one size.
type VolumeSegment struct {
	ID        uuid.UUID
	StartedAt time.Time
}

// VolumeSettle writes a locked volume back, ends its open segment and begins
// another, each where it is given.
func VolumeSettle(ctx context.Context, q Querier, v VolumeStanding, ended *time.Time, begun *VolumeSegment) error {
	var batch pgx.Batch
	if ended != nil {
		batch.Queue(`UPDATE volume_segment SET ended_at = $2 WHERE volume_id = $1 AND ended_at IS NULL`, v.ID, *ended)
	}
	if begun != nil {
		batch.Queue(`
			INSERT INTO volume_segment (id, org_id, project_id, volume_id, instance_id, size_mib, started_at) VALUES ($1, $2, $3, $4, $5, $6, $7)`,
			begun.ID, v.OrgID, v.ProjectID, v.ID, v.InstanceID, v.SizeMiB, begun.StartedAt)
	}
	batch.Queue(`UPDATE volume SET state = $2, message = $3, ending_at = $4, deleted_at = $5, charged_mib = $6 WHERE id = $1`,
		v.ID, v.State, v.Message, v.EndingAt, v.DeletedAt, v.ChargedMiB)
	if err := q.SendBatch(ctx, &batch).Close(); err != nil {
		return fmt.Errorf("settle volume %s: %w", v.ID, err)
	}
	return nil
}

// UsageVolume is a segment of a volume, for reports.
type UsageVolume struct {
	InstanceID   cloud.InstanceID
	InstanceName string
	SizeMiB      int64
	StartedAt    time.Time
	EndedAt      *time.Time
	Simulated    bool
}

// UsageVolumes lists a project's segments of volumes that touch [from, to).
func UsageVolumes(ctx context.Context, q Querier, project cloud.ProjectID, from, to time.Time) ([]UsageVolume, error) {
	rows, _ := q.Query(ctx, `
		SELECT s.instance_id, COALESCE((SELECT i.name FROM instance i WHERE i.id = s.instance_id), ''), s.size_mib, s.started_at, s.ended_at,
			COALESCE((SELECT o.simulated FROM instance i JOIN pool o ON o.id = i.pool_id WHERE i.id = s.instance_id), false)
		FROM volume_segment s
		WHERE s.project_id = $1 AND s.started_at < $3 AND (s.ended_at IS NULL OR s.ended_at > $2)
		ORDER BY s.started_at, s.id`, project, from, to)
	out, err := pgx.CollectRows(rows, pgx.RowToStructByPos[UsageVolume])
	return out, wrap("list segments of volumes", err)
}
