package gpu

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tenon-cloud/tenon/internal/cloud"
)

func mustGeometry(t testing.TB, name string) *Geometry {
	t.Helper()
	g, err := GeometryByName(name)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestC6FreeStartsBesideScatteredSlices(t *testing.T) {
	t.Parallel()
	const mask = 1<<0 | 1<<1 | 1<<5
	for class, want := range map[string][]int{
		"1g": {2, 3, 4, 6}, "2g": {2}, "3g": {}, "4g": {}, "7g": {}, "1g2": {2, 6},
	} {
		if got := FreeStarts(MIG8, mask, class); !slices.Equal(got, want) {
			t.Errorf("free starts of %s = %v, want %v", class, got, want)
		}
	}
}

func TestC7CapacityIsNotPlacement(t *testing.T) {
	t.Parallel()
	g := mustGeometry(t, MIG8)
	at0 := g.Take(Used{}, "3g", 0)
	if g.Free(at0) < 4 || len(g.FreeStarts(at0, "4g")) != 0 {
		t.Error("with a 3g at 0, four slots are free and a 4g has no start")
	}
	if !g.Fragmented(at0, "4g") || g.Fragmented(at0, "7g") || g.Fragmented(at0, "3g") {
		t.Error("a 4g is refused for placement, a 7g for capacity, a 3g not at all")
	}
	if err := g.Check([]Place{{"4g", 0}, {"3g", 4}}); err != nil {
		t.Errorf("an empty card takes a 4g at 0 and a 3g at 4: %v", err)
	}
}

func TestC8LoneSlicesGoWhereTheyBreakLeast(t *testing.T) {
	t.Parallel()
	g := mustGeometry(t, MIG8)
	for class, want := range map[string]int{"3g": 4, "1g": 6, "1g+me": 6, "1g2": 6, "2g": 4, "4g": 0, "7g": 0} {
		if got, ok := g.BestStart(Used{}, class); !ok || got != want {
			t.Errorf("a lone %s goes to %d (%v), want %d", class, got, ok, want)
		}
	}
	after := g.Take(Used{}, "3g", 4)
	if g.More(after, "1g") != 4 || g.More(after, "4g") != 1 {
		t.Error("beside a lone 3g, four 1g or one 4g must fit")
	}
	if a, b := g.Breaks(Used{}, "3g", 4), g.Breaks(Used{}, "3g", 0); !a.Less(b) {
		t.Errorf("a 3g at 4 breaks %+v, at 0 %+v", a, b)
	}
}

func TestC9WhatFitsOneCard(t *testing.T) {
	t.Parallel()
	g := mustGeometry(t, MIG8)
	fits := func(classes ...string) bool {
		sets, _ := g.Sets()
		slices.Sort(classes)
		return slices.ContainsFunc(sets, func(set []Place) bool {
			var have []string
			for _, p := range set {
				have = append(have, p.Class)
			}
			slices.Sort(have)
			return slices.Equal(have, classes)
		})
	}
	for _, c := range []struct {
		ask  string
		want bool
	}{
		{"4g 2g 1g", true}, {"4g 2g 2g", false}, {"3g 3g", true}, {"3g 3g 1g", false},
		{"1g2 1g2 1g2 1g2", true}, {"1g2 1g2 1g2 1g2 1g2", false},
		{"1g+me 1g 1g", true}, {"1g+me 1g+me", false},
	} {
		if got := fits(strings.Fields(c.ask)...); got != c.want {
			t.Errorf("%s on one card: %v, want %v", c.ask, got, c.want)
		}
	}
	withMedia := g.Take(Used{}, "1g+me", 6)
	if g.More(withMedia, "1g+me") != 0 || len(g.FreeStarts(withMedia, "1g+me")) != 0 {
		t.Error("a second +me must be refused")
	}
	if err := g.Check([]Place{{"1g+me", 0}, {"1g+me", 1}}); err == nil {
		t.Error("a layout with two +me passes")
	}
	a30 := mustGeometry(t, MIG4)
	if a30.More(a30.Take(Used{}, "1g+me", 0), "2g+me") != 0 {
		t.Error("an A30 has one set of media engines")
	}
}

func TestPlacementSetConstants(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		geometry, classes                  string
		sets, maximal, multi, multiMaximal int
	}{
		{MIG8, "1g 2g 3g 4g 7g", 298, 19, 38, 14},
		{MIG8, "1g 1g2 2g 3g 4g 7g", 723, 78, 78, 38},
		{MIG8, "1g 1g+me 1g2 2g 3g 4g 7g", 2319, 239, 0, 0},
		{MIG4, "1g 2g 4g", 26, 5, 0, 0},
	} {
		g := mustGeometry(t, c.geometry)
		classes := strings.Fields(c.classes)
		sets, maximal := g.Sets(classes...)
		bags, full := map[string]bool{}, map[string]bool{}
		nMax := 0
		for i, set := range sets {
			if err := g.Check(set); err != nil {
				t.Fatalf("%v: %v", set, err)
			}
			bag := bagOf(set)
			bags[bag] = true
			if maximal[i] {
				nMax++
				full[bag] = true
			}
		}
		if len(sets) != c.sets || nMax != c.maximal {
			t.Errorf("%s %s: %d sets, %d maximal; want %d, %d", c.geometry, c.classes, len(sets), nMax, c.sets, c.maximal)
		}
		if c.multi > 0 && (len(bags) != c.multi || len(full) != c.multiMaximal) {
			t.Errorf("%s %s: %d multisets, %d maximal; want %d, %d", c.geometry, c.classes, len(bags), len(full), c.multi, c.multiMaximal)
		}
	}
}

