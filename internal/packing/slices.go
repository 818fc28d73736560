package packing

import "github.com/tenon-cloud/tenon/internal/gpu"

// Slices places MIG slices on cards of one geometry that are all alike. Which card
// of those that are cut alike gets a slice doesn't matter, so a decision looks at
// layouts, and takes no longer for more cards.
type Slices struct {
	*Prices
	layout     []int32 // of each card
	next, prev []int32 // cards of the same layout
	first      []int32 // card of each layout; -1: none
	live       []int32 // layouts that have a card
	where      []int32 // of a layout in live
}

// NewSlices makes empty cards. The mix says how often each profile of the geometry
// comes, in its order.
func NewSlices(g *gpu.Geometry, cards int, mix []float64) *Slices {
	s := &Slices{Prices: NewPrices(LayoutsOf(g.Name), mix)}
	n := len(s.layouts.used)
	s.layout, s.next, s.prev = make([]int32, cards), make([]int32, cards), make([]int32, cards)
	s.first, s.where, s.live = make([]int32, n), make([]int32, n), make([]int32, 0, n)
	for i := range s.first {
		s.first[i] = -1
	}
	for c := cards - 1; c >= 0; c-- {
		s.enter(int32(c), 0)
	}
	return s
}

// Place books a place for a slice of the profile; card is -1 when there is none.
func (s *Slices) Place(profile int) (card, start int) {
	s.Fix()
	from, best, score := int32(-1), move{}, 0.0
	for _, i := range s.live {
		for _, m := range s.layouts.moves[i][profile] {
			v := s.change(i, m.to)
			if from < 0 || v > score || v == score && (i < from || i == from && m.to < best.to) {
				from, best, score = i, m, v
			}
		}
	}
	if from < 0 {
		return -1, -1
	}
	c := s.first[from]
	s.leave(c)
	s.enter(c, best.to)
	return int(c), int(best.start)
}

// Moved is a slice that went elsewhere to make room.
type Moved struct {
	Profile         int
	Card, Start     int // where it was
	ToCard, ToStart int
}

// PlaceMoving books a place for a slice that has none as the cards are, by moving
// one other slice to another card. ok is false when no one move helps.
func (s *Slices) PlaceMoving(profile int) (card, start int, moved Moved, ok bool) {
	s.Fix()
	l := s.layouts
	var best struct {
		from, to  int32 // layouts of the card that gets the slice
		gone      move
		at        int8
		other     int32 // layout of the card that gets the moved one
		elsewhere move
	}
	score := 0.0
	for _, i := range s.live {
		for _, gone := range l.gone[i] {
			mine := l.moves[gone.to][profile]
			if len(mine) == 0 {
				continue
			}
			other := l.profileAt(i, gone)
			for _, k := range s.live {
				if k == i && s.next[s.first[i]] < 0 {
					continue // it is the only card cut so
				}
				for _, elsewhere := range l.moves[k][other] {
					for _, m := range mine {
						if v := s.change(i, m.to) + s.change(k, elsewhere.to); !ok || v > score {
							score, ok = v, true
							best.from, best.to, best.gone, best.at, best.other, best.elsewhere = i, m.to, gone, m.start, k, elsewhere
						}
					}
				}
			}
		}
	}
	if !ok {
		return -1, -1, Moved{}, false
	}
	a, b := s.first[best.from], s.first[best.other]
	if a == b {
		b = s.next[a]
	}
	moved = Moved{l.profileAt(best.from, best.gone), int(a), int(best.gone.start), int(b), int(best.elsewhere.start)}
	s.leave(a)
	s.enter(a, best.to)
	s.leave(b)
	s.enter(b, best.elsewhere.to)
	return int(a), int(best.at), moved, true
}

// Release gives back the slice that begins at start; false when none does.
func (s *Slices) Release(card, start int) bool {
	for _, m := range s.layouts.gone[s.layout[card]] {
		if int(m.start) == start {
			s.leave(int32(card))
			s.enter(int32(card), m.to)
			return true
		}
	}
	return false
}

// Used is what a card holds.
func (s *Slices) Used(card int) gpu.Used { return s.layouts.used[s.layout[card]] }

func (s *Slices) enter(card, layout int32) {
	head := s.first[layout]
	if head < 0 {
		s.where[layout] = int32(len(s.live))
		s.live = append(s.live, layout)
	} else {
		s.prev[head] = card
	}
	s.layout[card], s.next[card], s.prev[card], s.first[layout] = layout, head, -1, card
	s.Enter(layout)
}

func (s *Slices) leave(card int32) {
	layout, next, prev := s.layout[card], s.next[card], s.prev[card]
	if next >= 0 {
		s.prev[next] = prev
	}
	if prev >= 0 {
		s.next[prev] = next
	} else if s.first[layout] = next; next < 0 {
		last := s.live[len(s.live)-1]
		s.live[s.where[layout]], s.where[last] = last, s.where[layout]
		s.live = s.live[:len(s.live)-1]
	}
	s.Leave(layout)
}
