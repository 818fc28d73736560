package placement

import (
	"slices"

	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/gpu"
)

// want is a shape made ready for looking at many nodes.
type want struct {
	kind  cloud.InstanceKind
	org   cloud.OrgID
	home  cloud.NodeID // zero: any
	shape cloud.Shape
	make  int
	cuts  []gpu.Cutting
	bad   Code // set: it can be placed nowhere
}

func newWant(b *board, r *Request) *want {
	s := r.Shape
	w := &want{kind: r.Kind, org: r.Org, home: r.Home, shape: s, make: b.intern(s.GPUModel, s.GPUMode)}
	if s.GPUCount < 0 || s.VCPU < 0 || s.MemoryMiB < 0 {
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
	default:
		w.cuts = gpu.Cuttings(s.GPUMode, s.GPUProfile)
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
	return w
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

// suits reports whether a card could serve the want if it were free.
func (w *want) suits(c *card) bool {
	return c.make == w.make && (w.shape.GPUMode == cloud.ModeWhole || w.cut(c.geo) != nil)
}

// takes reports whether a node is one that the want could ever run on, whatever
// is free there.
func (n *node) takes(w *want) bool {
	return (w.home.IsZero() || w.home == n.src.ID) && n.runs(w.kind)
}

func (n *node) runs(kind cloud.InstanceKind) bool {
	return kind == "" || n.src.Kinds == nil || slices.Contains(n.src.Kinds, string(kind))
}
