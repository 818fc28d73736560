package app

import (
	"slices"

	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/gpu"
	"github.com/tenon-cloud/tenon/internal/placement"
	"github.com/tenon-cloud/tenon/internal/postgres"
)

// snapshot makes the engine's view of the fleet, of one pool or (empty) of all.
func snapshot(nodes []postgres.FleetNode, pool string) placement.Snapshot {
	var out placement.Snapshot
	for _, n := range nodes {
		if pool != "" && n.PoolName != pool {
			continue
		}
		v := placement.Node{ID: n.ID, Pool: n.PoolName, State: n.State, Drained: n.Drained, Simulated: n.Simulated,
			VCPU: n.VCPU, MemoryMiB: n.MemoryMiB, FreeVCPU: n.FreeVCPU, FreeMemoryMiB: n.FreeMemoryMiB, Kinds: n.Kinds, Partitions: n.Partitions}
		for _, g := range n.GPUs {
			v.GPUs = append(v.GPUs, placement.GPU{ID: g.ID, PCIAddress: g.PCIAddress, Model: g.Model, Geometry: g.Geometry,
				Mode: g.Mode, State: g.State, Used: used(g), NUMANode: g.NUMANode, NVLink: g.NVLink,
				Changing: g.Changing, Fixed: g.Layout, Bundled: g.Bundled, NotForVM: g.NotForVM, Org: otherOrg(g)})
		}
		out.Nodes = append(out.Nodes, v)
	}
	return out
}

// emptied is the fleet as it would be with nothing on it and all of it well.
func emptied(s placement.Snapshot) placement.Snapshot {
	for i := range s.Nodes {
		n := &s.Nodes[i]
		n.State, n.Drained, n.FreeVCPU, n.FreeMemoryMiB = cloud.NodeReady, false, n.VCPU, n.MemoryMiB
		n.Partitions = slices.Clone(n.Partitions)
		for j := range n.Partitions {
			n.Partitions[j].Foreign = false
		}
		for j := range n.GPUs {
			g := &n.GPUs[j]
			g.State, g.Used, g.Changing, g.Org = cloud.GPUReady, gpu.Used{}, false, cloud.OrgID{}
		}
	}
	return s
}

// otherOrg stands for whoever else has shares of a card: nobody's own id.
func otherOrg(g postgres.FleetGPU) cloud.OrgID {
	if g.Others {
		return cloud.OrgID{0xff}
	}
	return cloud.OrgID{}
}

func used(g postgres.FleetGPU) gpu.Used {
	u := gpu.Used{Media: g.Media}
	for _, s := range g.Taken {
		u.Mask |= gpu.SlotMask(s)
	}
	return u
}

// fits counts how many instances of a shape would find a place now. Slices of
// one class never get in each other's way, and whole cards are alike, so that
// counting is exact.
func fits(nodes []postgres.FleetNode, s cloud.Shape, in func(postgres.FleetNode) bool) int {
	total := 0
	for _, n := range nodes {
		if n.State != cloud.NodeReady || n.Drained || !in(n) {
			continue
		}
		k := min(n.FreeVCPU/max(s.VCPU, 1), int(n.FreeMemoryMiB/max(s.MemoryMiB, 1)))
		if s.GPUCount > 0 {
			k = min(k, devices(n, s)/s.GPUCount)
		}
		total += max(k, 0)
	}
	return total
}

// devices counts the cards or slices of a shape's kind that are free on a node.
func devices(n postgres.FleetNode, s cloud.Shape) int {
	free := 0
	for _, g := range n.GPUs {
		if g.State != cloud.GPUReady || g.Changing || g.Others || g.Model != s.GPUModel || g.Mode != s.GPUMode {
			continue
		}
		if s.GPUMode == cloud.ModeWhole {
			if len(g.Taken) == 0 {
				free++
			}
			continue
		}
		for _, cutting := range gpu.Cuttings(s.GPUMode, s.GPUProfile) {
			if cutting.Geometry.Name == g.Geometry {
				free += partsFree(g, cutting.Cut)
			}
		}
	}
	return free
}

// partsFree counts the free slices of a kind on a card.
func partsFree(g postgres.FleetGPU, cut gpu.Cut) int {
	if g.Layout == nil {
		return cut.More(used(g))
	}
	n := 0
	for _, p := range g.Layout {
		if p.Profile == cut.Profile.Class && cut.FreeAt(used(g), p.SlotStart) {
			n++
		}
	}
	return n
}

// takes is what a shape counts against a project's limits while it holds or
// wants a place.
func takes(s cloud.Shape) (postgres.Amounts, error) {
	out := postgres.Amounts{cloud.QuotaVCPU: int64(s.VCPU), cloud.QuotaMemoryMiB: s.MemoryMiB}
	if s.GPUCount > 0 {
		model, err := gpu.ModelByKey(s.GPUModel)
		if err != nil {
			return nil, err
		}
		one, err := gpu.Milli(model.Geometry, s.GPUProfile)
		if err != nil {
			return nil, err
		}
		out[cloud.QuotaGPUMilli] = int64(s.GPUCount) * one
	}
	return out, nil
}

func giveBack(a postgres.Amounts) postgres.Amounts {
	out := postgres.Amounts{}
	for r, n := range a {
		out[r] = -n
	}
	return out
}
