// Package looptest makes small worlds for the tests of the loops: a tenant,
// nodes with cards, creates and intents as admission writes them, and nodes
// that answer their assignment as an agent would, all on a real database.
// Tests only; nothing in production imports it.
package looptest

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/gpu"
	"github.com/tenon-cloud/tenon/internal/pgtest"
	"github.com/tenon-cloud/tenon/internal/postgres"
)

// World is one tenant's cloud.
type World struct {
	*pgtest.Database
	Org     cloud.OrgID
	Project cloud.ProjectID
	user    cloud.UserID
	image   cloud.ImageID
	pool    cloud.PoolID
	flavor  cloud.FlavorID
	serial  atomic.Int64
}

// ID makes an id of the kind of what it is assigned to.
func ID[R cloud.Resource](id *cloud.ID[R]) { *id = cloud.NewID[R]() }

// New makes a world with nothing in it but a tenant with no limits.
func New(t testing.TB) *World {
	t.Helper()
	w := &World{Database: pgtest.New(t)}
	ID(&w.Org)
	ID(&w.Project)
	ID(&w.user)
	ID(&w.image)
	ID(&w.pool)
	ID(&w.flavor)
	for _, s := range []struct {
		sql  string
		args []any
	}{
		{`INSERT INTO organisation (id, name) VALUES ($1, 'acme')`, []any{w.Org}},
		{`INSERT INTO app_user (id, email) VALUES ($1, 'ann@acme.test')`, []any{w.user}},
		{`INSERT INTO project (id, org_id, name) VALUES ($1, $2, 'default')`, []any{w.Project, w.Org}},
		{`INSERT INTO project_quota (org_id, project_id, resource) SELECT $1, $2, unnest(ARRAY['gpu_milli', 'instances', 'memory_mib', 'vcpu'])`, []any{w.Org, w.Project}},
		{`INSERT INTO image (id, org_id, name, kind, ref, digest, embedded) VALUES ($1, $2, 'debian', 'container', 'tenon/debian', 'sha256:' || repeat('0', 64), true)`, []any{w.image, w.Org}},
		{`INSERT INTO flavor (id, name, vcpu, memory_mib, disk_mib) VALUES ($1, 'small', 1, 128, 128)`, []any{w.flavor}},
		{`INSERT INTO pool (id, name) VALUES ($1, 'default')`, []any{w.pool}},
	} {
		w.Exec(t, s.sql, s.args...)
	}
	return w
}

// Exec runs a statement as the owner of the tables.
func (w *World) Exec(t testing.TB, sql string, args ...any) int64 {
	t.Helper()
	tag, err := w.Owner.Exec(context.Background(), sql, args...)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return tag.RowsAffected()
}

// Refused runs a statement that the database must refuse, as the owner of the
// tables, and gives the constraint that did; empty: none.
func (w *World) Refused(t testing.TB, sql string, args ...any) string {
	t.Helper()
	_, err := w.Owner.Exec(context.Background(), sql, args...)
	if err == nil {
		return ""
	}
	if name := postgres.Constraint(err); name != "" {
		return name
	}
	return postgres.Code(err)
}

