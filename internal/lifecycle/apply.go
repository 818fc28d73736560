package lifecycle

import (
	"context"
	"fmt"
	"time"

	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/gpu"
	"github.com/tenon-cloud/tenon/internal/postgres"
)

// change is a step together with where it came from.
type change struct {
	was postgres.Standing
	step
}

// apply writes changes in one transaction, in the global lock order: the caller
// has locked the quota rows and the instances; nodes, claims and observations
// follow.
func apply(ctx context.Context, tx *postgres.Tx, changes []change) error {
	var saved, released, fenced, renewed []postgres.Standing
	var over, requeued, ending []cloud.InstanceID
	var endingAt time.Time
	var events []cloud.Event
	var alarms []string
	nodes := map[cloud.NodeID]bool{}
	back := give{}
	for _, c := range changes {
		if c.released {
			released = append(released, c.was) // claims of that node and epoch
			over = append(over, c.was.ID)
			alarms = append(alarms, stuckKey(c.was.ID))
		}
		if c.fenced {
			fenced = append(fenced, c.was)
			over = append(over, c.was.ID)
			alarms = append(alarms, stuckKey(c.was.ID))
		}
		if c.renewed {
			renewed = append(renewed, c.was)
			alarms = append(alarms, stuckKey(c.was.ID))
		}
		if c.requeued {
			requeued = append(requeued, c.was.ID)
		}
		now := c.inst
		if now.Desired == cloud.DesiredDeleted && now.State != c.was.State {
			ending = append(ending, now.ID)
			endingAt = latest(endingAt, now.StateAt)
		}
		if now.HoldsQuota && !wantsPlace(now.State) && !now.Held {
			back.shape(now)
			now.HoldsQuota = false
		}
		if now.State == cloud.StateDeleted && c.was.State != cloud.StateDeleted {
			back.add(now.ProjectID, cloud.QuotaInstances, 1)
		}
		saved = append(saved, now)
		events = append(events, c.events...)
		if !c.was.NodeID.IsZero() && (c.renewed || now.State != c.was.State && now.State != cloud.StateRunning) {
			nodes[c.was.NodeID] = true // its assignment is another
		}
		tx.Wake(postgres.TopicChange(now.ProjectID))
	}
	if err := alsoTold(ctx, tx, changes, ending, nodes); err != nil {
		return err
	}
	touched := make([]cloud.NodeID, 0, len(nodes))
	for id := range nodes {
		touched = append(touched, id)
		tx.Wake(postgres.TopicNode(id))
	}
	if len(events) > 0 {
		tx.Wake(postgres.TopicMeter)
	}
	if len(released)+len(fenced) > 0 {
		tx.Wake(postgres.TopicSchedule)
	}
	for _, write := range []func() error{
		func() error { return postgres.QuotaGiveBack(ctx, tx, back.list()) },
		func() error { return postgres.NodesTouch(ctx, tx, touched) },
		func() error { return postgres.ClaimsRelease(ctx, tx, released) },
		func() error { return postgres.ClaimsFence(ctx, tx, fenced) },
		func() error { return postgres.StandingSave(ctx, tx, saved) },
		func() error { return postgres.ClaimsRenew(ctx, tx, renewed) },
		func() error { return postgres.Requeued(ctx, tx, requeued) },
		func() error { return postgres.EventsAppend(ctx, tx, events) },
		func() error { return postgres.ObservationForget(ctx, tx, over) },
		func() error { return postgres.VolumesEnd(ctx, tx, ending, endingAt) },
		func() error { return postgres.AlarmsClear(ctx, tx, alarms) },
	} {
		if err := write(); err != nil {
			return err
		}
	}
	return nil
}

// alsoTold adds the nodes whose assignment is another although nothing leaves them:
// that keep data of what is deleted, or run what is seen only now to have run
// before a restore, which they must not start anew.
func alsoTold(ctx context.Context, tx *postgres.Tx, changes []change, ending []cloud.InstanceID, nodes map[cloud.NodeID]bool) error {
	keep, err := postgres.VolumeNodes(ctx, tx, ending)
	if err != nil {
		return err
	}
	for _, id := range keep {
		nodes[id] = true
	}
	var restored *time.Time
	for _, c := range changes {
		if c.inst.State != cloud.StateRunning || c.was.State == cloud.StateRunning && c.inst.StartedAt == c.was.StartedAt {
			continue
		}
		if restored == nil {
			if restored, err = postgres.RestoredAt(ctx, tx); err != nil {
				return err
			}
			if restored == nil {
				return nil
			}
		}
		expected := func(s postgres.Standing) bool {
			return s.State == cloud.StateRunning && s.StartedAt != nil && s.StartedAt.Before(*restored)
		}
		if expected(c.was) != expected(c.inst) {
			nodes[c.inst.NodeID] = true
		}
	}
	return nil
}

func latest(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// wantsPlace reports the states that count against compute limits.
func wantsPlace(s cloud.InstanceState) bool {
	return s == cloud.StateQueued || s.OnNode()
}

// give sums what projects get back, one row per limit.
type give map[giveKey]int64

type giveKey struct {
	project  cloud.ProjectID
	resource cloud.QuotaResource
}

func (g give) add(p cloud.ProjectID, r cloud.QuotaResource, amount int64) {
	if amount != 0 {
		g[giveKey{p, r}] += amount
	}
}

func (g give) shape(in postgres.Standing) {
	g.add(in.ProjectID, cloud.QuotaVCPU, int64(in.Shape.VCPU))
	g.add(in.ProjectID, cloud.QuotaMemoryMiB, in.Shape.MemoryMiB)
	g.add(in.ProjectID, cloud.QuotaGPUMilli, gpuMilli(in.Shape))
}

func (g give) list() []postgres.QuotaReturn {
	out := make([]postgres.QuotaReturn, 0, len(g))
	for k, n := range g {
		out = append(out, postgres.QuotaReturn{ProjectID: k.project, Resource: k.resource, Amount: n})
	}
	return out
}

// gpuMilli is what admission reserved for the shape.
func gpuMilli(s cloud.Shape) int64 {
	if s.GPUCount == 0 {
		return 0
	}
	model, err := gpu.ModelByKey(s.GPUModel)
	if err != nil {
		return 0 // admission refuses unknown models
	}
	one, err := gpu.Milli(model.Geometry, s.GPUProfile)
	if err != nil {
		return 0
	}
	return int64(s.GPUCount) * one
}

func stuckKey(id cloud.InstanceID) string { return fmt.Sprintf("instance:%s:stuck", id) }
