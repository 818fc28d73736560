package placement

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/tenon-cloud/tenon/internal/cloud"
)

// fabric is how NVSwitches part a node's cards: a VM gets the cards of exactly one
// partition, or cards that hang on no switch.
type fabric struct {
	parts []partition
	bound []bool // by card: it is in a partition, so that a VM gets it only as one
	sizes []int  // of partitions, ascending
	apart uint64 // cards of partitions that others have active
}

// partition is a set of cards, as positions on the node; only the first 64 can be.
type partition struct {
	cards []int
	mask  uint64
}

// newFabric leaves out a partition with a card that is not on the node: it can't
// be had, and neither can its other cards but by other partitions.
func newFabric(cards []card, list []cloud.Partition) *fabric {
	if len(list) == 0 {
		return nil
	}
	at := make(map[string]int, len(cards))
	for i, c := range cards {
		at[c.src.PCIAddress] = i
	}
	f := &fabric{bound: make([]bool, len(cards))}
	list = slices.SortedFunc(slices.Values(list), func(a, b cloud.Partition) int { return cmp.Compare(a.ID, b.ID) })
	for _, p := range list {
		var q partition
		whole := len(p.GPUs) > 0
		for _, address := range p.GPUs {
			i, ok := at[address]
			if ok {
				f.bound[i] = true
			}
			if !ok || i >= 64 || q.mask&(1<<i) != 0 {
				whole = false
				continue
			}
			q.cards, q.mask = append(q.cards, i), q.mask|1<<i
		}
		if p.Foreign {
			f.apart |= q.mask
		}
		if whole {
			slices.Sort(q.cards)
			f.parts, f.sizes = append(f.parts, q), append(f.sizes, len(q.cards))
		}
	}
	slices.Sort(f.sizes)
	f.sizes = slices.Compact(f.sizes)
	return f
}

// parted reports whether the want takes a card only as a part of its partition.
func (n *node) parted(w *want, i int) bool {
	return n.fabric != nil && w.kind == cloud.KindVM && w.shape.GPUMode == cloud.ModeWhole && n.fabric.bound[i]
}

// fitPartition takes the free partition of as many cards as asked for that breaks
// the fewest larger free ones. What isn't bound to partitions prefers one too.
func (n *node) fitPartition(w *want, picks []pick) (cost, []pick, bool) {
	free := n.partitionable(w, true)
	var best *partition
	var least cost
	for i := range n.fabric.parts {
		p := &n.fabric.parts[i]
		if len(p.cards) != w.shape.GPUCount || p.mask&^free != 0 {
			continue
		}
		c := n.joints().cost(p.cards, p.cards)
		c.broken = 0
		for _, q := range n.fabric.parts {
			if len(q.cards) > len(p.cards) && q.mask&p.mask != 0 && q.mask&^free == 0 {
				c.broken++
			}
		}
		if best == nil || c.broken < least.broken || c.broken == least.broken && c.less(least) {
			best, least = p, c
		}
	}
	if best == nil {
		return cost{}, picks, false
	}
	for _, i := range best.cards {
		picks = append(picks, pick{i, -1})
	}
	return least, picks, true
}

// partitionable are the cards that a partition for the want may have: now, or were
// the node empty and well.
func (n *node) partitionable(w *want, now bool) uint64 {
	var out uint64
	for i := range n.gpus[:min(len(n.gpus), 64)] {
		if c := &n.gpus[i]; w.suits(c) && w.alone(c) && !w.bundled(c) && (!now || c.ready && c.used.Mask == 0) {
			out |= 1 << i
		}
	}
	if now && w.kind == cloud.KindVM {
		out &^= n.fabric.apart
	}
	return out
}

// partitions is how many VMs could have a partition each at once.
func (n *node) partitions(w *want, now bool) int {
	cards := n.partitionable(w, now)
	var masks []uint64
	for _, p := range n.fabric.parts {
		if len(p.cards) == w.shape.GPUCount && p.mask&^cards == 0 {
			masks = append(masks, p.mask)
		}
	}
	tries := 1 << 10
	return disjoint(masks, &tries)
}

// disjoint is how many sets there are at most of which no two overlap. Boards list
// sets of one size that never do; of others, so many ways are tried.
func disjoint(sets []uint64, tries *int) int {
	if len(sets) == 0 {
		return 0
	}
	var rest []uint64
	for _, s := range sets[1:] {
		if s&sets[0] == 0 {
			rest = append(rest, s)
		}
	}
	out := 1 + disjoint(rest, tries)
	if *tries--; len(rest) < len(sets)-1 && *tries > 0 {
		out = max(out, disjoint(sets[1:], tries))
	}
	return out
}

// noPartition reports that a VM gets no partition of the node though enough fitting
// cards are free: those that hang on no switch are too few.
func (n *node) noPartition(w *want) bool {
	return w.kind == cloud.KindVM && w.shape.GPUMode == cloud.ModeWhole && n.looseDevices(w) < w.shape.GPUCount && n.partitions(w, true) == 0
}

// wrongSize reports that a VM asks for a number of cards that no partition has, of
// a board whose cards are otherwise what it asks for.
func (n *node) wrongSize(w *want) bool {
	if w.kind != cloud.KindVM || w.shape.GPUMode != cloud.ModeWhole || slices.Contains(n.fabric.sizes, w.shape.GPUCount) {
		return false
	}
	bound, loose := 0, 0
	for i := range n.gpus {
		switch {
		case !w.like(&n.gpus[i]):
		case n.fabric.bound[i]:
			bound++
		default:
			loose++
		}
	}
	return bound > 0 && loose < w.shape.GPUCount && len(n.fabric.sizes) > 0
}

// looseDevices are the free cards for the want that are in no partition.
func (n *node) looseDevices(w *want) int {
	out := 0
	for i := range n.gpus {
		if !n.parted(w, i) {
			_, devices := n.gpus[i].explain(w)
			out += devices
		}
	}
	return out
}

// sizesText is "1, 2, 4 or 8 GPUs".
func sizesText(sizes []int) string {
	slices.Sort(sizes)
	sizes = slices.Compact(sizes)
	var out strings.Builder
	for i, s := range sizes {
		switch {
		case i > 0 && i == len(sizes)-1:
			out.WriteString(" or ")
		case i > 0:
			out.WriteString(", ")
		}
		fmt.Fprint(&out, s)
	}
	if len(sizes) == 1 && sizes[0] == 1 {
		return out.String() + " GPU"
	}
	return out.String() + " GPUs"
}
