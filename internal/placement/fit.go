package placement

import (
	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/packing"
)

// pick is one device of a candidate place, before it is taken.
type pick struct {
	card  int
	start int // -1: the whole card, or a part of any size
}

// score is how well a member of a class would lie on a node, for the table. Of
// slices and equal parts it is what the host says: which card is best changes with
// every other card.
func (b *Board) score(id, i int) (packing.Key, int8) {
	w, n := b.classes[id].want, &b.nodes[i]
	if !n.open || n.vcpu < w.shape.VCPU || n.memory < w.shape.MemoryMiB || !n.in(w) || !n.takes(w) {
		return 0, -1
	}
	before := uint32(0)
	switch {
	case w.shape.GPUCount == 0:
		if len(n.gpus) > 0 {
			before = 1
		}
	case w.units > 0:
		if !n.hasUnits(w) {
			return 0, -1
		}
	case w.shape.GPUMode == cloud.ModeWhole:
		var ok bool
		if before, b.picks, ok = n.fitWhole(w, b.picks, &b.free); !ok {
			return 0, -1
		}
	default:
		if !n.mayCut(w) {
			return 0, -1
		}
	}
	score, card := b.leaves(n, w)
	if w.units > 0 && card < 0 {
		return 0, -1
	}
	return packing.KeyOf(before, score), int8(card)
}

// leaves is what a place leaves of the node's room, by the mix, and the card that a
// part of any size is best on.
func (b *Board) leaves(n *node, w *want) (float32, int) {
	if !n.valued {
		for f := range n.facets {
			n.values[f] = b.fit.Value(&n.facets[f])
		}
		n.valued = true
	}
	if len(n.facets) == 1 {
		score, spot := b.onFacet(n, 0, &w.ask)
		return score, n.cardAt(0, spot)
	}
	// What cards of another make lose is only the host's.
	host := packing.Request{CPUMilli: w.ask.CPUMilli, MemoryMiB: w.ask.MemoryMiB}
	sum := float32(float64(len(n.facets)-1) * b.fit.Unused(small(int64(n.vcpu)*int64(b.milli))-w.ask.CPUMilli))
	others := make([]float32, len(n.facets))
	for f := range n.facets {
		others[f], _ = b.onFacet(n, f, &host)
		sum += others[f]
	}
	if w.ask.Cards == 0 {
		return sum, -1
	}
	best, card, found := sum, -1, false
	for f := range n.facets {
		x := &n.facets[f]
		ask := w.ask
		if ask.Milli == packing.Milli {
			ask.Cards = min(ask.Cards, uint8(x.Whole()))
		}
		if !ask.Takes(x.Model) || x.Cards == 0 || ask.Cards == 0 {
			continue
		}
		if w.units > 0 && !x.Fits(&ask) {
			continue
		}
		own, spot := b.onFacet(n, f, &ask)
		if s := sum - others[f] + own; !found || s > best {
			best, card, found = s, n.cardAt(f, spot), true
		}
	}
	return best, card
}

func (b *Board) onFacet(n *node, f int, ask *packing.Request) (float32, int) {
	x := &n.facets[f]
	if ask.Shared() && !x.Fits(ask) {
		return 0, -1
	}
	score, spot, _ := b.fit.Score(x, n.values[f], ask)
	return score, spot
}

// cardAt is the card at a spot of a facet.
func (n *node) cardAt(facet, spot int) int {
	if spot < 0 {
		return -1
	}
	if len(n.facets) == 1 {
		return spot
	}
	for i := range n.gpus {
		if int(n.gpus[i].facet) == facet && int(n.gpus[i].spot) == spot {
			return i
		}
	}
	return -1
}

// hasUnits reports whether a card has as many units free.
func (n *node) hasUnits(w *want) bool {
	for i := range n.gpus {
		if c := &n.gpus[i]; c.ready && w.suits(c) && c.src.Units > 0 && c.units() >= w.units {
			return true
		}
	}
	return false
}

// mayCut reports whether the node has a card that is cut as the want needs it and
// not full.
func (n *node) mayCut(w *want) bool {
	for i := range n.cuts {
		if w.suits(&n.gpus[n.cuts[i].card]) {
			return true
		}
	}
	return false
}

// before packs what comes before the score: pairs without NVLink, NUMA nodes, and
// what is broken.
func before(c cost) uint32 {
	return uint32(min(c.unlinked, 1<<10-1))<<22 | uint32(min(c.numa, 1<<6-1))<<16 | uint32(min(c.broken, 1<<16-1))
}

// fitWhole takes free cards, by topology. free is scratch.
func (n *node) fitWhole(w *want, picks []pick, free *[]int) (uint32, []pick, bool) {
	picks = picks[:0]
	count := w.shape.GPUCount
	if n.fabric != nil {
		if c, picks, ok := n.fitPartition(w, picks); ok {
			return before(c), picks, true
		}
	}
	have := (*free)[:0]
	for i := range n.gpus {
		if c := &n.gpus[i]; c.ready && c.used.Mask == 0 && w.suits(c) && !w.bundled(c) && !n.parted(w, i) {
			have = append(have, i)
		}
	}
	*free = have
	if len(have) < count {
		picks = n.bundle(w, picks)
		return 0, picks, len(picks) == count
	}
	chosen, c := n.joints().choose(have, count)
	for _, i := range chosen {
		picks = append(picks, pick{i, -1})
	}
	return before(c), picks, true
}

// joints is how the node's cards are joined.
func (n *node) joints() *topology {
	if n.topology == nil {
		n.topology = newTopology(n.gpus)
	}
	return n.topology
}
