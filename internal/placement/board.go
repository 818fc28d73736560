package placement

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/gpu"
	"github.com/tenon-cloud/tenon/internal/packing"
)

// Board is what the nodes have as the engine sees and changes it. Nodes and cards
// are sorted by id, so that the order in which they came means nothing.
type Board struct {
	policy Policy
	milli  int  // thousandths of a vCPU that one of a node's is
	sketch bool // made to be counted on, not to be placed on
	nodes  []node
	at     map[cloud.NodeID]int
	pools  map[string][]int // indices of nodes; "" holds those of every pool that are not simulated
	makes  []cardMake
	units  []int             // by make: of the largest card
	prices []*packing.Prices // by make; nil: not cut by MIG
	fit    *packing.Fit
	stale  bool // what fit was made for has changed

	table   *packing.Table
	index   map[kindOfAsk]int
	classes []class
	grown   uint64 // grows when more may fit than before

	picks    []pick
	free     []int
	values   []layoutValue
	stamp    uint32
	bookings []booking // by number, from 1
	journal  []change
	marks    int // that are not rolled back: changes are written down
}

type node struct {
	src      Node
	open     bool // takes new work
	vcpu     int  // free
	memory   int64
	gpus     []card
	facets   []packing.Node // its cards by make, as packing looks at them
	values   []float64      // of each facet
	valued   bool
	cuts     []cut
	topology *topology
	fabric   *fabric // nil: its cards are parted by no switches
}

// cardMake is what a request must match: one small number on the board. Beyond
// the last, makes share a number and are told apart by name.
type cardMake struct {
	model    string
	mode     cloud.GPUMode
	geometry string
}

const lastMake = 63

type card struct {
	src         *GPU
	make        uint8
	geo         *gpu.Geometry
	layouts     *packing.Layouts // nil: not cut by MIG
	ready       bool
	facet, spot int8
	counted     int32 // the layout with which prices count it; -1: they don't
	state
}

// state is what bookings change of a card.
type state struct {
	used    gpu.Used // by all below
	own     gpu.Used // what is held
	blocked uint32   // slots kept for later
	taken   int      // units that are held
	kept    int      // units kept for later
	org     cloud.OrgID
	held    packing.Held
	layout  int32 // -1: none is known
}

// NewBoard reads a snapshot, which it keeps no part of.
func NewBoard(s Snapshot, p Policy) *Board {
	b := &Board{policy: p, milli: 1000}
	if s.Thousandths {
		b.milli = 1
	}
	if b.policy.Weights == (packing.Weights{}) {
		b.policy.Weights = packing.Default
	}
	b.build(s.Nodes)
	return b
}

// build begins anew with these nodes.
func (b *Board) build(list []Node) {
	b.nodes, b.at, b.pools, b.prices = make([]node, len(list)), make(map[cloud.NodeID]int, len(list)), map[string][]int{}, nil
	b.makes = b.makes[:0]
	for i := range list {
		for k := range list[i].GPUs {
			if m := makeOf(&list[i].GPUs[k]); !slices.Contains(b.makes, m) {
				b.makes = append(b.makes, m)
			}
		}
	}
	slices.SortFunc(b.makes, func(x, y cardMake) int {
		return cmp.Or(cmp.Compare(x.model, y.model), cmp.Compare(x.mode, y.mode), cmp.Compare(x.geometry, y.geometry))
	})
	b.units = make([]int, len(b.makes))
	order := make([]*Node, len(list))
	for i := range list {
		order[i] = &list[i]
		for k := range list[i].GPUs {
			m := slices.Index(b.makes, makeOf(&list[i].GPUs[k]))
			b.units[m] = max(b.units[m], list[i].GPUs[k].Units)
		}
	}
	slices.SortStableFunc(order, func(x, y *Node) int { return bytes.Compare(x.ID[:], y.ID[:]) })
	b.forget()
	if !b.sketch {
		b.price()
	}
	for i, src := range order {
		b.at[src.ID] = i
		b.read(i, src)
		b.pools[src.Pool] = append(b.pools[src.Pool], i)
		if src.Pool != "" && !src.Simulated {
			b.pools[""] = append(b.pools[""], i)
		}
	}
	b.stale = true
}

// forget drops every class and booking.
func (b *Board) forget() {
	b.table = packing.NewTable(len(b.nodes), b.score)
	b.index, b.classes = map[kindOfAsk]int{}, nil
	b.bookings, b.journal, b.marks = nil, nil, 0
	b.grown++
}

// Set tells what a node is like now, new or known.
func (b *Board) Set(n Node) { b.Update([]Node{n}, nil) }

// Remove takes a node off the board.
func (b *Board) Remove(id cloud.NodeID) { b.Update(nil, []cloud.NodeID{id}) }

// Update tells what nodes are like now, and which are gone.
func (b *Board) Update(now []Node, gone []cloud.NodeID) {
	var other []Node // new, or not to be told in their old places
	for i := range now {
		if k, known := b.at[now[i].ID]; known && b.fits(&b.nodes[k].src, &now[i]) {
			b.grown++
			b.read(k, &now[i])
		} else {
			other = append(other, now[i])
		}
	}
	gone = slices.DeleteFunc(slices.Clone(gone), func(id cloud.NodeID) bool { _, known := b.at[id]; return !known })
	if len(other)+len(gone) == 0 {
		return
	}
	drop := make(map[cloud.NodeID]bool, len(gone)+len(other))
	for _, id := range gone {
		drop[id] = true
	}
	for i := range other {
		drop[other[i].ID] = true
	}
	for i := range b.nodes {
		if n := b.nodes[i].now(); !drop[n.ID] {
			other = append(other, n)
		}
	}
	b.build(other)
}

