package sim

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/device"
	"github.com/tenon-cloud/tenon/internal/gpu"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

var _ device.Keeper = (*Board)(nil)

// form is how a card is divided.
type form struct {
	Mode     string           `json:"mode"`
	Layout   []nodewire.Place `json:"layout,omitempty"`
	Shares   int              `json:"shares,omitempty"`
	VGPUType string           `json:"vgpu_type,omitempty"`
}

func (f form) same(o form) bool {
	return f.Mode == o.Mode && f.Shares == o.Shares && f.VGPUType == o.VGPUType && slices.Equal(f.Layout, o.Layout)
}

// cardState is what of a card outlives the process.
type cardState struct {
	Form      form      `json:"form"`
	Next      *form     `json:"next,omitempty"` // being made
	Ready     time.Time `json:"ready,omitzero"` // when Next is there
	Clean     time.Time `json:"clean,omitzero"` // when the card is clean again
	Recovered int64     `json:"recovered,omitempty"`
	Shown     []string  `json:"shown,omitempty"` // faults that are asked for and were shown, by id
	Mark      *mark     `json:"mark,omitempty"`  // that a fault left
}

// vgpuParts are into how many virtual GPUs the types of a simulated card divide it.
var vgpuParts = []int{1, 2, 4, 8}

func vgpuName(c *card, parts int) string {
	return fmt.Sprintf("SIM-%dC-%d", c.MemoryMiB/int64(parts)/1024, parts)
}

// parts is into how many equal ones a form divides a card; 0: none.
func (c *card) parts(f form) int {
	switch {
	case f.Mode == string(cloud.ModeShared):
		return f.Shares
	case f.Mode == string(cloud.ModeVGPU):
		for _, n := range vgpuParts {
			if f.VGPUType == vgpuName(c, n) {
				return n
			}
		}
	}
	return 0
}

// geometry of a card in a form; the error says why it can't have it.
func (c *card) geometry(f form) (*gpu.Geometry, error) {
	if f.VGPUType != "" && c.parts(f) == 0 {
		return nil, fmt.Errorf("it has no vGPU type %q", f.VGPUType)
	}
	name, err := c.model.GeometryIn(cloud.GPUMode(f.Mode), c.parts(f))
	if err != nil {
		return nil, err
	}
	geo, err := gpu.GeometryByName(name)
	if err != nil {
		return nil, err
	}
	places := make([]gpu.Place, len(f.Layout))
	for i, p := range f.Layout {
		places[i] = gpu.Place{Class: p.Profile, Start: p.SlotStart}
	}
	return geo, geo.Check(places)
}

// modes that a card can be in.
func (c *card) modes() []string {
	if c.model.Geometry == gpu.Plain {
		return []string{"whole", "shared", "vgpu"}
	}
	return []string{"whole", "mig", "shared", "vgpu"}
}

// Wish notes what cards are to be, and begins to make them so where nobody holds
// them. A change takes a while, as it does on hardware.
func (b *Board) Wish(_ context.Context, cards []nodewire.Card) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.cfg.Now()
	b.advance(now)
	b.wishes = map[string]nodewire.Card{}
	for _, w := range cards {
		b.wishes[w.PCIAddress] = w
	}
	changed := false
	for i := range b.cards {
		changed = b.asked(&b.cards[i], b.wishes[b.cards[i].PCIAddress].Faults) || changed
	}
	for _, w := range cards {
		i := slices.IndexFunc(b.cards, func(c card) bool { return c.PCIAddress == w.PCIAddress })
		if i < 0 {
			continue
		}
		c := &b.cards[i]
		s := b.state.Cards[c.PCIAddress]
		if w.Recover > s.Recovered && !b.holds(c) {
			s.Recovered = w.Recover
			delete(b.marks, c.uuid) // the check passes: nothing is really broken
			s.Mark = nil
			s.Clean = now.Add(b.cfg.Clean)
			changed = true
		}
		want := form{w.Mode, w.Layout, w.Shares, w.VGPUType}
		_, err := c.geometry(want)
		switch {
		case s.Form.same(want):
			changed, s.Next = changed || s.Next != nil, nil
		case err != nil || b.holds(c):
		case s.Next == nil || !s.Next.same(want):
			s.Next, s.Ready = &want, now.Add(b.cfg.Change)
			changed = true
		}
		b.state.Cards[c.PCIAddress] = s
	}
	if !changed && !b.unsaved {
		return nil
	}
	b.unsaved = true
	b.advance(now)
	return b.save()
}

