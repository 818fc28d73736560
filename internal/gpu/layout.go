package gpu

import (
	"fmt"
	"slices"

	"github.com/tenon-cloud/tenon/internal/cloud"
)

// Place is one slice on a card.
type Place struct {
	Class string
	Start int
}

// Check reports the first thing that makes a set of slices impossible on one
// card: an unknown class, a start that the hardware does not take, an overlap,
// too much compute, or one more of a profile than its maximum.
func (g *Geometry) Check(places []Place) error {
	var u Used
	count := map[string]int{}
	compute := 0
	for _, pl := range places {
		p, ok := g.Profile(pl.Class)
		switch {
		case !ok:
			return fmt.Errorf("place %s: geometry %s has no such profile", pl.Class, g.Name)
		case !slices.Contains(p.Starts, pl.Start):
			return fmt.Errorf("place %s at %d: the hardware takes it only at %v", pl.Class, pl.Start, p.Starts)
		case u.Mask&p.mask(pl.Start) != 0:
			return fmt.Errorf("place %s at %d: overlaps another slice", pl.Class, pl.Start)
		case u.Media && p.Media:
			return fmt.Errorf("place %s at %d: the media engines are held already", pl.Class, pl.Start)
		}
		u = g.Take(u, pl.Class, pl.Start)
		if count[pl.Class]++; count[pl.Class] > p.Max {
			return fmt.Errorf("place %s at %d: at most %d on one card", pl.Class, pl.Start, p.Max)
		}
		if compute += p.Compute; compute > g.Compute {
			return fmt.Errorf("place %s at %d: more than %d compute slices", pl.Class, pl.Start, g.Compute)
		}
	}
	return nil
}

// Sets lists every set of slices of the given classes (all, when none is
// named) that one card can hold, the empty one included, each sorted by start.
// maximal marks those to which no slice of those classes can be added.
func (g *Geometry) Sets(classes ...string) (sets [][]Place, maximal []bool) {
	if len(classes) == 0 {
		for _, p := range g.Profiles {
			classes = append(classes, p.Class)
		}
	}
	var walk func(at int, u Used, have []Place)
	walk = func(at int, u Used, have []Place) {
		if at == g.Slots {
			sets = append(sets, slices.Clone(have))
			open := slices.ContainsFunc(classes, func(c string) bool { return g.freeSet(u, c) != 0 })
			maximal = append(maximal, !open)
			return
		}
		walk(at+1, u, have)
		for _, c := range classes {
			if g.Fits(u, c, at) {
				p, _ := g.Profile(c)
				walk(at+p.Slots, g.Take(u, c, at), append(have, Place{Class: c, Start: at}))
			}
		}
	}
	walk(0, Used{}, nil)
	return sets, maximal
}

// Shape is one legal way to hold slots of a card: a row of the database's
// placement_shape table, which every claim must match.
type Shape struct {
	Geometry string
	Mode     cloud.GPUMode
	Profile  string
	Start    int
	End      int
}

// Shapes lists every legal shape, in a fixed order. A slice of a MIG card can also
// be a VM's, as a MIG-backed virtual GPU.
func Shapes() []Shape {
	var out []Shape
	for _, name := range []string{MIG4, MIG8, Plain} {
		g := geometries[name]
		out = append(out, Shape{name, cloud.ModeWhole, Whole, WholeSlots.Start, WholeSlots.End})
		for _, p := range g.Profiles {
			for _, s := range p.Starts {
				out = append(out, Shape{name, cloud.ModeMIG, p.Class, s, s + p.Slots}, Shape{name, cloud.ModeVGPU, p.Class, s, s + p.Slots})
			}
		}
	}
	for _, mode := range []cloud.GPUMode{cloud.ModeShared, cloud.ModeVGPU} {
		for n := 1; n <= maxSlots; n++ {
			g, known := geometries[Even(mode, n)]
			if !known {
				continue
			}
			for s := range n {
				out = append(out, Shape{g.Name, mode, g.Profiles[0].Class, s, s + 1})
			}
		}
	}
	return out
}

// Milli is what one device of a profile counts against a quota, in thousandths
// of a card: a slice counts by its share of the memory slots, an equal part by
// their number.
func Milli(geometry, class string) (int64, error) {
	g, err := GeometryByName(geometry)
	if err != nil {
		return 0, err
	}
	if class == Whole {
		return 1000, nil
	}
	if _, n, even := EvenOf(class); even {
		return int64(1000+n-1) / int64(n), nil
	}
	p, ok := g.Profile(class)
	if !ok {
		return 0, fmt.Errorf("weigh profile %q: geometry %s has no such profile", class, geometry)
	}
	return int64(p.Slots) * 1000 / int64(g.Slots), nil
}
