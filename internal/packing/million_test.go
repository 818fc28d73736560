package packing

import (
	"math/rand"
	"testing"

	"github.com/tenon-cloud/tenon/internal/gpu"
)

// A million random operations on cards of eight slots: no two slices overlap, and
// every state that a card is ever in is one of the 723 that the hardware has without
// media engines, each of which is met.
func TestAMillionOperationsStayAmongTheKnownStates(t *testing.T) {
	t.Parallel()
	g := geometry(t, gpu.MIG8)
	sets, _ := g.Sets("1g", "1g2", "2g", "3g", "4g", "7g")
	l := LayoutsOf(gpu.MIG8)
	valid := map[Held]bool{}
	for _, set := range sets {
		var h Held
		for _, p := range set {
			h[p.Start] = int8(g.Index(p.Class) + 1)
		}
		valid[h] = true
	}
	if len(valid) != 723 {
		t.Fatalf("%d states, want 723", len(valid))
	}
	classes := []int{g.Index("1g"), g.Index("1g2"), g.Index("2g"), g.Index("3g"), g.Index("4g"), g.Index("7g")}
	rng := rand.New(rand.NewSource(8))
	met := map[Held]bool{}
	const cards = 16
	layout := make([]int32, cards)
	for range 1_000_000 {
		c := rng.Intn(cards)
		if gone := l.gone[layout[c]]; len(gone) > 0 && rng.Intn(5) < 2 {
			layout[c] = gone[rng.Intn(len(gone))].to
		} else if moves := l.moves[layout[c]][classes[rng.Intn(len(classes))]]; len(moves) > 0 {
			layout[c] = moves[rng.Intn(len(moves))].to
		}
		h := l.Held(layout[c])
		if !valid[h] {
			t.Fatalf("a card holds %v", h)
		}
		met[h] = true
		var u gpu.Used
		for start, p := range h {
			if p == 0 {
				continue
			}
			cut, _ := g.Cut(g.Profiles[p-1].Class)
			if !cut.FreeAt(u, start) {
				t.Fatalf("slices overlap: %v", h)
			}
			u = cut.Take(u, start)
		}
	}
	if len(met) != 723 {
		t.Errorf("only %d of 723 states were met", len(met))
	}
}
