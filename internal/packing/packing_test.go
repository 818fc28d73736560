package packing

import (
	"math"
	"math/rand"
	"testing"

	"pgregory.net/rapid"
)

func node(cpu int32, model uint8, free ...int16) Node {
	n := Node{CPUMilli: cpu, MemoryMiB: 1 << 20, Model: model, Cards: uint8(len(free))}
	copy(n.Free[:], free)
	return n
}

func TestWhatFits(t *testing.T) {
	t.Parallel()
	n := node(8000, 3, 1000, 400, 1000)
	for _, c := range []struct {
		name string
		r    Request
		fits bool
	}{
		{"no cards", Request{CPUMilli: 8000}, true},
		{"too much vCPU", Request{CPUMilli: 8001}, false},
		{"too much memory", Request{MemoryMiB: 1<<20 + 1}, false},
		{"a part", Request{Cards: 1, Milli: 400}, true},
		{"two whole", Request{Cards: 2, Milli: Milli}, true},
		{"three whole", Request{Cards: 3, Milli: Milli}, false},
		{"its model", Request{Cards: 1, Milli: Milli, Models: 1<<3 | 1<<1}, true},
		{"another model", Request{Cards: 1, Milli: 10, Models: 1 << 1}, false},
		{"another model without cards", Request{Models: 1 << 1}, true},
	} {
		if got := n.Fits(&c.r); got != c.fits {
			t.Errorf("%s: %v", c.name, got)
		}
	}
	full := node(8000, 0, 0, 300)
	if full.Fits(&Request{Cards: 1, Milli: 301}) || !full.Fits(&Request{Cards: 1, Milli: 300}) {
		t.Error("a part must lie on one card")
	}
}

var sizes = []int16{50, 190, 320, 470, 500, 810, Milli}

func genNode(t *rapid.T) Node {
	n := Node{CPUMilli: int32(1000 * rapid.IntRange(0, 64).Draw(t, "vcpu")), MemoryMiB: int32(1024 * rapid.IntRange(0, 64).Draw(t, "memory")),
		Model: uint8(rapid.IntRange(0, 2).Draw(t, "model")), Cards: uint8(rapid.IntRange(0, 8).Draw(t, "cards"))}
	for i := range n.Cards {
		n.Free[i] = rapid.SampledFrom([]int16{0, 190, 500, 530, Milli, Milli}).Draw(t, "free")
	}
	return n
}

func genRequest(t *rapid.T) Request {
	r := Request{CPUMilli: int32(1000 * rapid.IntRange(0, 16).Draw(t, "asked vcpu")), MemoryMiB: int32(1024 * rapid.IntRange(0, 16).Draw(t, "asked memory")),
		Cards: rapid.SampledFrom([]uint8{0, 1, 1, 1, 2, 4}).Draw(t, "asked cards")}
	switch {
	case r.Cards == 1:
		r.Milli = rapid.SampledFrom(sizes).Draw(t, "part")
	case r.Cards > 1:
		r.Milli = Milli
	}
	if r.Cards > 0 && rapid.IntRange(0, 3).Draw(t, "picky") == 0 {
		r.Models = uint64(rapid.IntRange(1, 7).Draw(t, "models"))
	}
	return r
}

// release undoes a place, as an engine over changing nodes would.
func release(n *Node, before Node) { *n = before }

// What the engine keeps never differs from scoring every node anew: the first of
// the best is chosen, whatever changed in between, and a place is found whenever
// there is one.
func TestTheBestOfAllNodesIsChosen(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		count := rapid.SampledFrom([]int{1, 3, 10, 70, 140}).Draw(t, "nodes")
		nodes := rapid.SliceOfN(rapid.Custom(genNode), count, count).Draw(t, "nodes")
		kinds := rapid.SliceOfN(rapid.Custom(genRequest), 1, 6).Draw(t, "kinds")
		mix := MixOf(kinds)
		fit := NewFit(nodes, mix, Default)
		e := NewEngine(nodes, fit)
		type undo struct {
			node   int
			before Node
		}
		var undos []undo
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 9).Draw(t, "step") {
			case 0:
				if len(undos) > 0 {
					u := undos[len(undos)-1]
					undos = undos[:len(undos)-1]
					release(&nodes[u.node], u.before)
					e.Touch(u.node)
				}
				continue
			case 1:
				fit = NewFit(nodes, MixOf(kinds[:rapid.IntRange(1, len(kinds)).Draw(t, "seen")]), Default)
				e.Reweigh(fit)
				continue
			}
			r := rapid.SampledFrom(kinds).Draw(t, "request")
			want, wantCard, score := -1, -1, float32(math.Inf(-1))
			for i := range nodes {
				if nodes[i].Fits(&r) {
					if s, c, ok := fit.Score(&nodes[i], fit.Value(&nodes[i]), &r); ok && s > score {
						want, wantCard, score = i, c, s
					}
				}
			}
			var before Node
			if want >= 0 {
				before = nodes[want]
			}
			got, card := e.Place(e.Class(r))
			if got != want || card != wantCard {
				t.Fatalf("%+v went to node %d card %d, best is node %d card %d", r, got, card, want, wantCard)
			}
			if got < 0 {
				continue
			}
			undos = append(undos, undo{got, before})
			n := &nodes[got]
			if n.CPUMilli != before.CPUMilli-r.CPUMilli || n.MemoryMiB != before.MemoryMiB-r.MemoryMiB || n.Idle() != before.Idle()-r.Demand() || n.CPUMilli < 0 || n.MemoryMiB < 0 {
				t.Fatalf("%+v made %+v of %+v", r, *n, before)
			}
			for _, f := range n.Free[:n.Cards] {
				if f < 0 || f > Milli {
					t.Fatalf("a card has %d free", f)
				}
			}
		}
	})
}

