package app

import (
	"context"
	"fmt"

	"github.com/tenon-cloud/tenon/internal/authz"
	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/placement"
	"github.com/tenon-cloud/tenon/internal/postgres"
)

// InstanceUpdate changes what is given of an instance: its policies at any time,
// its flavor while it is stopped and holds nothing.
func (a *App) InstanceUpdate(ctx context.Context, c Call, project, instance string, in InstanceChange, ifMatch int64) (cloud.Instance, error) {
	if err := in.check(); err != nil {
		return cloud.Instance{}, err
	}
	return a.onInstance(ctx, c, authz.InstanceUpdate, project, instance, ifMatch, func(tx *postgres.Tx, s postgres.Standing) error {
		now, err := postgres.Now(ctx, tx)
		if err != nil {
			return err
		}
		if s.State == cloud.StateDeleting {
			return cloud.E(cloud.KindConflict, "state_conflict", "instance %q is being deleted", s.Name).WithHint("wait until it is gone").With("state", string(s.State))
		}
		// Nothing of it is about money: what it says of its state is not metered.
		m := &move{Standing: s, was: s, now: now, change: postgres.Amounts{}, verb: "updated", message: "asked for by " + c.Actor.Email, data: map[string]any{"state": ""}}
		if in.OnStop != nil {
			if *in.OnStop == cloud.StopHolds && s.Kind != cloud.KindVM {
				return cloud.Invalid(cloud.Field{Location: "body.on_stop", Value: *in.OnStop,
					Message: fmt.Sprintf("only a virtual machine can hold its place: a stopped %s gives it back", s.Kind)})
			}
			m.OnStop, m.data["on_stop"] = *in.OnStop, *in.OnStop
		}
		if in.OnNodeLoss != nil {
			m.OnNodeLoss, m.data["on_node_loss"] = *in.OnNodeLoss, *in.OnNodeLoss
		}
		if in.OnReboot != nil {
			m.OnReboot, m.data["on_node_reboot"] = *in.OnReboot, *in.OnReboot
		}
		if in.Flavor != nil {
			if err := m.resize(ctx, tx, *in.Flavor); err != nil {
				return err
			}
		}
		return m.write(ctx, tx, c, authz.InstanceUpdate)
	})
}

func (in InstanceChange) check() error {
	var fields []cloud.Field
	bad := func(at, message string, value any) {
		fields = append(fields, cloud.Field{Location: at, Message: message, Value: value})
	}
	if in.Flavor == nil && in.OnStop == nil && in.OnNodeLoss == nil && in.OnReboot == nil {
		bad("body", "name something to change: flavor, on_stop, on_node_loss or on_node_reboot", nil)
	}
	if in.OnStop != nil && *in.OnStop != cloud.StopReleases && *in.OnStop != cloud.StopHolds {
		bad("body.on_stop", "release or hold", *in.OnStop)
	}
	if in.OnNodeLoss != nil && *in.OnNodeLoss != cloud.LossWaits && *in.OnNodeLoss != cloud.LossRestarts {
		bad("body.on_node_loss", "wait or restart", *in.OnNodeLoss)
	}
	if in.OnReboot != nil && *in.OnReboot != cloud.RebootRestarts && *in.OnReboot != cloud.RebootFails {
		bad("body.on_node_reboot", "restart or fail", *in.OnReboot)
	}
	if len(fields) > 0 {
		return cloud.Invalid(fields...)
	}
	return nil
}

