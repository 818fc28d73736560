package gpu

import (
	"fmt"
	"math/bits"

	"github.com/tenon-cloud/tenon/internal/cloud"
)

// Geometries. A card's follows from its model and its mode; those of equal parts
// are named by their number ("share4", "vgpu16", see Even).
const (
	MIG8  = "mig8"  // A100, A800, H100, H200, B200: 8 memory slots, 7 compute slices
	MIG4  = "mig4"  // A30: 4 and 4
	Plain = "plain" // without MIG: whole, or in equal parts
)

// Whole is the profile of a card that is not cut, whatever its geometry.
const Whole = "whole"

// WholeSlots is what a whole card holds, whatever its geometry, so that it
// overlaps every slice.
var WholeSlots = cloud.Slots{Start: 0, End: 8}

// Profile is one way to cut a slice.
type Profile struct {
	Class   string // "1g", "1g+me", "1g2" (double memory), "2g", "2g+me", "3g", "4g", "7g"
	Compute int    // compute slices
	Slots   int    // memory slots
	Starts  []int  // first memory slots at which the hardware takes it
	Max     int    // at most so many on one card
	Media   bool   // holds the card's media engines, of which there is one set
	GIID    int    // NVML's GPU instance profile id; -1 where it differs between boards
}

// mask is the slots of the profile at a start.
func (p Profile) mask(start int) uint32 { return (1<<p.Slots - 1) << start }

// At is the slots that the profile holds when it begins at start.
func (p Profile) At(start int) cloud.Slots {
	return cloud.Slots{Start: start, End: start + p.Slots}
}

// Used is the state of one card: which memory slots are held, bit 0 being slot
// 0, and whether a "+me" slice holds the media engines. These two decide what
// fits. Compute, the slices held, only tells a full card from a fragmented one:
// the memory slots bind before it does.
type Used struct {
	Mask    uint32 // MIG and whole cards use the low eight bits
	Media   bool
	Compute uint8
}

// Free is the number of memory slots not held, out of the geometry's.
func (g *Geometry) Free(u Used) int { return g.Slots - bits.OnesCount32(u.Mask&g.full()) }

// Fragmented reports whether a slice of the class has no start although it
// would if the slices that are there lay elsewhere. False also when it fits.
func (g *Geometry) Fragmented(u Used, class string) bool {
	c, ok := g.Cut(class)
	if !ok || u.Media && c.Profile.Media || c.free(u) != 0 {
		return false
	}
	return g.Free(u) >= c.Profile.Slots && g.Compute-int(u.Compute) >= c.Profile.Compute
}

// Geometry is a family of cards that are cut alike, with its tables.
type Geometry struct {
	Name     string
	Slots    int // memory slots
	Compute  int // compute slices
	Profiles []Profile

	index map[string]int
	table []profileTable // by profile; nil: equal parts, which need none
}

// profileTable answers for one profile and each of the 256 masks.
type profileTable struct {
	free   [256]uint8     // set of free starts
	more   [256]uint8     // how many more fit at once
	best   [256]int8      // start that breaks least; -1: none
	breaks [256][8]Broken // by start
}

// Broken is what a slice at some start would make impossible: starts of larger
// profiles that are free before and not after. Fewer is better; slots break ties.
type Broken struct {
	Starts int // how many
	Slots  int // their sizes summed
}

// Less orders by the number of starts, then by their sizes.
func (b Broken) Less(o Broken) bool {
	if b.Starts != o.Starts {
		return b.Starts < o.Starts
	}
	return b.Slots < o.Slots
}

func (g *Geometry) full() uint32 { return 1<<g.Slots - 1 }

// Index is a class's place among the profiles; -1: it is not one of them.
func (g *Geometry) Index(class string) int {
	if i, ok := g.index[class]; ok {
		return i
	}
	return -1
}

// Profile finds a MIG profile by its class.
func (g *Geometry) Profile(class string) (Profile, bool) {
	i, ok := g.index[class]
	if !ok {
		return Profile{}, false
	}
	return g.Profiles[i], true
}

// FreeStarts lists where a profile could begin now, in order. It is empty for a
// class that the geometry does not have.
func (g *Geometry) FreeStarts(u Used, class string) []int {
	set := g.freeSet(u, class)
	out := make([]int, 0, bits.OnesCount32(set))
	for ; set != 0; set &= set - 1 {
		out = append(out, bits.TrailingZeros32(set))
	}
	return out
}

func (g *Geometry) freeSet(u Used, class string) uint32 {
	c, ok := g.Cut(class)
	if !ok {
		return 0
	}
	return c.free(u)
}

// Fits reports whether the slice could be made at that start now.
func (g *Geometry) Fits(u Used, class string, start int) bool {
	return start >= 0 && start < maxSlots && g.freeSet(u, class)&(1<<start) != 0
}

