package postgres

import (
	"context"
	"encoding/json"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/tenon-cloud/tenon/internal/cloud"
)

const nodeSelect = `
	SELECT n.id, n.name, n.pool_id, p.name AS pool_name, n.state, n.drained, n.simulated, n.vcpu, n.memory_mib,
		n.cpu_overcommit, n.labels, n.kinds, n.drivers, n.watchdog, n.fenced_at, n.fenced_by IS NOT NULL AS fenced_by_hand, n.orphans, n.agent_version, n.last_seen_at, n.created_at, n.generation, n.ack_generation,
		COALESCE(u.vcpu, 0)::int AS used_vcpu, COALESCE(u.memory_mib, 0)::bigint AS used_memory_mib
	FROM node n
	JOIN pool p ON p.id = n.pool_id
	LEFT JOIN LATERAL (SELECT sum(i.vcpu) AS vcpu, sum(i.memory_mib) AS memory_mib FROM instance i WHERE i.node_id = n.id) u ON true`

// NodeList lists by name, after one, without GPUs.
func NodeList(ctx context.Context, q Querier, after string, limit int) ([]cloud.Node, error) {
	rows, _ := q.Query(ctx, nodeSelect+` WHERE n.name > $1 AND n.forgotten_at IS NULL ORDER BY n.name LIMIT $2`, after, limit)
	out, err := pgx.CollectRows(rows, pgx.RowToStructByNameLax[cloud.Node])
	return out, wrap("list nodes", err)
}

// NodeGet finds one, without GPUs.
func NodeGet(ctx context.Context, q Querier, ref Ref) (cloud.Node, error) {
	rows, _ := q.Query(ctx, nodeSelect+` WHERE (n.id = $1 OR n.name = $2) AND n.forgotten_at IS NULL`, ref.ID, ref.Name)
	out, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByNameLax[cloud.Node])
	return out, wrap("get node", err)
}

// NodeDrain says whether a node takes new placements.
func NodeDrain(ctx context.Context, q Querier, id cloud.NodeID, drained bool) error {
	_, err := q.Exec(ctx, `UPDATE node SET drained = $2 WHERE id = $1`, id, drained)
	return wrap("drain node", err)
}

// JoinToken lets one node enrol.
type JoinToken struct {
	PoolID    cloud.PoolID
	Simulated bool
	ExpiresAt time.Time
	UsedAt    *time.Time
	NodeID    cloud.NodeID
}

// JoinTokenAdd keeps a join token by its hash.
func JoinTokenAdd(ctx context.Context, q Querier, hash []byte, pool cloud.PoolID, simulated bool, by cloud.UserID, until time.Time) error {
	_, err := q.Exec(ctx, `INSERT INTO node_join_token (hash, pool_id, simulated, created_by, expires_at) VALUES ($1, $2, $3, $4, $5)`,
		hash, pool, simulated, by, until)
	return wrap("add join token", err)
}

// JoinTokenLock finds a join token and locks it, as tenon_system.
func JoinTokenLock(ctx context.Context, q Querier, hash []byte) (JoinToken, error) {
	rows, _ := q.Query(ctx, `SELECT pool_id, simulated, expires_at, used_at, node_id FROM node_join_token WHERE hash = $1 FOR UPDATE`, hash)
	return one[JoinToken](rows, "find join token")
}

// JoinTokenUse spends a join token on a node.
func JoinTokenUse(ctx context.Context, q Querier, hash []byte, node cloud.NodeID, at time.Time) error {
	_, err := q.Exec(ctx, `UPDATE node_join_token SET used_at = $3, node_id = $2 WHERE hash = $1`, hash, node, at)
	return wrap("spend join token", err)
}

// NodeAdd inserts an enrolling node, as tenon_system. It is late until it
// reports.
func NodeAdd(ctx context.Context, q Querier, n cloud.Node) error {
	_, err := q.Exec(ctx, `INSERT INTO node (id, name, pool_id, simulated, vcpu, memory_mib) VALUES ($1, $2, $3, $4, $5, $6)`,
		n.ID, n.Name, n.PoolID, n.Simulated, n.VCPU, n.MemoryMiB)
	return wrap("add node", err)
}

