package placement

import (
	"math"
	"slices"

	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/gpu"
	"github.com/tenon-cloud/tenon/internal/packing"
)

// cut is a card of a node that is cut, for all that are cut alike.
type cut struct {
	card   int16
	make   uint8
	layout int32 // -1: laid out for good, or in equal parts
}

// settle finds what follows from what is held and blocked.
func (s *state) settle(c *card) {
	s.used = s.own
	s.used.Mask |= s.blocked
	s.layout = -1
	switch {
	case c.layouts != nil && s.blocked == 0:
		s.layout = c.layouts.Number(s.held)
	case c.layouts != nil:
		s.layout = c.layouts.Like(gpu.Used{Mask: s.used.Mask, Media: s.used.Media})
	case c.src.Units > 0 && s.used.Mask == 0 && s.taken+s.kept > 0:
		s.used.Mask = 1 // no longer to be had whole
	}
}

// units are what is free of a card that has them.
func (c *card) units() int {
	if c.own.Mask != 0 || c.blocked != 0 {
		return 0
	}
	return c.src.Units - c.taken - c.kept
}

// thousandths of a card are free, as packing counts them.
func (c *card) thousandths() int16 {
	switch {
	case !c.ready:
		return 0
	case c.used.Mask == 0:
		return packing.Milli
	case c.src.Units > 0:
		return int16(max(0, c.units()) * packing.Milli / c.src.Units)
	case c.geo == nil || c.geo.Slots == 0 || len(c.geo.Profiles) == 0:
		return 0
	}
	return int16(c.geo.Free(c.used) * packing.Milli / c.geo.Slots)
}

// facet parts a node's cards by make.
func (n *node) facet() {
	for i := range n.gpus {
		c := &n.gpus[i]
		f := slices.IndexFunc(n.facets, func(f packing.Node) bool { return f.Model == c.make && f.Cards < packing.MaxCards })
		if f < 0 {
			f = len(n.facets)
			n.facets = append(n.facets, packing.Node{Model: c.make})
		}
		c.facet, c.spot = int8(f), int8(n.facets[f].Cards)
		n.facets[f].Cards++
	}
	if len(n.facets) == 0 {
		n.facets = make([]packing.Node, 1)
	}
	n.values = make([]float64, len(n.facets))
}

// capacity is the facets with nothing on them.
func (n *node) capacity() []packing.Node {
	out := slices.Clone(n.facets)
	for i := range out {
		f := &out[i]
		f.CPUMilli, f.MemoryMiB = int32(n.src.VCPU), small(n.src.MemoryMiB)
		for k := range f.Free {
			f.Free[k] = 0
			if k < int(f.Cards) {
				f.Free[k] = packing.Milli
			}
		}
	}
	return out
}

func small(n int64) int32 { return int32(min(max(n, 0), math.MaxInt32)) }

// changed looks at a node again.
func (b *Board) changed(i int) {
	n := &b.nodes[i]
	n.valued, n.cuts = false, n.cuts[:0]
	for f := range n.facets {
		n.facets[f].CPUMilli, n.facets[f].MemoryMiB = small(int64(n.vcpu)*int64(b.milli)), small(n.memory)
	}
	for k := range n.gpus {
		c := &n.gpus[k]
		n.facets[c.facet].Free[c.spot] = c.thousandths()
		open := n.open && c.ready && c.layout >= 0 && c.src.Fixed == nil
		to := int32(-1)
		if open {
			to = c.layout
		}
		b.count(c, to)
		if n.open && c.ready && c.geo != nil && c.src.Mode != cloud.ModeWhole && c.geo.Free(c.used) > 0 {
			n.addCut(cut{int16(k), c.make, to})
		}
	}
	b.table.Touch(i)
}

// addCut leaves out a card that is cut like one before.
func (n *node) addCut(x cut) {
	for _, o := range n.cuts {
		if o.make == x.make && o.layout == x.layout && x.layout >= 0 {
			return
		}
	}
	n.cuts = append(n.cuts, x)
}

// count tells the prices of a card's make what layout it has.
func (b *Board) count(c *card, layout int32) {
	if c.counted == layout {
		return
	}
	if p := b.prices[c.make]; p != nil {
		if c.counted >= 0 {
			p.Leave(c.counted)
		}
		if layout >= 0 {
			p.Enter(layout)
		}
	}
	c.counted = layout
}

// price makes the prices of every make that is cut by MIG.
func (b *Board) price() {
	b.prices = make([]*packing.Prices, max(len(b.makes), 1))
	for m, x := range b.makes {
		if l := packing.LayoutsOf(x.geometry); l != nil && m < lastMake && (x.mode == cloud.ModeMIG || x.mode == cloud.ModeVGPU) {
			b.prices[m] = packing.NewPrices(l, b.profiles(m))
		}
	}
}

// weigh makes what scores rest on, when that has changed.
func (b *Board) weigh() {
	if !b.stale {
		return
	}
	b.stale = false
	for m, p := range b.prices {
		if p != nil {
			p.Reweigh(b.profiles(m))
		}
	}
	var empty []packing.Node
	for i := range b.nodes {
		for _, f := range b.nodes[i].capacity() {
			f.CPUMilli = small(int64(f.CPUMilli) * int64(b.milli))
			empty = append(empty, f)
		}
		b.nodes[i].valued = false
	}
	mix := make([]packing.Share, 0, len(b.policy.Mix))
	for i := range b.policy.Mix {
		s := &b.policy.Mix[i]
		if w := newWant(b, &s.Request); w.bad == "" {
			mix = append(mix, packing.Share{Request: w.kindOf(), Weight: s.Weight * w.times()})
		}
	}
	b.fit = packing.NewFit(empty, mix, b.policy.Weights)
	b.table.Forget()
}

// unheard is how much of a mix is kept for profiles that nobody asked for yet: a
// cluster that has only seen small slices shall not spread them over all cards.
const unheard = 0.03

// profiles is how often each profile of a make's geometry is asked for.
func (b *Board) profiles(m int) []float64 {
	geo, err := gpu.GeometryByName(b.makes[m].geometry)
	if err != nil {
		return nil
	}
	out := make([]float64, len(geo.Profiles))
	for i := range b.policy.Mix {
		s := &b.policy.Mix[i]
		if w := newWant(b, &s.Request); w.bad == "" && w.makes>>m&1 != 0 && w.cut(geo) != nil {
			out[w.profile(geo)] += s.Weight * float64(w.shape.GPUCount)
		}
	}
	total := 0.0
	for _, v := range out {
		total += v
	}
	for i := range out {
		if out[i] == 0 && !geo.Profiles[i].Media {
			out[i] = total * unheard / float64(len(out))
		}
	}
	return out
}
