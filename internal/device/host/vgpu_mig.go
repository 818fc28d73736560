package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tenon-cloud/tenon/internal/device"
	"github.com/tenon-cloud/tenon/internal/device/pci"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

// A vGPU that a MIG slice backs: the slice is made first, without it the driver
// offers no such type, and then the type is set on a free virtual function, which
// gets the free slice of its profile. A slice that is made for it alone, under the
// card's lock, is that one.

// VGPUs is a Driver that tells which of a card's vGPU types MIG slices back.
type VGPUs interface {
	VGPUTypes(ctx context.Context, card string) ([]VGPUType, error)
}

// VGPUType is a vGPU type as its driver describes it.
type VGPUType struct {
	ID        string // what is written to current_vgpu_type
	Name      string
	ProfileID int // of the GPU instance that backs one; -1: none does
	MemoryMiB int64
	Compute   bool // of the series for computing, not for desktops
	Max       int  // at most so many on one card; 0: not told
}

// typesTold are the vGPU types of a card by its driver; none where it makes none.
func (b *Board) typesTold(ctx context.Context, card string) ([]VGPUType, error) {
	teller, ok := b.cfg.Driver.(VGPUs)
	if !ok {
		return nil, nil
	}
	list, err := teller.VGPUTypes(ctx, card)
	if errors.Is(err, ErrRefused) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list vGPU types of %s: %w", card, err)
	}
	return list, nil
}

// backedTypes are those that MIG slices back.
func (b *Board) backedTypes(ctx context.Context, card string) ([]VGPUType, error) {
	list, err := b.typesTold(ctx, card)
	return slices.DeleteFunc(list, func(t VGPUType) bool { return t.ProfileID < 0 }), err
}

// cardTypes adds to the types that sysfs shows what the driver tells of them: how
// many a card takes at most, and which it would offer once it has its functions.
// What it doesn't tell is no reason to know nothing of the card.
func (b *Board) cardTypes(ctx context.Context, v *view, types []nodewire.VGPU) []nodewire.VGPU {
	f := v.card.Function
	if v.driver == nil || v.driver.MIG.Current || f.Total == 0 {
		return types
	}
	told, err := b.typesTold(ctx, f.Address.String())
	if err != nil {
		b.cfg.Log.Debug("ask the driver for vGPU types", "card", v.gpu.PCIAddress, "error", err)
		return types
	}
	v.told = told
	for _, t := range told {
		if t.ProfileID >= 0 || t.Max == 0 {
			continue
		}
		i := slices.IndexFunc(types, func(x nodewire.VGPU) bool { return x.ID == t.ID })
		switch {
		case i >= 0:
			types[i].Available, types[i].MemoryMiB = min(types[i].Available, t.Max), max(types[i].MemoryMiB, t.MemoryMiB)
		case len(f.Virtual) == 0:
			types = append(types, nodewire.VGPU{Name: t.Name, ID: t.ID, Available: min(t.Max, f.Total), MemoryMiB: t.MemoryMiB})
		}
	}
	return types
}

// most is how many vGPUs of a type a card takes by its driver; 0: it was not told.
func (v *view) most(typeID string) int {
	for _, t := range v.told {
		if t.ID == typeID {
			return t.Max
		}
	}
	return 0
}

// isBacked: MIG slices are a card's vGPUs.
func (r cardRecord) isBacked() bool { return r.Switched == "vgpu" && r.VGPUType == "" }

// notBacked says why a card's MIG slices can't be vGPUs; empty: they can.
func (b *Board) notBacked(ctx context.Context, v *view) (string, error) {
	const instead = "; name a vGPU type instead"
	switch {
	case v.driver == nil:
		return "vGPUs on MIG slices are made by the vendor's vGPU driver, which does not have the card" + instead, nil
	case !v.driver.MIG.Capable:
		return "the card or its driver has no MIG" + instead, nil
	case v.card.Function.Total == 0:
		return "it can have no virtual functions, which vGPUs on MIG slices are" + instead, nil
	}
	list, err := b.backedTypes(ctx, v.gpu.PCIAddress)
	if err != nil {
		return "", err
	}
	if len(list) == 0 {
		return "its driver has no vGPU types on MIG slices" + instead, nil
	}
	return "", nil
}

