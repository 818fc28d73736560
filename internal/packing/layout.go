package packing

import (
	"math"
	"slices"
	"sync"

	"github.com/tenon-cloud/tenon/internal/gpu"
)

// Layouts are all the ways in which one card of a geometry can be cut: for mig8
// 2,319, each with what fits beside, what it may become and what it becomes when a
// slice goes. A layout is its number; 0 is the empty card.
type Layouts struct {
	index map[Held]int32
	held  []Held
	seen  map[gpu.Used]int32 // the first of those that look so
	cuts  []gpu.Cut
	used  []gpu.Used
	free  []int8      // slots
	room  [][]float32 // by layout, profile: how many more fit, and soon will
	more  [][]int8    // by layout, profile: how many more fit now
	moves [][][]move  // by layout, profile
	gone  [][]move    // by layout: one slice less

	mu     sync.Mutex
	worths []worths // the mixes that were last asked for
}

type worths struct{ mix, worth []float64 }

// move is a slice at a start, and the layout that it makes or leaves.
type move struct {
	to    int32
	start int8
}

// Held is what lies at each start; 0: nothing, else a profile's number from 1.
type Held [8]int8

// known are made once: they depend on nothing but constants of the hardware.
var known = map[string]func() *Layouts{
	gpu.MIG8: sync.OnceValue(func() *Layouts { return newLayouts(gpu.MIG8) }),
	gpu.MIG4: sync.OnceValue(func() *Layouts { return newLayouts(gpu.MIG4) }),
}

// LayoutsOf are those of a geometry that is cut by MIG; nil for another.
func LayoutsOf(geometry string) *Layouts {
	if make, ok := known[geometry]; ok {
		return make()
	}
	return nil
}

// Number finds the layout of slices at their starts; -1: the hardware has none.
func (l *Layouts) Number(h Held) int32 {
	if i, ok := l.index[h]; ok {
		return i
	}
	return -1
}

// Like is the first layout that holds the same slots, for a card of which only
// those are known; -1: none does.
func (l *Layouts) Like(u gpu.Used) int32 {
	if i, ok := l.seen[gpu.Used{Mask: u.Mask, Media: u.Media}]; ok {
		return i
	}
	return -1
}

// Held is what lies where in a layout.
func (l *Layouts) Held(layout int32) Held { return l.held[layout] }

func newLayouts(geometry string) *Layouts {
	g, err := gpu.GeometryByName(geometry)
	if err != nil {
		return nil
	}
	l := &Layouts{index: map[Held]int32{}, seen: map[gpu.Used]int32{}}
	for _, p := range g.Profiles {
		c, _ := g.Cut(p.Class)
		l.cuts = append(l.cuts, c)
	}
	var find func(Held, gpu.Used) int32
	find = func(s Held, u gpu.Used) int32 {
		if i, ok := l.index[s]; ok {
			return i
		}
		i := int32(len(l.held))
		l.index[s] = i
		l.held = append(l.held, s)
		if seen := (gpu.Used{Mask: u.Mask, Media: u.Media}); l.Like(seen) < 0 {
			l.seen[seen] = i
		}
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
	find(Held{}, gpu.Used{})
	l.gone = make([][]move, len(l.held))
	for i, s := range l.held {
		for start, p := range s {
			if p > 0 {
				less := s
				less[start] = 0
				l.gone[i] = append(l.gone[i], move{l.index[less], int8(start)})
			}
		}
	}
	l.measure()
	return l
}

// worthOf is worth, which takes a while, so that those of a few mixes are kept.
func (l *Layouts) worthOf(mix []float64) []float64 {
	const keep = 16
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.IndexFunc(l.worths, func(w worths) bool { return slices.Equal(w.mix, mix) })
	if i < 0 {
		l.worths = append(l.worths, worths{slices.Clone(mix), l.worth(mix)})
		i = len(l.worths) - 1
	}
	got := l.worths[i]
	l.worths = append(slices.Delete(l.worths, i, i+1), got)
	if len(l.worths) > keep {
		l.worths = slices.Delete(l.worths, 0, 1)
	}
	return got.worth
}

// profileAt is the profile of the slice that a layout loses.
func (l *Layouts) profileAt(layout int32, gone move) int { return int(l.held[layout][gone.start]) - 1 }

// soon is how much what would fit if one slice went counts, beside what fits now.
const soon = 0.05

// measure finds the room of each layout.
func (l *Layouts) measure() {
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
func (l *Layouts) worth(mix []float64) []float64 {
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
