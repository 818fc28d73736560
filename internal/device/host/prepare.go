package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tenon-cloud/tenon/internal/device"
	"github.com/tenon-cloud/tenon/internal/device/pci"
	"github.com/tenon-cloud/tenon/internal/gpu"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

// Prepare implements device.Board. What it is about to do is in the ledger first,
// so that Release finds it whatever happened to the process.
func (b *Board) Prepare(ctx context.Context, want device.Request) ([]device.Grant, error) {
	if len(want.Devices) == 0 {
		return nil, nil
	}
	grants, err := b.prepare(ctx, want)
	if err != nil {
		return nil, fmt.Errorf("prepare devices of %s: %w", want.InstanceID, err)
	}
	return grants, nil
}

func (b *Board) prepare(ctx context.Context, want device.Request) ([]device.Grant, error) {
	var cards []string
	for _, d := range want.Devices {
		address, err := b.addressOf(ctx, d.GPUUUID)
		if err != nil {
			return nil, err
		}
		cards = append(cards, address)
	}
	unlock, err := b.lock(ctx, cards...)
	if err != nil {
		return nil, err
	}
	defer unlock()
	h, held := b.ledger.hold(want.InstanceID)
	switch {
	case held && h.Epoch > want.Epoch:
		return nil, fmt.Errorf("epoch %d is stale, epoch %d holds: %w", want.Epoch, h.Epoch, device.ErrImpossible)
	case held && h.Epoch < want.Epoch:
		return nil, fmt.Errorf("its epoch %d still holds devices", h.Epoch)
	case held && !slices.Equal(h.Devices, want.Devices):
		return nil, fmt.Errorf("epoch %d holds others: %w", want.Epoch, device.ErrImpossible)
	case held && !slices.Equal(h.cards(), cards):
		return nil, fmt.Errorf("its cards were at %s and are at %s now", strings.Join(h.cards(), ", "), strings.Join(cards, ", "))
	case held && h.Releasing:
		return nil, errors.New("its devices are being taken back")
	case !held:
		s, err := b.look(ctx)
		if err != nil {
			return nil, err
		}
		if h, err = b.plan(s, want, cards); err != nil {
			return nil, err
		}
		if err := b.ledger.setHold(want.InstanceID, h); err != nil {
			return nil, err
		}
	}
	return b.make(ctx, want.InstanceID, h)
}

// addressOf finds a card by its UUID, and says where one was that is not there.
func (b *Board) addressOf(ctx context.Context, uuid string) (string, error) {
	find := func() (string, cardRecord) {
		for address, rec := range b.ledger.read().Cards {
			if rec.UUID == uuid {
				return address, rec
			}
		}
		return "", cardRecord{}
	}
	address, _ := find()
	if address == "" { // nobody has read the inventory yet
		if _, err := b.look(ctx); err != nil {
			return "", err
		}
		address, _ = find()
	}
	if address == "" {
		return "", fmt.Errorf("no card %s here: %w", uuid, device.ErrImpossible)
	}
	return address, nil
}

