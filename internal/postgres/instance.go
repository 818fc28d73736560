package postgres

import (
	"context"
	"encoding/json"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tenon-cloud/tenon/internal/cloud"
)

// Instance is an instance with what its pages show besides.
type Instance struct {
	cloud.Instance
	Reasons json.RawMessage // of its wait
}

const instanceSelect = `
	SELECT i.id, i.org_id, i.project_id, p.name, i.name, i.kind,
		i.image_id, m.name, i.image_digest, i.flavor_id, f.name, o.name,
		o.simulated OR i.gpu_count > 0 AND i.node_id IS NOT NULL AND EXISTS (SELECT FROM instance_devices(i.id) d WHERE d.simulated),
		i.gpu_count, i.gpu_model, i.gpu_mode, i.gpu_profile, i.vcpu, i.memory_mib, i.disk_mib,
		i.command, i.env, i.labels, i.desired_state, i.generation, i.state, i.observed_generation,
		i.reason, i.message, i.reasons, i.progress, i.exit_code, i.last_lines,
		i.node_id, COALESCE(n.name, ''), i.epoch, i.address, i.created_by, i.created_at,
		i.started_at, i.state_at, i.deleted_at, i.deadline_at, i.event_seq,
		i.on_stop, i.held, i.on_node_loss, i.on_node_reboot, i.ssh_keys, i.idle_since,
		i.job_id, COALESCE((SELECT j.name FROM job j WHERE j.id = i.job_id), ''), COALESCE(i.job_rank, 0),
		GREATEST(i.idle_since + make_interval(secs => p.idle_stop_seconds),
			CASE WHEN p.idle_stop_seconds IS NOT NULL THEN i.idle_warned_at + make_interval(secs => LEAST(p.idle_warn_seconds, p.idle_stop_seconds)) END)
	FROM instance i
	JOIN project p ON p.id = i.project_id
	JOIN image m ON m.org_id = i.image_org_id AND m.id = i.image_id
	JOIN flavor f ON f.id = i.flavor_id
	JOIN pool o ON o.id = i.pool_id
	LEFT JOIN node n ON n.id = i.node_id`

func instanceScan(row pgx.CollectableRow) (i Instance, err error) {
	s := &i.Shape
	err = row.Scan(&i.ID, &i.OrgID, &i.ProjectID, &i.ProjectName, &i.Name, &i.Kind,
		&i.ImageID, &i.ImageName, &i.ImageDigest, &i.FlavorID, &i.FlavorName, &i.PoolName, &i.Simulated,
		&s.GPUCount, &s.GPUModel, &s.GPUMode, &s.GPUProfile, &s.VCPU, &s.MemoryMiB, &s.DiskMiB,
		&i.Command, &i.Env, &i.Labels, &i.Desired, &i.Generation, &i.State, &i.ObservedGeneration,
		&i.Reason, &i.Message, &i.Reasons, &i.Progress, &i.ExitCode, &i.LastLines,
		&i.NodeID, &i.NodeName, &i.Epoch, &i.Address, &i.CreatedBy, &i.CreatedAt,
		&i.StartedAt, &i.StateAt, &i.DeletedAt, &i.DeadlineAt, &i.EventSeq,
		&i.OnStop, &i.Held, &i.OnNodeLoss, &i.OnReboot, &i.SSHKeys, &i.IdleSince,
		&i.JobID, &i.JobName, &i.JobRank, &i.IdleStopAt)
	return i, err
}

// InstanceGet finds one of a project; by name only while it is not deleted.
func InstanceGet(ctx context.Context, q Querier, project cloud.ProjectID, ref Ref) (Instance, error) {
	rows, _ := q.Query(ctx, instanceSelect+`
		WHERE i.project_id = $1 AND (i.id = $2 OR i.name = $3 AND i.state <> 'deleted')`, project, ref.ID, ref.Name)
	out, err := pgx.CollectExactlyOneRow(rows, instanceScan)
	return out, wrap("get instance", err)
}

// InstanceFilter narrows a list; zero fields do not.
type InstanceFilter struct {
	State   cloud.InstanceState
	Name    string
	Deleted bool // deleted ones too
}

// InstanceList lists a project's instances, newest first, before one.
func InstanceList(ctx context.Context, q Querier, project cloud.ProjectID, f InstanceFilter, before *cloud.InstanceID, limit int) ([]Instance, error) {
	rows, _ := q.Query(ctx, instanceSelect+`
		WHERE i.project_id = $1 AND ($2::uuid IS NULL OR i.id < $2)
			AND ($3 = '' OR i.state = $3) AND ($4 = '' OR i.name = $4) AND ($5 OR i.state <> 'deleted')
		ORDER BY i.id DESC LIMIT $6`, project, before, string(f.State), f.Name, f.Deleted, limit)
	out, err := pgx.CollectRows(rows, instanceScan)
	return out, wrap("list instances", err)
}

