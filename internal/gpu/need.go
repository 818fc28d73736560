package gpu

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tenon-cloud/tenon/internal/cloud"
)

// Need is GPUs by what they must be able to do. What is zero is not asked for.
type Need struct {
	MemoryMiB  int64  `json:"memory_mib,omitempty"` // on one card or slice, nobody else's
	Milli      int    `json:"milli,omitempty"`      // of one card, in thousandths: 500 is half of it
	Model      string `json:"model,omitempty"`      // key
	Count      int    `json:"count,omitempty"`      // cards or slices; 0: one
	NVLink     bool   `json:"nvlink,omitempty"`     // between all of them
	Capability int    `json:"capability,omitempty"` // CUDA's compute capability, at least: 90 is 9.0
}

// Candidate is something on offer that a need may be met with.
type Candidate struct {
	Name          string
	Shape         cloud.Shape
	MemoryMiB     int64 // of one card or slice, as its driver told; 0: none has
	Joined        bool  // there are as many whole cards that all have NVLink to each other
	MicrosPerHour int64
	Priced        bool
}

// memory is what one card or slice has, nominally where no driver has told.
func (c *Candidate) memory() int64 {
	if c.MemoryMiB > 0 {
		return c.MemoryMiB
	}
	m, err := ModelByKey(c.Shape.GPUModel)
	if err != nil {
		return 0
	}
	return m.SliceMemoryMiB(cmp.Or(c.Shape.GPUProfile, Whole))
}

// milli is what one card or slice is of a card.
func (c *Candidate) milli() int64 {
	m, err := ModelByKey(c.Shape.GPUModel)
	if err != nil {
		return 0
	}
	out, err := Milli(m.Geometry, cmp.Or(c.Shape.GPUProfile, Whole))
	if err != nil {
		return 0
	}
	return out
}

// Among gives the candidates that meet the need: the cheapest first, those without
// a price last; among equals what leaves least unused. With none, missing names
// what none has, and what there is.
func (n Need) Among(list []Candidate) (fit []Candidate, missing string) {
	left := slices.DeleteFunc(slices.Clone(list), func(c Candidate) bool { return c.Shape.GPUCount == 0 })
	count := max(n.Count, 1)
	for _, test := range []struct {
		asked bool
		what  string
		has   func(c *Candidate) bool
		best  func(c *Candidate) string
	}{
		{n.Model != "", "a " + DisplayName(n.Model, Whole), func(c *Candidate) bool { return c.Shape.GPUModel == n.Model }, func(c *Candidate) string { return DisplayName(c.Shape.GPUModel, Whole) }},
		{n.Capability > 0, "compute capability " + capabilityText(n.Capability), func(c *Candidate) bool { return Capability(c.Shape.GPUModel) >= n.Capability }, func(c *Candidate) string { return DisplayName(c.Shape.GPUModel, Whole) }},
		{n.MemoryMiB > 0, gib(n.MemoryMiB) + " of GPU memory", func(c *Candidate) bool { return c.Shape.GPUMode != cloud.ModeShared && c.memory() >= n.MemoryMiB }, func(c *Candidate) string {
			if c.Shape.GPUMode == cloud.ModeShared {
				return ""
			}
			return fmt.Sprintf("%s (%s)", gib(c.memory()), c.Name)
		}},
		{n.Milli > 0, fmt.Sprintf("%g of a GPU", float64(n.Milli)/1000), func(c *Candidate) bool { return c.milli() >= int64(n.Milli) }, func(c *Candidate) string { return fmt.Sprintf("%g (%s)", float64(c.milli())/1000, c.Name) }},
		{true, plural(count, "GPU", "GPUs") + " at once", func(c *Candidate) bool { return c.Shape.GPUCount >= count }, func(c *Candidate) string { return fmt.Sprintf("%d (%s)", c.Shape.GPUCount, c.Name) }},
		{n.NVLink, plural(count, "GPU", "GPUs") + " joined by NVLink", func(c *Candidate) bool { return c.Joined && c.Shape.GPUMode == cloud.ModeWhole }, func(c *Candidate) string { return "" }},
	} {
		if !test.asked {
			continue
		}
		had := left
		if left = slices.DeleteFunc(slices.Clone(had), func(c Candidate) bool { return !test.has(&c) }); len(left) == 0 {
			return nil, "nothing on offer has " + test.what + there(had, test.best)
		}
	}
	excess := func(c *Candidate) int64 { return c.milli() * int64(c.Shape.GPUCount) }
	slices.SortStableFunc(left, func(a, b Candidate) int {
		if a.Priced != b.Priced {
			if a.Priced {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(a.MicrosPerHour, b.MicrosPerHour), cmp.Compare(excess(&a), excess(&b)), cmp.Compare(a.memory(), b.memory()), strings.Compare(a.Name, b.Name))
	})
	return left, ""
}

// there lists what those that met the rest of the need have instead.
func there(list []Candidate, tell func(*Candidate) string) string {
	var out []string
	for i := range list {
		if t := tell(&list[i]); t != "" && !slices.Contains(out, t) {
			out = append(out, t)
		}
	}
	if len(out) == 0 {
		return ""
	}
	slices.SortFunc(out, func(a, b string) int { return cmp.Or(-cmp.Compare(number(a), number(b)), strings.Compare(a, b)) })
	if len(out) > 3 {
		out = append(out[:3], "…")
	}
	return "; there is " + strings.Join(out, ", ")
}

// number is what a text begins with.
func number(s string) float64 {
	head, _, _ := strings.Cut(s, " ")
	n, _ := strconv.ParseFloat(head, 64)
	return n
}

func gib(mib int64) string {
	return strconv.FormatFloat(float64(mib*10/1024)/10, 'f', -1, 64) + " GiB"
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

func capabilityText(c int) string { return fmt.Sprintf("%d.%d", c/10, c%10) }

// ParseCapability reads "9.0".
func ParseCapability(s string) (int, error) {
	major, minor, ok := strings.Cut(s, ".")
	a, err := strconv.Atoi(major)
	b, err2 := strconv.Atoi(minor)
	if !ok || err != nil || err2 != nil || a < 1 || a > 99 || b < 0 || b > 9 {
		return 0, fmt.Errorf("read compute capability %q: not of the form 9.0", s)
	}
	return 10*a + b, nil
}

// Capability is a model's CUDA compute capability, 90 for 9.0; 0: not known, or not
// of a card that has CUDA.
func Capability(model string) int { return capabilities[model] }

// From NVIDIA's table of CUDA GPUs.
var capabilities = map[string]int{
	"t4-16gb": 75, "a100-40gb": 80, "a100-80gb": 80, "a800-80gb": 80, "a30-24gb": 80, "a10-24gb": 86, "a40-48gb": 86,
	"l4-24gb": 89, "l40-48gb": 89, "l40s-48gb": 89, "rtx-4090-24gb": 89, "rtx-6000-ada-48gb": 89,
	"h100-80gb": 90, "h100-nvl-94gb": 90, "h200-141gb": 90, "h200-nvl-141gb": 90, "b200-180gb": 100, "rtx-5090-32gb": 120,
}
