package placement

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/gpu"
)

// board is the snapshot as the engine changes it, nodes and cards sorted by id
// so that the order in which they came means nothing.
type board struct {
	nodes []node
	pools map[string][]int // indices of nodes; "" holds those of every pool that are not simulated
	makes map[cardMake]int // interned
}

type node struct {
	src      *Node
	open     bool // takes new work
	vcpu     int  // free
	memory   int64
	gpus     []card
	slack    int    // free slots of all ready cards: what work without a GPU would waste
	version  uint32 // grows when anything above changes
	topology *topology
	fabric   *fabric // nil: its cards are parted by no switches
}

// cardMake is what a request must match: one integer on the board.
type cardMake struct {
	model string
	mode  cloud.GPUMode
}

type card struct {
	src   *GPU
	make  int
	geo   *gpu.Geometry
	used  gpu.Used
	org   cloud.OrgID // whose shares are on it
	ready bool
}

func newBoard(s Snapshot) *board {
	b := &board{nodes: make([]node, len(s.Nodes)), pools: map[string][]int{}, makes: map[cardMake]int{}}
	order := make([]*Node, len(s.Nodes))
	for i := range s.Nodes {
		order[i] = &s.Nodes[i]
	}
	slices.SortFunc(order, func(x, y *Node) int { return bytes.Compare(x.ID[:], y.ID[:]) })
	for i, src := range order {
		n := &b.nodes[i]
		n.src, n.version = src, 1
		n.open = src.State == cloud.NodeReady && !src.Drained
		n.vcpu, n.memory = src.FreeVCPU, src.FreeMemoryMiB
		n.gpus = make([]card, len(src.GPUs))
		for j := range src.GPUs {
			g := &src.GPUs[j]
			geo, _ := gpu.GeometryByName(g.Geometry)
			n.gpus[j] = card{src: g, make: b.intern(g.Model, g.Mode), geo: geo, used: g.Used, org: g.Org, ready: g.State == cloud.GPUReady && !g.Changing}
		}
		slices.SortFunc(n.gpus, func(x, y card) int { return bytes.Compare(x.src.ID[:], y.src.ID[:]) })
		n.fabric = newFabric(n.gpus, src.Partitions)
		n.measure()
		b.pools[src.Pool] = append(b.pools[src.Pool], i)
		if src.Pool != "" && !src.Simulated {
			b.pools[""] = append(b.pools[""], i)
		}
	}
	return b
}

func (b *board) intern(model string, mode cloud.GPUMode) int {
	key := cardMake{model, mode}
	id, ok := b.makes[key]
	if !ok {
		id = len(b.makes)
		b.makes[key] = id
	}
	return id
}

func (n *node) measure() {
	n.slack = 0
	for i := range n.gpus {
		if c := &n.gpus[i]; c.ready && c.geo != nil {
			n.slack += c.geo.Free(c.used)
		}
	}
}

// pick is one device of a candidate place, before it is taken.
type pick struct {
	card  int
	start int // -1: the whole card
}

// take books a place and returns what undoes it.
func (n *node) take(w *want, picks []pick) (undo func()) {
	picks = slices.Clone(picks) // the caller fills its slice again before an undo
	type was struct {
		used gpu.Used
		org  cloud.OrgID
	}
	before := make([]was, len(picks))
	for i, p := range picks {
		c := &n.gpus[p.card]
		before[i] = was{c.used, c.org}
		if w.shape.GPUMode == cloud.ModeShared {
			c.org = w.org
		}
		if p.start < 0 {
			c.used.Mask = 0xff
		} else {
			c.used = w.cut(c.geo).Take(c.used, p.start)
		}
	}
	n.vcpu -= w.shape.VCPU
	n.memory -= w.shape.MemoryMiB
	n.measure()
	n.version++
	return func() {
		for i := len(picks) - 1; i >= 0; i-- {
			c := &n.gpus[picks[i].card]
			c.used, c.org = before[i].used, before[i].org
		}
		n.vcpu += w.shape.VCPU
		n.memory += w.shape.MemoryMiB
		n.measure()
		n.version++
	}
}

// assignment names what was picked.
func (n *node) assignment(w *want, picks []pick) Assignment {
	a := Assignment{NodeID: n.src.ID, Topology: n.words(picks)}
	for _, p := range picks {
		c := &n.gpus[p.card]
		d := Device{GPUID: c.src.ID, Mode: w.shape.GPUMode, Profile: w.shape.GPUProfile, Slots: gpu.WholeSlots}
		if p.start >= 0 {
			cut := w.cut(c.geo)
			d.Profile, d.Slots = cut.Profile.Class, cut.Profile.At(p.start)
		} else {
			d.Profile = gpu.Whole
		}
		a.Devices = append(a.Devices, d)
	}
	slices.SortFunc(a.Devices, func(x, y Device) int {
		return cmp.Or(bytes.Compare(x.GPUID[:], y.GPUID[:]), cmp.Compare(x.Slots.Start, y.Slots.Start))
	})
	return a
}
