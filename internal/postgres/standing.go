package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/tenon-cloud/tenon/internal/cloud"
)

// Rows are locked in one order everywhere, so that no two transactions wait for
// each other:
//
//	leader → quota rows (project, resource) → jobs by id → instances by id → nodes by id
//	       → GPUs by id → claims (GPU, slots) → observations by instance
//
// A node's report locks the node, then its observations; its cards in a
// transaction of their own. Instances and nodes are locked FOR NO KEY UPDATE,
// which foreign-key checks pass.
//
// Whoever places on a node or takes from it holds the node's row, so what a
// node has left can be summed under that lock.

// Standing is the part of an instance that the loops decide on. A loop locks
// it, changes it and saves it.
type Standing struct {
	ID        cloud.InstanceID
	OrgID     cloud.OrgID
	ProjectID cloud.ProjectID
	Name      string
	Kind      cloud.InstanceKind
	Shape     cloud.Shape
	Desired   cloud.DesiredState

	Generation         int64
	State              cloud.InstanceState
	ObservedGeneration int64
	StateAt            time.Time
	DeadlineAt         *time.Time
	Reason             string
	Message            string
	Reasons            json.RawMessage
	Progress           *int
	ExitCode           *int
	LastLines          *string // nil: as it is
	NodeID             cloud.NodeID
	Epoch              int64
	Address            string
	HoldsQuota         bool
	StartedAt          *time.Time
	DeletedAt          *time.Time
	EventSeq           int64

	OnStop     cloud.StopPolicy
	Held       bool // stopped, and keeps its place
	OnNodeLoss cloud.LossPolicy
	OnReboot   cloud.RebootPolicy
	Reboots    int // runs in a row that a boot of their node ended soon
	FlavorID   cloud.FlavorID

	JobID    cloud.JobID // zero: no job's
	JobRank  int
	JobTries int // of a task of an array
	JobFree  int
}

// HasPlace reports that it is on a node, running or held there.
func (s Standing) HasPlace() bool { return s.State.OnNode() || s.Held }

const standingColumns = `
	id, org_id, project_id, name, kind,
	gpu_count, gpu_model, gpu_mode, gpu_profile, vcpu, memory_mib, disk_mib,
	desired_state, generation, state, observed_generation, state_at, deadline_at,
	reason, message, reasons, progress, exit_code, node_id, epoch, address,
	holds_quota, started_at, deleted_at, event_seq, on_stop, held, on_node_loss, on_node_reboot, reboots, flavor_id,
	job_id, COALESCE(job_rank, 0) AS job_rank, job_tries, job_free`

func standingScan(row pgx.CollectableRow) (s Standing, err error) {
	err = row.Scan(&s.ID, &s.OrgID, &s.ProjectID, &s.Name, &s.Kind,
		&s.Shape.GPUCount, &s.Shape.GPUModel, &s.Shape.GPUMode, &s.Shape.GPUProfile, &s.Shape.VCPU, &s.Shape.MemoryMiB, &s.Shape.DiskMiB,
		&s.Desired, &s.Generation, &s.State, &s.ObservedGeneration, &s.StateAt, &s.DeadlineAt,
		&s.Reason, &s.Message, &s.Reasons, &s.Progress, &s.ExitCode, &s.NodeID, &s.Epoch, &s.Address,
		&s.HoldsQuota, &s.StartedAt, &s.DeletedAt, &s.EventSeq, &s.OnStop, &s.Held, &s.OnNodeLoss, &s.OnReboot, &s.Reboots, &s.FlavorID,
		&s.JobID, &s.JobRank, &s.JobTries, &s.JobFree)
	return s, err
}

// StandingLock locks instances, in the order of their ids.
func StandingLock(ctx context.Context, q Querier, ids []cloud.InstanceID) ([]Standing, error) {
	rows, err := q.Query(ctx, `SELECT `+standingColumns+` FROM instance WHERE id = ANY($1) ORDER BY id FOR NO KEY UPDATE`, uuids(ids))
	if err != nil {
		return nil, fmt.Errorf("lock instances: %w", err)
	}
	out, err := pgx.CollectRows(rows, standingScan)
	if err != nil {
		return nil, fmt.Errorf("lock instances: %w", err)
	}
	return out, nil
}

