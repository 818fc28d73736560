package app

import (
	"cmp"
	"slices"

	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/gpu"
	"github.com/tenon-cloud/tenon/internal/placement"
)

// insteadMost is how many flavors are named that would start now in place of one
// that would not.
const insteadMost = 3

// Instead is a flavor that would start now where the one that was asked for would
// not.
type Instead struct {
	Flavor  string
	Why     string // what it is beside the one that was asked for
	FreeNow int
}

// instead finds flavors that have room on a board, nearest to the one that was asked
// for: of the same GPU before another model, and of those the largest that is no
// larger.
func instead(b *placement.Board, asked placement.Request, flavor cloud.Flavor, all []cloud.Flavor) []Instead {
	type near struct {
		Instead
		other  bool
		larger bool
		milli  int64
	}
	milli := func(s cloud.Shape) int64 {
		t, err := takes(s)
		if err != nil {
			return 0
		}
		return t[cloud.QuotaGPUMilli]
	}
	want := milli(flavor.Shape)
	var list []near
	for _, f := range all {
		if f.Name == flavor.Name || (f.Shape.GPUCount > 0) != (flavor.Shape.GPUCount > 0) || len(flavorFields(asked.Kind, f, f.Name)) > 0 {
			continue
		}
		r := asked
		r.Shape = f.Shape
		free := b.Room(r)
		if free == 0 {
			continue
		}
		n := near{Instead: Instead{Flavor: f.Name, FreeNow: free}, milli: milli(f.Shape), other: f.Shape.GPUModel != flavor.Shape.GPUModel}
		n.larger = n.milli > want || n.milli == want && f.Shape.VCPU > flavor.Shape.VCPU
		model := gpu.DisplayName(f.Shape.GPUModel, gpu.Whole)
		switch {
		case f.Shape.GPUCount == 0 && n.larger:
			n.Why = "more vCPU or memory"
		case f.Shape.GPUCount == 0:
			n.Why = "other vCPU and memory"
		case n.other && n.milli == want:
			n.Why = "as much of another model, " + model
		case n.other:
			n.Why = "another model, " + model
		case n.larger:
			n.Why = "more of the same GPU"
		case n.milli < want:
			n.Why = "less of the same GPU"
		default:
			n.Why = "as much of the same GPU"
		}
		list = append(list, n)
	}
	slices.SortStableFunc(list, func(a, b near) int {
		return cmp.Or(order(a.other, b.other), order(a.larger, b.larger), cmp.Compare(distance(a.milli, want), distance(b.milli, want)), cmp.Compare(a.Flavor, b.Flavor))
	})
	var out []Instead
	for _, n := range list[:min(len(list), insteadMost)] {
		out = append(out, n.Instead)
	}
	return out
}

func order(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

func distance(a, b int64) int64 { return max(a-b, b-a) }