// advance lets pass what takes a while: a change that is due, and a reset that
// waited for the last holder.
func (b *Board) advance(now time.Time) {
	for i := range b.cards {
		c := &b.cards[i]
		s := b.state.Cards[c.PCIAddress]
		if s.Next != nil && !now.Before(s.Ready) && !b.holds(c) {
			s.Form, s.Next = *s.Next, nil
			b.state.Cards[c.PCIAddress] = s
		}
		if s.Next == nil {
			b.settle(c)
		}
		if m, marked := b.marks[c.uuid]; marked && m.State == nodewire.GPUNeedsReset && !b.holds(c) {
			delete(b.marks, c.uuid)
			s.Mark = nil
			s.Clean = now.Add(b.cfg.Clean)
			b.state.Cards[c.PCIAddress] = s
		}
	}
}

// settle gives a card the tables of its form.
func (b *Board) settle(c *card) {
	f := b.state.Cards[c.PCIAddress].Form
	if geo, err := c.geometry(f); err == nil {
		c.geo, c.mode = geo, f.Mode
	}
}

// holds reports whether anybody holds some of a card.
func (b *Board) holds(c *card) bool { return len(b.holders(c)) > 0 }

func (b *Board) holders(c *card) (out []string) {
	for owner, h := range b.state.Held {
		if slices.ContainsFunc(h.Devices, func(d nodewire.Device) bool { return d.GPUUUID == c.uuid }) {
			out = append(out, owner)
		}
	}
	slices.Sort(out)
	return out
}

// busy says why nothing can be prepared on a card now; empty: it can.
func (b *Board) busy(c *card, now time.Time) string {
	s := b.state.Cards[c.PCIAddress]
	switch {
	case s.Next != nil:
		return "its mode is being changed"
	case now.Before(s.Clean):
		return "it is being cleaned"
	}
	return ""
}

// keep adds to a card of an inventory what it may be and what its wish came to.
func (b *Board) keep(g *nodewire.GPU, c *card, now time.Time) {
	s := b.state.Cards[c.PCIAddress]
	g.Geometry, g.Mode, g.Modes, g.Driver, g.Recovered = c.geo.Name, c.mode, c.modes(), "simulated", s.Recovered
	for _, class := range c.model.Classes() {
		g.Profiles = append(g.Profiles, nodewire.Profile{Profile: class, MemoryMiB: c.model.SliceMemoryMiB(class)})
	}
	for _, n := range vgpuParts {
		left := n
		if s.Form.VGPUType != "" {
			if left = 0; c.parts(s.Form) == n {
				left = n - len(b.holders(c))
			}
		}
		g.VGPUTypes = append(g.VGPUTypes, nodewire.VGPU{Name: vgpuName(c, n), ID: fmt.Sprintf("sim-%d", n), Available: left, MemoryMiB: c.MemoryMiB / int64(n)})
	}
	if now.Before(s.Clean) && g.State == nodewire.GPUReady {
		g.State, g.Reason = nodewire.GPUCleaning, "reset and checked between tenants (simulated)"
	}
	for _, p := range s.Form.Layout {
		if slices.Contains(b.lost[c.uuid], p) {
			g.Missing = append(g.Missing, p)
		} else if !slices.ContainsFunc(g.Slices, func(x nodewire.Slice) bool { return x.SlotStart == p.SlotStart }) {
			g.Slices = append(g.Slices, nodewire.Slice{UUID: b.deviceUUID(*c, nodewire.Device{Mode: "mig", Profile: p.Profile, SlotStart: p.SlotStart}), Profile: p.Profile, SlotStart: p.SlotStart, SlotEnd: p.SlotEnd})
		}
	}
	w, wished := b.wishes[c.PCIAddress]
	if !wished {
		return
	}
	want := form{w.Mode, w.Layout, w.Shares, w.VGPUType}
	_, err := c.geometry(want)
	switch {
	case s.Form.same(want):
	case err != nil:
		g.Wish = "it can't be so: " + err.Error()
	case b.holds(c):
		g.Wish = fmt.Sprintf("it is held by %d instances, and changes when they are gone", len(b.holders(c)))
	default:
		g.Wish = "its mode is being changed (simulated)"
	}
}