// One reads one value as the owner of the tables.
func One[T any](t testing.TB, w *World, sql string, args ...any) (v T) {
	t.Helper()
	if err := w.Owner.QueryRow(context.Background(), sql, args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}

// Node adds a ready node with cards of a model in a mode.
func (w *World) Node(t testing.TB, vcpu int, memoryMiB int64, model string, mode cloud.GPUMode, cards int) Node {
	t.Helper()
	n := Node{w: w}
	ID(&n.ID)
	w.Exec(t, `INSERT INTO node (id, name, pool_id, state, vcpu, memory_mib, cpu_overcommit, last_seen_at, kinds)
		VALUES ($1, $2, $3, 'ready', $4, $5, 1, now(), '{container,notebook,vm}')`, n.ID, fmt.Sprintf("node-%d", w.serial.Add(1)), w.pool, vcpu, memoryMiB)
	for i := range cards {
		var id cloud.GPUID
		ID(&id)
		m, err := gpu.ModelByKey(model)
		if err != nil {
			t.Fatal(err)
		}
		w.Exec(t, `INSERT INTO gpu (id, node_id, uuid, pci_address, index, model, geometry, mode, state, memory_mib)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 'ready', $9)`,
			id, n.ID, "GPU-"+id.UUID().String(), fmt.Sprintf("0000:%02x:00.0", i+1), i, model, m.Geometry, mode, m.MemoryMiB)
		n.Cards = append(n.Cards, id)
	}
	return n
}

// Slices is a shape of MIG slices of an H100; Whole is one of whole cards.
func Slices(count int, profile string) cloud.Shape {
	return cloud.Shape{GPUCount: count, GPUModel: "h100-80gb", GPUMode: cloud.ModeMIG, GPUProfile: profile, VCPU: 1, MemoryMiB: 128, DiskMiB: 128}
}

// Whole is a shape of whole cards of an H100.
func Whole(count int) cloud.Shape {
	return cloud.Shape{GPUCount: count, GPUModel: "h100-80gb", GPUMode: cloud.ModeWhole, GPUProfile: gpu.Whole, VCPU: 1, MemoryMiB: 128, DiskMiB: 128}
}

// amounts is what a shape reserves.
func amounts(s cloud.Shape) postgres.Amounts {
	a := postgres.Amounts{cloud.QuotaVCPU: int64(s.VCPU), cloud.QuotaMemoryMiB: s.MemoryMiB}
	if s.GPUCount > 0 {
		m, _ := gpu.ModelByKey(s.GPUModel)
		one, _ := gpu.Milli(m.Geometry, s.GPUProfile)
		a[cloud.QuotaGPUMilli] = one * int64(s.GPUCount)
	}
	return a
}

// Create admits an instance, as package app does.
func (w *World) Create(ctx context.Context, s cloud.Shape) (id cloud.InstanceID, err error) {
	return w.CreateAs(ctx, cloud.KindContainer, cloud.StopReleases, s)
}

// CreateAs admits an instance of a kind, with what it keeps.
func (w *World) CreateAs(ctx context.Context, kind cloud.InstanceKind, onStop cloud.StopPolicy, s cloud.Shape) (id cloud.InstanceID, err error) {
	ID(&id)
	err = w.DB.InSystem(ctx, func(tx *postgres.Tx) error {
		a := amounts(s)
		a[cloud.QuotaInstances] = 1
		if err := postgres.QuotaReserve(ctx, tx, w.Project, a); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `
			INSERT INTO instance (id, org_id, project_id, name, image_org_id, image_id, image_digest, flavor_id, pool_id,
				gpu_count, gpu_model, gpu_mode, gpu_profile, vcpu, memory_mib, disk_mib, created_by, kind, on_stop, on_node_reboot)
			VALUES ($1, $2, $3, $4, $2, $5, 'sha256:0', $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18)`,
			id, w.Org, w.Project, fmt.Sprintf("i-%d", w.serial.Add(1)), w.image, w.flavor, w.pool,
			s.GPUCount, s.GPUModel, s.GPUMode, s.GPUProfile, s.VCPU, s.MemoryMiB, s.DiskMiB, w.user, kind, onStop, cloud.RebootPolicyOf(kind))
		if err != nil {
			return err
		}
		if role, keeps := roles[kind]; keeps {
			v := cloud.Volume{OrgID: w.Org, ProjectID: w.Project, InstanceID: id, Role: role, SizeMiB: s.DiskMiB, CreatedAt: time.Now()}
			ID(&v.ID)
			if err := postgres.VolumeAdd(ctx, tx, v); err != nil {
				return err
			}
		}
		return w.say(ctx, tx, id, "created", postgres.TopicSchedule, nil)
	})
	return id, err
}

// roles are what kinds of instances keep.
var roles = map[cloud.InstanceKind]cloud.VolumeRole{cloud.KindVM: cloud.VolumeRoot, cloud.KindNotebook: cloud.VolumeHome}