// NodeCertificateAdd keeps what was issued.
func NodeCertificateAdd(ctx context.Context, q Querier, serial string, node cloud.NodeID, until time.Time) error {
	_, err := q.Exec(ctx, `INSERT INTO node_certificate (serial, node_id, not_after) VALUES ($1, $2, $3)`, serial, node, until)
	return wrap("keep certificate", err)
}

// NodeCertificateLive reports that a certificate was issued to the node and not
// revoked.
func NodeCertificateLive(ctx context.Context, q Querier, serial string, node cloud.NodeID) (live bool, err error) {
	err = q.QueryRow(ctx, `SELECT EXISTS (SELECT FROM node_certificate WHERE serial = $1 AND node_id = $2 AND revoked_at IS NULL)`, serial, node).Scan(&live)
	return live, wrap("check certificate", err)
}

// NodeNews is what a node says of itself.
type NodeNews struct {
	VCPU          int
	MemoryMiB     int64
	AgentVersion  string
	BootID        string
	Drivers       json.RawMessage
	Orphans       json.RawMessage
	AckEra        *uuid.UUID
	AckGeneration int64
	Labels        map[string]string
	Kinds         []string
	Watchdog      bool
}

// NodeSeen is how the node stood when its report came.
type NodeSeen struct {
	State         cloud.NodeState
	Generation    int64
	AckEra        *uuid.UUID
	AckGeneration int64
	Fenced        bool
}

// NodeReported writes a node's own row, as tenon_node. Until all of the report is
// kept, no digest stands for it.
func NodeReported(ctx context.Context, q Querier, id cloud.NodeID, n NodeNews) (NodeSeen, error) {
	rows, _ := q.Query(ctx, `
		UPDATE node SET vcpu = $2, memory_mib = $3, agent_version = $4, boot_id = $5, drivers = $6, orphans = $7,
			ack_era = $8, ack_generation = $9, labels = $10, kinds = $11, watchdog = $12, last_seen_at = now(), report_digest = NULL
		WHERE id = $1 RETURNING state, generation, ack_era, ack_generation, fenced_at IS NOT NULL AS fenced`,
		id, n.VCPU, n.MemoryMiB, n.AgentVersion, n.BootID, n.Drivers, n.Orphans, n.AckEra, n.AckGeneration, n.Labels, n.Kinds, n.Watchdog)
	return one[NodeSeen](rows, "keep a node's report")
}

// NodeAck notes which assignment a node holds, as tenon_node.
func NodeAck(ctx context.Context, q Querier, id cloud.NodeID, era uuid.UUID, generation int64) error {
	_, err := q.Exec(ctx, `UPDATE node SET ack_era = $2, ack_generation = $3, last_seen_at = now() WHERE id = $1`, id, era, generation)
	return wrap("note an assignment", err)
}

// NodeTried notes, as tenon_node, that an assignment was sent and not answered:
// the node may have taken it for contact.
func NodeTried(ctx context.Context, q Querier, id cloud.NodeID) error {
	_, err := q.Exec(ctx, `UPDATE node SET tried_at = now() WHERE id = $1`, id)
	return wrap("note an unanswered assignment", err)
}

// Assigned is an instance as its node must make it.
type Assigned struct {
	ID         cloud.InstanceID
	Epoch      int64
	Generation int64
	OrgID      cloud.OrgID
	Kind       cloud.InstanceKind
	Name       string
	State      cloud.InstanceState
	Desired    cloud.DesiredState
	ImageRef   string
	Digest     string
	Embedded   bool
	Private    bool // its registry wants a password
	Expected   bool // it ran before a restore
	Command    []string
	Env        map[string]string
	VCPU       int
	MemoryMiB  int64
	DiskMiB    int64
	OnNodeLoss cloud.LossPolicy
	SSHKeys    []string `db:"ssh_keys"`
	UserData   bool     // it has some, which is fetched apart

	JobID      cloud.JobID // it is a member of; zero: of none
	JobName    string
	JobRank    int
	JobSize    int // members of the present attempt
	JobAttempt int
	JobTasks   int  // of an array; 0: a gang
	JobAcross  bool // its members may lie on several nodes
}

// AssignedDevice is one device of an assigned instance.
type AssignedDevice struct {
	InstanceID cloud.InstanceID
	GPUUUID    string `db:"gpu_uuid"`
	Mode       string
	Profile    string
	SlotStart  int
	SlotEnd    int
}

