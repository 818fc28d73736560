package packing

import (
	"math"
	"slices"
)

// Prices say what a slice costs on a card, of a set of cards of one geometry.
//
// A place costs three things. The room that it takes from the requests of the mix,
// each weighing the less the more of it there is elsewhere in the set. What the
// card would have taken in the long run. And, among equals, the room of a fuller
// card costs less.
type Prices struct {
	layouts *Layouts
	mix     []float64
	weights []float64 // of each profile: how often it comes, times its slots
	worth   []float64 // of each layout
	price   []float64 // of one place for a profile now
	more    []int     // places for each profile, in all
}

const (
	scarce  = 5.0  // places that are left when one more weighs a third
	horizon = 0.2  // of the long run, beside the room
	fuller  = 1e-5 // of a free slot on the card
)

// NewPrices are those of no cards. The mix says how often each profile comes, in
// the geometry's order.
func NewPrices(l *Layouts, mix []float64) *Prices {
	p := &Prices{layouts: l, price: make([]float64, len(l.cuts)), more: make([]int, len(l.cuts))}
	p.Reweigh(mix)
	return p
}

// Reweigh takes another mix. Without any, each profile is as likely as the others.
func (s *Prices) Reweigh(mix []float64) {
	total := 0.0
	for _, w := range mix {
		total += w
	}
	if total == 0 {
		mix, total = slices.Repeat([]float64{1}, len(s.price)), float64(len(s.price))
	}
	part := make([]float64, len(s.price))
	s.weights = make([]float64, len(s.price))
	for p := range part {
		if p < len(mix) {
			part[p] = mix[p] / total
			s.weights[p] = part[p] * float64(s.layouts.cuts[p].Profile.Slots)
		}
	}
	if s.worth == nil || !slices.Equal(part, s.mix) {
		s.mix, s.worth = part, s.layouts.worthOf(part)
	}
}

// Enter counts a card of the layout; Leave no longer does.
func (s *Prices) Enter(layout int32) {
	for p, m := range s.layouts.more[layout] {
		s.more[p] += int(m)
	}
}

// Leave undoes an Enter.
func (s *Prices) Leave(layout int32) {
	for p, m := range s.layouts.more[layout] {
		s.more[p] -= int(m)
	}
}

// Fix finds what a place for each profile weighs now, for the questions that come.
func (s *Prices) Fix() {
	for p, w := range s.weights {
		s.price[p] = w * math.Exp(-float64(s.more[p])/scarce)
	}
}

// Best is the start that costs least for a slice of the profile on a card of the
// layout: what the card is worth then beside now, and the layout that it gets. ok
// is false where none is free.
func (s *Prices) Best(layout int32, profile int) (value float64, start int, to int32, ok bool) {
	for _, m := range s.layouts.moves[layout][profile] {
		if v := s.change(layout, m.to); !ok || v > value || v == value && m.to < to {
			value, start, to, ok = v, int(m.start), m.to, true
		}
	}
	return value, start, to, ok
}

// Place is what one of the places for the profile weighs, where a layout is fixed.
func (s *Prices) Place(profile int) float64 { return s.price[profile] }

// change is what a card's new layout is worth beside the one before.
func (s *Prices) change(from, to int32) float64 {
	v := horizon*(s.worth[to]-s.worth[from]) - fuller*float64(s.layouts.free[from])
	now, then := s.layouts.room[from], s.layouts.room[to]
	for p, price := range s.price {
		v += price * float64(then[p]-now[p])
	}
	return v
}
