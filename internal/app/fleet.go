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

// offered is how many instances of a kind find a place now, and whether a node could
// ever take one, in all pools that are simulated or in all that are not. The rules
// are placement's own.
func offered(nodes []postgres.FleetNode, kind cloud.InstanceKind, s cloud.Shape, simulated bool) (free int, served bool) {
	pools := map[string][]postgres.FleetNode{}
	for _, n := range nodes {
		if n.PoolSimulated == simulated && couldTake(n, s) {
			pools[n.PoolName] = append(pools[n.PoolName], n)
		}
	}
	for name, list := range pools {
		all := snapshot(list, name)
		want := placement.Request{Kind: kind, Shape: s, Pool: name}
		free += placement.Room(all, want)
		for i := range all.Nodes {
			all.Nodes[i].Kinds = nil // an engine that is down comes back
		}
		served = served || free > 0 || placement.Room(emptied(all), want) > 0
	}
	return free, served
}

// couldTake leaves out nodes that have nothing of what a shape is made of: most of a
// fleet, for most shapes.
func couldTake(n postgres.FleetNode, s cloud.Shape) bool {
	return n.VCPU >= s.VCPU && n.MemoryMiB >= s.MemoryMiB && (s.GPUCount == 0 || slices.ContainsFunc(n.GPUs, func(g postgres.FleetGPU) bool {
		return g.Model == s.GPUModel && g.Mode == s.GPUMode
	}))
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
