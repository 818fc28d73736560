package app

import (
	"context"
	"encoding/json"

	"github.com/tenon-cloud/tenon/internal/authz"
	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/gpu"
	"github.com/tenon-cloud/tenon/internal/postgres"
)

// InstanceList lists a project's instances, newest first.
func (a *App) InstanceList(ctx context.Context, c Call, project string, f InstanceFilter, p Page) (List[InstanceDetail], error) {
	limit, err := p.size()
	if err != nil {
		return List[InstanceDetail]{}, err
	}
	before, err := afterID(cloud.InstanceID{}, p)
	if err != nil {
		return List[InstanceDetail]{}, err
	}
	var rows []InstanceDetail
	err = a.inProject(ctx, c, authz.InstanceList, project, func(tx *postgres.Tx, p cloud.Project) error {
		list, err := postgres.InstanceList(ctx, tx, p.ID, postgres.InstanceFilter{State: f.State, Name: f.Name, Deleted: f.All}, before, limit+1)
		if err != nil {
			return err
		}
		prices, err := postgres.PriceList(ctx, tx)
		if err != nil {
			return err
		}
		if err := withVolumes(ctx, tx, list); err != nil {
			return err
		}
		now := tariffAt(prices, a.now())
		rows = make([]InstanceDetail, len(list))
		for i, row := range list {
			rows[i] = detailOf(row, now)
		}
		return nil
	})
	return paged(rows, limit, func(i InstanceDetail) string { return i.ID.String() }), err
}

// detailOf adds what a row says of its price and of why it waits.
func detailOf(row postgres.Instance, now tariff) InstanceDetail {
	out := InstanceDetail{Instance: row.Instance, Currency: currency, Simulated: row.Simulated}
	if err := json.Unmarshal(row.Reasons, &out.Reasons); err != nil {
		out.Reasons = nil // for display only
	}
	out.PricePerHourMicros, out.PriceNowMicros, out.Priced = now.rates(row.Instance)
	return out
}

// InstanceGet shows one with what only its own page needs: what it holds.
func (a *App) InstanceGet(ctx context.Context, c Call, project, instance string) (out InstanceDetail, err error) {
	err = a.inProject(ctx, c, authz.InstanceRead, project, func(tx *postgres.Tx, p cloud.Project) error {
		row, err := postgres.InstanceGet(ctx, tx, p.ID, postgres.RefOf(cloud.InstanceID{}, instance))
		if err != nil {
			return notFound(err, "instance", instance)
		}
		prices, err := postgres.PriceList(ctx, tx)
		if err != nil {
			return err
		}
		rows := []postgres.Instance{row}
		if err := withVolumes(ctx, tx, rows); err != nil {
			return err
		}
		out = detailOf(rows[0], tariffAt(prices, a.now()))
		if row.State == cloud.StateQueued {
			if out.QueuePlace, err = postgres.QueuePlace(ctx, tx, row.ID); err != nil {
				return err
			}
		}
		held, err := postgres.InstanceDevices(ctx, tx, row.ID)
		if err != nil {
			return err
		}
		out.Claims = nil
		for _, d := range held {
			out.Simulated = out.Simulated || d.Simulated
			out.Claims = append(out.Claims, HeldDevice{GPUID: d.GPUID, GPUUUID: d.GPUUUID, Model: d.Model, ModelName: gpu.DisplayName(d.Model, gpu.Whole),
				Mode: d.Mode, Profile: d.Profile, ProfileName: gpu.DisplayName(d.Model, d.Profile),
				Slots: cloud.Slots{Start: d.SlotStart, End: d.SlotEnd}, Simulated: d.Simulated})
		}
		return nil
	})
	return out, err
}

// InstanceFor authorises one action on an instance; with placed it must be on a
// node.
func (a *App) InstanceFor(ctx context.Context, c Call, action authz.Action, project, instance string, placed bool) (out cloud.Instance, err error) {
	err = a.inProject(ctx, c, action, project, func(tx *postgres.Tx, p cloud.Project) error {
		row, err := postgres.InstanceGet(ctx, tx, p.ID, postgres.RefOf(cloud.InstanceID{}, instance))
		if err != nil {
			return notFound(err, "instance", instance)
		}
		if placed && row.NodeID.IsZero() {
			return cloud.E(cloud.KindConflict, "not_running", "instance %q is %s: it is on no node now", row.Name, row.State).
				WithHint("start it, and wait until it runs").With("state", string(row.State))
		}
		out = row.Instance
		return nil
	})
	return out, err
}

// InstanceEvents lists what happened to one, newest first; also after it was
// deleted, by its id.
func (a *App) InstanceEvents(ctx context.Context, c Call, project, instance string, p Page) (List[cloud.Event], error) {
	limit, err := p.size()
	if err != nil {
		return List[cloud.Event]{}, err
	}
	before, err := afterID(cloud.EventID{}, p)
	if err != nil {
		return List[cloud.Event]{}, err
	}
	var rows []cloud.Event
	err = a.inProject(ctx, c, authz.InstanceEvents, project, func(tx *postgres.Tx, p cloud.Project) error {
		row, err := postgres.InstanceGet(ctx, tx, p.ID, postgres.RefOf(cloud.InstanceID{}, instance))
		if err != nil {
			return notFound(err, "instance", instance)
		}
		list, err := postgres.EventListOf(ctx, tx, row.ID.UUID(), before, limit+1)
		rows = make([]cloud.Event, len(list))
		for i, e := range list {
			rows[i] = e.Event
		}
		return err
	})
	return paged(rows, limit, func(e cloud.Event) string { return e.ID.String() }), err
}