// Assignment is what a node must make so, at one moment.
type Assignment struct {
	Cloud      CloudState
	Generation int64
	Instances  []Assigned
	Devices    []AssignedDevice
	Volumes    []AssignedVolume
	Remove     []string // ids of what nobody assigned and an operator let go
	Cards      []AssignedCard
}

// AssignmentGet reads a node's whole assignment in one snapshot, as tenon_node.
// Its transaction is one of InNodeSnapshot.
func AssignmentGet(ctx context.Context, q Querier, id cloud.NodeID) (Assignment, error) {
	var out Assignment
	b := &pgx.Batch{}
	b.Queue(`SELECT n.generation, c.cloud_id, c.era::text FROM node n, cloud_state c WHERE n.id = $1`, id).QueryRow(func(row pgx.Row) error {
		return row.Scan(&out.Generation, &out.Cloud.CloudID, &out.Cloud.Era)
	})
	b.Queue(`
		SELECT i.id, i.epoch, i.generation, i.org_id, i.kind, i.name, i.state, i.desired_state AS desired,
			m.ref AS image_ref, i.image_digest AS digest, m.embedded, m.credential_id IS NOT NULL AS private, COALESCE(i.state = 'running' AND i.started_at < (SELECT restored_at FROM cloud_state), false) AS expected, i.command, i.env, i.vcpu, i.memory_mib, i.disk_mib,
			i.on_node_loss, i.ssh_keys, i.user_data IS NOT NULL AS user_data,
			i.job_id, COALESCE(j.name, '') AS job_name, COALESCE(i.job_rank, 0) AS job_rank, COALESCE(j.size, 0) AS job_size,
			COALESCE(j.attempt + i.job_tries + i.job_free, 0) AS job_attempt, COALESCE(j.array_tasks, 0) AS job_tasks, COALESCE(j.across_nodes, false) AS job_across
		FROM instance i JOIN image m ON m.id = i.image_id LEFT JOIN job j ON j.id = i.job_id
		WHERE i.node_id = $1 ORDER BY i.id`, id).Query(func(rows pgx.Rows) (err error) {
		out.Instances, err = pgx.CollectRows(rows, pgx.RowToStructByName[Assigned])
		return err
	})
	b.Queue(`
		SELECT k.instance_id, g.uuid AS gpu_uuid, k.mode, k.profile, lower(k.slots) AS slot_start, upper(k.slots) AS slot_end
		FROM gpu g JOIN gpu_claim k ON k.gpu_id = g.id JOIN instance i ON i.id = k.instance_id AND i.epoch = k.epoch AND i.node_id = $1
		WHERE g.node_id = $1 ORDER BY k.instance_id, g.pci_address, k.slots`, id).Query(func(rows pgx.Rows) (err error) {
		out.Devices, err = pgx.CollectRows(rows, pgx.RowToStructByName[AssignedDevice])
		return err
	})
	b.Queue(volumesAssignedSQL, id).Query(func(rows pgx.Rows) (err error) {
		out.Volumes, err = pgx.CollectRows(rows, pgx.RowToStructByPos[AssignedVolume])
		return err
	})
	b.Queue(`SELECT what FROM node_removal WHERE node_id = $1 ORDER BY what`, id).Query(func(rows pgx.Rows) (err error) {
		out.Remove, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	b.Queue(cardsAssignedSQL, id).Query(func(rows pgx.Rows) (err error) {
		out.Cards, err = pgx.CollectRows(rows, pgx.RowToStructByPos[AssignedCard])
		return err
	})
	return out, wrap("read an assignment", q.SendBatch(ctx, b).Close())
}

// NodeHasImage reports that something assigned to the node is made from an
// embedded image of a repository, as tenon_node.
func NodeHasImage(ctx context.Context, q Querier, id cloud.NodeID, repository string) (has bool, err error) {
	err = q.QueryRow(ctx, `
		SELECT EXISTS (SELECT FROM instance i JOIN image m ON m.id = i.image_id
		WHERE i.node_id = $1 AND m.embedded AND split_part(split_part(m.ref, '@', 1), ':', 1) = $2)`, id, repository).Scan(&has)
	return has, wrap("look for a node's image", err)
}