// MustCreate is Create for a test that can't go on without it.
func (w *World) MustCreate(t testing.TB, s cloud.Shape) cloud.InstanceID {
	t.Helper()
	id, err := w.Create(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// say writes an event under the instance's lock, after a change.
func (w *World) say(ctx context.Context, tx *postgres.Tx, id cloud.InstanceID, verb, topic string, change func(*postgres.Standing)) error {
	list, err := postgres.StandingLock(ctx, tx, []cloud.InstanceID{id})
	if err != nil {
		return err
	}
	if len(list) != 1 {
		return pgx.ErrNoRows
	}
	if change != nil {
		change(&list[0])
	}
	now, err := postgres.Now(ctx, tx)
	if err != nil {
		return err
	}
	event := postgres.InstanceEvent(&list[0], verb, verb, now, nil)
	if err := postgres.StandingSave(ctx, tx, list); err != nil {
		return err
	}
	tx.Wake(topic)
	return postgres.EventsAppend(ctx, tx, []cloud.Event{event})
}

// Want writes an intent, as package app does.
func (w *World) Want(ctx context.Context, id cloud.InstanceID, desired cloud.DesiredState) error {
	return w.DB.InSystem(ctx, func(tx *postgres.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE instance SET desired_state = $2, generation = generation + 1
			WHERE id = $1 AND desired_state <> $2 AND desired_state <> 'deleted' AND state <> 'deleted'`, id, desired)
		tx.Wake(postgres.TopicLifecycle)
		return err
	})
}

// Start queues a stopped or failed instance again, as package app does; it says
// whether there was one.
func (w *World) Start(ctx context.Context, id cloud.InstanceID) (started bool, err error) {
	err = w.DB.InSystem(ctx, func(tx *postgres.Tx) error {
		started = false
		if err := postgres.QuotaLock(ctx, tx, []cloud.ProjectID{w.Project}); err != nil {
			return err
		}
		if started, err = w.startHeld(ctx, tx, id); err != nil || started {
			return err
		}
		tag, err := tx.Exec(ctx, `UPDATE instance SET desired_state = 'running', generation = generation + 1, state = 'queued',
			reason = '', message = '', holds_quota = true, reboots = 0, queued_at = now(), state_at = now()
			WHERE id = $1 AND state IN ('stopped', 'failed') AND desired_state <> 'deleted'`, id)
		if err != nil || tag.RowsAffected() == 0 {
			return err
		}
		started = true
		list, err := postgres.StandingLock(ctx, tx, []cloud.InstanceID{id})
		if err != nil {
			return err
		}
		if err := postgres.QuotaReserve(ctx, tx, w.Project, amounts(list[0].Shape)); err != nil {
			return err
		}
		return w.say(ctx, tx, id, "queued", postgres.TopicSchedule, nil)
	})
	return started, err
}

// startHeld starts what holds its place there, as package app does.
func (w *World) startHeld(ctx context.Context, tx *postgres.Tx, id cloud.InstanceID) (bool, error) {
	list, err := postgres.StandingLock(ctx, tx, []cloud.InstanceID{id})
	if err != nil || len(list) != 1 || !list[0].Held || list[0].Desired == cloud.DesiredDeleted {
		return false, err
	}
	s := &list[0]
	if err := postgres.NodesTouch(ctx, tx, []cloud.NodeID{s.NodeID}); err != nil {
		return false, err
	}
	if _, err := tx.Exec(ctx, `UPDATE gpu_claim SET epoch = epoch + 1 WHERE instance_id = $1 AND epoch = $2`, id, s.Epoch); err != nil {
		return false, err
	}
	if _, err := tx.Exec(ctx, `UPDATE instance SET desired_state = 'running', generation = generation + 1 WHERE id = $1`, id); err != nil {
		return false, err
	}
	now, err := postgres.Now(ctx, tx)
	if err != nil {
		return false, err
	}
	deadline := now.Add(cloud.StartWithin)
	s.State, s.StateAt, s.DeadlineAt, s.Held, s.Epoch, s.Reason, s.Message = cloud.StateStarting, now, &deadline, false, s.Epoch+1, "", ""
	event := postgres.InstanceEvent(s, "starting", "starting", now, map[string]any{"held": true})
	if err := postgres.StandingSave(ctx, tx, list); err != nil {
		return false, err
	}
	return true, postgres.EventsAppend(ctx, tx, []cloud.Event{event})
}

// State reads where an instance is.
func (w *World) State(t testing.TB, id cloud.InstanceID) cloud.InstanceState {
	t.Helper()
	return cloud.InstanceState(One[string](t, w, `SELECT state FROM instance WHERE id = $1`, id))
}

// Leader always leads: for tests that are about what the database refuses.
type Leader struct {
	DB    *postgres.DB
	After func(context.Context) error // each transaction that has committed; nil: nothing
}

// Lead says yes.
func (Leader) Lead(context.Context) (bool, error) { return true, nil }

// In runs a transaction without a term.
func (l Leader) In(ctx context.Context, fn func(tx *postgres.Tx) error) error {
	if err := l.DB.InSystem(ctx, fn); err != nil || l.After == nil {
		return err
	}
	return l.After(ctx)
}

// Since is long ago.
func (Leader) Since() time.Time { return time.Now().Add(-time.Hour) }
