package app

import (
	"context"
	"math"

	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/gpu"
	"github.com/tenon-cloud/tenon/internal/placement"
	"github.com/tenon-cloud/tenon/internal/postgres"
)

// NeedInput is a GPU by what it must have. What is zero is not asked for.
type NeedInput struct {
	MemoryGiB         float64
	Fraction          float64 // of one card
	Model             string  // key, or a name that people use
	ComputeCapability string  // "9.0", at least
	Count             int     // cards or slices; 0: one
}

// need reads the input, and says what is wrong with it.
func (in NeedInput) need() (n gpu.Need, fields []cloud.Field) {
	bad := func(at, message string, value any) {
		fields = append(fields, cloud.Field{Location: "body.gpu." + at, Message: message, Value: value})
	}
	n = gpu.Need{MemoryMiB: int64(math.Ceil(in.MemoryGiB * 1024)), Milli: int(math.Ceil(in.Fraction * 1000)), Count: in.Count}
	if in.Model != "" {
		m, err := gpu.ModelByName(in.Model)
		if err != nil {
			bad("model", err.Error(), in.Model)
		} else {
			n.Model = m.Key
		}
	}
	if in.ComputeCapability != "" {
		var err error
		if n.Capability, err = gpu.ParseCapability(in.ComputeCapability); err != nil {
			bad("compute_capability", err.Error(), in.ComputeCapability)
		}
	}
	if n == (gpu.Need{}) && len(fields) == 0 {
		fields = append(fields, cloud.Field{Location: "body.gpu", Message: "say what the GPU must have: memory_gib, fraction, model, compute_capability or count"})
	}
	return n, fields
}

// asksForOne says what is wrong with how a request asks for its shape.
func asksForOne(in InstanceInput) []cloud.Field {
	switch {
	case in.Flavor != "" && in.Need != nil:
		return []cloud.Field{{Location: "body.gpu", Message: "a flavor says what the GPU is: give one or the other"}}
	case in.Flavor == "" && in.Need == nil:
		return []cloud.Field{{Location: "body.flavor", Message: "name a flavor, or say under gpu what the GPU must have"}}
	}
	return nil
}

// met finds the flavor that meets a need at the least cost, of those that this kind
// of instance can have and that a node of the pool, if there is any, could take.
// With none, the field
// says what there is instead.
func (a *App) met(ctx context.Context, c Call, in NeedInput, kind cloud.InstanceKind, pool cloud.Pool) (cloud.Flavor, []cloud.Field, error) {
	n, fields := in.need()
	if len(fields) > 0 {
		return cloud.Flavor{}, fields, nil
	}
	var list []gpu.Candidate
	flavors := map[string]cloud.Flavor{}
	err := a.db.InAPI(ctx, postgres.ScopeOf(c.Actor), func(tx *postgres.Tx) error {
		all, err := postgres.FlavorList(ctx, tx)
		if err != nil {
			return err
		}
		prices, err := postgres.PriceList(ctx, tx)
		if err != nil {
			return err
		}
		nodes, err := postgres.FleetFree(ctx, tx)
		if err != nil {
			return err
		}
		told, err := postgres.GPUFigures(ctx, tx)
		if err != nil {
			return err
		}
		now := tariffAt(prices, a.now())
		fleet := emptied(snapshot(nodes, pool.Name))
		for i := range fleet.Nodes {
			fleet.Nodes[i].Kinds = nil // an engine that is down comes back
		}
		list, flavors = nil, map[string]cloud.Flavor{}
		for _, f := range all {
			if f.Shape.GPUCount == 0 || len(flavorFields(kind, f, f.Name)) > 0 || len(fleet.Nodes) > 0 && placement.Room(fleet, placement.Request{Kind: kind, Shape: f.Shape, Pool: pool.Name}) == 0 {
				continue
			}
			x := gpu.Candidate{Name: f.Name, Shape: f.Shape}
			x.MicrosPerHour, x.Priced = now.rate(f.Shape)
			x.MemoryMiB, _ = figures(f.Shape, told)
			list, flavors[f.Name] = append(list, x), f
		}
		return nil
	})
	if err != nil {
		return cloud.Flavor{}, nil, err
	}
	fit, missing := n.Among(list)
	if len(fit) == 0 {
		return cloud.Flavor{}, []cloud.Field{{Location: "body.gpu", Message: missing + ", for a " + string(kind) + " in pool " + pool.Name}}, nil
	}
	return flavors[fit[0].Name], nil, nil
}