// enterBacked brings a card into MIG mode, which changes only while it has no
// virtual functions, and then makes these.
func (b *Board) enterBacked(ctx context.Context, v *view, wish nodewire.Card) (string, error) {
	f, card := v.card.Function, wish.PCIAddress
	if !v.driver.MIG.Settled(true) && len(f.Virtual) > 0 {
		if !v.rec.MadeVFs {
			return "it has virtual functions that Tenon did not make: take them away with sriov_numvfs, then MIG is switched on", nil
		}
		if err := b.setVFs(ctx, f.Address, 0); err != nil {
			return err.Error(), nil
		}
	}
	r, err := b.applyMIG(ctx, card, nil)
	if err != nil || !r.Reading.Card.MIG.Current {
		return r.Wish, err
	}
	if err := b.needVFs(ctx, f.Address); err != nil {
		return err.Error(), nil
	}
	return r.Wish, b.ledger.changeCard(card, func(c *cardRecord) { c.Switched, c.VGPUType, c.Shares = "vgpu", "", 0 })
}

// needVFs makes a card's virtual functions where it has none, and notes that first.
func (b *Board) needVFs(ctx context.Context, a pci.Address) error {
	f, err := pci.ReadFunction(b.cfg.Sys, a)
	if err != nil || len(f.Virtual) > 0 {
		return err
	}
	if err := b.ledger.changeCard(a.String(), func(c *cardRecord) { c.MadeVFs = true }); err != nil {
		return err
	}
	return b.setVFs(ctx, a, f.Total)
}

// leaveBacked takes the virtual functions away before MIG mode is switched off for
// another kind of vGPUs.
func (b *Board) leaveBacked(ctx context.Context, v *view, wish nodewire.Card) (string, error) {
	if wish.Mode != "vgpu" || wish.VGPUType == "" || v.mig == nil || len(v.card.Function.Virtual) == 0 {
		return "", nil
	}
	if !v.rec.MadeVFs {
		return "it has virtual functions that Tenon did not make: take them away with sriov_numvfs, then MIG is switched off", nil
	}
	if err := b.setVFs(ctx, v.card.Function.Address, 0); err != nil {
		return err.Error(), nil
	}
	return "", nil
}

// planBacked chooses the slice's type and its virtual function.
func (b *Board) planBacked(d nodewire.Device, v *view, taken map[string]bool) (part, error) {
	p := part{Card: v.gpu.PCIAddress, Slice: &slicePlace{Profile: d.Profile, SlotStart: d.SlotStart, SlotEnd: d.SlotEnd}}
	impossible := func(format string, args ...any) (part, error) {
		return p, fmt.Errorf("card %s: %s: %w", p.Card, fmt.Sprintf(format, args...), device.ErrImpossible)
	}
	geo, err := GeometryOf(v.mig.Profiles)
	if err != nil {
		return impossible("%v", err)
	}
	profile, ok := profileOf(geo, v.mig.Profiles, d.Profile)
	if !ok || !slices.Contains(profile.Starts, d.SlotStart) || d.SlotEnd-d.SlotStart != profile.Slots {
		return impossible("it has no slice %s", spell(*p.Slice))
	}
	if i := slices.IndexFunc(v.gpu.Slices, func(s nodewire.Slice) bool {
		return s.Foreign && s.SlotStart < d.SlotEnd && d.SlotStart < s.SlotEnd
	}); i >= 0 {
		return p, fmt.Errorf("card %s: a slice that Tenon did not make is in the way, at %d to %d", p.Card, v.gpu.Slices[i].SlotStart, v.gpu.Slices[i].SlotEnd)
	}
	typ, ok := typeFor(v.backed, profile.ID)
	if !ok {
		return impossible("its driver has no vGPU type on a slice %s", profile.Name)
	}
	for _, parent := range v.card.Parents {
		virtual := parent.Address != nil && *parent.Address != v.card.Function.Address
		if !virtual || taken[parent.Name] || parent.Backend != pci.Vendor || parent.Current != "" || !parent.Whole.OK || len(parent.Unknown) > 0 {
			continue
		}
		taken[parent.Name] = true
		p.Virtual = &virtualHold{Address: *parent.Address, Type: typ.ID}
		return p, nil
	}
	return p, fmt.Errorf("card %s has no virtual function left for a vGPU", p.Card)
}

