package placement

import (
	"slices"
	"strings"

	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/gpu"
	"github.com/tenon-cloud/tenon/internal/packing"
)

// want is a shape made ready for looking at many nodes.
type want struct {
	kind   cloud.InstanceKind
	org    cloud.OrgID
	home   cloud.NodeID // zero: any
	pool   string
	shape  cloud.Shape
	models []string // nil: the shape's
	units  int      // of one card; 0: by the shape
	of     int      // units of the largest card that suits
	makes  uint64   // bits of the makes that suit
	cuts   []gpu.Cutting
	index  []int           // of each, its profile's among the geometry's
	ask    packing.Request // what it takes of a host, and of whole cards or parts
	bad    Code            // set: it can be placed nowhere
}

func newWant(b *Board, r *Request) *want {
	s := r.Shape
	w := &want{kind: r.Kind, org: r.Org, home: r.Home, pool: r.Pool, shape: s, models: r.Models, units: r.Units,
		ask: packing.Request{CPUMilli: small(int64(s.VCPU) * int64(b.milli)), MemoryMiB: small(s.MemoryMiB)}}
	if s.GPUCount < 0 || s.VCPU < 0 || s.MemoryMiB < 0 || r.Units < 0 || r.Units > 0 && (s.GPUCount != 1 || s.GPUMode != cloud.ModeWhole) {
		w.bad = BadShape
	}
	if s.GPUCount <= 0 {
		return w
	}
	switch s.GPUMode {
	case cloud.ModeWhole:
		if s.GPUProfile != gpu.Whole && s.GPUProfile != "" {
			w.bad = BadShape
		}
		w.ask.Cards, w.ask.Milli = uint8(min(s.GPUCount, 255)), packing.Milli
	default:
		w.cuts = gpu.Cuttings(s.GPUMode, s.GPUProfile)
		for i := range w.cuts {
			w.index = append(w.index, w.cuts[i].Geometry.Index(w.cuts[i].Cut.Profile.Class))
		}
		switch {
		case len(w.cuts) == 0:
			w.bad = BadShape
		case r.Kind == cloud.KindVM && s.GPUMode == cloud.ModeMIG:
			w.bad = NotForKind
		case r.Kind == cloud.KindVM && s.GPUMode == cloud.ModeShared:
			w.bad = SharesNotForVM
		case r.Kind != cloud.KindVM && r.Kind != "" && s.GPUMode == cloud.ModeVGPU:
			w.bad = VGPUForVM
		}
	}
	for m, x := range b.makes {
		geo, _ := gpu.GeometryByName(x.geometry)
		if w.takesModel(x.model) && x.mode == s.GPUMode && (s.GPUMode == cloud.ModeWhole || w.cut(geo) != nil) {
			w.makes |= 1 << min(m, lastMake)
			w.of = max(w.of, b.units[m])
		}
	}
	if w.units > 0 {
		w.ask.Milli = int16(min((w.units*packing.Milli+w.of-1)/max(w.of, 1), packing.Milli))
	}
	w.ask.Models = w.makes
	if w.makes == 0 && w.ask.Cards > 0 {
		w.ask.Models = 1 << lastMake // no bit would be any model
	}
	return w
}

// takesModel reports whether cards of a model will do.
func (w *want) takesModel(model string) bool {
	if w.models == nil {
		return model == w.shape.GPUModel
	}
	return slices.Contains(w.models, model) || w.models[0] == AnyModel
}

// cut is the asked profile on a geometry; nil when it has none.
func (w *want) cut(geo *gpu.Geometry) *gpu.Cut {
	for i := range w.cuts {
		if w.cuts[i].Geometry == geo && geo != nil {
			return &w.cuts[i].Cut
		}
	}
	return nil
}

// profile is the number of the asked profile on a geometry that has it.
func (w *want) profile(geo *gpu.Geometry) int {
	for i := range w.cuts {
		if w.cuts[i].Geometry == geo {
			return w.index[i]
		}
	}
	return -1
}

// like reports whether a card is of a model and mode that will do.
func (w *want) like(c *card) bool {
	return c.src.Mode == w.shape.GPUMode && w.takesModel(c.src.Model)
}

// suits reports whether a card could serve the want if it were free.
func (w *want) suits(c *card) bool {
	if c.make < lastMake {
		return w.makes>>c.make&1 != 0
	}
	return w.like(c) && (w.shape.GPUMode == cloud.ModeWhole || w.cut(c.geo) != nil)
}

// takes reports whether a node is one that the want could ever run on, whatever
// is free there.
func (n *node) takes(w *want) bool {
	return (w.home.IsZero() || w.home == n.src.ID) && n.runs(w.kind)
}

func (n *node) runs(kind cloud.InstanceKind) bool {
	return kind == "" || n.src.Kinds == nil || slices.Contains(n.src.Kinds, string(kind))
}

// in reports whether the node is one of the want's pool.
func (n *node) in(w *want) bool {
	return n.src.Pool == w.pool || w.pool == "" && !n.src.Simulated
}

// kindOf is the want as a kind of a mix: slices and equal parts count one by one,
// as so many thousandths of a card.
func (w *want) kindOf() packing.Request {
	r := w.ask
	if len(w.cuts) > 0 {
		c := w.cuts[0]
		r.Cards, r.Models = 1, w.makes
		r.Milli = int16(c.Cut.Profile.Slots * packing.Milli / c.Geometry.Slots)
		r.CPUMilli /= int32(w.shape.GPUCount)
		r.MemoryMiB /= int32(w.shape.GPUCount)
	}
	if r.Models == 0 && r.Cards > 0 {
		r.Models = 1 << lastMake
	}
	return r
}

// times is how many of those the want is.
func (w *want) times() float64 {
	if len(w.cuts) > 0 {
		return float64(w.shape.GPUCount)
	}
	return 1
}

// kindOfAsk tells requests apart that could be decided differently.
type kindOfAsk struct {
	pool   string
	kind   cloud.InstanceKind
	shape  cloud.Shape
	home   cloud.NodeID
	org    cloud.OrgID // zero where it doesn't matter
	models string
	units  int
}

// class is a kind of ask, with what it was refused for.
type class struct {
	*want
	// While what is free only shrinks, what found no place once finds none later,
	// and neither do more members at a time.
	refused map[int]refused // by number of members
}

type refused struct {
	grown uint64
	why   Refusal
}

// Class is the number of the request's kind, good until the board's nodes, or what
// makes there are, change: requests of one kind have the same places.
func (b *Board) Class(r Request) int {
	key := kindOfAsk{pool: r.Pool, kind: r.Kind, shape: r.Shape, home: r.Home, models: strings.Join(r.Models, "|"), units: r.Units}
	if r.Shape.GPUMode == cloud.ModeShared {
		key.org = r.Org
	}
	key.shape.DiskMiB = 0 // not placed by
	id, ok := b.index[key]
	if !ok {
		id = b.table.Add()
		b.index[key] = id
		b.classes = append(b.classes, class{want: newWant(b, &r), refused: map[int]refused{}})
	}
	return id
}
