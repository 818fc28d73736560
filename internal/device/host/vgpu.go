package host

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"

	"github.com/tenon-cloud/tenon/internal/device"
	"github.com/tenon-cloud/tenon/internal/device/pci"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

const mostVGPUs = 32

// typesOf lists what a card's parents offer, one line a type. A parent on which a
// type is set offers none, so what is set stays known by the ledger's name.
func typesOf(c pci.Card) []nodewire.VGPU {
	by := map[string]nodewire.VGPU{}
	for _, p := range c.Parents {
		for _, t := range p.Types {
			v := by[t.ID]
			v.Name, v.ID, v.MemoryMiB = t.Name, t.ID, max(v.MemoryMiB, t.MemoryMiB)
			v.Available += t.Available
			by[t.ID] = v
		}
	}
	var out []nodewire.VGPU
	for _, id := range slices.Sorted(maps.Keys(by)) {
		out = append(out, by[id])
	}
	return out
}

func typeByName(list []nodewire.VGPU, name string) (nodewire.VGPU, bool) {
	i := slices.IndexFunc(list, func(v nodewire.VGPU) bool { return v.Name == name || v.ID == name })
	if i < 0 {
		return nodewire.VGPU{}, false
	}
	return list[i], true
}

// made is a vGPU that exists on a card, whoever made it.
type made struct {
	uuid string // of a mediated device
	vf   string // or the virtual function
	typ  string
}

func (m made) name() string { return m.uuid + m.vf }

func madeOn(inv pci.Inventory, c pci.Card) []made {
	var out []made
	for _, p := range c.Parents {
		if p.Backend == pci.Vendor && p.Current != "" {
			out = append(out, made{vf: p.Name, typ: p.Current})
		}
		for _, m := range inv.Mediated {
			if m.Parent == p.Name {
				out = append(out, made{uuid: m.UUID, typ: m.Type})
			}
		}
	}
	return out
}

var framebufferGiB = regexp.MustCompile(`-(\d+)[A-Z]`)

// places is how many vGPUs of a type a card takes: what exists of it and what is
// offered still. Where each virtual function offers one, the memory binds: some
// drivers tell a type's memory only in its name.
func places(c pci.Card, t nodewire.VGPU, there []made, memoryMiB int64) int {
	n := t.Available
	for _, m := range there {
		if m.typ == t.ID {
			n++
		}
	}
	virtual := 0
	for _, p := range c.Parents {
		if p.Address != nil && *p.Address != c.Function.Address {
			virtual++
		}
	}
	if virtual > 0 {
		mib := t.MemoryMiB
		if m := framebufferGiB.FindStringSubmatch(t.Name); mib == 0 && m != nil {
			gib, _ := strconv.ParseInt(m[1], 10, 32) // digits
			mib = gib << 10
		}
		if n = virtual; mib > 0 && memoryMiB > 0 {
			n = min(n, int((memoryMiB+mib/16)/mib)) // usable memory is a little less than nominal
		}
	}
	return min(max(n, 1), mostVGPUs)
}

// planVGPU chooses how a vGPU is made, before it is: which parent, which name.
func (b *Board) planVGPU(s *scan, id string, epoch int64, d nodewire.Device, c pci.Card, taken map[string]bool) (part, error) {
	p := part{Card: c.Function.Address.String()}
	rec := b.ledger.card(p.Card)
	view := s.cards[p.Card]
	if d.Profile != "vgpu" || d.SlotStart < 0 || d.SlotEnd != d.SlotStart+1 || d.SlotStart >= view.places {
		return p, fmt.Errorf("card %s has no vGPU of profile %s at %d to %d: %w", p.Card, d.Profile, d.SlotStart, d.SlotEnd, device.ErrImpossible)
	}
	typ := view.vgpu
	if rec.VGPUType == "" || typ.ID == "" {
		return p, fmt.Errorf("no vGPU type was chosen for card %s: %w", p.Card, device.ErrImpossible)
	}
	for _, parent := range c.Parents {
		virtual := parent.Address != nil && *parent.Address != c.Function.Address
		if virtual && taken[parent.Name] {
			continue // it has one vGPU
		}
		if !slices.ContainsFunc(parent.Types, func(t pci.Type) bool { return t.ID == typ.ID && t.Available > 0 }) {
			continue
		}
		switch parent.Backend {
		case pci.Mediated:
			p.Mediated = &mediatedHold{UUID: deviceUUID(id, epoch, p.Card, d.SlotStart), Parent: parent.Name, Type: typ.ID}
		case pci.Vendor:
			if !parent.Whole.OK {
				continue
			}
			p.Virtual = &virtualHold{Address: *parent.Address, Type: typ.ID}
		default:
			continue
		}
		taken[parent.Name] = true
		return p, nil
	}
	return p, fmt.Errorf("card %s offers no more vGPUs of type %s now: others are in the way", p.Card, typ.Name)
}

