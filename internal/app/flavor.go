package app

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/tenon-cloud/tenon/internal/authz"
	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/gpu"
	"github.com/tenon-cloud/tenon/internal/postgres"
)

// FlavorList lists what is offered, with its price and how many fit now.
func (a *App) FlavorList(ctx context.Context, c Call) ([]FlavorOffer, error) {
	if err := may(c, authz.FlavorList, c.Actor.OrgID); err != nil {
		return nil, err
	}
	var out []FlavorOffer
	err := a.db.InAPI(ctx, postgres.ScopeOf(c.Actor), func(tx *postgres.Tx) error {
		flavors, err := postgres.FlavorList(ctx, tx)
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
		out = make([]FlavorOffer, len(flavors))
		for i, f := range flavors {
			out[i] = offer(f, now, nodes, told)
		}
		return nil
	})
	return out, err
}

func offer(f cloud.Flavor, now tariff, nodes []postgres.FleetNode, told []postgres.Figures) FlavorOffer {
	o := FlavorOffer{Flavor: f, Currency: currency}
	o.PricePerHourMicros, o.Priced = now.rate(f.Shape)
	for _, kind := range []cloud.InstanceKind{cloud.KindContainer, cloud.KindNotebook, cloud.KindVM} {
		if len(flavorFields(kind, f, f.Name)) > 0 {
			continue
		}
		k := KindOffer{Kind: kind}
		k.FreeNow, k.Served = offered(nodes, kind, f.Shape, false)
		k.FreeSimulated, k.ServedSimulated = offered(nodes, kind, f.Shape, true)
		o.Kinds = append(o.Kinds, k)
		o.FreeNow, o.FreeSimulated = max(o.FreeNow, k.FreeNow), max(o.FreeSimulated, k.FreeSimulated)
		o.Served, o.ServedSimulated = o.Served || k.Served, o.ServedSimulated || k.ServedSimulated
	}
	if f.Shape.GPUCount > 0 {
		o.ProfileName = gpu.DisplayName(f.Shape.GPUModel, f.Shape.GPUProfile)
		o.ModelName = gpu.DisplayName(f.Shape.GPUModel, gpu.Whole)
		o.GPUMemoryMiB, o.GPUSMs = figures(f.Shape, told)
	}
	return o
}

// figures is what one card or slice of a shape has at least, as drivers told it: not
// what is in its name, nor its part of the card. 0: none has told. Equal parts are
// of the whole card, rounded down.
func figures(s cloud.Shape, told []postgres.Figures) (memoryMiB int64, sms int) {
	_, parts, even := gpu.EvenOf(s.GPUProfile)
	profile := s.GPUProfile
	if even {
		profile = gpu.Whole
	}
	i := slices.IndexFunc(told, func(f postgres.Figures) bool { return f.Model == s.GPUModel && f.Profile == profile })
	switch {
	case i < 0:
		return 0, 0
	case even:
		return told[i].MemoryMiB / int64(parts), 0
	}
	return told[i].MemoryMiB, told[i].SMs
}

