package app

import (
	"context"
	"fmt"
	"time"

	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/nodewire"
	"github.com/tenon-cloud/tenon/internal/postgres"
)

// start takes up again what is stopped, in one of three ways: where it held its
// place, in the queue, or in the queue without its GPUs.
func (m *move) start(ctx context.Context, tx *postgres.Tx, w wanted) error {
	if m.Held {
		return m.startHeld(ctx, tx, w)
	}
	if m.State == cloud.StateQueued && w.withoutGPU && m.Shape.GPUCount > 0 {
		return m.startSooner(ctx, tx)
	}
	if err := m.possible(intentStart); err != nil {
		return err
	}
	if err := m.hasData(ctx, tx); err != nil {
		return err
	}
	flavor, err := postgres.FlavorOf(ctx, tx, m.ID)
	if err != nil {
		return err
	}
	m.Shape = flavor.Shape
	if w.withoutGPU {
		if err := m.dropGPU(); err != nil {
			return err
		}
	}
	compute, err := takes(m.Shape)
	if err != nil {
		return fmt.Errorf("weigh instance %s: %w", m.ID, err)
	}
	for r, n := range compute {
		m.change[r] += n
	}
	if err := m.keep(ctx, tx); err != nil {
		return err
	}
	m.Desired, m.HoldsQuota, m.queued, m.Reboots = cloud.DesiredRunning, true, &m.now, 0
	none := ""
	m.LastLines, m.ExitCode, m.StartedAt = &none, nil, nil
	m.enter(cloud.StateQueued, 0, "", "")
	return nil
}

// hasData refuses to start what lies on no node any more: it would wait for ever.
func (m *move) hasData(ctx context.Context, tx *postgres.Tx) error {
	have, err := postgres.VolumesOf(ctx, tx, []cloud.InstanceID{m.ID})
	if err != nil {
		return err
	}
	for _, v := range have[m.ID] {
		if v.Gone {
			return cloud.E(cloud.KindConflict, "volume_lost", "the data of instance %q is lost: its node was given up", m.Name).
				WithHint("delete it; its data went with the node").With("volume", string(v.Role))
		}
	}
	return nil
}

// startHeld starts a VM in the place that it held: nobody else has had its GPUs,
// so there is nothing to wait for.
func (m *move) startHeld(ctx context.Context, tx *postgres.Tx, w wanted) error {
	if w.withoutGPU {
		return cloud.E(cloud.KindConflict, "place_held", "instance %q holds its GPUs: it starts with them at once", m.Name).
			WithHint("start it plainly, or release its place first (stop, gpu: release)")
	}
	silent, err := postgres.SilentSince(ctx, tx, m.ID)
	if err != nil {
		return err
	}
	if !silent.IsZero() {
		return cloud.E(cloud.KindConflict, "node_silent", "instance %q holds its place on a node that has not been heard of since %s", m.Name, silent.UTC().Format(time.RFC3339)).
			WithHint("start it when its node is back, or release its place (stop, gpu: release)").With("silent_since", silent.UTC())
	}
	m.Desired, m.Held, m.resume, m.Reboots = cloud.DesiredRunning, false, true, 0
	m.Epoch++
	none := ""
	m.LastLines, m.ExitCode, m.StartedAt = &none, nil, nil
	m.enter(cloud.StateStarting, cloud.StartWithin, "", "its node starts it where it held its place")
	m.data = map[string]any{"held": true} // charged until it runs, as it was before
	return nil
}

// startSooner takes the GPUs out of a request that waits for them.
func (m *move) startSooner(ctx context.Context, tx *postgres.Tx) error {
	if err := m.giveBack(); err != nil {
		return err
	}
	if err := m.dropGPU(); err != nil {
		return err
	}
	compute, err := takes(m.Shape)
	if err != nil {
		return fmt.Errorf("weigh instance %s: %w", m.ID, err)
	}
	for r, n := range compute {
		m.change[r] += n
	}
	m.HoldsQuota = true
	at := m.StateAt
	m.enter(cloud.StateQueued, 0, "", "")
	m.StateAt = at // it has waited since
	return nil
}

func (m *move) dropGPU() error {
	if m.Kind == cloud.KindContainer {
		return cloud.Invalid(cloud.Field{Location: "body.without_gpu", Value: true,
			Message: "a container keeps nothing while it is stopped, so there is nothing to reach: only a virtual machine or a notebook starts without its GPU"})
	}
	if m.Shape.GPUCount == 0 {
		return cloud.Invalid(cloud.Field{Location: "body.without_gpu", Value: true, Message: "it has no GPU to do without: start it plainly"})
	}
	m.Shape.GPUCount, m.Shape.GPUModel, m.Shape.GPUMode, m.Shape.GPUProfile = 0, "", "", ""
	m.data = map[string]any{"without_gpu": true}
	m.message += ", without its GPU"
	return nil
}

// keep makes anew what an instance should keep and has lost.
func (m *move) keep(ctx context.Context, tx *postgres.Tx) error {
	v, keeps := volumeOf(cloud.Instance{ID: m.ID, OrgID: m.OrgID, ProjectID: m.ProjectID, Kind: m.Kind, Shape: m.Shape})
	if !keeps {
		return nil
	}
	have, err := postgres.VolumesOf(ctx, tx, []cloud.InstanceID{m.ID})
	if err == nil && len(have[m.ID]) == 0 {
		v.CreatedAt = m.now
		m.make = &v
	}
	return err
}

// stop ends what runs, or gives back a place that is held.
func (m *move) stop(w wanted) error {
	if w.stop == cloud.StopHolds && m.Kind != cloud.KindVM {
		return cloud.Invalid(cloud.Field{Location: "body.gpu", Value: w.stop,
			Message: fmt.Sprintf("only a virtual machine can hold its place: a stopped %s gives it back", m.Kind)})
	}
	if m.Held {
		return m.stopHeld(w)
	}
	if err := m.possible(intentStop); err != nil {
		return err
	}
	if m.State == cloud.StateQueued {
		if w.stop == cloud.StopHolds {
			return cloud.E(cloud.KindConflict, "nothing_to_hold", "instance %q waits for a place: it has none to hold", m.Name).
				WithHint("stop it without hold, or wait until it runs").With("state", string(m.State))
		}
		m.Desired = cloud.DesiredStopped
		m.enter(cloud.StateStopped, 0, nodewire.ReasonAsked, "stopped before it was placed")
		return m.giveBack()
	}
	m.Desired = cloud.DesiredStopped
	if w.stop == cloud.StopHolds || w.stop == "" && m.OnStop == cloud.StopHolds {
		m.enter(cloud.StateStopping, cloud.StopWithin, postgres.ReasonHold, "its node stops it; it keeps its place")
		return nil
	}
	m.enter(cloud.StateStopping, cloud.StopWithin, nodewire.ReasonAsked, "its node stops it")
	return nil
}

// stopHeld gives back what a stopped VM holds. Its node has said that nothing of
// it runs, so that it is free at once.
func (m *move) stopHeld(w wanted) error {
	if w.stop != cloud.StopReleases {
		return cloud.E(cloud.KindConflict, "state_conflict", "instance %q is stopped and holds its place", m.Name).
			WithHint("start it, or give its place back (stop, gpu: release)").With("state", string(m.State)).With("held", true)
	}
	if err := m.giveBack(); err != nil {
		return err
	}
	m.Desired = cloud.DesiredStopped
	m.leave()
	m.enter(cloud.StateStopped, 0, nodewire.ReasonAsked, "stopped; its place is given back")
	m.verb = "released"
	return nil
}