// typeFor is the type that has all of a slice: of those, one for computing.
func typeFor(list []VGPUType, profileID int) (VGPUType, bool) {
	fits := slices.DeleteFunc(slices.Clone(list), func(t VGPUType) bool { return t.ProfileID != profileID })
	if len(fits) == 0 {
		return VGPUType{}, false
	}
	rank := func(t VGPUType) int {
		if t.Compute {
			return 0
		}
		return 1
	}
	return slices.MinFunc(fits, func(x, y VGPUType) int {
		return cmp.Or(cmp.Compare(y.MemoryMiB, x.MemoryMiB), cmp.Compare(rank(x), rank(y)), cmp.Compare(x.ID, y.ID))
	}), true
}

// makeBacked makes the slice, and then a vGPU on it.
func (b *Board) makeBacked(ctx context.Context, p part) (pci.Function, error) {
	r, err := b.applyMIG(ctx, p.Card, nil)
	if err != nil {
		return pci.Function{}, err
	}
	if !slices.ContainsFunc(r.Slices, func(s nodewire.Slice) bool {
		return !s.Foreign && s.UUID != "" && s.Profile == p.Slice.Profile && s.SlotStart == p.Slice.SlotStart && s.SlotEnd == p.Slice.SlotEnd
	}) {
		return pci.Function{}, fmt.Errorf("make slice %s on %s: %s", spell(*p.Slice), p.Card, strings.TrimSpace(r.Wish+" it is not there"))
	}
	a, err := pci.ParseAddress(p.Card)
	if err != nil {
		return pci.Function{}, err
	}
	if err := b.needVFs(ctx, a); err != nil { // no reboot leaves them
		return pci.Function{}, err
	}
	return b.makeVirtual(ctx, *p.Virtual)
}

// takeBacked ends the vGPU, and then its slice. Of a fixed layout the slice stays.
// One that another's vGPU got when two were free at once stays until that is gone;
// that nobody else can have got is not released before it is gone.
func (b *Board) takeBacked(ctx context.Context, id string, p part) error {
	if err := b.clearVirtual(ctx, *p.Virtual); err != nil {
		return err
	}
	if w := b.ledger.card(p.Card).Wish; w != nil && MIGWishOf(*w, nil).On && slices.Contains(w.Layout, *p.Slice) {
		return nil
	}
	err := b.destroySlice(ctx, p)
	if errors.Is(err, ErrBusy) && b.othersLike(id, p) && ctx.Err() == nil {
		b.cfg.Log.Warn("a slice stays until its vGPU is gone", "card", p.Card, "slice", spell(*p.Slice), "error", err)
		return nil
	}
	return err
}

// othersLike: another guest's vGPU on the card has a slice as this one.
func (b *Board) othersLike(id string, p part) bool {
	for other, h := range b.ledger.read().Holds {
		if other != id && slices.ContainsFunc(h.Parts, func(q part) bool {
			return q.Card == p.Card && q.Virtual != nil && q.Slice != nil && q.Slice.Profile == p.Slice.Profile
		}) {
			return true
		}
	}
	return false
}