// InstanceFind resolves a name or id to an id, without the rest.
func InstanceFind(ctx context.Context, q Querier, project cloud.ProjectID, ref Ref) (id cloud.InstanceID, err error) {
	err = q.QueryRow(ctx, `
		SELECT id FROM instance WHERE project_id = $1 AND state <> 'deleted' AND (id = $2 OR name = $3)`,
		project, ref.ID, ref.Name).Scan(&id)
	return id, wrap("find instance", err)
}

// Admission is all that must be so for a new instance to exist.
type Admission struct {
	Instance    cloud.Instance
	PoolID      cloud.PoolID
	ImageOrg    cloud.OrgID // zero: offered
	Takes       Amounts
	Event       cloud.Event
	Audit       Audit
	Idempotency *Idempotency
	UserData    []byte // sealed; nil: none
}

// InstanceAdmit commits admissions to one project, all or none, in one message,
// and wakes who waits for them.
func InstanceAdmit(ctx context.Context, db *DB, list []Admission) error {
	first := list[0].Instance
	wakes := []string{TopicSchedule, TopicMeter, TopicChange(first.ProjectID)}
	return db.PipeAPI(ctx, Scope{Org: first.OrgID}, wakes, func(b *pgx.Batch) { instanceAdmit(b, list) })
}

// instanceAdmit orders the statements as locks are: idempotency keys, then the
// quota rows as late as may be, then what is new.
func instanceAdmit(b *pgx.Batch, list []Admission) {
	sum := Amounts{}
	for _, a := range list {
		if a.Idempotency != nil {
			b.Queue(idempotencySQL, a.Idempotency.args()...)
		}
		for r, n := range a.Takes {
			sum[r] += n
		}
	}
	resources, amounts := sum.arrays()
	b.Queue(quotaReserveSQL, list[0].Instance.ProjectID, resources, amounts)
	for _, a := range list {
		b.Queue(instanceAddSQL, a.args()...)
		for _, v := range a.Instance.Volumes {
			b.Queue(volumeAddSQL, volumeArgs(v)...)
		}
		b.Queue(eventSQL, eventArgs(a.Event, a.Instance.ID.UUID())...)
		b.Queue(auditSQL, a.Audit.args()...)
	}
}

const instanceAddSQL = `
	INSERT INTO instance (id, org_id, project_id, name, kind, image_org_id, image_id, image_digest, flavor_id, pool_id,
		gpu_count, gpu_model, gpu_mode, gpu_profile, vcpu, memory_mib, disk_mib,
		command, env, labels, created_by, created_at, queued_at, state_at, event_seq,
		on_stop, on_node_loss, ssh_keys, user_data, on_node_reboot, job_id, job_rank, state, reason, message, holds_quota)
	VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $22, $22, $23, $24, $25, $26, $27, $28, $29, $30, $31, $32, $33, $31 = 'queued')`

func (a Admission) args() []any {
	i, s := a.Instance, a.Instance.Shape
	imageOrg := a.ImageOrg
	if imageOrg.IsZero() {
		imageOrg = OfferedOrg
	}
	return []any{i.ID, i.OrgID, i.ProjectID, i.Name, i.Kind, imageOrg, i.ImageID, i.ImageDigest, i.FlavorID, a.PoolID,
		s.GPUCount, s.GPUModel, s.GPUMode, s.GPUProfile, s.VCPU, s.MemoryMiB, s.DiskMiB,
		i.Command, words(i.Env), words(i.Labels), i.CreatedBy, i.CreatedAt, i.EventSeq,
		i.OnStop, i.OnNodeLoss, append([]string{}, i.SSHKeys...), a.UserData, i.OnReboot,
		i.JobID, rankInJob(i), i.State, i.Reason, i.Message}
}

// rankInJob is nil for an instance that is no job's member.
func rankInJob(i cloud.Instance) *int {
	if i.JobID.IsZero() {
		return nil
	}
	return &i.JobRank
}

func words(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return m
}

