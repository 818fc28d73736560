package packing

import (
	"math/rand"
	"slices"
	"testing"

	"github.com/tenon-cloud/tenon/internal/gpu"
)

func geometry(t *testing.T, name string) *gpu.Geometry {
	t.Helper()
	g, err := gpu.GeometryByName(name)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// The constants are those of scheduling on real cards: so many valid sets of
// slices there are, and so many that take no further one.
func TestEveryLayoutIsKnown(t *testing.T) {
	t.Parallel()
	l := LayoutsOf(gpu.MIG8)
	full := 0
	for i := range l.used {
		if !slices.ContainsFunc(l.moves[i], func(m []move) bool { return len(m) > 0 }) {
			full++
		}
	}
	if len(l.used) != 2319 || full != 239 {
		t.Errorf("%d layouts, %d of them full; there are 2,319 and 239", len(l.used), full)
	}
}

// without is a card less one slice.
func without(u gpu.Used, p gpu.Profile, start int) gpu.Used {
	return gpu.Used{Mask: u.Mask &^ gpu.SlotMask(p.At(start)), Media: u.Media && !p.Media, Compute: u.Compute - uint8(p.Compute)}
}

func TestSlicesNeverOverlapAndAreGivenWhileOneFits(t *testing.T) {
	t.Parallel()
	for _, name := range []string{gpu.MIG8, gpu.MIG4} {
		g := geometry(t, name)
		cuts := make([]gpu.Cut, len(g.Profiles))
		mix := make([]float64, len(g.Profiles))
		for p := range g.Profiles {
			cuts[p], _ = g.Cut(g.Profiles[p].Class)
			mix[p] = float64(p + 1)
		}
		const cards = 12
		s := NewSlices(g, cards, mix)
		type held struct{ card, start, profile int }
		var all []held
		used := make([]gpu.Used, cards)
		rng := rand.New(rand.NewSource(3))
		moves := 0
		for range 100_000 {
			if len(all) > 0 && rng.Intn(5) < 2 {
				k := rng.Intn(len(all))
				h := all[k]
				all[k] = all[len(all)-1]
				all = all[:len(all)-1]
				if !s.Release(h.card, h.start) || s.Release(h.card, h.start) {
					t.Fatalf("the slice at %d of card %d is given back once", h.start, h.card)
				}
				used[h.card] = without(used[h.card], g.Profiles[h.profile], h.start)
			} else {
				p := rng.Intn(len(g.Profiles))
				fits := slices.ContainsFunc(used, func(u gpu.Used) bool { return cuts[p].More(u) > 0 })
				card, start := s.Place(p)
				if (card >= 0) != fits {
					t.Fatalf("%s is placed on %d although it fits: %v", g.Profiles[p].Class, card, fits)
				}
				if card < 0 && rng.Intn(2) == 0 {
					// One move helps if some slice leaves room and has it elsewhere.
					helps := slices.ContainsFunc(all, func(h held) bool {
						return cuts[p].More(without(used[h.card], g.Profiles[h.profile], h.start)) > 0 && slices.ContainsFunc(used, func(u gpu.Used) bool {
							return u != used[h.card] && cuts[h.profile].More(u) > 0
						})
					})
					var m Moved
					var ok bool
					if card, start, m, ok = s.PlaceMoving(p); ok != helps && !ok {
						t.Fatalf("%s: one move makes room and none was made", g.Profiles[p].Class)
					}
					if ok {
						k := slices.Index(all, held{m.Card, m.Start, m.Profile})
						if k < 0 || m.ToCard == m.Card {
							t.Fatalf("%+v was moved", m)
						}
						used[m.Card] = without(used[m.Card], g.Profiles[m.Profile], m.Start)
						if !cuts[m.Profile].FreeAt(used[m.ToCard], m.ToStart) {
							t.Fatalf("%+v was moved to where something is", m)
						}
						used[m.ToCard] = cuts[m.Profile].Take(used[m.ToCard], m.ToStart)
						all[k] = held{m.ToCard, m.ToStart, m.Profile}
						moves++
					}
				}
				if card >= 0 {
					if !cuts[p].FreeAt(used[card], start) {
						t.Fatalf("%s at %d of card %d, which holds %+v", g.Profiles[p].Class, start, card, used[card])
					}
					used[card] = cuts[p].Take(used[card], start)
					all = append(all, held{card, start, p})
				}
			}
			for c := range used {
				if s.Used(c) != used[c] {
					t.Fatalf("card %d holds %+v, its slices %+v", c, s.Used(c), used[c])
				}
			}
		}
		if moves == 0 {
			t.Errorf("%s: nothing was ever moved", name)
		}
	}
}

func TestSlicesKeepRoomForWhatIsRare(t *testing.T) {
	t.Parallel()
	g := geometry(t, gpu.MIG8)
	mix := make([]float64, len(g.Profiles))
	index := func(class string) int {
		return slices.IndexFunc(g.Profiles, func(p gpu.Profile) bool { return p.Class == class })
	}
	mix[index("1g")], mix[index("7g")] = 0.9, 0.1
	s := NewSlices(g, 4, mix)
	for range 14 {
		s.Place(index("1g"))
	}
	for i := range 2 {
		if card, _ := s.Place(index("7g")); card < 0 {
			t.Errorf("%d whole cards are left of two", i)
		}
	}
	if card, start := s.Place(index("7g")); card >= 0 || start >= 0 {
		t.Error("a third whole card was given")
	}
}

func TestPlacingSlicesAllocatesNothing(t *testing.T) {
	g := geometry(t, gpu.MIG8)
	mix := []float64{1, 0, 1, 1, 1, 1, 1}
	s := NewSlices(g, 100, mix)
	rng := rand.New(rand.NewSource(1))
	if n := testing.AllocsPerRun(2000, func() {
		if card, start := s.Place(rng.Intn(len(mix))); card >= 0 && rng.Intn(2) == 0 {
			s.Release(card, start)
		}
	}); n != 0 {
		t.Errorf("%g allocations at each decision", n)
	}
}