// FlavorCreate offers a shape. A MIG profile may be spelled in any way that is
// known for its card; what is kept is its class.
func (a *App) FlavorCreate(ctx context.Context, c Call, in FlavorInput) (FlavorOffer, error) {
	if err := may(c, authz.FlavorCreate, c.Actor.OrgID); err != nil {
		return FlavorOffer{}, err
	}
	fields := nameFields(in.Name, in.Description)
	shape, more := shapeOf(in.Shape)
	if fields = append(fields, more...); len(fields) > 0 {
		return FlavorOffer{}, cloud.Invalid(fields...)
	}
	return once(ctx, a, c, "flavor.create", in, func(keep func(*postgres.Tx, FlavorOffer) error) (FlavorOffer, error) {
		f := cloud.Flavor{ID: cloud.FlavorID{}.New(), Name: in.Name, Description: in.Description, Shape: shape}
		var out FlavorOffer
		err := a.inPlatform(ctx, c, authz.FlavorCreate, func(tx *postgres.Tx) (err error) {
			if f.CreatedAt, err = postgres.Now(ctx, tx); err != nil {
				return err
			}
			if err := postgres.FlavorAdd(ctx, tx, f); err != nil {
				return taken(err, "flavor_name", "flavor", in.Name)
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
			out = offer(f, tariffAt(prices, a.now()), nodes, told)
			if err := audit(ctx, tx, c, cloud.OrgID{}, authz.FlavorCreate, f.ID.String(), map[string]any{"name": f.Name}); err != nil {
				return err
			}
			return keep(tx, out)
		})
		return out, err
	})
}

// shapeOf checks a shape and settles its spellings.
func shapeOf(s cloud.Shape) (cloud.Shape, []cloud.Field) {
	var fields []cloud.Field
	bad := func(at, message string, value any) {
		fields = append(fields, cloud.Field{Location: "body." + at, Message: message, Value: value})
	}
	if s.VCPU < 1 || s.VCPU > 1024 {
		bad("vcpu", "1 to 1024", s.VCPU)
	}
	if s.MemoryMiB < 64 || s.MemoryMiB > 16<<20 {
		bad("memory_mib", "64 to 16777216", s.MemoryMiB)
	}
	if s.DiskMiB < 64 || s.DiskMiB > 16<<20 {
		bad("disk_mib", "64 to 16777216", s.DiskMiB)
	}
	if s.GPUCount < 0 || s.GPUCount > 16 {
		bad("gpu_count", "0 to 16", s.GPUCount)
	}
	if s.GPUCount == 0 {
		if s.GPUModel != "" || s.GPUMode != "" || s.GPUProfile != "" {
			bad("gpu_count", "at least 1 when a GPU model, mode or profile is given", s.GPUCount)
		}
		return s, fields
	}
	model, err := gpu.ModelByName(s.GPUModel)
	if err != nil {
		bad("gpu_model", "not a known model; one of "+strings.Join(gpu.ModelKeys(), ", "), s.GPUModel)
		return s, fields
	}
	s.GPUModel = model.Key
	switch s.GPUMode {
	case cloud.ModeWhole:
		if s.GPUProfile != "" && s.GPUProfile != gpu.Whole {
			bad("gpu_profile", "a whole card has none; leave it out", s.GPUProfile)
		}
		s.GPUProfile = gpu.Whole
	case cloud.ModeShared:
		if len(gpu.Cuttings(s.GPUMode, s.GPUProfile)) == 0 {
			bad("gpu_profile", fmt.Sprintf("a share is %s to %s, by how many there are of a card", gpu.Even(s.GPUMode, 2), gpu.Even(s.GPUMode, gpu.MaxShares)), s.GPUProfile)
		}
	case cloud.ModeVGPU:
		if mode, _, even := gpu.EvenOf(s.GPUProfile); even && mode == s.GPUMode {
			break
		}
		class, err := model.ClassOf(s.GPUProfile)
		if err != nil {
			bad("gpu_profile", err.Error()+"; or vgpu1 to vgpu32, by how many of a type there are of a card", s.GPUProfile)
		}
		s.GPUProfile = class
	case cloud.ModeMIG:
		class, err := model.ClassOf(s.GPUProfile)
		if err != nil {
			bad("gpu_profile", err.Error(), s.GPUProfile)
		}
		s.GPUProfile = class
	default:
		bad("gpu_mode", "whole, mig, shared or vgpu", s.GPUMode)
	}
	if s.GPUMode == cloud.ModeVGPU { // only a VM can hold one
		if s.MemoryMiB >= 64 && s.MemoryMiB < vmMemoryMinimum {
			bad("memory_mib", fmt.Sprintf("at least %d: only a virtual machine can hold a virtual GPU, and needs as much", vmMemoryMinimum), s.MemoryMiB)
		}
		if s.DiskMiB >= 64 && s.DiskMiB < vmDiskMinimum {
			bad("disk_mib", fmt.Sprintf("at least %d: only a virtual machine can hold a virtual GPU, and needs as much", vmDiskMinimum), s.DiskMiB)
		}
	}
	return s, fields
}

// FlavorRetire takes an offer back. What runs keeps the shape that it copied.
func (a *App) FlavorRetire(ctx context.Context, c Call, flavor string) error {
	return a.inPlatform(ctx, c, authz.FlavorDelete, func(tx *postgres.Tx) error {
		now, err := postgres.Now(ctx, tx)
		if err != nil {
			return err
		}
		f, err := postgres.FlavorRetire(ctx, tx, postgres.RefOf(cloud.FlavorID{}, flavor), now)
		if err != nil {
			return notFound(err, "flavor", flavor)
		}
		return audit(ctx, tx, c, cloud.OrgID{}, authz.FlavorDelete, f.ID.String(), map[string]any{"name": f.Name})
	})
}