// resize gives a stopped instance another flavor, for its next start. One that
// the project's limits would not let start now is refused here already.
func (m *move) resize(ctx context.Context, tx *postgres.Tx, to string) error {
	if m.State != cloud.StateStopped && m.State != cloud.StateFailed || m.Held {
		e := cloud.E(cloud.KindConflict, "state_conflict", "instance %q is %s: its size changes only while it is stopped and holds nothing", m.Name, m.State).
			With("state", string(m.State)).With("held", m.Held)
		if m.Held {
			return e.WithHint("give its place back first (stop, gpu: release)")
		}
		return e.WithHint("stop it first, releasing its place")
	}
	flavor, err := postgres.FlavorGet(ctx, tx, postgres.RefOf(cloud.FlavorID{}, to))
	if postgres.Missing(err) {
		return cloud.Invalid(cloud.Field{Location: "body.flavor", Message: "there is no such flavor here", Value: to})
	}
	if err != nil {
		return err
	}
	if fields := flavorFields(m.Kind, flavor, to); len(fields) > 0 {
		return cloud.Invalid(fields...)
	}
	before, err := postgres.FlavorOf(ctx, tx, m.ID)
	if err != nil {
		return err
	}
	if err := m.roomFor(ctx, tx, before.Shape, flavor.Shape); err != nil {
		return err
	}
	have, err := postgres.VolumesOf(ctx, tx, []cloud.InstanceID{m.ID})
	if err != nil {
		return err
	}
	var home cloud.NodeID
	for _, v := range have[m.ID] {
		// What is not made yet has no size that counts; what is gets its new one
		// when it is next placed, and can be given another until then.
		if !v.NodeID.IsZero() && v.SizeMiB > flavor.Shape.DiskMiB {
			return cloud.Invalid(cloud.Field{Location: "body.flavor", Value: to,
				Message: fmt.Sprintf("its data has %d MiB and can't shrink; flavor %q has %d", v.SizeMiB, flavor.Name, flavor.Shape.DiskMiB)})
		}
		if v.State != volumePending {
			home = v.NodeID
		}
	}
	if err := m.everFits(ctx, tx, flavor, home, to); err != nil {
		return err
	}
	m.Generation++
	m.FlavorID, m.Shape = flavor.ID, flavor.Shape
	m.verb, m.data["flavor"], m.data["flavor_before"] = "resized", flavor.Name, before.Name
	return nil
}

// everFits refuses a flavor that no node which may hold the instance could take,
// were it empty and well: with it, the instance would never start again.
func (m *move) everFits(ctx context.Context, tx *postgres.Tx, flavor cloud.Flavor, home cloud.NodeID, asked string) error {
	row, err := postgres.InstanceGet(ctx, tx, m.ProjectID, postgres.RefTo(m.ID))
	if err != nil {
		return err
	}
	nodes, err := postgres.FleetFree(ctx, tx)
	if err != nil {
		return err
	}
	plan := placement.Decide(emptied(snapshot(nodes, row.PoolName)), []placement.Request{
		{InstanceID: m.ID, Kind: m.Kind, Shape: flavor.Shape, Pool: row.PoolName, Home: home},
	}, placement.Policy{})
	for _, d := range plan.Decisions {
		if d.Refusal == nil || !d.Refusal.NeverFits {
			continue
		}
		what := fmt.Sprintf("even empty, no node of pool %q takes flavor %q (%s)", row.PoolName, flavor.Name, d.Refusal)
		if !home.IsZero() {
			what = fmt.Sprintf("even empty, the node that its data is on does not take flavor %q (%s)", flavor.Name, d.Refusal)
		}
		return cloud.Invalid(cloud.Field{Location: "body.flavor", Message: "it could never start: " + what, Value: asked})
	}
	return nil
}

// roomFor refuses a larger shape that the limits leave no room for: takes it and
// gives it back, so that the answer is the one that a start would get.
func (m *move) roomFor(ctx context.Context, tx *postgres.Tx, before, after cloud.Shape) error {
	was, err := takes(before)
	if err != nil {
		return fmt.Errorf("weigh instance %s: %w", m.ID, err)
	}
	asked, err := takes(after)
	if err != nil {
		return fmt.Errorf("weigh instance %s: %w", m.ID, err)
	}
	grows := postgres.Amounts{}
	for r, n := range asked {
		if n > was[r] {
			grows[r] = n
		}
	}
	if len(grows) == 0 {
		return nil
	}
	if err := postgres.QuotaReserve(ctx, tx, m.ProjectID, grows); err != nil {
		return err
	}
	return postgres.QuotaReserve(ctx, tx, m.ProjectID, giveBack(grows))
}
