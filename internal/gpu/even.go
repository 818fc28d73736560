package gpu

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/tenon-cloud/tenon/internal/cloud"
)

// MaxShares is into how many parts a card may be shared. More would only wait
// for each other.
const MaxShares = 8

// Classes of equal parts. What a flavor asks for names their number too, since a
// half and an eighth are not the same: it is the geometry's name.
const (
	Share = "share" // of a time-sliced card: a container's
	VGPU  = "vgpu"  // of a card that one vGPU type divides: a VM's
)

// Even names the geometry of a card in n equal parts: "share4", "vgpu16".
func Even(mode cloud.GPUMode, n int) string {
	return evenClass(mode) + strconv.Itoa(n)
}

func evenClass(mode cloud.GPUMode) string {
	if mode == cloud.ModeVGPU {
		return VGPU
	}
	return Share
}

// EvenOf reads such a name. ok is false for anything else.
func EvenOf(name string) (mode cloud.GPUMode, n int, ok bool) {
	g, known := geometries[name]
	if !known || g.table != nil || len(g.Profiles) != 1 {
		return "", 0, false
	}
	mode = cloud.ModeShared
	if strings.HasPrefix(name, VGPU) {
		mode = cloud.ModeVGPU
	}
	return mode, g.Slots, true
}

// evenGeometry needs no tables: a part is free or it isn't, wherever it lies.
func evenGeometry(mode cloud.GPUMode, n int) *Geometry {
	class := evenClass(mode)
	p := Profile{Class: class, Slots: 1, Max: n, GIID: -1}
	for s := range n {
		p.Starts = append(p.Starts, s)
	}
	return &Geometry{Name: Even(mode, n), Slots: n, Profiles: []Profile{p}, index: map[string]int{class: 0}}
}

// Cutting is a way to make what a flavor asks for: a class of a geometry.
type Cutting struct {
	Geometry *Geometry
	Cut      Cut
}

// Cuttings are the geometries that a mode and a flavor's profile can be made on;
// none for a profile that the mode does not have.
func Cuttings(mode cloud.GPUMode, profile string) (out []Cutting) {
	add := func(geometry, class string) {
		if g, known := geometries[geometry]; known {
			if c, has := g.Cut(class); has {
				out = append(out, Cutting{g, c})
			}
		}
	}
	of, _, even := EvenOf(profile)
	switch {
	case even && of == mode:
		add(profile, evenClass(mode))
	case !even && (mode == cloud.ModeMIG || mode == cloud.ModeVGPU):
		add(MIG8, profile)
		add(MIG4, profile)
	}
	return out
}

// GeometryIn is the geometry of a model's card in a mode. parts is the number of
// equal ones: shares, or virtual GPUs of its type; 0 in vgpu means cut by MIG.
func (m *Model) GeometryIn(mode cloud.GPUMode, parts int) (string, error) {
	switch {
	case mode == cloud.ModeWhole:
		return m.Geometry, nil
	case mode == cloud.ModeMIG || mode == cloud.ModeVGPU && parts == 0:
		if m.Geometry == Plain {
			return "", fmt.Errorf("%s has no MIG", m.Name)
		}
		return m.Geometry, nil
	}
	name := Even(mode, parts)
	if _, known := geometries[name]; !known {
		return "", fmt.Errorf("a card has no %d equal parts in mode %s", parts, mode)
	}
	return name, nil
}

// Takes reports whether a model's card can have a geometry in a mode.
func (m *Model) Takes(mode cloud.GPUMode, geometry string) bool {
	if of, n, even := EvenOf(geometry); even {
		return of == mode && n > 0
	}
	want, err := m.GeometryIn(mode, 0)
	return err == nil && want == geometry && mode != cloud.ModeShared
}