// The score of a part is found card by card; it must be that of the node as it
// would be.
func TestAPartScoresWhatItLeaves(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n, r := genNode(t), genRequest(t)
		mix := MixOf(rapid.SliceOfN(rapid.Custom(genRequest), 1, 6).Draw(t, "mix"))
		f := NewFit([]Node{n}, mix, Weights{Count: 0.3, Whole: 0.2, Cover: 1})
		if !n.Fits(&r) {
			return
		}
		got, card, ok := f.Score(&n, f.Value(&n), &r)
		if !ok {
			t.Fatal("what fits has no place")
		}
		best := math.Inf(-1)
		for c := range max(int(n.Cards), 1) {
			if r.Shared() && n.Free[c] < r.Milli {
				continue
			}
			after := n
			after.Take(&r, c)
			v := f.Value(&after) - f.Value(&n)
			if r.Shared() && c == card && math.Abs(v-float64(got)) > 0.01 {
				t.Fatalf("card %d scores %g, it leaves %g", c, got, v)
			}
			best = max(best, v)
		}
		if math.Abs(best-float64(got)) > 0.01 {
			t.Fatalf("%g is scored, the best is %g", got, best)
		}
	})
}

func TestWhatIsWantedElsewhereIsSpared(t *testing.T) {
	t.Parallel()
	part := func(milli int16, models uint64) Request {
		return Request{CPUMilli: 1000, MemoryMiB: 1, Cards: 1, Milli: milli, Models: models}
	}
	for _, c := range []struct {
		name  string
		nodes []Node
		mix   []Share
		r     Request
		want  int
	}{
		{"190 goes to what 810 left", []Node{node(64000, 0, Milli), node(64000, 0, 190)},
			[]Share{{part(810, 0), 0.5}, {part(190, 0), 0.5}}, part(190, 0), 1},
		{"no cards, no node with free ones", []Node{node(16000, 0, Milli), node(16000, 0, 0)},
			[]Share{{Request{CPUMilli: 12000, Cards: 1, Milli: Milli}, 1}}, Request{CPUMilli: 8000}, 1},
		{"any model, not the one that others need", []Node{node(64000, 1, Milli), node(64000, 2, Milli)},
			[]Share{{part(Milli, 1<<1), 0.5}, {part(Milli, 0), 0.5}}, part(Milli, 0), 1},
		{"a pair stays for who wants pairs", []Node{node(64000, 0, Milli, Milli), node(64000, 0, Milli, 0)},
			[]Share{{Request{Cards: 2, Milli: Milli}, 0.5}, {part(Milli, 0), 0.5}}, part(Milli, 0), 1},
	} {
		e := NewEngine(c.nodes, NewFit(c.nodes, c.mix, Default))
		if got, _ := e.Best(e.Class(c.r)); got != c.want {
			t.Errorf("%s: node %d", c.name, got)
		}
	}
}

func TestPlacingAllocatesNothing(t *testing.T) {
	rng := rand.New(rand.NewSource(1))
	var kinds []Request
	for _, s := range sizes {
		kinds = append(kinds, Request{CPUMilli: 1000 * int32(1+rng.Intn(8)), MemoryMiB: 1024, Cards: 1, Milli: s})
	}
	nodes := make([]Node, 500)
	for i := range nodes {
		nodes[i] = node(96000, 0, Milli, Milli, Milli, Milli, Milli, Milli, Milli, Milli)
	}
	e := NewEngine(nodes, NewFit(nodes, MixOf(kinds), Default))
	for _, r := range kinds {
		e.Place(e.Class(r))
	}
	i := 0
	if n := testing.AllocsPerRun(2000, func() {
		e.Place(i % len(kinds))
		i++
	}); n != 0 {
		t.Errorf("%g allocations at each decision", n)
	}
}

func TestOldRequestsCountLess(t *testing.T) {
	t.Parallel()
	a, b := Request{CPUMilli: 1}, Request{CPUMilli: 2}
	m := Mix{HalfLife: 10}
	for range 1000 {
		m.Add(a)
	}
	for range 10 {
		m.Add(b)
	}
	shares := m.Shares()
	if len(shares) != 2 || math.Abs(shares[0].Weight-0.5) > 1e-9 || math.Abs(shares[1].Weight-0.5) > 1e-9 {
		t.Errorf("after one half-life of another kind the mix is %+v", shares)
	}
	for range 100_000 {
		m.Add(b)
	}
	if shares = m.Shares(); len(shares) != 1 || shares[0].Request != b || math.IsNaN(shares[0].Weight) {
		t.Errorf("long after, the mix is %+v", shares)
	}
	for range 10 {
		m.Add(a)
	}
	if shares = m.Shares(); len(shares) != 2 || math.Abs(shares[0].Weight-0.5) > 1e-6 {
		t.Errorf("after one half-life more, the mix is %+v", shares)
	}
	if shares = MixOf([]Request{a, b, b, b}); shares[0] != (Share{b, 0.75}) || shares[1] != (Share{a, 0.25}) {
		t.Errorf("counted: %+v", shares)
	}
	if (&Mix{}).Shares() == nil || len(MixOf(nil)) != 0 {
		t.Error("no requests are no mix")
	}
}
