package packing

import (
	"math"

	"github.com/tenon-cloud/tenon/internal/gpu"
)

// layouts are all the ways in which one card can be cut: for mig8 2,319, each
// with what fits beside, what it may become and what it becomes when a slice goes.
type layouts struct {
	cuts  []gpu.Cut
	used  []gpu.Used
	free  []int8      // slots
	room  [][]float32 // by layout, profile: how many more fit, and soon will
	more  [][]int8    // by layout, profile: how many more fit now
	moves [][][]move  // by layout, profile
	gone  [][]move    // by layout: one slice less
	held  []slots
}

// move is a slice at a start, and the layout that it makes or leaves.
type move struct {
	to    int32
	start int8
}

// slot is what lies at a start; 0: nothing, else a profile's number from 1.
type slots [8]int8

func newLayouts(g *gpu.Geometry) *layouts {
	l := &layouts{}
	for _, p := range g.Profiles {
		c, _ := g.Cut(p.Class)
		l.cuts = append(l.cuts, c)
	}
	index := map[slots]int32{}
	var at []slots
	var find func(slots, gpu.Used) int32
	find = func(s slots, u gpu.Used) int32 {
		if i, ok := index[s]; ok {
			return i
		}
		i := int32(len(at))
		index[s] = i
		at = append(at, s)
		l.used = append(l.used, u)
		l.free = append(l.free, int8(g.Free(u)))
		l.moves = append(l.moves, make([][]move, len(l.cuts)))
		l.more = append(l.more, make([]int8, len(l.cuts)))
		for p := range l.cuts {
			c := &l.cuts[p]
			l.more[i][p] = int8(c.More(u))
			for _, start := range c.Profile.Starts {
				if c.FreeAt(u, start) {
					next := s
					next[start] = int8(p + 1)
					to := find(next, c.Take(u, start))
					l.moves[i][p] = append(l.moves[i][p], move{to, int8(start)})
				}
			}
		}
		return i
	}
	find(slots{}, gpu.Used{})
	l.held, l.gone = at, make([][]move, len(at))
	for i, s := range at {
		for start, p := range s {
			if p > 0 {
				less := s
				less[start] = 0
				l.gone[i] = append(l.gone[i], move{index[less], int8(start)})
			}
		}
	}
	return l
}

// profileAt is the profile of the slice that a layout loses.
func (l *layouts) profileAt(layout int32, gone move) int { return int(l.held[layout][gone.start]) - 1 }

// soon is how much what would fit if one slice went counts, beside what fits now.
const soon = 0.05

// measure finds the room of each layout.
func (l *layouts) measure() {
	l.room = make([][]float32, len(l.used))
	for i := range l.room {
		l.room[i] = make([]float32, len(l.cuts))
		for p := range l.cuts {
			now := float32(l.more[i][p])
			r := now
			for _, m := range l.gone[i] {
				r += soon * (float32(l.more[m.to][p]) - now)
			}
			l.room[i][p] = r
		}
	}
}

// pressure is how many of the requests that there are come to a card that wants
// them, beside its even part.
const pressure = 5

// worth is what a card in each layout will take in the long run, beside an empty
// one, in slots: the bias of the Markov decision process in which slices of the
// mix come at the pressure to this one card, it takes what it likes best of its
// starts, and each leaves by itself. The rounds end once nothing changes any more.
func (l *layouts) worth(mix []float64) []float64 {
	mean := 0.0
	for p, w := range mix {
		mean += w * float64(l.cuts[p].Profile.Slots)
	}
	out := make([]float64, len(l.used))
	if mean == 0 {
		return out
	}
	whole := float64(l.free[0])
	rates := make([]float64, len(mix))
	all := whole
	for p, w := range mix {
		rates[p] = pressure * w * whole / mean
		all += rates[p]
	}
	next := make([]float64, len(out))
	for range 5000 {
		for i := range out {
			sum, used := 0.0, 0.0
			for p, rate := range rates {
				if rate == 0 {
					continue
				}
				best := math.Inf(-1)
				for _, m := range l.moves[i][p] {
					best = max(best, out[m.to])
				}
				if best += float64(l.cuts[p].Profile.Slots); len(l.moves[i][p]) == 0 {
					best = out[i]
				}
				sum += rate * best
				used += rate
			}
			for _, m := range l.gone[i] {
				sum += out[m.to]
			}
			used += float64(len(l.gone[i]))
			next[i] = (sum + (all-used)*out[i]) / all
		}
		change := 0.0
		empty := next[0]
		for i := range next {
			next[i] -= empty
			change = max(change, math.Abs(next[i]-out[i]))
		}
		out, next = next, out
		if change < 1e-6 {
			break
		}
	}
	return out
}
