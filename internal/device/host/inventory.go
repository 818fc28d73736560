package host

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tenon-cloud/tenon/internal/device"
	"github.com/tenon-cloud/tenon/internal/device/pci"
	"github.com/tenon-cloud/tenon/internal/gpu"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

// scan is one look at the host and what it says of each card.
type scan struct {
	began time.Duration // since the host's boot: what is told of a card is no newer
	inv   pci.Inventory
	cards map[string]*view // by PCI address
	// driverErr: what the vendor's driver said when it did not show all its cards;
	// silent: it showed none of those that it has.
	driverErr error
	silent    bool
	// foreign: somebody has a VFIO group open that we gave nobody.
	foreign bool
}

// view is one card in a scan.
type view struct {
	card   pci.Card
	driver *DriverCard
	mig    *MIGReading
	made   []made
	vgpu   nodewire.VGPU // type of a card in mode vgpu
	backed []VGPUType    // types on MIG slices, of a card whose vGPUs are these
	told   []VGPUType    // types by its driver
	places int           // that it has of that type
	rec    cardRecord
	gpu    nodewire.GPU
}

// softDomain is where parents of mediated devices are shown that are no PCI
// functions; no host has a bus there.
const softDomain = 0xffff

func isSoft(a pci.Address) bool { return a.Domain == softDomain }

// look reads everything. An error means that nothing is known.
func (b *Board) look(ctx context.Context) (*scan, error) {
	began := b.cfg.SinceBoot()
	inv, err := pci.Scan(b.cfg.Sys, b.cfg.Options)
	if err != nil {
		return nil, err
	}
	if len(inv.Unread) > 0 {
		return nil, fmt.Errorf("read devices: %s", strings.Join(inv.Unread, "; "))
	}
	for i, name := range b.cfg.Parents {
		for _, p := range inv.Parents {
			if p.Name == name {
				inv.Cards = append(inv.Cards, pci.Card{
					Function: pci.Function{Address: pci.Address{Domain: softDomain, Bus: uint8(i)}, NUMANode: -1, Group: -1}, //nolint:gosec // a handful
					Parents:  []pci.Parent{p}, Partitioned: true, Whole: pci.Verdict{Reason: "it is offered by its vGPUs alone"},
					Reset: pci.Verdict{OK: true},
				})
			}
		}
	}
	s := &scan{began: began, inv: inv, cards: map[string]*view{}}
	listed, driverErr := b.driverCards(ctx)
	holds := b.ledger.read().Holds
	s.foreign = b.anyForeign(ctx, inv, holds)
	known, shown, others := b.ledger.read().Cards, false, false
	for _, c := range inv.Cards {
		address := c.Function.Address.String()
		v := &view{card: c, made: madeOn(inv, c)}
		s.cards[address] = v
		others = others || c.Function.Driver != b.cfg.DriverName && ownerOf(holds, address, func(part) bool { return true }) == ""
		if d, ok := listed[address]; ok {
			v.driver, shown = &d, true
		} else if b.cfg.Driver != nil && c.Function.Driver == b.cfg.DriverName && !c.Function.Dead {
			if s.driverErr = driverErr; driverErr == nil {
				s.driverErr = fmt.Errorf("%s: %w", address, ErrNoCard)
			}
		}
		if v.rec, err = b.recordOf(c, v.driver, known); err != nil {
			return nil, err
		}
		b.describe(ctx, s, v, holds)
	}
	// One card that its driver lost says nothing of the others, nor of other drivers'.
	s.silent = s.driverErr != nil && !shown && !others
	return s, nil
}

func (b *Board) driverCards(ctx context.Context) (map[string]DriverCard, error) {
	out := map[string]DriverCard{}
	if b.cfg.Driver == nil {
		return out, nil
	}
	list, err := b.cfg.Driver.Cards(ctx)
	for _, c := range list {
		out[c.PCIAddress] = c
	}
	return out, err
}

// describe fills in what is reported of a card.
func (b *Board) describe(ctx context.Context, s *scan, v *view, holds map[string]hold) {
	f, rec := v.card.Function, v.rec
	g := &v.gpu
	*g = nodewire.GPU{
		UUID: rec.UUID, PCIAddress: f.Address.String(), Vendor: fmt.Sprintf("%04x", f.ID.Vendor), Device: fmt.Sprintf("%04x", f.ID.Device),
		NUMANode: f.NUMANode, Driver: f.Driver, Recovered: rec.Recovered, State: nodewire.GPUReady, Simulated: isSoft(f.Address),
	}
	for _, c := range v.card.Companions {
		g.Companions = append(g.Companions, c.Address.String())
	}
	for _, a := range v.card.Bundle {
		g.Bundle = append(g.Bundle, a.String())
	}
	model, err := gpu.ModelByPCI(g.Vendor, g.Device)
	if err == nil && strings.HasPrefix(model.Key, "pci-") && v.driver != nil {
		if m, err := gpu.ModelByName(v.driver.Name); err == nil {
			model = m
		}
	}
	g.Model, g.Geometry, g.MemoryMiB = model.Key, model.Geometry, model.MemoryMiB
	switch {
	case rec.MemoryMiB > 0:
		g.MemoryMiB = rec.MemoryMiB
	case g.MemoryMiB == 0:
		for _, bar := range f.BARs {
			g.MemoryMiB = max(g.MemoryMiB, int64(bar.Bytes>>20)) //nolint:gosec // far below
		}
	}
	g.MemoryMiB = max(g.MemoryMiB, 1) // a parent without any of its own
	if v.driver != nil {
		g.NVLink = v.driver.NVLink
	} else if rec.Last != nil {
		g.NVLink = rec.Last.NVLink
	}
	b.modeOf(ctx, v, holds)
	g.Modes = b.modesOf(v)
	if rec.Last != nil && f.Driver == vfioDriver && ownerOf(holds, g.PCIAddress, func(part) bool { return true }) != "" {
		g.Modes = rec.Last.Modes // its driver doesn't have it now, which changes nothing of what it can be
	}
	b.stateOf(ctx, s, v, holds)
	b.mu.Lock()
	g.Wish = b.wishes[g.PCIAddress]
	b.mu.Unlock()
}