// BestStart is the free start that breaks the fewest starts of larger profiles,
// the later one among equals; ok is false when no start is free.
func (g *Geometry) BestStart(u Used, class string) (start int, ok bool) {
	c, known := g.Cut(class)
	if !known {
		return 0, false
	}
	return c.BestStart(u)
}

// Breaks says what a slice of the class at a start would make impossible. It is
// zero for a start that is not free.
func (g *Geometry) Breaks(u Used, class string, start int) Broken {
	if !g.Fits(u, class, start) {
		return Broken{}
	}
	c, _ := g.Cut(class)
	return c.Breaks(u, start)
}

// More is how many further slices of the class fit at once.
func (g *Geometry) More(u Used, class string) int {
	c, ok := g.Cut(class)
	if !ok {
		return 0
	}
	return c.More(u)
}

// Take is the state after a slice is made at a start; it does not check that
// the start is free. A class that the geometry lacks changes nothing.
func (g *Geometry) Take(u Used, class string, start int) Used {
	c, ok := g.Cut(class)
	if !ok {
		return u
	}
	return c.Take(u, start)
}

// Cut is a profile with its tables at hand, for loops over many cards.
type Cut struct {
	Profile Profile
	table   *profileTable // nil: equal parts
	full    uint32
}

// Cut finds a class once, so that questions about it need no look-up.
func (g *Geometry) Cut(class string) (Cut, bool) {
	i, ok := g.index[class]
	if !ok {
		return Cut{}, false
	}
	c := Cut{Profile: g.Profiles[i], full: g.full()}
	if g.table != nil {
		c.table = &g.table[i]
	}
	return c, true
}

func (c *Cut) free(u Used) uint32 {
	switch {
	case u.Media && c.Profile.Media:
		return 0
	case c.table == nil:
		return c.full &^ u.Mask
	}
	return uint32(c.table.free[uint8(u.Mask)])
}

// FreeAt reports whether the slice could be made at that start now.
func (c *Cut) FreeAt(u Used, start int) bool {
	return start >= 0 && start < maxSlots && c.free(u)&(1<<start) != 0
}

// BestStart is Geometry.BestStart.
func (c *Cut) BestStart(u Used) (start int, ok bool) {
	if u.Media && c.Profile.Media {
		return 0, false
	}
	if c.table == nil {
		s := bits.Len32(c.free(u)) - 1
		return max(s, 0), s >= 0
	}
	s := int(c.table.best[uint8(u.Mask)])
	return max(s, 0), s >= 0
}

// Breaks is Geometry.Breaks for a start that is free.
func (c *Cut) Breaks(u Used, start int) Broken {
	if c.table == nil {
		return Broken{}
	}
	return c.table.breaks[uint8(u.Mask)][start]
}

// More is Geometry.More.
func (c *Cut) More(u Used) int {
	if u.Media && c.Profile.Media {
		return 0
	}
	if c.table == nil {
		return bits.OnesCount32(c.free(u))
	}
	return int(c.table.more[uint8(u.Mask)])
}

// Take is Geometry.Take.
func (c *Cut) Take(u Used, start int) Used {
	return Used{Mask: u.Mask | c.Profile.mask(start), Media: u.Media || c.Profile.Media, Compute: u.Compute + uint8(c.Profile.Compute)}
}

// UsedBy is the state of a card that holds these claims.
func UsedBy(claims []cloud.Claim) Used {
	var u Used
	for _, c := range claims {
		u.Mask |= SlotMask(c.Slots)
		u.Media = u.Media || isMedia(c.Profile)
		u.Compute += uint8(computeOf(c.Profile))
	}
	return u
}

// maxSlots bounds every geometry.
const maxSlots = 32

// SlotMask is a range of slots as bits.
func SlotMask(s cloud.Slots) uint32 {
	var m uint32
	for i := max(s.Start, 0); i < min(s.End, maxSlots); i++ {
		m |= 1 << i
	}
	return m
}

// GeometryByName finds a geometry.
func GeometryByName(name string) (*Geometry, error) {
	if g, ok := geometries[name]; ok {
		return g, nil
	}
	return nil, fmt.Errorf("find geometry %q: not one of %s, %s, %s, share2 to share%d, vgpu1 to vgpu%d", name, MIG4, MIG8, Plain, MaxShares, maxSlots)
}

// FreeStarts is Geometry.FreeStarts for a card whose media engines are free.
func FreeStarts(geometry string, mask uint32, class string) []int {
	g, err := GeometryByName(geometry)
	if err != nil {
		return nil
	}
	return g.FreeStarts(Used{Mask: mask}, class)
}
