package placement

import (
	"slices"

	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/gpu"
	"github.com/tenon-cloud/tenon/internal/queue"
)

// Booking is what was placed, by number; 0: nothing.
type Booking = queue.Booking

var _ queue.Fleet = (*Board)(nil)

type booking struct {
	class   int
	live    bool
	blocked bool
	members []member
}

type member struct {
	node  int32
	picks []pick
}

// change is one thing that can be undone.
type change struct {
	booking Booking // >0: its state before; the rest is about a node
	before  booking
	node    int32
	card    int32 // -1: the host alone
	was     state
	vcpu    int
	memory  int64
	grown   uint64
}

// Place books between min and max members of a class, each at the best place that
// is left, or none and returns 0.
func (b *Board) Place(class, min, max int) (Booking, int) {
	b.weigh()
	before := b.grown
	var list []member
	for len(list) < max {
		n := b.find(class)
		if n < 0 {
			break
		}
		m := member{int32(n), slices.Clone(b.picks)}
		b.apply(b.classes[class].want, m, 1)
		list = append(list, m)
	}
	if len(list) < min || len(list) == 0 {
		for i := len(list) - 1; i >= 0; i-- {
			b.apply(b.classes[class].want, list[i], -1)
		}
		b.grown = before // what was tried and given up frees nothing
		return 0, 0
	}
	return b.keep(booking{class: class, live: true, members: list}), len(list)
}

// keep gives a booking its number.
func (b *Board) keep(x booking) Booking {
	b.bookings = append(b.bookings, x)
	id := Booking(len(b.bookings))
	if b.marks > 0 {
		b.journal = append(b.journal, change{booking: id, before: booking{class: x.class, members: x.members}, grown: b.grown})
	}
	return id
}

// find is the node for one more of a class, its cards in b.picks; -1: none.
func (b *Board) find(class int) int {
	w := b.classes[class].want
	if w.bad != "" || len(b.nodes) == 0 {
		return -1
	}
	if w.shape.GPUCount > 0 && len(w.cuts) > 0 {
		return b.bestCut(class)
	}
	i, card := b.table.Best(class)
	switch {
	case i < 0 || w.shape.GPUCount == 0:
		b.picks = b.picks[:0]
	case w.units > 0:
		b.picks = append(b.picks[:0], pick{card, -1})
	default:
		_, b.picks, _ = b.nodes[i].fitWhole(w, b.picks, &b.free)
	}
	return i
}

// Held books what is there already: devices of a node that an instance of the
// class holds. 0: the board doesn't know them.
func (b *Board) Held(class int, node cloud.NodeID, devices []Device) Booking {
	i, ok := b.at[node]
	if !ok {
		return 0
	}
	m := member{node: int32(i)}
	n := &b.nodes[i]
	for _, d := range devices {
		k := slices.IndexFunc(n.gpus, func(c card) bool { return c.src.ID == d.GPUID })
		if k < 0 {
			return 0
		}
		start := d.Slots.Start
		if d.Mode == cloud.ModeWhole {
			start = -1
		}
		m.picks = append(m.picks, pick{k, start})
	}
	return b.keep(booking{class: class, live: true, members: []member{m}})
}

// Members are the places of a booking.
func (b *Board) Members(id Booking) []Assignment {
	x := &b.bookings[id-1]
	w := b.classes[x.class].want
	out := make([]Assignment, len(x.members))
	for i, m := range x.members {
		out[i] = b.nodes[m.node].assignment(w, m.picks)
	}
	return out
}

// Release gives back what is placed, or ends a Block.
func (b *Board) Release(id Booking) { b.Cut(id, 0) }

// Cut leaves the first members of a booking in their places.
func (b *Board) Cut(id Booking, members int) {
	x := &b.bookings[id-1]
	if !x.live && !x.blocked || members >= len(x.members) {
		return
	}
	b.note(id)
	w := b.classes[x.class].want
	for _, m := range x.members[members:] {
		if x.blocked {
			b.block(w, m, -1)
		} else {
			b.apply(w, m, -1)
		}
	}
	if members == 0 {
		x.live, x.blocked = false, false // where it lay is kept: it may be blocked again
	} else {
		x.members = x.members[:members:members]
	}
}

// Block keeps for later what a booking held that was placed and rolled back.
// Others may lie there now; once they are gone nobody else comes there.
func (b *Board) Block(id Booking) {
	x := &b.bookings[id-1]
	if x.live || x.blocked {
		return
	}
	b.note(id)
	x.blocked = true
	for _, m := range x.members {
		b.block(b.classes[x.class].want, m, 1)
	}
}