// plan decides how each device is made, and refuses what can't be.
func (b *Board) plan(s *scan, want device.Request, cards []string) (hold, error) {
	h := hold{Epoch: want.Epoch, Kind: want.Kind, Devices: slices.Clone(want.Devices)}
	holds := b.ledger.read().Holds
	taken := map[string]bool{} // virtual functions
	for _, other := range holds {
		for _, p := range other.Parts {
			if p.Virtual != nil {
				taken[p.Virtual.Address.String()] = true
			}
			if p.Mediated != nil {
				taken[p.Mediated.Parent] = true
			}
		}
	}
	for i, d := range want.Devices {
		v := s.cards[cards[i]]
		switch {
		case v == nil:
			return h, b.whyAbsent(cards[i])
		case v.gpu.State != nodewire.GPUReady:
			return h, fmt.Errorf("card %s is %s: %s", cards[i], v.gpu.State, v.gpu.Reason)
		case d.Mode != v.gpu.Mode:
			return h, fmt.Errorf("card %s is in mode %s, not %s: %w", cards[i], v.gpu.Mode, d.Mode, device.ErrImpossible)
		}
		for owner, other := range holds {
			for k, p := range other.Parts {
				if p.Card == cards[i] && d.SlotStart < other.Devices[k].SlotEnd && other.Devices[k].SlotStart < d.SlotEnd {
					return h, fmt.Errorf("card %s is held by %s", cards[i], owner)
				}
			}
		}
		for k, p := range h.Parts {
			if p.Card == cards[i] && d.SlotStart < h.Devices[k].SlotEnd && h.Devices[k].SlotStart < d.SlotEnd {
				return h, fmt.Errorf("card %s: asked for twice at slots %d to %d: %w", cards[i], d.SlotStart, d.SlotEnd, device.ErrImpossible)
			}
		}
		p, err := b.planPart(s, want, d, v, cards, taken)
		if err != nil {
			return h, err
		}
		h.Parts = append(h.Parts, p)
	}
	return h, nil
}

// whyAbsent says why a card is not among those that were read.
func (b *Board) whyAbsent(card string) error {
	a, err := pci.ParseAddress(card)
	if err != nil {
		return err
	}
	gone, err := b.isGone(a)
	switch {
	case err != nil:
		return fmt.Errorf("card %s can't be read: %w", card, err)
	case gone:
		return fmt.Errorf("card %w", &device.GoneError{Address: card})
	}
	return fmt.Errorf("card %s can't be read now", card)
}

func (b *Board) planPart(s *scan, want device.Request, d nodewire.Device, v *view, cards []string, taken map[string]bool) (part, error) {
	address, vm := v.gpu.PCIAddress, want.Kind == "vm"
	impossible := func(format string, args ...any) (part, error) {
		return part{}, fmt.Errorf("card %s: %s: %w", address, fmt.Sprintf(format, args...), device.ErrImpossible)
	}
	if !vm && d.Mode != "vgpu" && (v.driver == nil || b.cfg.CDI == nil) {
		return impossible("a container gets a card only by its vendor's driver and its CDI specs, which this node has not")
	}
	switch d.Mode {
	case "whole":
		if d.Profile != gpu.Whole || d.SlotStart != gpu.WholeSlots.Start || d.SlotEnd != gpu.WholeSlots.End {
			return impossible("not one whole card")
		}
		if !vm {
			if len(v.driver.Processes) > 0 {
				return part{}, fmt.Errorf("card %s is %w by %s", address, ErrBusy, v.driver.Processes[0])
			}
			return part{Card: address, Whole: true}, nil
		}
		if why := b.notForVM(s, v); why != "" {
			return impossible("no virtual machine can have it: %s", why)
		}
		if err := bundleComplete(v.card, cards); err != nil {
			return part{}, fmt.Errorf("%w: %w", err, device.ErrImpossible)
		}
		return part{Card: address, Functions: functionsOf(v.card)}, nil
	case "mig":
		if vm {
			return impossible("a MIG slice is no PCI function: a virtual machine takes a whole card or a vGPU")
		}
		if i := slices.IndexFunc(v.gpu.Slices, func(s nodewire.Slice) bool {
			return s.Foreign && s.SlotStart < d.SlotEnd && d.SlotStart < s.SlotEnd
		}); i >= 0 {
			return part{}, fmt.Errorf("card %s: a slice that Tenon did not make is in the way, at %d to %d", address, v.gpu.Slices[i].SlotStart, v.gpu.Slices[i].SlotEnd)
		}
		return part{Card: address, Slice: &slicePlace{Profile: d.Profile, SlotStart: d.SlotStart, SlotEnd: d.SlotEnd}}, nil
	case "vgpu":
		if !vm {
			return impossible("a vGPU is a virtual machine's")
		}
		if v.mig != nil {
			return b.planBacked(d, v, taken)
		}
		return b.planVGPU(s, want.InstanceID, want.Epoch, d, v.card, taken)
	case "shared":
		if vm {
			return impossible("a share is a container's")
		}
		if _, err := ShareOf(v.gpu, v.rec.Shares, d); err != nil {
			return part{}, fmt.Errorf("%w: %w", err, device.ErrImpossible)
		}
		return part{Card: address, Share: true}, nil
	}
	return impossible("there is no mode %q", d.Mode)
}