func bagOf(set []Place) string {
	var out []string
	for _, p := range set {
		out = append(out, p.Class)
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// The tables agree with the definition: a start is free when its slots are.
func TestTablesAgreeWithSlots(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		g := geometries[rapid.SampledFrom([]string{MIG4, MIG8}).Draw(t, "geometry")]
		u := Used{Mask: uint32(rapid.Byte().Draw(t, "mask")), Media: rapid.Bool().Draw(t, "media")}
		p := rapid.SampledFrom(g.Profiles).Draw(t, "profile")
		var want []int
		for _, s := range p.Starts {
			held := p.Media && u.Media
			for slot := s; slot < s+p.Slots; slot++ {
				held = held || u.Mask>>slot&1 == 1
			}
			if !held {
				want = append(want, s)
			}
		}
		if got := g.FreeStarts(u, p.Class); !slices.Equal(got, want) {
			t.Fatalf("free starts %v, want %v", got, want)
		}
		best, ok := g.BestStart(u, p.Class)
		if ok != (len(want) > 0) || ok && !slices.Contains(want, best) {
			t.Fatalf("best start %d (%v) of %v", best, ok, want)
		}
		n := 0 // greedy along the line is optimal for equal sizes
		for v := u; ; n++ {
			free := g.FreeStarts(v, p.Class)
			if len(free) == 0 {
				break
			}
			v = g.Take(v, p.Class, free[0])
		}
		if got := g.More(u, p.Class); got != n {
			t.Fatalf("%d more %s fit on %08b, want %d", got, p.Class, u.Mask, n)
		}
	})
}

// Fragmented means: with the same slices elsewhere it would fit.
func TestFragmentedIsTrue(t *testing.T) {
	t.Parallel()
	for _, name := range []string{MIG4, MIG8} {
		g := mustGeometry(t, name)
		sets, _ := g.Sets()
		possible := map[string]bool{}
		for _, set := range sets {
			possible[bagOf(set)] = true
		}
		for _, set := range sets {
			var u Used
			for _, p := range set {
				u = g.Take(u, p.Class, p.Start)
			}
			for _, p := range g.Profiles {
				fits := len(g.FreeStarts(u, p.Class)) > 0
				elsewhere := possible[bagOf(append(slices.Clone(set), Place{Class: p.Class}))]
				if got, want := g.Fragmented(u, p.Class), elsewhere && !fits; got != want {
					t.Fatalf("%s: %v, asked %s: fragmented %v, want %v", name, set, p.Class, got, want)
				}
			}
		}
	}
}

func TestShapesAreTheLegalOnes(t *testing.T) {
	t.Parallel()
	shapes := Shapes()
	// MIG slices are a container's or, as a virtual GPU, a VM's; then 2 to 8 shares,
	// and 1 to 32 virtual GPUs.
	if got := len(shapes); got != 3+2*(7+7+4+3+2+1+1)+2*(4+4+2+2+1)+35+528 {
		t.Errorf("%d shapes", got)
	}
	seen := map[Shape]bool{}
	for _, s := range shapes {
		if s.Start < 0 || s.End <= s.Start || s.End > 32 || seen[s] {
			t.Errorf("bad or double shape %+v", s)
		}
		seen[s] = true
	}
	for _, want := range []Shape{
		{MIG4, cloud.ModeWhole, Whole, 0, 8}, {MIG8, cloud.ModeWhole, Whole, 0, 8},
		{MIG8, cloud.ModeMIG, "3g", 4, 8}, {MIG4, cloud.ModeMIG, "2g+me", 2, 4}, {MIG8, cloud.ModeMIG, "1g2", 6, 8},
	} {
		if !seen[want] {
			t.Errorf("missing %+v", want)
		}
	}
}

func TestMilliCountsMemorySlots(t *testing.T) {
	t.Parallel()
	got := map[string]int64{}
	for _, g := range []string{MIG4, MIG8} {
		for _, c := range []string{Whole, "1g", "1g2", "2g", "3g", "4g", "7g"} {
			if m, err := Milli(g, c); err == nil {
				got[g+" "+c] = m
			}
		}
	}
	want := map[string]int64{
		"mig8 whole": 1000, "mig8 1g": 125, "mig8 1g2": 250, "mig8 2g": 250, "mig8 3g": 500, "mig8 4g": 500, "mig8 7g": 1000,
		"mig4 whole": 1000, "mig4 1g": 250, "mig4 2g": 500, "mig4 4g": 1000,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestUsedByClaims(t *testing.T) {
	t.Parallel()
	got := UsedBy([]cloud.Claim{
		{Profile: "1g+me", Slots: cloud.Slots{Start: 6, End: 7}},
		{Profile: "4g", Slots: cloud.Slots{Start: 0, End: 4}},
	})
	if want := (Used{Mask: 0b0100_1111, Media: true, Compute: 5}); got != want {
		t.Errorf("used %+v, want %+v", got, want)
	}
	if m := SlotMask(WholeSlots); m != 0xff {
		t.Errorf("a whole card holds %08b", m)
	}
}
