package placement

import (
	"slices"

	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/gpu"
)

// laidOutFor reports whether a card has a place for such a slice at all.
func (c *card) laidOutFor(cut *gpu.Cut) bool {
	if c.src.Fixed == nil {
		return true
	}
	for _, p := range c.src.Fixed {
		if p.Profile == cut.Profile.Class {
			return true
		}
	}
	return false
}

// bestStart is where a slice goes on a card: of a fixed layout to the last free
// place of its own, otherwise where it breaks least.
func (c *card) bestStart(cut *gpu.Cut, used gpu.Used) (start int, b gpu.Broken, ok bool) {
	if c.src.Fixed == nil {
		if start, ok = cut.BestStart(used); ok {
			b = cut.Breaks(used, start)
		}
		return start, b, ok
	}
	start = -1
	for _, p := range c.src.Fixed {
		if p.Profile == cut.Profile.Class && p.SlotStart > start && cut.FreeAt(used, p.SlotStart) {
			start = p.SlotStart
		}
	}
	return max(start, 0), gpu.Broken{}, start >= 0
}

// more is how many further slices fit on a card at once.
func (c *card) more(cut *gpu.Cut, used gpu.Used) int {
	if c.src.Fixed == nil {
		return cut.More(used)
	}
	n := 0
	for _, p := range c.src.Fixed {
		if p.Profile == cut.Profile.Class && cut.FreeAt(used, p.SlotStart) {
			n++
		}
	}
	return n
}

// unready says why a card takes no new work.
func (c *card) unready() Code {
	switch {
	case c.src.State == cloud.GPUCleaning:
		return GPUCleaning
	case c.src.State == cloud.GPUNeedsReset:
		return GPUNeedsReset
	case c.src.State == cloud.GPUReady && c.src.Changing:
		return GPUChanging
	}
	return GPUNotReady
}

// bundled reports whether a card goes to the want only together with others: what
// shares its isolation group with another card goes to a VM with that or not.
func (w *want) bundled(c *card) bool {
	return (c.src.Bundled || c.src.NotForVM) && w.kind == cloud.KindVM && w.shape.GPUMode == cloud.ModeWhole
}

// alone reports whether a card can be given to the want, by itself or because the
// want is for as many as go with it.
func (w *want) alone(c *card) bool {
	return !w.bundled(c) || !c.src.NotForVM && len(c.src.Bundle) > 0 && len(c.src.Bundle)+1 == w.shape.GPUCount
}

// bundle picks the cards of one bundle that is just what a VM asks for.
func (n *node) bundle(w *want, picks []pick) []pick {
	free := func(i int) bool {
		c := &n.gpus[i]
		return c.ready && c.used.Mask == 0 && w.suits(c) && !n.parted(w, i)
	}
	for i := range n.gpus {
		c := &n.gpus[i]
		if !w.bundled(c) || !w.alone(c) || !free(i) {
			continue
		}
		picks = append(picks[:0], pick{i, -1})
		for j := range n.gpus {
			if j != i && slices.Contains(c.src.Bundle, n.gpus[j].src.PCIAddress) && free(j) {
				picks = append(picks, pick{j, -1})
			}
		}
		if len(picks) == w.shape.GPUCount {
			return picks
		}
	}
	return picks[:0]
}

// joins reports whether shares of a card may be the want's organisation's.
func (w *want) joins(c *card) bool {
	return w.shape.GPUMode != cloud.ModeShared || c.org.IsZero() || c.org == w.org
}