// make brings the devices of a hold about; what is there already stays.
func (b *Board) make(ctx context.Context, id string, h hold) ([]device.Grant, error) {
	if err := b.makePassed(ctx, id, &h); err != nil {
		return nil, err
	}
	grants := make([]device.Grant, len(h.Parts))
	var uuids, env []string
	for i, p := range h.Parts {
		switch {
		case len(p.Functions) > 0:
			for _, fh := range p.Functions {
				f, err := pci.ReadFunction(b.cfg.Sys, fh.Address)
				if err != nil {
					return nil, err
				}
				grants[i].Pass = append(grants[i].Pass, functionGrant(f))
			}
		case p.Mediated != nil:
			if err := b.makeMediated(ctx, *p.Mediated); err != nil {
				return nil, err
			}
			grants[i].Mediated, grants[i].Near = p.Mediated.UUID, b.near(p.Card)
		case p.Virtual != nil:
			set := func() (pci.Function, error) { return b.makeVirtual(ctx, *p.Virtual) }
			if p.Slice != nil {
				set = func() (pci.Function, error) { return b.makeBacked(ctx, p) }
			}
			f, err := set()
			if err != nil {
				return nil, err
			}
			g := functionGrant(f)
			grants[i].Virtual = &g
		default:
			uuid, more, err := b.makeForContainer(ctx, p, h.Devices[i])
			if err != nil {
				return nil, err
			}
			uuids, env = append(uuids, uuid), append(env, more...)
		}
	}
	if len(uuids) == 0 {
		return grants, nil
	}
	names, err := b.cfg.CDI.Present(ctx, id, uuids, env)
	if err != nil {
		return nil, fmt.Errorf("present to the container engine: %w", err)
	}
	n := 0
	for i := range grants {
		if len(grants[i].Pass) == 0 && grants[i].Virtual == nil && grants[i].Mediated == "" && n < len(names) {
			grants[i].CDI, grants[i].Near = names[n], b.near(h.Parts[i].Card)
			n++
		}
	}
	return grants, nil
}

// near is the NUMA node of a card; nil: it is not known.
func (b *Board) near(card string) *int {
	a, err := pci.ParseAddress(card)
	if err != nil || isSoft(a) {
		return nil
	}
	f, err := pci.ReadFunction(b.cfg.Sys, a)
	if err != nil || f.NUMANode < 0 {
		return nil
	}
	return &f.NUMANode
}

func functionGrant(f pci.Function) device.Function {
	return device.Function{Address: f.Address.String(), NUMANode: f.NUMANode, BARBytes: f.MemoryBytes()}
}

