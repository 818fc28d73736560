package gpu

import (
	"math/bits"
	"strings"

	"github.com/tenon-cloud/tenon/internal/cloud"
)

// Starts, sizes and maxima are constants of the hardware (nvidia-smi mig
// -lgipp, in memory slots); SM counts and GiB are not and come from the driver.
var geometries = map[string]*Geometry{
	MIG8: newGeometry(MIG8, 8, 7, []Profile{
		{Class: "1g", Compute: 1, Slots: 1, Starts: []int{0, 1, 2, 3, 4, 5, 6}, Max: 7, GIID: 19},
		{Class: "1g+me", Compute: 1, Slots: 1, Starts: []int{0, 1, 2, 3, 4, 5, 6}, Max: 1, Media: true, GIID: 20},
		{Class: "1g2", Compute: 1, Slots: 2, Starts: []int{0, 2, 4, 6}, Max: 4, GIID: 15},
		{Class: "2g", Compute: 2, Slots: 2, Starts: []int{0, 2, 4}, Max: 3, GIID: 14},
		{Class: "3g", Compute: 3, Slots: 4, Starts: []int{0, 4}, Max: 2, GIID: 9},
		{Class: "4g", Compute: 4, Slots: 4, Starts: []int{0}, Max: 1, GIID: 5},
		{Class: "7g", Compute: 7, Slots: 8, Starts: []int{0}, Max: 1, GIID: 0},
	}),
	MIG4: newGeometry(MIG4, 4, 4, []Profile{
		{Class: "1g", Compute: 1, Slots: 1, Starts: []int{0, 1, 2, 3}, Max: 4, GIID: -1},
		{Class: "1g+me", Compute: 1, Slots: 1, Starts: []int{0, 1, 2, 3}, Max: 1, Media: true, GIID: -1},
		{Class: "2g", Compute: 2, Slots: 2, Starts: []int{0, 2}, Max: 2, GIID: -1},
		{Class: "2g+me", Compute: 2, Slots: 2, Starts: []int{0, 2}, Max: 1, Media: true, GIID: -1},
		{Class: "4g", Compute: 4, Slots: 4, Starts: []int{0}, Max: 1, GIID: -1},
	}),
	Plain: {Name: Plain, Slots: WholeSlots.End},
}

func init() {
	for n := 2; n <= MaxShares; n++ {
		geometries[Even(cloud.ModeShared, n)] = evenGeometry(cloud.ModeShared, n)
	}
	for n := 1; n <= maxSlots; n++ {
		geometries[Even(cloud.ModeVGPU, n)] = evenGeometry(cloud.ModeVGPU, n)
	}
}

func isMedia(class string) bool { return strings.HasSuffix(class, "+me") }

// computeOf is a class's compute slices, which every geometry agrees on.
func computeOf(class string) int {
	for _, g := range geometries {
		if p, ok := g.Profile(class); ok {
			return p.Compute
		}
	}
	return 0
}

// larger reports whether losing a start of q matters to a slice of p: q asks
// for more of something and for less of nothing.
func larger(q, p Profile) bool {
	return q.Slots >= p.Slots && q.Compute >= p.Compute && (q.Slots > p.Slots || q.Compute > p.Compute) && !q.Media
}

func newGeometry(name string, slots, compute int, profiles []Profile) *Geometry {
	g := &Geometry{Name: name, Slots: slots, Compute: compute, Profiles: profiles,
		index: map[string]int{}, table: make([]profileTable, len(profiles))}
	for i, p := range profiles {
		g.index[p.Class] = i
		for mask := range 256 {
			for _, s := range p.Starts {
				if uint32(mask)&p.mask(s) == 0 {
					g.table[i].free[mask] |= 1 << s
				}
			}
		}
	}
	for i, p := range profiles {
		t := &g.table[i]
		for mask := 255; mask >= 0; mask-- {
			t.best[mask] = -1
			for _, s := range p.Starts {
				if t.free[mask]&(1<<s) == 0 {
					continue
				}
				after := uint8(mask) | uint8(p.mask(s))
				// A fuller mask has a larger number, so its entry is done already.
				t.more[mask] = min(uint8(p.Max), max(t.more[mask], 1+t.more[after]))
				b := g.broken(p, uint8(mask), after)
				t.breaks[mask][s] = b
				if best := t.best[mask]; best < 0 || !t.breaks[mask][best].Less(b) {
					t.best[mask] = int8(s)
				}
			}
		}
	}
	return g
}

func (g *Geometry) broken(p Profile, before, after uint8) Broken {
	var b Broken
	for j, q := range g.Profiles {
		if larger(q, p) {
			n := bits.OnesCount8(g.table[j].free[before] &^ g.table[j].free[after])
			b.Starts += n
			b.Slots += n * q.Slots
		}
	}
	return b
}