// IntentSave writes a locked instance back after a person changed what is
// wanted of it. queuedAt is set when it joins the queue again.
func IntentSave(ctx context.Context, q Querier, s Standing, queuedAt *time.Time) error {
	reasons := s.Reasons
	if len(reasons) == 0 {
		reasons = json.RawMessage("[]")
	}
	_, err := q.Exec(ctx, `
		UPDATE instance SET desired_state = $2, generation = $3, state = $4, state_at = $5, deadline_at = $6,
			reason = $7, message = $8, reasons = $9, progress = $10, exit_code = $11,
			last_lines = COALESCE($12, last_lines), holds_quota = $13, started_at = $14, deleted_at = $15,
			event_seq = $16, queued_at = COALESCE($17, queued_at),
			on_stop = $18, held = $19, on_node_loss = $20, node_id = $21, epoch = $22, flavor_id = $23,
			gpu_count = $24, gpu_model = $25, gpu_mode = $26, gpu_profile = $27, vcpu = $28, memory_mib = $29, disk_mib = $30,
			on_node_reboot = $31, reboots = $32
		WHERE id = $1`,
		s.ID, s.Desired, s.Generation, s.State, s.StateAt, s.DeadlineAt, s.Reason, s.Message, reasons, s.Progress, s.ExitCode,
		s.LastLines, s.HoldsQuota, s.StartedAt, s.DeletedAt, s.EventSeq, queuedAt,
		s.OnStop, s.Held, s.OnNodeLoss, s.NodeID, s.Epoch, s.FlavorID,
		s.Shape.GPUCount, s.Shape.GPUModel, s.Shape.GPUMode, s.Shape.GPUProfile, s.Shape.VCPU, s.Shape.MemoryMiB, s.Shape.DiskMiB,
		s.OnReboot, s.Reboots)
	return wrap("save an intent", err)
}

// NodeTouch raises the generation of a node's assignment for a tenant's
// request, which can't see the node.
func NodeTouch(ctx context.Context, q Querier, id cloud.NodeID) error {
	_, err := q.Exec(ctx, `SELECT node_touch($1)`, id)
	return wrap("raise a node's generation", err)
}

// HeldRelease gives back what a locked instance of one's own holds while it is
// stopped, before it is saved as no longer held.
func HeldRelease(ctx context.Context, q Querier, id cloud.InstanceID) error {
	_, err := q.Exec(ctx, `SELECT held_release($1)`, id)
	return wrap("release what is held", err)
}

// HeldStart moves what an instance of one's own held to its new epoch, after it
// is saved as starting. It gives how many claims that were.
func HeldStart(ctx context.Context, q Querier, id cloud.InstanceID) (n int, err error) {
	err = q.QueryRow(ctx, `SELECT held_start($1)`, id).Scan(&n)
	return n, wrap("start with what is held", err)
}

// QueuePlace is an instance's place in its pool's queue, from 1; 0: not queued.
func QueuePlace(ctx context.Context, q Querier, id cloud.InstanceID) (n int, err error) {
	err = q.QueryRow(ctx, `SELECT queue_place($1)`, id).Scan(&n)
	return n, wrap("find the place in the queue", err)
}

// FlavorOf gives the flavor of an instance, offered still or not.
func FlavorOf(ctx context.Context, q Querier, id cloud.InstanceID) (cloud.Flavor, error) {
	rows, _ := q.Query(ctx, `SELECT `+flavorColumns+` FROM flavor WHERE id = (SELECT flavor_id FROM instance WHERE id = $1)`, id)
	out, err := pgx.CollectExactlyOneRow(rows, flavorScan)
	return out, wrap("get an instance's flavor", err)
}

// HeldDevice is a card or slice that an instance holds, as its tenant may know
// it.
type HeldDevice struct {
	GPUID     cloud.GPUID
	GPUUUID   string `db:"gpu_uuid"`
	Model     string
	Mode      cloud.GPUMode
	Profile   string
	SlotStart int
	SlotEnd   int
	Simulated bool
}

// InstanceDevices lists what an instance holds.
func InstanceDevices(ctx context.Context, q Querier, id cloud.InstanceID) ([]HeldDevice, error) {
	rows, _ := q.Query(ctx, `SELECT gpu_id, gpu_uuid, model, mode, profile, slot_start, slot_end, simulated FROM instance_devices($1)`, id)
	return all[HeldDevice](rows, "list an instance's devices")
}

// QueueAhead counts what waits in a pool.
func QueueAhead(ctx context.Context, q Querier, pool cloud.PoolID) (n int, err error) {
	err = q.QueryRow(ctx, `SELECT queue_length($1)`, pool).Scan(&n)
	return n, wrap("count the queue", err)
}
