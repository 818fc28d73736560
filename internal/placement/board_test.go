package placement

import (
	"fmt"

	"pgregory.net/rapid"

	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/gpu"
)

func nodeID(i int) cloud.NodeID         { return cloud.NodeID{1, byte(i >> 8), byte(i)} }
func gpuID(n, i int) cloud.GPUID        { return cloud.GPUID{2, byte(n >> 8), byte(n), byte(i)} }
func instanceID(i int) cloud.InstanceID { return cloud.InstanceID{3, byte(i >> 8), byte(i)} }
func address(i int) string              { return fmt.Sprintf("0000:%02x:00.0", i) }

// newNode is a ready node of the pool "default" with room on the host.
func newNode(i int, cards ...GPU) Node {
	n := Node{ID: nodeID(i), Pool: "default", State: cloud.NodeReady, VCPU: 64, MemoryMiB: 1 << 18, FreeVCPU: 64, FreeMemoryMiB: 1 << 18}
	for k, c := range cards {
		c.ID, c.PCIAddress = gpuID(i, k), address(k)
		n.GPUs = append(n.GPUs, c)
	}
	return n
}

func h100(mode cloud.GPUMode) GPU {
	return GPU{Model: "h100-80gb", Geometry: gpu.MIG8, Mode: mode, State: cloud.GPUReady, NUMANode: -1}
}

// holding is a card cut by MIG with slices at these places.
func holding(places ...gpu.Place) GPU {
	c := h100(cloud.ModeMIG)
	geo, _ := gpu.GeometryByName(c.Geometry)
	for _, p := range places {
		c.Used = geo.Take(c.Used, p.Class, p.Start)
	}
	return c
}

func slice(i int, class string) Request {
	return Request{InstanceID: instanceID(i), Kind: cloud.KindContainer, Pool: "default", Order: int64(i),
		Shape: cloud.Shape{GPUCount: 1, GPUModel: "h100-80gb", GPUMode: cloud.ModeMIG, GPUProfile: class, VCPU: 1, MemoryMiB: 1024}}
}

func whole(i, count int) Request {
	r := slice(i, gpu.Whole)
	r.Shape.GPUMode, r.Shape.GPUCount = cloud.ModeWhole, count
	return r
}

func hostOnly(i, vcpu int) Request {
	r := slice(i, "")
	r.Shape = cloud.Shape{VCPU: vcpu, MemoryMiB: 1024}
	return r
}

// genBoard draws a small, crowded board.
func genBoard(t *rapid.T) Snapshot {
	var s Snapshot
	for i := range rapid.IntRange(0, 3).Draw(t, "nodes") {
		n := newNode(i)
		n.Pool = rapid.SampledFrom([]string{"default", "default", "default", "other"}).Draw(t, "pool")
		n.State = rapid.SampledFrom([]cloud.NodeState{cloud.NodeReady, cloud.NodeReady, cloud.NodeReady, cloud.NodeReady, cloud.NodeReady, cloud.NodeLate}).Draw(t, "state")
		n.Drained = rapid.IntRange(0, 7).Draw(t, "drained") == 0
		n.Simulated = rapid.IntRange(0, 3).Draw(t, "simulated") == 0
		n.VCPU, n.MemoryMiB = 8, 8192
		n.FreeVCPU, n.FreeMemoryMiB = rapid.IntRange(0, 8).Draw(t, "vcpu"), int64(1024*rapid.IntRange(0, 8).Draw(t, "memory"))
		for k := range rapid.IntRange(0, 3).Draw(t, "cards") {
			c := h100(rapid.SampledFrom([]cloud.GPUMode{cloud.ModeMIG, cloud.ModeMIG, cloud.ModeWhole}).Draw(t, "mode"))
			if rapid.IntRange(0, 3).Draw(t, "a30") == 0 {
				c.Model, c.Geometry = "a30-24gb", gpu.MIG4
			}
			if rapid.IntRange(0, 5).Draw(t, "broken") == 0 {
				c.State = cloud.GPUQuarantined
			}
			geo, _ := gpu.GeometryByName(c.Geometry)
			if c.Mode == cloud.ModeWhole {
				if rapid.Bool().Draw(t, "held") {
					c.Used.Mask = 0xff
				}
			} else {
				for range rapid.SampledFrom([]int{0, 0, 1, 2, 4}).Draw(t, "slices") {
					class := rapid.SampledFrom(geo.Profiles).Draw(t, "class").Class
					if free := geo.FreeStarts(c.Used, class); len(free) > 0 {
						c.Used = geo.Take(c.Used, class, rapid.SampledFrom(free).Draw(t, "start"))
					}
				}
			}
			c.ID, c.PCIAddress = gpuID(i, k), address(k)
			c.NUMANode = rapid.IntRange(-1, 1).Draw(t, "numa")
			if k > 0 && rapid.Bool().Draw(t, "linked") {
				c.NVLink = []string{address(k - 1)}
			}
			n.GPUs = append(n.GPUs, c)
		}
		s.Nodes = append(s.Nodes, n)
	}
	return s
}

func genRequests(t *rapid.T) []Request {
	var out []Request
	for i := range rapid.IntRange(1, 8).Draw(t, "requests") {
		r := Request{InstanceID: instanceID(i), Kind: cloud.KindContainer, Order: int64(rapid.IntRange(0, 3).Draw(t, "order")),
			Pool:     rapid.SampledFrom([]string{"default", "default", "default", "default", "default", "other", "", "absent"}).Draw(t, "asked pool"),
			Priority: rapid.IntRange(0, 1).Draw(t, "priority"), Count: rapid.SampledFrom([]int{0, 1, 2, 3}).Draw(t, "members")}
		r.Shape = cloud.Shape{VCPU: rapid.SampledFrom([]int{0, 1, 1, 2, 4, 9}).Draw(t, "asked vcpu"), MemoryMiB: int64(1024 * rapid.SampledFrom([]int{0, 1, 1, 2, 9}).Draw(t, "asked memory"))}
		if n := rapid.SampledFrom([]int{0, 1, 1, 1, 2}).Draw(t, "devices"); n > 0 {
			r.Shape.GPUCount = n
			r.Shape.GPUModel = rapid.SampledFrom([]string{"h100-80gb", "h100-80gb", "h100-80gb", "h100-80gb", "a30-24gb", "b200-180gb"}).Draw(t, "model")
			r.Shape.GPUMode, r.Shape.GPUProfile = cloud.ModeWhole, gpu.Whole
			if rapid.IntRange(0, 3).Draw(t, "mig") > 0 {
				r.Shape.GPUMode = cloud.ModeMIG
				r.Shape.GPUProfile = rapid.SampledFrom([]string{"1g", "1g+me", "1g2", "2g", "3g", "4g", "7g", "2g+me"}).Draw(t, "profile")
			}
		}
		out = append(out, r)
	}
	return out
}