// Mark is a point to which Rollback undoes everything. What came last of bookings
// and is gone is forgotten at the first.
func (b *Board) Mark() int {
	for n := len(b.bookings); b.marks == 0 && n > 0 && !b.bookings[n-1].live && !b.bookings[n-1].blocked; n-- {
		b.bookings = b.bookings[:n-1]
	}
	b.marks++
	return len(b.journal)
}

// Rollback undoes what was done since the mark, and ends it.
func (b *Board) Rollback(mark int) {
	touched := map[int]bool{}
	for len(b.journal) > mark {
		c := &b.journal[len(b.journal)-1]
		b.grown = c.grown
		if c.booking > 0 {
			b.bookings[c.booking-1] = c.before
		} else {
			n := &b.nodes[c.node]
			n.vcpu, n.memory = c.vcpu, c.memory
			if c.card >= 0 {
				n.gpus[c.card].state = c.was
			}
			touched[int(c.node)] = true
		}
		b.journal = b.journal[:len(b.journal)-1]
	}
	for i := range touched {
		b.changed(i)
	}
	b.marks--
}

// Version grows when more may fit than before.
func (b *Board) Version() uint64 { return b.grown }

// Never reports that so many members could not be placed if nothing else were.
func (b *Board) Never(class, min int) bool { return b.neverFits(b.classes[class].want, min) }

func (b *Board) note(id Booking) {
	if b.marks > 0 {
		b.journal = append(b.journal, change{booking: id, before: b.bookings[id-1], grown: b.grown})
	}
}

// saves writes down a node, and its card, as they are.
func (b *Board) saves(i int32, card int) {
	if b.marks > 0 {
		n := &b.nodes[i]
		c := change{node: i, card: int32(card), vcpu: n.vcpu, memory: n.memory, grown: b.grown}
		if card >= 0 {
			c.was = n.gpus[card].state
		}
		b.journal = append(b.journal, c)
	}
}

// apply takes a member's place (by 1), or gives it back (by -1).
func (b *Board) apply(w *want, m member, by int) {
	n := &b.nodes[m.node]
	b.saves(m.node, -1)
	n.vcpu -= by * w.shape.VCPU
	n.memory -= int64(by) * w.shape.MemoryMiB
	for _, p := range m.picks {
		b.saves(m.node, p.card)
		c := &n.gpus[p.card]
		switch {
		case w.units > 0:
			c.taken += by * w.units
		case p.start < 0 && by > 0:
			c.own.Mask = 0xff
		case p.start < 0:
			c.own = gpu.Used{}
		default:
			c.slice(w, p.start, by)
		}
		c.settle(c)
	}
	if by < 0 {
		b.grown++
	}
	b.changed(int(m.node))
}

// slice takes a slice or an equal part, or gives it back.
func (c *card) slice(w *want, start, by int) {
	cut := w.cut(c.geo)
	if by > 0 {
		c.own = cut.Take(c.own, start)
		if w.shape.GPUMode == cloud.ModeShared {
			c.org = w.org
		}
	} else {
		c.own.Mask &^= gpu.SlotMask(cut.Profile.At(start))
		c.own.Compute -= uint8(cut.Profile.Compute)
		c.own.Media = c.own.Media && !cut.Profile.Media
		if c.own.Mask == 0 {
			c.org = cloud.OrgID{}
		}
	}
	if c.layouts != nil {
		c.held[start] = 0
		if by > 0 {
			c.held[start] = int8(w.profile(c.geo) + 1)
		}
	}
}

// block keeps a member's place for later, or no longer does.
func (b *Board) block(w *want, m member, by int) {
	n := &b.nodes[m.node]
	b.saves(m.node, -1)
	n.vcpu -= by * w.shape.VCPU
	n.memory -= int64(by) * w.shape.MemoryMiB
	for _, p := range m.picks {
		b.saves(m.node, p.card)
		c := &n.gpus[p.card]
		mask := uint32(0xff)
		switch {
		case w.units > 0:
			c.kept += by * w.units
			mask = 0
		case p.start >= 0:
			mask = gpu.SlotMask(w.cut(c.geo).Profile.At(p.start))
		}
		if by > 0 {
			c.blocked |= mask
		} else {
			c.blocked &^= mask
		}
		c.settle(c)
	}
	if by < 0 {
		b.grown++
	}
	b.changed(int(m.node))
}
