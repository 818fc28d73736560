package app

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/placement"
	"github.com/tenon-cloud/tenon/internal/postgres"
)

const aheadMaximum = 2_000 // of a queue, that are looked at before a new one

// InstanceDryRun tells what a create would do and cost, and changes nothing.
func (a *App) InstanceDryRun(ctx context.Context, c Call, project string, in InstanceInput) (DryRun, error) {
	named := in.Name != ""
	if !named {
		in.Name = "dry-run" // asked before a name is chosen
	}
	c.IdempotencyKey = ""
	w, _, err := a.wish(ctx, c, project, in)
	if err != nil {
		return DryRun{}, err
	}
	if named {
		if err := a.mustBeFree(ctx, c, w); err != nil {
			return DryRun{}, err
		}
	}
	if err := a.mustBeWithin(ctx, c, w); err != nil {
		return DryRun{}, err
	}
	return a.dryRun(ctx, c, w)
}

// mustBeWithin refuses what the project's limits leave no room for, as a create
// would, and takes nothing of them.
func (a *App) mustBeWithin(ctx context.Context, c Call, w wish) error {
	admission, err := w.admission(c)
	if err != nil {
		return err
	}
	return a.db.InAPI(ctx, postgres.ScopeOf(c.Actor), func(tx *postgres.Tx) error {
		limits, err := postgres.QuotaList(ctx, tx, w.project.ID)
		if err != nil {
			return err
		}
		for _, q := range limits { // by name, as a create meets them
			asked := admission.Takes[q.Resource]
			if asked > 0 && q.Limit != nil && q.Used+asked > *q.Limit {
				return quotaError(w.project, postgres.QuotaExcess{Resource: q.Resource, Limit: *q.Limit, Used: q.Used, Asked: asked})
			}
		}
		return nil
	})
}

// mustBeFree refuses a name that an instance of the project has.
func (a *App) mustBeFree(ctx context.Context, c Call, w wish) error {
	return a.db.InAPI(ctx, postgres.ScopeOf(c.Actor), func(tx *postgres.Tx) error {
		_, err := postgres.InstanceFind(ctx, tx, w.project.ID, postgres.RefOf(cloud.InstanceID{}, w.in.Name))
		switch {
		case postgres.Missing(err):
			return nil
		case err != nil:
			return err
		}
		return nameTaken("instance", w.in.Name)
	})
}

func (a *App) dryRun(ctx context.Context, c Call, w wish) (DryRun, error) {
	out := DryRun{Currency: currency, Flavor: w.flavor.Name, Pool: w.pool.Name, Simulated: w.pool.Simulated}
	var nodes []postgres.FleetNode
	var flavors []cloud.Flavor
	err := a.db.InAPI(ctx, postgres.ScopeOf(c.Actor), func(tx *postgres.Tx) error {
		prices, err := postgres.PriceList(ctx, tx)
		if err != nil {
			return err
		}
		i := cloud.Instance{Kind: w.image.Kind, Shape: w.flavor.Shape}
		if v, keeps := volumeOf(i); keeps {
			i.Volumes = []cloud.Volume{v}
		}
		out.PricePerHourMicros, _, out.Priced = tariffAt(prices, w.at).rates(i)
		if out.Ahead, err = postgres.QueueAhead(ctx, tx, w.pool.ID); err != nil {
			return err
		}
		if flavors, err = postgres.FlavorList(ctx, tx); err != nil {
			return err
		}
		nodes, err = postgres.FleetFree(ctx, tx)
		return err
	})
	if err != nil {
		return out, err
	}
	out.FreeNow = placement.Room(snapshot(nodes, w.pool.Name), placement.Request{Org: w.project.OrgID, Kind: w.image.Kind, Shape: w.flavor.Shape, Pool: w.pool.Name})
	// Whoever waits already takes their place first.
	var waiting []postgres.Waiting
	if out.Ahead > 0 {
		err := a.db.InSystem(ctx, func(tx *postgres.Tx) (err error) {
			waiting, err = postgres.QueueOf(ctx, tx, w.pool.ID, aheadMaximum+1)
			return err
		})
		if err != nil {
			return out, err
		}
	}
	if len(waiting) > aheadMaximum {
		out.Reasons = []Reason{{Reason: "queue", Message: fmt.Sprintf("more than %d wait before it", aheadMaximum), Count: out.Ahead}}
		return out, nil
	}
	requests := make([]placement.Request, 0, len(waiting)+1)
	for _, q := range waiting {
		requests = append(requests, placement.Request{InstanceID: q.ID, Kind: q.Kind, Shape: q.Shape, Pool: w.pool.Name, Order: q.QueuedAt.UnixMicro(), Home: q.Home})
	}
	own := cloud.InstanceID{}.New()
	mine := placement.Request{InstanceID: own, Org: w.project.OrgID, Kind: w.image.Kind, Shape: w.flavor.Shape, Pool: w.pool.Name, Order: math.MaxInt64}
	requests = append(requests, mine)
	board := placement.NewBoard(snapshot(nodes, w.pool.Name), placement.Policy{})
	plan := board.Decide(requests)
	at := slices.IndexFunc(plan.Decisions, func(d placement.Decision) bool { return d.InstanceID == own })
	if at < 0 {
		return out, fmt.Errorf("decide about instance %s: no decision", own)
	}
	d := plan.Decisions[at]
	out.StartsNow = d.Refusal == nil
	if d.Refusal != nil {
		out.Instead = instead(board, mine, w.flavor, flavors)
		out.refuse(d.Refusal)
	}
	return out, nil
}

// refuse takes over why one does not start.
func (d *DryRun) refuse(r *placement.Refusal) {
	for _, why := range r.Reasons {
		d.Reasons = append(d.Reasons, Reason{Reason: string(why.Code), Message: why.String(), Count: why.Count})
	}
	if d.NeverFits = r.NeverFits; r.NeverFits {
		d.FreeNow = 0 // what is free is nothing that this one could have
	}
}