// makePassed gives the whole cards of a hold to vfio-pci and joins those that hang
// on NVSwitches.
func (b *Board) makePassed(ctx context.Context, id string, h *hold) error {
	var functions []functionHold
	var switched []string
	for _, p := range h.Parts {
		if len(p.Functions) > 0 {
			functions = append(functions, p.Functions...)
			if b.ledger.card(p.Card).NVSwitch {
				switched = append(switched, p.Card)
			}
		}
	}
	if len(functions) == 0 {
		return nil
	}
	minors := map[string]int{}
	if b.cfg.Driver != nil {
		listed, _ := b.driverCards(ctx) // without it we only name holders less well
		for address, c := range listed {
			minors[address] = c.Minor
			if slices.ContainsFunc(h.Parts, func(p part) bool { return p.Card == address && len(p.Functions) > 0 }) && c.Persistence {
				if err := b.cfg.Driver.SetPersistence(ctx, address, false); err != nil { // it only makes the driver slower to let go
					b.cfg.Log.Warn("end the persistence of a card", "card", address, "error", err)
				}
			}
		}
	}
	if b.cfg.Fabric != nil && len(switched) > 0 && h.Partition == nil {
		if err := b.choosePartition(ctx, id, h, switched); err != nil {
			return err
		}
	}
	for _, p := range h.Parts {
		minor, known := minors[p.Card]
		if !known {
			minor = -1
		}
		if err := b.bindable(ctx, p.Functions, minor); err != nil {
			return err
		}
	}
	if err := b.give(id, h); err != nil {
		return err
	}
	for _, p := range h.Parts {
		if len(p.Functions) == 0 {
			continue
		}
		for _, f := range p.Functions {
			if err := b.bind(ctx, f.Address); err != nil {
				return err
			}
		}
		a, err := pci.ParseAddress(p.Card)
		if err != nil {
			return err
		}
		if live, err := pci.LiveID(b.cfg.Sys, a); err != nil || live.Vendor == 0xffff {
			return fmt.Errorf("card %s does not answer: its configuration space reads as ones (%w)", p.Card, errors.Join(err, errUnknown))
		}
	}
	if b.cfg.Fabric != nil && h.Partition != nil {
		if err := b.applyFabric(ctx, h.Partition); err != nil {
			return err
		}
	}
	return nil
}

// give notes that from now on a guest may have had the cards.
func (b *Board) give(id string, h *hold) error {
	parts, changed := slices.Clone(h.Parts), false
	for i, p := range parts {
		if len(p.Functions) > 0 && !(p.Given && p.Boot == b.cfg.BootID) {
			parts[i].Given, parts[i].Boot, changed = true, b.cfg.BootID, true
		}
	}
	if !changed {
		return nil
	}
	h.Parts = parts
	return b.ledger.setHold(id, *h)
}

// makeForContainer makes a slice exist, and says how the driver names the device.
func (b *Board) makeForContainer(ctx context.Context, p part, d nodewire.Device) (uuid string, env []string, err error) {
	rec := b.ledger.card(p.Card)
	if p.Slice == nil {
		if p.Share && rec.Last != nil {
			s, err := ShareOf(*rec.Last, rec.Shares, d)
			if err != nil {
				return "", nil, err
			}
			env = s.Env
		}
		return rec.DriverUUID, env, nil
	}
	r, err := b.applyMIG(ctx, p.Card, nil)
	if err != nil {
		return "", nil, err
	}
	for _, s := range r.Slices {
		if !s.Foreign && s.UUID != "" && s.Profile == p.Slice.Profile && s.SlotStart == p.Slice.SlotStart && s.SlotEnd == p.Slice.SlotEnd {
			return s.UUID, nil, nil
		}
	}
	return "", nil, fmt.Errorf("make slice %s on %s: %s", spell(*p.Slice), p.Card, strings.TrimSpace(r.Wish+" "+"it is not there"))
}

// applyMIG brings a card to its wish and to what is held of it, without one place.
func (b *Board) applyMIG(ctx context.Context, card string, without *nodewire.Place) (MIGResult, error) {
	if b.cfg.Driver == nil {
		return MIGResult{}, fmt.Errorf("cut %s: %w", card, ErrNoDriver)
	}
	wish := nodewire.Card{PCIAddress: card, Mode: "mig"}
	if rec := b.ledger.card(card); rec.Wish != nil && MIGWishOf(*rec.Wish, nil).On {
		wish = *rec.Wish
	}
	var held []nodewire.Place
	for _, h := range b.ledger.read().Holds {
		for _, p := range h.Parts {
			if p.Card == card && p.Slice != nil && (without == nil || *p.Slice != *without) {
				held = append(held, *p.Slice)
			}
		}
	}
	w := MIGWishOf(wish, held)
	if without != nil {
		w.Fixed = false
		w.Places = slices.DeleteFunc(w.Places, func(p nodewire.Place) bool { return p == *without })
	}
	return ApplyMIG(ctx, b.cfg.Driver, b.ledger, b.cfg.BootID, card, w)
}
