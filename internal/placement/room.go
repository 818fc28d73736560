package placement

// Room is how many instances like the request would find a place now if nothing
// else waited, for offers and dry runs.
func Room(s Snapshot, r Request) int {
	b := &Board{milli: 1000, sketch: true}
	b.build(s.Nodes)
	return b.Room(r)
}

// Room is how many more would find a place beside what is booked.
func (b *Board) Room(r Request) int {
	w := newWant(b, &r)
	if w.bad != "" {
		return 0
	}
	total := 0
	for _, i := range b.pools[r.Pool] {
		if n := &b.nodes[i]; n.open && n.takes(w) {
			total += n.roomFor(w, n.vcpu, n.memory, n.freePlaces)
		}
	}
	return total
}

// room is how many members a node could take if it were empty and ready.
func (n *node) room(w *want) int {
	// Kinds come and go with an engine that is started again, so they are no reason
	// for never.
	if !w.home.IsZero() && w.home != n.src.ID {
		return 0
	}
	return n.roomFor(w, n.src.VCPU, n.src.MemoryMiB, n.allPlaces)
}

// roomFor divides what there is by what one member takes.
func (n *node) roomFor(w *want, vcpu int, memory int64, places func(*want) int) int {
	const plenty = 1 << 20 // of a shape that asks for nothing
	out := plenty
	if w.shape.VCPU > 0 {
		out = min(out, max(vcpu, 0)/w.shape.VCPU)
	}
	if w.shape.MemoryMiB > 0 {
		out = min(out, int(max(memory, 0)/w.shape.MemoryMiB))
	}
	if w.shape.GPUCount > 0 {
		out = min(out, places(w))
	}
	return out
}

// freePlaces is for how many members there are free devices. Those of one shape
// don't get in each other's way, so that counting them is exact; what is only had
// by partitions is counted by those.
func (n *node) freePlaces(w *want) int {
	out, parted := 0, false
	for i := range n.gpus {
		if n.parted(w, i) {
			parted = true
			continue
		}
		_, devices := n.gpus[i].explain(w)
		out += devices
	}
	if out /= w.shape.GPUCount; parted {
		out += n.partitions(w, true)
	}
	return out
}

// allPlaces is that with nothing on the node and all of it well.
func (n *node) allPlaces(w *want) int {
	out, parted := 0, false
	for i := range n.gpus {
		if n.parted(w, i) {
			parted = true
			continue
		}
		c := n.gpus[i]
		c.ready, c.state = true, state{layout: -1}
		_, devices := c.explain(w)
		out += devices
	}
	if out /= w.shape.GPUCount; parted {
		out += n.partitions(w, false)
	}
	return out
}