// standingRow is how a Standing travels to the server: one JSON document for
// any number of rows.
type standingRow struct {
	ID                 uuid.UUID       `json:"id"`
	State              string          `json:"state"`
	ObservedGeneration int64           `json:"observed_generation"`
	StateAt            time.Time       `json:"state_at"`
	DeadlineAt         *time.Time      `json:"deadline_at"`
	Reason             string          `json:"reason"`
	Message            string          `json:"message"`
	Reasons            json.RawMessage `json:"reasons"`
	Progress           *int            `json:"progress"`
	ExitCode           *int            `json:"exit_code"`
	LastLines          *string         `json:"last_lines"`
	NodeID             *uuid.UUID      `json:"node_id"`
	Epoch              int64           `json:"epoch"`
	Address            string          `json:"address"`
	HoldsQuota         bool            `json:"holds_quota"`
	StartedAt          *time.Time      `json:"started_at"`
	DeletedAt          *time.Time      `json:"deleted_at"`
	EventSeq           int64           `json:"event_seq"`
	Held               bool            `json:"held"`
	Reboots            int             `json:"reboots"`
}

// StandingSave writes locked instances back. The database refuses an illegal
// move and one that leaves its node with claims held.
func StandingSave(ctx context.Context, q Querier, list []Standing) error {
	if len(list) == 0 {
		return nil
	}
	out := make([]standingRow, len(list))
	for i, s := range list {
		out[i] = standingRow{ID: s.ID.UUID(), State: string(s.State), ObservedGeneration: s.ObservedGeneration,
			StateAt: s.StateAt, DeadlineAt: s.DeadlineAt, Reason: s.Reason, Message: s.Message, Reasons: s.Reasons,
			Progress: s.Progress, ExitCode: s.ExitCode, LastLines: s.LastLines, Epoch: s.Epoch, Address: s.Address,
			HoldsQuota: s.HoldsQuota, StartedAt: s.StartedAt, DeletedAt: s.DeletedAt, EventSeq: s.EventSeq, Held: s.Held, Reboots: s.Reboots}
		if !s.NodeID.IsZero() {
			node := s.NodeID.UUID()
			out[i].NodeID = &node
		}
		if len(s.Reasons) == 0 {
			out[i].Reasons = json.RawMessage("[]")
		}
	}
	tag, err := q.Exec(ctx, `
		UPDATE instance i SET
			state = r.state,
			observed_generation = r.observed_generation,
			state_at = r.state_at,
			deadline_at = r.deadline_at,
			reason = r.reason,
			message = r.message,
			reasons = r.reasons,
			progress = r.progress,
			exit_code = r.exit_code,
			last_lines = COALESCE(r.last_lines, i.last_lines),
			node_id = r.node_id,
			-- Off its node: a run from before a restore never meets its own epoch again.
			epoch = CASE WHEN r.node_id IS NULL THEN GREATEST(r.epoch, (SELECT epoch_floor FROM cloud_state)) ELSE r.epoch END,
			address = r.address,
			holds_quota = r.holds_quota,
			started_at = r.started_at,
			deleted_at = r.deleted_at,
			event_seq = r.event_seq,
			held = r.held,
			reboots = r.reboots
		FROM json_to_recordset($1::json) AS r (
			id uuid, state text, observed_generation bigint, state_at timestamptz, deadline_at timestamptz,
			reason text, message text, reasons jsonb, progress int, exit_code int, last_lines text,
			node_id uuid, epoch bigint, address text, holds_quota boolean,
			started_at timestamptz, deleted_at timestamptz, event_seq bigint, held boolean, reboots smallint)
		WHERE i.id = r.id`, asJSON(out))
	if err != nil {
		return fmt.Errorf("save instances: %w", err)
	}
	if int(tag.RowsAffected()) != len(list) {
		return fmt.Errorf("save instances: %d rows for %d", tag.RowsAffected(), len(list))
	}
	return nil
}