// modeOf reads back which mode a card is in, with what exists of it.
func (b *Board) modeOf(ctx context.Context, v *view, holds map[string]hold) {
	g, rec := &v.gpu, v.rec
	g.Mode = "whole"
	types := b.cardTypes(ctx, v, typesOf(v.card))
	if rec.Last != nil {
		for _, t := range rec.Last.VGPUTypes {
			if _, ok := typeByName(types, t.ID); !ok {
				t.Available = 0
				types = append(types, t)
			}
		}
	}
	g.VGPUTypes = types
	if rec.Last != nil {
		g.Profiles = rec.Last.Profiles // the driver lists none while MIG is off
	}
	switch {
	case v.driver != nil && v.driver.MIG.Current:
		g.Mode = "mig"
		r, err := readCut(ctx, b.cfg.Driver, *v.driver)
		if err != nil {
			g.State, g.Reason = nodewire.GPUUnknown, err.Error()
			return
		}
		v.mig = &r
		if rec.isBacked() {
			g.Mode = "vgpu"
			if v.backed, err = b.backedTypes(ctx, g.PCIAddress); err != nil {
				g.State, g.Reason = nodewire.GPUUnknown, err.Error()
				return
			}
		}
		g.Profiles = profilesTold(r.Profiles)
		owned := b.ledger.Owned(g.PCIAddress)
		g.Slices = SlicesOf(r, owned, b.cfg.BootID)
		for i := range g.Slices {
			g.Slices[i].Owner = ownerOf(holds, g.PCIAddress, func(p part) bool {
				s := g.Slices[i]
				return p.Slice != nil && p.Slice.Profile == s.Profile && p.Slice.SlotStart == s.SlotStart && !s.Foreign
			})
		}
		if rec.Wish != nil {
			g.Missing = MissingOf(rec.Wish.Layout, r, owned, b.cfg.BootID)
		}
	case v.card.Partitioned || len(v.made) > 0 || rec.Switched == "vgpu":
		g.Mode = "vgpu"
		b.describeVGPUs(v, holds)
	case rec.Switched == "shared":
		g.Mode, g.Geometry = "shared", fmt.Sprintf("share%d", rec.Shares)
	}
}

// describeVGPUs shows ours at their places, and others' at those that are left.
func (b *Board) describeVGPUs(v *view, holds map[string]hold) {
	g := &v.gpu
	g.Geometry = "vgpu1" // until a type is known; nothing is placed on it till then
	name := v.rec.VGPUType
	if name == "" && len(v.made) > 0 {
		name = v.made[0].typ
	}
	var ok bool
	if v.vgpu, ok = typeByName(g.VGPUTypes, name); !ok {
		return
	}
	if v.places = places(v.card, v.vgpu, v.made, g.MemoryMiB); v.most(v.vgpu.ID) > 0 {
		v.places = min(v.most(v.vgpu.ID), mostVGPUs)
	}
	g.Geometry = fmt.Sprintf("vgpu%d", v.places)
	taken := map[int]bool{}
	var foreign []made
	for _, m := range v.made {
		found := false
		for owner, h := range holds {
			for i, p := range h.Parts {
				if p.Card == g.PCIAddress && (p.Mediated != nil && p.Mediated.UUID == m.uuid || p.Virtual != nil && p.Virtual.Address.String() == m.vf && p.Virtual.Type == m.typ) {
					d := h.Devices[i]
					taken[d.SlotStart], found = true, true
					g.Slices = append(g.Slices, nodewire.Slice{UUID: m.name(), Profile: "vgpu", SlotStart: d.SlotStart, SlotEnd: d.SlotEnd, Owner: owner, MemoryMiB: v.vgpu.MemoryMiB})
				}
			}
		}
		if !found {
			foreign = append(foreign, m)
		}
	}
	for slot := v.places - 1; slot >= 0 && len(foreign) > 0; slot-- {
		if !taken[slot] {
			g.Slices = append(g.Slices, nodewire.Slice{UUID: foreign[0].name(), Profile: "vgpu", SlotStart: slot, SlotEnd: slot + 1, Foreign: true, MemoryMiB: v.vgpu.MemoryMiB})
			foreign = foreign[1:]
		}
	}
	slices.SortFunc(g.Slices, func(a, b nodewire.Slice) int { return a.SlotStart - b.SlotStart })
}

