package placement

import (
	"slices"
	"strings"

	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/gpu"
)

// legal holds every shape that the database would take, the only thing that the
// brute force shares with the engine.
var legal = func() map[string][]cloud.Slots {
	out := map[string][]cloud.Slots{}
	for _, s := range gpu.Shapes() {
		key := s.Geometry + " " + string(s.Mode) + " " + s.Profile
		out[key] = append(out[key], cloud.Slots{Start: s.Start, End: s.End})
	}
	return out
}()

func clone(s Snapshot) Snapshot {
	out := Snapshot{Nodes: slices.Clone(s.Nodes)}
	for i := range out.Nodes {
		out.Nodes[i].GPUs = slices.Clone(out.Nodes[i].GPUs)
	}
	return out
}

func eligible(n *Node, pool string) bool {
	return n.Pool == pool || pool == "" && !n.Simulated
}

// hold books one device.
func hold(c *GPU, d Device) {
	c.Used.Mask |= gpu.SlotMask(d.Slots)
	c.Used.Media = c.Used.Media || strings.HasSuffix(d.Profile, "+me")
}

// possible tries every way to give members of a request a place.
func possible(s Snapshot, r Request, members int) bool {
	if members == 0 {
		return true
	}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if !eligible(n, r.Pool) || n.State != cloud.NodeReady || n.Drained || n.FreeVCPU < r.Shape.VCPU || n.FreeMemoryMiB < r.Shape.MemoryMiB {
			continue
		}
		n.FreeVCPU -= r.Shape.VCPU
		n.FreeMemoryMiB -= r.Shape.MemoryMiB
		ok := devices(s, n, r, r.Shape.GPUCount, 0, members)
		n.FreeVCPU += r.Shape.VCPU
		n.FreeMemoryMiB += r.Shape.MemoryMiB
		if ok {
			return true
		}
	}
	return false
}

func devices(s Snapshot, n *Node, r Request, count, from, members int) bool {
	if count == 0 {
		return possible(s, r, members-1)
	}
	for k := from; k < len(n.GPUs); k++ {
		c := &n.GPUs[k]
		if c.Model != r.Shape.GPUModel || c.Mode != r.Shape.GPUMode || c.State != cloud.GPUReady {
			continue
		}
		media := strings.HasSuffix(r.Shape.GPUProfile, "+me")
		for _, slots := range legal[c.Geometry+" "+string(c.Mode)+" "+r.Shape.GPUProfile] {
			if c.Used.Mask&gpu.SlotMask(slots) != 0 || media && c.Used.Media {
				continue
			}
			before := c.Used
			hold(c, Device{Profile: r.Shape.GPUProfile, Slots: slots})
			ok := devices(s, n, r, count-1, k, members)
			c.Used = before
			if ok {
				return true
			}
		}
	}
	return false
}

// emptied is the board with nothing on it and everything in service.
func emptied(s Snapshot) Snapshot {
	out := clone(s)
	for i := range out.Nodes {
		n := &out.Nodes[i]
		n.State, n.Drained, n.FreeVCPU, n.FreeMemoryMiB = cloud.NodeReady, false, n.VCPU, n.MemoryMiB
		for k := range n.GPUs {
			n.GPUs[k].State, n.GPUs[k].Used = cloud.GPUReady, gpu.Used{}
		}
	}
	return out
}