// EventsAppend writes events whose Seq was assigned under their resource's
// lock. Ids are derived, so one that was written already is refused.
func EventsAppend(ctx context.Context, q Querier, events []cloud.Event) error {
	if len(events) == 0 {
		return nil
	}
	type row struct {
		ID         uuid.UUID      `json:"id"`
		OrgID      uuid.UUID      `json:"org_id"`
		ProjectID  uuid.UUID      `json:"project_id"`
		Resource   string         `json:"resource"`
		ResourceID uuid.UUID      `json:"resource_id"`
		Seq        int64          `json:"seq"`
		Verb       string         `json:"verb"`
		Message    string         `json:"message"`
		At         time.Time      `json:"at"`
		Data       map[string]any `json:"data"`
	}
	out := make([]row, len(events))
	for i, e := range events {
		id, err := resourceUUID(e)
		if err != nil {
			return err
		}
		if e.Data == nil {
			e.Data = map[string]any{}
		}
		out[i] = row{e.ID.UUID(), e.OrgID.UUID(), e.ProjectID.UUID(), e.Resource, id, e.Seq, e.Verb, e.Message, e.At, e.Data}
	}
	_, err := q.Exec(ctx, `
		INSERT INTO event (id, org_id, project_id, resource, resource_id, seq, verb, message, at, data)
		SELECT id, org_id, project_id, resource, resource_id, seq, verb, message, at, data
		FROM json_to_recordset($1::json) AS r (
			id uuid, org_id uuid, project_id uuid, resource text, resource_id uuid,
			seq bigint, verb text, message text, at timestamptz, data jsonb)`, asJSON(out))
	if err != nil {
		return fmt.Errorf("append events: %w", err)
	}
	return nil
}

func resourceUUID(e cloud.Event) (uuid.UUID, error) {
	if e.Resource == "job" {
		var id cloud.JobID
		if err := id.UnmarshalText([]byte(e.ResourceID)); err != nil {
			return uuid.UUID{}, fmt.Errorf("append event: %w", err)
		}
		return id.UUID(), nil
	}
	if e.Resource != "instance" {
		return uuid.UUID{}, fmt.Errorf("append event of %s: only instances' and jobs' are appended in batches", e.Resource)
	}
	var id cloud.InstanceID
	if err := id.UnmarshalText([]byte(e.ResourceID)); err != nil {
		return uuid.UUID{}, fmt.Errorf("append event: %w", err)
	}
	return id.UUID(), nil
}

// NodesTouch locks nodes in the order of their ids and raises their
// assignments' generations.
func NodesTouch(ctx context.Context, q Querier, ids []cloud.NodeID) error {
	if len(ids) == 0 {
		return nil
	}
	_, err := q.Exec(ctx, `
		WITH locked AS MATERIALIZED (
			SELECT id FROM node WHERE id = ANY($1) ORDER BY id FOR NO KEY UPDATE
		)
		UPDATE node n SET generation = n.generation + 1 FROM locked WHERE n.id = locked.id`, uuids(ids))
	if err != nil {
		return fmt.Errorf("raise nodes' generations: %w", err)
	}
	return nil
}

// QuotaLock locks every limit of the projects, in the order that admission uses.
func QuotaLock(ctx context.Context, q Querier, projects []cloud.ProjectID) error {
	if len(projects) == 0 {
		return nil
	}
	_, err := q.Exec(ctx, `
		SELECT FROM project_quota WHERE project_id = ANY($1)
		ORDER BY project_id, resource FOR NO KEY UPDATE`, uuids(projects))
	if err != nil {
		return fmt.Errorf("lock quota: %w", err)
	}
	return nil
}

// QuotaReturn is an amount that a project no longer uses.
type QuotaReturn struct {
	ProjectID cloud.ProjectID
	Resource  cloud.QuotaResource
	Amount    int64
}

// QuotaGiveBack lowers what is used, under QuotaLock; one row per project and
// resource.
func QuotaGiveBack(ctx context.Context, q Querier, list []QuotaReturn) error {
	if len(list) == 0 {
		return nil
	}
	projects, resources, amounts := make([]uuid.UUID, len(list)), make([]string, len(list)), make([]int64, len(list))
	for i, r := range list {
		projects[i], resources[i], amounts[i] = r.ProjectID.UUID(), string(r.Resource), r.Amount
	}
	_, err := q.Exec(ctx, `
		UPDATE project_quota p SET used = p.used - r.amount
		FROM unnest($1::uuid[], $2::text[], $3::bigint[]) AS r (project_id, resource, amount)
		WHERE p.project_id = r.project_id AND p.resource = r.resource`, projects, resources, amounts)
	if err != nil {
		return fmt.Errorf("give back quota: %w", err)
	}
	return nil
}