// fits reports whether a node can be told anew without numbering anything anew.
func (b *Board) fits(was, now *Node) bool {
	return was.Pool == now.Pool && was.Simulated == now.Simulated &&
		!slices.ContainsFunc(now.GPUs, func(g GPU) bool { return !slices.Contains(b.makes, makeOf(&g)) })
}

// Reweigh goes on with another mix.
func (b *Board) Reweigh(mix []Share) {
	b.policy.Mix, b.stale = mix, true
}

func makeOf(g *GPU) cardMake { return cardMake{g.Model, g.Mode, g.Geometry} }

// read takes a node in at its place.
func (b *Board) read(i int, src *Node) {
	n := &b.nodes[i]
	if b.sketch {
		b.draw(n, src)
		return
	}
	was := *n
	for k := range was.gpus {
		b.count(&was.gpus[k], -1)
	}
	*n = node{src: *src, open: src.State == cloud.NodeReady && !src.Drained, vcpu: src.FreeVCPU, memory: src.FreeMemoryMiB, gpus: make([]card, len(src.GPUs))}
	n.src.GPUs = slices.Clone(src.GPUs)
	slices.SortFunc(n.src.GPUs, func(x, y GPU) int { return bytes.Compare(x.ID[:], y.ID[:]) })
	for k := range n.gpus {
		g := &n.src.GPUs[k]
		geo, _ := gpu.GeometryByName(g.Geometry)
		c := &n.gpus[k]
		*c = card{src: g, make: uint8(min(slices.Index(b.makes, makeOf(g)), lastMake)), geo: geo, ready: g.State == cloud.GPUReady && !g.Changing, counted: -1}
		if g.Mode == cloud.ModeMIG || g.Mode == cloud.ModeVGPU {
			c.layouts = packing.LayoutsOf(g.Geometry)
		}
		c.state = stateOf(c)
	}
	if n.topology = was.topology; !was.alike(n) {
		n.topology = nil
	}
	n.fabric = newFabric(n.gpus, src.Partitions)
	facets := was.capacity()
	n.facet()
	if !slices.Equal(facets, n.capacity()) {
		b.stale = true
	}
	b.changed(i)
}

// draw takes in what counting needs of a node, whose cards stay the snapshot's.
func (b *Board) draw(n *node, src *Node) {
	*n = node{src: *src, open: src.State == cloud.NodeReady && !src.Drained, vcpu: src.FreeVCPU, memory: src.FreeMemoryMiB, gpus: make([]card, len(src.GPUs))}
	for k := range n.gpus {
		g, c := &n.src.GPUs[k], &n.gpus[k]
		geo, _ := gpu.GeometryByName(g.Geometry)
		*c = card{src: g, make: uint8(min(slices.Index(b.makes, makeOf(g)), lastMake)), geo: geo, ready: g.State == cloud.GPUReady && !g.Changing}
		c.state = state{own: g.Used, taken: g.Taken, org: g.Org}
		c.settle(c)
	}
	n.fabric = newFabric(n.gpus, src.Partitions)
}

// stateOf is a card's state as it was told.
func stateOf(c *card) state {
	s := state{own: c.src.Used, used: c.src.Used, taken: c.src.Taken, org: c.src.Org, layout: -1}
	if c.layouts != nil {
		known := len(c.src.Slices) > 0
		var used gpu.Used
		for _, p := range c.src.Slices {
			cut, ok := c.geo.Cut(p.Class)
			if known = known && ok && cut.FreeAt(used, p.Start); !known {
				break
			}
			used = cut.Take(used, p.Start)
			s.held[p.Start] = int8(c.geo.Index(p.Class) + 1)
		}
		if !known || used.Mask != c.src.Used.Mask || used.Media != c.src.Used.Media {
			s.held = packing.Held{}
			if l := c.layouts.Like(c.src.Used); l >= 0 {
				s.held = c.layouts.Held(l)
			}
		}
	}
	s.settle(c)
	return s
}

// now is the node as a snapshot would tell of it.
func (n *node) now() Node {
	out := n.src
	out.FreeVCPU, out.FreeMemoryMiB = n.vcpu, n.memory
	out.GPUs = slices.Clone(n.src.GPUs)
	for k := range out.GPUs {
		c := &n.gpus[k]
		g := &out.GPUs[k]
		g.Used, g.Taken, g.Org, g.Slices = c.own, c.taken, c.org, nil
		for start, p := range c.held {
			if c.layouts != nil && p > 0 {
				g.Slices = append(g.Slices, gpu.Place{Class: c.geo.Profiles[p-1].Class, Start: start})
			}
		}
	}
	return out
}

// alike reports whether two nodes' cards are joined in the same way.
func (n *node) alike(o *node) bool {
	return slices.EqualFunc(n.gpus, o.gpus, func(x, y card) bool {
		return x.src.PCIAddress == y.src.PCIAddress && x.src.NUMANode == y.src.NUMANode && slices.Equal(x.src.NVLink, y.src.NVLink)
	})
}

// assignment names what was picked.
func (n *node) assignment(w *want, picks []pick) Assignment {
	a := Assignment{NodeID: n.src.ID, Topology: n.words(picks)}
	for _, p := range picks {
		c := &n.gpus[p.card]
		d := Device{GPUID: c.src.ID, Mode: w.shape.GPUMode, Profile: w.shape.GPUProfile, Slots: gpu.WholeSlots, Units: w.units}
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
