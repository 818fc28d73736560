package queue

// Pool is a fleet without places: amounts of each resource, and nothing else. What
// it keeps of a booking that is gone, it keeps while later ones are there: it is
// made for experiments.
type Pool struct {
	Classes [][]int64 // by class: what a member takes

	capacity, used, blocked []int64
	// hidden is what of the blocked lies under what is placed now.
	hidden   []int64
	bookings []pooled // by booking
	freed    []Booking
	journal  []poolUndo
	marks    int
	version  uint64
}

type pooled struct {
	class, members int
	state          poolState
	under          []int64 // what blocks lie on it
	on             []poolPart
}

// poolPart is what a booking takes of what another one gave back before it.
type poolPart struct {
	of      Booking
	amounts []int64
}

type poolState uint8

const (
	poolGone poolState = iota
	poolPlaced
	poolBlocked
)

type poolUndo struct {
	b       Booking
	state   poolState
	members int
	freed   int // how many had been given back
}

// NewPool is a pool with nothing in it.
func NewPool(capacity []int64, classes [][]int64) *Pool {
	n := len(capacity)
	return &Pool{Classes: classes, capacity: capacity, used: make([]int64, n), blocked: make([]int64, n), hidden: make([]int64, n), bookings: make([]pooled, 1), version: 1}
}

// Free is what is left of a resource.
func (p *Pool) Free(r int) int64 { return p.capacity[r] - p.used[r] - p.blocked[r] + p.hidden[r] }

// Place implements Fleet.
func (p *Pool) Place(class, least, most int) (Booking, int) {
	for r, a := range p.Classes[class] {
		if a > 0 {
			most = min(most, int(max(0, p.Free(r))/a))
		}
	}
	if most < least {
		return 0, 0
	}
	b := Booking(len(p.bookings))
	p.bookings = append(p.bookings, pooled{class: class, members: most})
	if p.marks > 0 {
		p.bookings[b].on = p.takeFreed(class, most)
	}
	p.set(b, poolPlaced, most)
	return b, most
}

// takeFreed says on whose place it lies: of those that were given back since the
// first mark first, so that least is kept of what is free all along.
func (p *Pool) takeFreed(class, members int) []poolPart {
	var parts []poolPart
	want := make([]int64, len(p.capacity))
	for r, a := range p.Classes[class] {
		want[r] = a * int64(members)
	}
	for _, f := range p.freed {
		x := &p.bookings[f]
		part := make([]int64, len(want))
		some := false
		for r, a := range p.Classes[x.class] {
			left := a * int64(x.members)
			if x.under != nil {
				left -= x.under[r]
			}
			part[r] = min(want[r], max(0, left))
			want[r] -= part[r]
			some = some || part[r] > 0
		}
		if some {
			parts = append(parts, poolPart{f, part})
		}
	}
	return parts
}

// set moves a booking to a state, and notes how to undo that.
func (p *Pool) set(b Booking, state poolState, members int) {
	x := &p.bookings[b]
	if p.marks > 0 {
		p.journal = append(p.journal, poolUndo{b, x.state, x.members, len(p.freed)})
		if x.state == poolPlaced && state == poolGone {
			p.freed = append(p.freed, b)
		}
	}
	p.move(b, state, members)
}

func (p *Pool) move(b Booking, state poolState, members int) {
	x := &p.bookings[b]
	p.count(x, -1)
	x.state, x.members = state, members
	p.count(x, 1)
}

// count adds what a booking takes in its state.
func (p *Pool) count(x *pooled, sign int64) {
	switch x.state {
	case poolPlaced:
		for r, a := range p.Classes[x.class] {
			p.used[r] += sign * a * int64(x.members)
		}
		for r, u := range x.under {
			p.hidden[r] += sign * u
		}
	case poolBlocked:
		for r, a := range p.Classes[x.class] {
			p.blocked[r] += sign * a * int64(x.members)
		}
		for _, part := range x.on {
			y := &p.bookings[part.of]
			if y.under == nil {
				y.under = make([]int64, len(p.capacity))
			}
			for r, a := range part.amounts {
				y.under[r] += sign * a
				if y.state == poolPlaced {
					p.hidden[r] += sign * a
				}
			}
		}
	}
}

// Release implements Fleet.
func (p *Pool) Release(b Booking) {
	p.set(b, poolGone, p.bookings[b].members)
	p.more()
}

// more says that more fits, if that isn't only tried.
func (p *Pool) more() {
	if p.marks == 0 {
		p.version++
	}
}

// Cut implements Fleet.
func (p *Pool) Cut(b Booking, members int) {
	p.set(b, poolPlaced, members)
	p.more()
}

// Block implements Fleet.
func (p *Pool) Block(b Booking) { p.set(b, poolBlocked, p.bookings[b].members) }

// Mark implements Fleet.
func (p *Pool) Mark() int {
	for p.marks == 0 && len(p.bookings) > 1 && p.bookings[len(p.bookings)-1].state == poolGone {
		p.bookings = p.bookings[:len(p.bookings)-1]
	}
	p.marks++
	return len(p.journal)
}

// Rollback implements Fleet.
func (p *Pool) Rollback(mark int) {
	for len(p.journal) > mark {
		u := p.journal[len(p.journal)-1]
		p.journal = p.journal[:len(p.journal)-1]
		p.move(u.b, u.state, u.members)
		p.freed = p.freed[:u.freed]
	}
	p.marks--
}

// Never implements Fleet.
func (p *Pool) Never(class, least int) bool {
	for r, a := range p.Classes[class] {
		if a*int64(least) > p.capacity[r] {
			return true
		}
	}
	return false
}

// Version implements Fleet.
func (p *Pool) Version() uint64 { return p.version }