// ClaimsRelease deletes what instances hold of GPUs at one epoch; a claim of
// another epoch stays.
func ClaimsRelease(ctx context.Context, q Querier, list []Standing) error {
	if len(list) == 0 {
		return nil
	}
	ids, epochs := make([]uuid.UUID, len(list)), make([]int64, len(list))
	for i, s := range list {
		ids[i], epochs[i] = s.ID.UUID(), s.Epoch
	}
	_, err := q.Exec(ctx, `
		DELETE FROM gpu_claim c USING unnest($1::uuid[], $2::bigint[]) AS r (id, epoch)
		WHERE c.instance_id = r.id AND c.epoch = r.epoch`, ids, epochs)
	if err != nil {
		return fmt.Errorf("release claims: %w", err)
	}
	return nil
}

// ClaimsRenew moves what instances hold from one epoch to the next, after they are
// saved at that one.
func ClaimsRenew(ctx context.Context, q Querier, was []Standing) error {
	if len(was) == 0 {
		return nil
	}
	ids, epochs := make([]uuid.UUID, len(was)), make([]int64, len(was))
	for i, s := range was {
		ids[i], epochs[i] = s.ID.UUID(), s.Epoch
	}
	_, err := q.Exec(ctx, `
		UPDATE gpu_claim c SET epoch = r.epoch + 1 FROM unnest($1::uuid[], $2::bigint[]) AS r (id, epoch)
		WHERE c.instance_id = r.id AND c.epoch = r.epoch AND NOT c.fenced`, ids, epochs)
	return wrap("move claims to the next epoch", err)
}

func uuids[R cloud.Resource](ids []cloud.ID[R]) []uuid.UUID {
	out := make([]uuid.UUID, len(ids))
	for i, id := range ids {
		out[i] = id.UUID()
	}
	return out
}

// asJSON is for rows of plain fields, which can't fail to encode.
func asJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("encode rows: %v", err))
	}
	return string(b)
}

// ReasonNodeLost marks an instance that runs or keeps its place on a node that is
// lost: what is there is unknown, so nothing is charged until its node has spoken.
const ReasonNodeLost = "node_lost"

// ReasonDegraded marks a running instance a GPU of which is out of service.
const ReasonDegraded = "gpu_degraded"

// ReasonTurn marks a task of an array that has not begun: its turn comes when one
// before it is over.
const ReasonTurn = "waits_turn"

// ReasonHold marks a VM that is being stopped and will keep its place.
const ReasonHold = "asked_to_hold"

// InstanceEvent numbers the next event of a locked instance; its id follows
// from the instance and the number. Save the instance in the same transaction.
// Whoever meters finds the shape and the state in its data.
func InstanceEvent(s *Standing, verb, message string, at time.Time, data map[string]any) cloud.Event {
	s.EventSeq++
	state := string(s.State)
	lost := (s.State == cloud.StateRunning || s.Held) && s.Reason == ReasonNodeLost
	if lost {
		state = "unknown"
	}
	all := map[string]any{"state": state, "reason": s.Reason, "epoch": s.Epoch, "kind": string(s.Kind), "shape": s.Shape}
	if s.Held && !lost || s.State == cloud.StateStopping && s.Reason == ReasonHold {
		all["held"] = true // charged as if it ran
	}
	maps.Copy(all, data)
	return cloud.Event{
		ID:    derived(cloud.EventID{}, "instance", s.ID.String(), strconv.FormatInt(s.EventSeq, 10)),
		OrgID: s.OrgID, ProjectID: s.ProjectID, Resource: "instance", ResourceID: s.ID.String(),
		Seq: s.EventSeq, Verb: verb, Message: message, At: at, Data: all,
	}
}

// derived is cloud.DerivedID for the kind of id that it is given.
func derived[R cloud.Resource](_ cloud.ID[R], words ...string) cloud.ID[R] {
	return cloud.DerivedID[R](words...)
}

// Now is the time by the database's clock, the only one that events go by. Read
// under an instance's lock, it is never before what happened to it last.
func Now(ctx context.Context, q Querier) (now time.Time, err error) {
	if err := q.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&now); err != nil {
		return now, fmt.Errorf("read the clock: %w", err)
	}
	return now, nil
}
