package gpu

import (
	"fmt"
	"slices"
	"strconv"
)

// Ask is one entry of a layout as a person writes it: so many slices of a class
// anywhere, or one at an exact start.
type Ask struct {
	Class string
	Count int
	Start int    // -1: anywhere
	Name  string // that a reason calls it by; empty: its class
}

func (a Ask) name() string {
	if a.Name == "" {
		return a.Class
	}
	return a.Name
}

// What of an entry can't be.
const (
	AskProfile = "profile"
	AskCount   = "count"
	AskStart   = "slot_start"
)

// AskError says which entry of a layout can't be, what of it, and why.
type AskError struct {
	Entry  int
	Of     string
	Reason string
}

func (e *AskError) Error() string { return fmt.Sprintf("entry %d: %s", e.Entry, e.Reason) }

// Arrange finds a place for every slice of a layout, sorted by start. What is
// asked for at an exact start lies there; the rest lies where it leaves most.
func (g *Geometry) Arrange(asks []Ask) ([]Place, error) {
	counted := map[string]bool{}
	total := map[string]int{}
	for i, a := range asks {
		p, ok := g.Profile(a.Class)
		switch {
		case !ok:
			return nil, &AskError{i, AskProfile, fmt.Sprintf("the card has no profile %s", a.name())}
		case a.Count < 1:
			return nil, &AskError{i, AskCount, fmt.Sprintf("1 to %d of %s", p.Max, a.name())}
		case counted[a.Class] || a.Start < 0 && total[a.Class] > 0:
			return nil, &AskError{i, AskProfile, fmt.Sprintf("%s is in the layout twice: give it once with a count, or a slot_start to each", a.name())}
		case a.Start >= 0 && !slices.Contains(p.Starts, a.Start):
			return nil, &AskError{i, AskStart, fmt.Sprintf("%s begins at slot %s", a.name(), either(p.Starts))}
		}
		counted[a.Class] = a.Start < 0
		if total[a.Class] += a.Count; total[a.Class] > p.Max {
			of := AskProfile
			if a.Count > 1 {
				of = AskCount
			}
			return nil, &AskError{i, of, fmt.Sprintf("at most %d of %s fit on one card", p.Max, a.name())}
		}
	}
	var out []Place
	for i := range asks { // the first entry that makes it impossible is the one to name
		var ok bool
		if out, ok = g.arrange(asks[:i+1]); !ok {
			of, reason := g.tooMuch(asks[:i+1])
			return nil, &AskError{i, of, reason}
		}
	}
	slices.SortFunc(out, func(a, b Place) int { return a.Start - b.Start })
	return out, nil
}

// either lists slots as alternatives.
func either(starts []int) (out string) {
	for i, s := range starts {
		switch {
		case i > 0 && i == len(starts)-1:
			out += " or "
		case i > 0:
			out += ", "
		}
		out += strconv.Itoa(s)
	}
	return out
}

// tooMuch says what the last entry goes beyond.
func (g *Geometry) tooMuch(asks []Ask) (of, reason string) {
	last := asks[len(asks)-1]
	of = AskProfile
	switch {
	case last.Start >= 0:
		of = AskStart
	case last.Count > 1:
		of = AskCount
	}
	slots, compute := 0, 0
	for _, a := range asks {
		p, _ := g.Profile(a.Class)
		slots += a.Count * p.Slots
		compute += a.Count * p.Compute
	}
	switch {
	case slots > g.Slots:
		return of, fmt.Sprintf("with it the layout takes %d memory slots of %d", slots, g.Slots)
	case compute > g.Compute && g.Compute > 0:
		return of, fmt.Sprintf("with it the layout takes %d compute slices of %d", compute, g.Compute)
	}
	reason = "beside the entries before it there is no start left for it"
	if of == AskStart {
		if free := g.startsBeside(asks[:len(asks)-1], last.Class); len(free) > 0 {
			reason = fmt.Sprintf("beside the entries before it %s begins at slot %s", last.name(), either(free))
		}
	}
	return of, reason
}

// startsBeside are the starts of a class with which some entries still fit.
func (g *Geometry) startsBeside(asks []Ask, class string) (out []int) {
	p, _ := g.Profile(class)
	for _, s := range p.Starts {
		if _, ok := g.arrange(append(slices.Clone(asks), Ask{Class: class, Count: 1, Start: s})); ok {
			out = append(out, s)
		}
	}
	return out
}

// arrange places exact slices first, then the others, the largest first.
func (g *Geometry) arrange(asks []Ask) ([]Place, bool) {
	var u Used
	var out []Place
	var rest []string
	for _, a := range asks {
		if a.Start < 0 {
			for range a.Count {
				rest = append(rest, a.Class)
			}
			continue
		}
		if !g.Fits(u, a.Class, a.Start) {
			return nil, false
		}
		u = g.Take(u, a.Class, a.Start)
		out = append(out, Place{a.Class, a.Start})
	}
	slices.SortStableFunc(rest, func(a, b string) int {
		p, _ := g.Profile(a)
		q, _ := g.Profile(b)
		return q.Slots*16 + q.Compute - p.Slots*16 - p.Compute
	})
	found, ok := g.search(u, rest)
	if !ok {
		return nil, false
	}
	out = append(out, found...)
	return out, g.Check(out) == nil
}

func (g *Geometry) search(u Used, rest []string) ([]Place, bool) {
	if len(rest) == 0 {
		return nil, true
	}
	class := rest[0]
	if int(u.Compute)+computeOf(class) > g.Compute && g.Compute > 0 {
		return nil, false
	}
	starts := g.FreeStarts(u, class)
	slices.SortStableFunc(starts, func(a, b int) int {
		x, y := g.Breaks(u, class, a), g.Breaks(u, class, b)
		switch {
		case x.Less(y):
			return -1
		case y.Less(x):
			return 1
		}
		return a - b
	})
	for _, s := range starts {
		if out, ok := g.search(g.Take(u, class, s), rest[1:]); ok {
			return append(out, Place{class, s}), true
		}
		if g.table == nil {
			break // one part is as good as another
		}
	}
	return nil, false
}
