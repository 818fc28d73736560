package queue

import "fmt"

// shelf is a fleet with places: nodes of eight cards, each whole. A member of class
// n takes n cards of one node, of the fullest that has them.
type shelf struct {
	cards    [][8]card
	bookings []shelved
	undo     []func()
	marks    int
	version  uint64
}

type card struct {
	by     Booking
	blocks int
}

type shelved struct {
	class   int
	members [][]int // by member: cards, as node*8+card
	gone    bool
	blocked bool
}

func newShelf(nodes int) *shelf {
	return &shelf{cards: make([][8]card, nodes), bookings: make([]shelved, 1)}
}

func (s *shelf) at(i int) *card { return &s.cards[i/8][i%8] }

// do does something, and notes how to undo it.
func (s *shelf) do(f, undo func()) {
	f()
	if s.marks > 0 {
		s.undo = append(s.undo, undo)
	} else {
		s.version++
	}
}

func (s *shelf) free(node int) (free []int) {
	for i, c := range s.cards[node] {
		if c.by == 0 && c.blocks == 0 {
			free = append(free, node*8+i)
		}
	}
	return free
}

func (s *shelf) Place(class, least, most int) (Booking, int) {
	b := Booking(len(s.bookings))
	var members [][]int
	for len(members) < most {
		var best []int
		for n := range s.cards {
			if free := s.free(n); len(free) >= class && (best == nil || len(free) < len(best)) {
				best = free
			}
		}
		if best == nil {
			break
		}
		for _, i := range best[:class] {
			s.at(i).by = b
		}
		members = append(members, best[:class])
	}
	set := func(by Booking) {
		for _, m := range members {
			for _, i := range m {
				s.at(i).by = by
			}
		}
	}
	if len(members) < least {
		set(0)
		return 0, 0
	}
	s.bookings = append(s.bookings, shelved{class: class, members: members})
	s.do(func() {}, func() { set(0); s.bookings[b].gone = true })
	return b, len(members)
}

func (s *shelf) Release(b Booking) {
	x := s.bookings[b]
	if x.blocked {
		s.do(func() { s.block(b, -1) }, func() { s.block(b, 1) })
		return
	}
	set := func(by Booking, gone bool) {
		s.bookings[b].gone = gone
		for _, m := range x.members {
			for _, i := range m {
				s.at(i).by = by
			}
		}
	}
	if x.gone {
		panic(fmt.Sprintf("booking %d is released twice", b))
	}
	s.do(func() { set(0, true) }, func() { set(b, false) })
}

func (s *shelf) Cut(b Booking, members int) {
	all := s.bookings[b].members
	set := func(by Booking, m [][]int) {
		s.bookings[b].members = m
		for _, m := range all[members:] {
			for _, i := range m {
				s.at(i).by = by
			}
		}
	}
	s.do(func() { set(0, all[:members]) }, func() { set(b, all) })
}

func (s *shelf) Block(b Booking) {
	s.do(func() { s.block(b, 1) }, func() { s.block(b, -1) })
}

func (s *shelf) block(b Booking, by int) {
	s.bookings[b].blocked = by > 0
	for _, m := range s.bookings[b].members {
		for _, i := range m {
			s.at(i).blocks += by
		}
	}
}

func (s *shelf) Mark() int {
	s.marks++
	return len(s.undo)
}

func (s *shelf) Rollback(mark int) {
	for len(s.undo) > mark {
		last := s.undo[len(s.undo)-1]
		s.undo = s.undo[:len(s.undo)-1]
		last()
	}
	s.marks--
}

func (s *shelf) Never(class, least int) bool {
	return class > 8 || class > 0 && least > len(s.cards)*(8/class)
}

func (s *shelf) Version() uint64 { return s.version }

// inUse counts cards, and fails when some are blocked.
func (s *shelf) inUse() (used int64, err error) {
	for n := range s.cards {
		for i, c := range s.cards[n] {
			if c.blocks != 0 {
				return 0, fmt.Errorf("card %d of node %d is blocked %d times", i, n, c.blocks)
			}
			if c.by != 0 {
				used++
			}
		}
	}
	return used, nil
}
