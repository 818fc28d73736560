package placement

import (
	"github.com/tenon-cloud/tenon/internal/cloud"
)

// score orders places: lower is better, hi before lo.
type score struct{ hi, lo uint64 }

func (s score) less(o score) bool { return s.hi < o.hi || s.hi == o.hi && s.lo < o.lo }

// pack puts saturated fields of 12 bits side by side, the first the most
// important.
func pack(fields ...int) uint64 {
	var out uint64
	for _, f := range fields {
		out = out<<12 | uint64(min(max(f, 0), 1<<12-1))
	}
	return out
}

// fit finds the best place for one member on a node. picks is reused and
// returned; ok is false when there is none.
func (n *node) fit(w *want, picks []pick) (score, []pick, bool) {
	picks = picks[:0]
	if !n.open || !n.takes(w) || n.vcpu < w.shape.VCPU || n.memory < w.shape.MemoryMiB {
		return score{}, picks, false
	}
	var hi uint64
	ok := true
	switch {
	case w.shape.GPUCount == 0:
		// Away from cards first, then from free ones.
		some := 0
		if len(n.gpus) > 0 {
			some = 1
		}
		hi = pack(some, n.slack)
	case w.shape.GPUMode == cloud.ModeWhole:
		hi, picks, ok = n.fitWhole(w, picks)
	default:
		hi, picks, ok = n.fitSlices(w, picks)
	}
	if !ok {
		return score{}, picks, false
	}
	// Best fit on the host: the least left of vCPU and of memory, each in
	// 4,096ths of what the node sells.
	cpu := share(int64(n.vcpu-w.shape.VCPU), int64(n.src.VCPU))
	mem := share(n.memory-w.shape.MemoryMiB, n.src.MemoryMiB)
	return score{hi, pack((cpu+mem)/2, cpu)}, picks, true
}

func share(left, of int64) int {
	if of <= 0 || left <= 0 {
		return 0
	}
	return int(float64(left) / float64(of) * 4095)
}

// fitSlices takes for each slice the fullest card that has a start, and there
// the start that breaks least. Slices of one class never get in each other's
// way, so that taking them one by one finds a place whenever there is one.
func (n *node) fitSlices(w *want, picks []pick) (uint64, []pick, bool) {
	var left, broken, slots int
	for len(picks) < w.shape.GPUCount {
		best := pick{card: -1}
		var bestKey uint64
		var free int
		for i := range n.gpus {
			c := &n.gpus[i]
			if !c.ready || !w.suits(c) || !w.joins(c) {
				continue
			}
			cut := w.cut(c.geo)
			used := c.used
			for _, p := range picks {
				if p.card == i {
					used = cut.Take(used, p.start)
				}
			}
			start, b, ok := c.bestStart(cut, used)
			if !ok {
				continue
			}
			rest := c.geo.Free(used) - cut.Profile.Slots
			if key := pack(rest, b.Starts, b.Slots); best.card < 0 || key < bestKey {
				best, bestKey, free = pick{i, start}, key, rest
			}
		}
		if best.card < 0 {
			return 0, picks, false
		}
		left += free
		broken += int(bestKey >> 12 & 0xfff)
		slots += int(bestKey & 0xfff)
		picks = append(picks, best)
	}
	return pack(left, broken, slots, n.slack), picks, true
}

// fitWhole takes free cards, by topology.
func (n *node) fitWhole(w *want, picks []pick) (uint64, []pick, bool) {
	count := w.shape.GPUCount
	if n.fabric != nil {
		if hi, picks, ok := n.fitPartition(w, picks); ok {
			return hi, picks, true
		}
	}
	var free []int
	for i := range n.gpus {
		if c := &n.gpus[i]; c.ready && c.used.Mask == 0 && w.suits(c) && !w.bundled(c) && !n.parted(w, i) {
			free = append(free, i)
		}
	}
	if len(free) < count {
		picks = n.bundle(w, picks)
		return pack(0, 0, 0, 0, n.slack), picks, len(picks) == count
	}
	if n.topology == nil {
		n.topology = newTopology(n.gpus)
	}
	chosen, cost := n.topology.choose(free, count)
	for _, i := range chosen {
		picks = append(picks, pick{i, -1})
	}
	return pack(cost.unlinked, cost.numa, cost.broken, len(free)-count, n.slack), picks, true
}