func ownerOf(holds map[string]hold, card string, is func(part) bool) string {
	for owner, h := range holds {
		for _, p := range h.Parts {
			if p.Card == card && is(p) {
				return owner
			}
		}
	}
	return ""
}

// modesOf lists what the card can be here.
func (b *Board) modesOf(v *view) []string {
	var out []string
	container := v.driver != nil && b.cfg.CDI != nil
	if !isSoft(v.card.Function.Address) && (container || v.card.Whole.OK || v.card.Partitioned) {
		out = append(out, "whole")
	}
	if v.driver != nil && v.driver.MIG.Capable {
		out = append(out, "mig")
	}
	if container {
		out = append(out, "shared")
	}
	if len(v.gpu.VGPUTypes) > 0 || v.card.Function.Total > 0 && v.card.Function.Driver == b.cfg.DriverName {
		out = append(out, "vgpu")
	}
	return out
}

// Inventory lists the cards. What can't be read stays as it was, unknown; what
// was there and is gone is missing; neither is ever just absent.
func (b *Board) Inventory(ctx context.Context) (device.Inventory, error) {
	s, err := b.look(ctx)
	if err != nil {
		b.mu.Lock()
		last := slices.Clone(b.last)
		b.mu.Unlock()
		if len(last) == 0 {
			return device.Inventory{}, fmt.Errorf("read cards: %w", err)
		}
		for i := range last {
			last[i].State, last[i].Reason = nodewire.GPUUnknown, "the probe failed: "+err.Error()
		}
		return device.Inventory{GPUs: last}, nil
	}
	list, excluded := b.offered(s)
	list = append(list, b.absent(s)...)
	b.readPartitions(ctx, list)
	sortGPUs(list)
	for i := range list {
		list[i].Index = i
	}
	b.mu.Lock()
	b.last, b.excluded = list, excluded
	b.mu.Unlock()
	return device.Inventory{GPUs: slices.Clone(list), OK: !s.silent}, b.keep(list)
}

// offered parts the cards from those that nobody here can use.
func (b *Board) offered(s *scan) (list []nodewire.GPU, out []nodewire.Excluded) {
	for _, e := range s.inv.Excluded {
		out = append(out, excludedOf(e.Function, e.Reason))
	}
	for _, c := range s.inv.Cards {
		v := s.cards[c.Function.Address.String()]
		if len(v.gpu.Modes) == 0 && !b.isHeld(v.gpu.PCIAddress) && v.rec.Phase == "" && (v.rec.Last == nil || !c.Function.Dead) && v.gpu.State != nodewire.GPUUnknown {
			out = append(out, excludedOf(c.Function, c.Whole.Reason))
			continue
		}
		list = append(list, v.gpu)
	}
	return list, out
}

func excludedOf(f pci.Function, reason string) nodewire.Excluded {
	return nodewire.Excluded{PCIAddress: f.Address.String(), Vendor: fmt.Sprintf("%04x", f.ID.Vendor), Device: fmt.Sprintf("%04x", f.ID.Device), Reason: reason}
}

func (b *Board) isHeld(card string) bool {
	return ownerOf(b.ledger.read().Holds, card, func(part) bool { return true }) != ""
}

// absent are the cards that were there before and are not among those read.
func (b *Board) absent(s *scan) []nodewire.GPU {
	var out []nodewire.GPU
	for address, rec := range b.ledger.read().Cards {
		if rec.Last == nil || s.cards[address] != nil {
			continue
		}
		g := *rec.Last
		is := func(a pci.Address) bool { return a.String() == address }
		unread := slices.IndexFunc(s.inv.Unknown, func(u pci.Unknown) bool { return is(u.Address) })
		there := slices.ContainsFunc(s.inv.Functions, func(f pci.Function) bool { return is(f.Address) })
		switch {
		case unread >= 0:
			g.State, g.Reason = nodewire.GPUUnknown, s.inv.Unknown[unread].Reason
		case there && !b.isHeld(address):
			continue // it is no longer offered, for a reason that is in the list
		case there:
			g.State, g.Reason = nodewire.GPUUnknown, "what it is can't be read now"
		default:
			b.changeHealth(func(h *Health, now time.Duration) { h.Present(address, g.UUID, false, now) })
			g.State, g.Reason = nodewire.GPUMissing, "it is gone from the bus"
		}
		out = append(out, g)
	}
	return out
}

func sortGPUs(list []nodewire.GPU) {
	slices.SortFunc(list, func(a, b nodewire.GPU) int {
		x, errX := pci.ParseAddress(a.PCIAddress)
		y, errY := pci.ParseAddress(b.PCIAddress)
		if errX != nil || errY != nil {
			return strings.Compare(a.PCIAddress, b.PCIAddress)
		}
		return x.Compare(y)
	})
}

// Excluded implements device.Watcher.
func (b *Board) Excluded() []nodewire.Excluded {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.excluded)
}
