package placement

import (
	"cmp"
	"slices"
	"strings"

	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/packing"
)

// History is what was asked for, old requests counting ever less.
type History struct{ kinds packing.Decayed[asked] }

// HalfLife is after how many others a request counts half.
const HalfLife = 4000

// asked is what matters of a request for the mix.
type asked struct {
	kind   cloud.InstanceKind
	shape  cloud.Shape
	models string
	units  int
}

// Add counts each member of a request.
func (h *History) Add(r Request) {
	k := asked{r.Kind, r.Shape, strings.Join(r.Models, "|"), r.Units}
	k.shape.DiskMiB = 0
	for range max(r.Count, 1) {
		h.kinds.Add(k, HalfLife)
	}
}

// Mix is what comes, as far as what came tells: the most frequent first.
func (h *History) Mix() (out []Share) {
	h.kinds.Each(func(k asked, w float64) {
		s := Share{Request{Kind: k.kind, Shape: k.shape, Units: k.units}, w}
		if k.models != "" {
			s.Request.Models = strings.Split(k.models, "|")
		}
		out = append(out, s)
	})
	slices.SortStableFunc(out, func(a, b Share) int { return cmp.Compare(b.Weight, a.Weight) })
	return out
}