// makeMediated makes a mediated device with our own UUID; one that is there is
// kept.
func (b *Board) makeMediated(ctx context.Context, m mediatedHold) error {
	inv, err := pci.Scan(b.cfg.Sys, b.cfg.Options)
	if err != nil {
		return err
	}
	there := func(inv pci.Inventory) (bool, error) {
		for _, d := range inv.Mediated {
			if d.UUID == m.UUID {
				if d.Parent != m.Parent || d.Type != m.Type {
					return true, fmt.Errorf("mediated device %s is a %s on %s, not a %s on %s", m.UUID, d.Type, d.Parent, m.Type, m.Parent)
				}
				return true, nil
			}
		}
		return false, nil
	}
	if ok, err := there(inv); ok {
		return err
	}
	parent, ok := findParent(inv, m.Parent)
	if !ok {
		return fmt.Errorf("make mediated device on %s: it is not there", m.Parent)
	}
	writeErr := b.write(ctx, parent.CreateFile(m.Type), m.UUID)
	if inv, err = pci.Scan(b.cfg.Sys, b.cfg.Options); err != nil {
		return errors.Join(writeErr, err)
	}
	if ok, err := there(inv); ok {
		return err
	}
	if writeErr == nil {
		writeErr = errors.New("the kernel said that it was done, and shows none")
	}
	return fmt.Errorf("make mediated device of type %s on %s: %w", m.Type, m.Parent, writeErr)
}

func (b *Board) removeMediated(ctx context.Context, m mediatedHold) error {
	there, err := b.exists(pci.MediatedDir + "/" + m.UUID)
	if err != nil || !there {
		return err
	}
	writeErr := b.write(ctx, pci.RemoveFile(m.UUID), "1")
	there, err = b.exists(pci.MediatedDir + "/" + m.UUID)
	switch {
	case err != nil || !there:
		return err
	case writeErr == nil:
		writeErr = errors.New("the kernel said that it was done, and shows it still")
	}
	return fmt.Errorf("remove mediated device %s: %w", m.UUID, writeErr)
}

// makeVirtual sets a virtual function's vGPU type. The function keeps its driver.
func (b *Board) makeVirtual(ctx context.Context, v virtualHold) (pci.Function, error) {
	parent, f, err := b.virtualParent(v.Address)
	if err != nil {
		return f, err
	}
	if parent.Current == v.Type {
		return f, nil
	}
	if parent.Current != "" {
		return f, fmt.Errorf("virtual function %s has vGPU type %s, which Tenon did not set", v.Address, parent.Current)
	}
	writeErr := b.write(ctx, parent.CurrentFile(), v.Type)
	if parent, f, err = b.virtualParent(v.Address); err != nil {
		return f, errors.Join(writeErr, err)
	}
	if parent.Current == v.Type {
		return f, nil
	}
	if writeErr == nil {
		writeErr = fmt.Errorf("the driver said that it was done, and shows type %q", parent.Current)
	}
	return f, fmt.Errorf("set vGPU type %s of %s: %w", v.Type, v.Address, writeErr)
}

// clearVirtual takes the type away, if it is still the one that we set.
func (b *Board) clearVirtual(ctx context.Context, v virtualHold) error {
	if gone, err := b.isGone(v.Address); gone || err != nil {
		return err
	}
	parent, _, err := b.virtualParent(v.Address)
	if err != nil {
		return err
	}
	if parent.Current != v.Type {
		return nil
	}
	writeErr := b.write(ctx, parent.CurrentFile(), "0")
	if parent, _, err = b.virtualParent(v.Address); err != nil {
		return errors.Join(writeErr, err)
	}
	switch {
	case parent.Current == "":
		return nil
	case writeErr == nil:
		writeErr = fmt.Errorf("the driver said that it was done, and shows type %s", parent.Current)
	}
	return fmt.Errorf("take the vGPU type from %s: %w", v.Address, writeErr)
}

func (b *Board) virtualParent(a pci.Address) (pci.Parent, pci.Function, error) {
	inv, err := pci.Scan(b.cfg.Sys, b.cfg.Options)
	if err != nil {
		return pci.Parent{}, pci.Function{}, err
	}
	parent, ok := findParent(inv, a.String())
	if !ok || parent.Backend != pci.Vendor {
		return parent, pci.Function{}, fmt.Errorf("virtual function %s takes no vGPU type now", a)
	}
	if len(parent.Unknown) > 0 {
		return parent, pci.Function{}, fmt.Errorf("the vGPU type of %s is unknown: %s", a, parent.Unknown[0])
	}
	f, err := pci.ReadFunction(b.cfg.Sys, a)
	return parent, f, err
}

func findParent(inv pci.Inventory, name string) (pci.Parent, bool) {
	for _, p := range inv.Parents {
		if p.Name == name {
			return p, true
		}
	}
	for _, c := range inv.Cards {
		for _, p := range c.Parents {
			if p.Name == name {
				return p, true
			}
		}
	}
	return pci.Parent{}, false
}
