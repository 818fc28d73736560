package placement

import "github.com/tenon-cloud/tenon/internal/cloud"

// refuse says why nothing was found, looking at every node of the pool.
func (b *Board) refuse(w *want, members int) Refusal {
	if w.bad != "" {
		return Refusal{NeverFits: true, Reasons: []Reason{{Code: w.bad, Count: 1}}}
	}
	if len(b.pools[w.pool]) == 0 {
		return Refusal{Reasons: []Reason{{Code: PoolEmpty, Count: 1}}}
	}
	t := tally{}
	home := false
	var sizes []int
	for _, i := range b.pools[w.pool] {
		n := &b.nodes[i]
		home = home || n.src.ID == w.home
		if n.explain(w, t); n.fabric != nil && n.open && n.takes(w) && n.wrongSize(w) {
			sizes = append(sizes, n.fabric.sizes...)
		}
	}
	reasons := t.reasons()
	for i := range reasons {
		if reasons[i].Code == NodePartSize {
			reasons[i].Sizes = sizesText(sizes)
		}
	}
	if !w.home.IsZero() && !home { // it has left the pool, or is not known now
		return Refusal{Reasons: reasons}
	}
	return Refusal{NeverFits: b.neverFits(w, members), Reasons: reasons}
}

// neverFits reports that all nodes of the pool, were they empty and ready, could
// not take the members.
func (b *Board) neverFits(w *want, members int) bool {
	if w.bad != "" {
		return true
	}
	room := 0
	for _, i := range b.pools[w.pool] {
		if room += b.nodes[i].room(w); room >= members {
			return false
		}
	}
	return len(b.pools[w.pool]) > 0
}

// explain adds the reasons for which a node takes no member.
func (n *node) explain(w *want, t tally) {
	switch {
	case !w.home.IsZero() && w.home != n.src.ID:
		t[VolumeElsewhere]++
		return
	case n.src.State != cloud.NodeReady:
		t[NodeNotReady]++
		return
	case n.src.Drained:
		t[NodeDrained]++
		return
	case !n.runs(w.kind):
		t[KindUnsupported]++
		return
	case w.shape.GPUCount > 0 && len(n.gpus) == 0:
		t[NodeNoGPU]++
		return
	case n.fabric != nil && n.wrongSize(w):
		t[NodePartSize]++
		return
	}
	if w.shape.GPUCount > 0 {
		why := tally{}
		fitting := 0
		for i := range n.gpus {
			code, devices := n.gpus[i].explain(w)
			if n.fabric != nil && devices > 0 && n.parted(w, i) && n.fabric.apart&(1<<i) != 0 {
				code, devices = GPUBusy, 0 // others have it joined
			}
			fitting += devices
			if devices == 0 {
				why[code]++
			}
		}
		if fitting < w.shape.GPUCount {
			if fitting > 0 {
				t[NodeFewGPUs]++
			}
			for code, count := range why {
				t[code] += count
			}
			return
		}
		if n.fabric != nil && n.noPartition(w) {
			t[NodePartition]++
			return
		}
	}
	short := false
	if n.vcpu < w.shape.VCPU {
		t[NodeVCPU]++
		short = true
	}
	if n.memory < w.shape.MemoryMiB {
		t[NodeMemory]++
		short = true
	}
	if !short {
		t[NodeMembers]++
	}
}

// explain says how many devices of the want a card could give now and, when
// none, why.
func (c *card) explain(w *want) (Code, int) {
	switch {
	case !w.takesModel(c.src.Model):
		return GPUModel, 0
	case c.src.Mode != w.shape.GPUMode:
		return GPUMode, 0
	case w.bundled(c) && c.src.NotForVM:
		return GPUNotForVM, 0
	case !w.alone(c):
		return GPUBundle, 0
	case !c.ready:
		return c.unready(), 0
	case !w.joins(c):
		return GPUShares, 0
	case w.units > 0:
		if parts := c.units() / w.units; parts > 0 {
			return "", parts
		}
		return GPUMemory, 0
	case w.shape.GPUMode == cloud.ModeWhole:
		if c.used.Mask != 0 {
			return GPUBusy, 0
		}
		return "", 1
	}
	cut := w.cut(c.geo)
	switch {
	case cut == nil:
		return GPUProfile, 0
	case !c.laidOutFor(cut):
		return GPULayout, 0
	case c.used.Media && cut.Profile.Media:
		return GPUMedia, 0
	}
	if more := c.more(cut, c.used); more > 0 {
		return "", more
	}
	if c.src.Fixed != nil {
		return GPUBusy, 0
	}
	if c.geo.Fragmented(c.used, cut.Profile.Class) {
		return Fragmented, 0
	}
	return GPUBusy, 0
}
