package sim

import (
	"context"
	"fmt"
	"slices"

	"github.com/tenon-cloud/tenon/internal/device"
	"github.com/tenon-cloud/tenon/internal/gpu"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

// Device numbers: tty minors that no container gets by default. The first go to
// whole cards by index, the rest to slices as they are made. A board of many cards
// has more slices than that: theirs lie past the last tty that there can be, where
// a node is let through and answers that nothing is behind it.
const (
	major      = 4
	firstMinor = 16
	lastMinor  = 63
	pastTTYs   = 256
)

// Prepare makes the devices of an instance. A container gets device nodes by
// CDI; a VM an emulated PCI device for each card.
func (b *Board) Prepare(_ context.Context, want device.Request) ([]device.Grant, error) {
	instanceID, epoch, devices := want.InstanceID, want.Epoch, want.Devices
	if len(devices) == 0 {
		return nil, nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.advance(b.cfg.Now())
	h, held := b.state.Held[instanceID]
	switch {
	case held && h.Epoch > epoch:
		return nil, fmt.Errorf("prepare devices of %s: epoch %d is stale, epoch %d holds: %w", instanceID, epoch, h.Epoch, device.ErrImpossible)
	case held && h.Epoch < epoch:
		return nil, fmt.Errorf("prepare devices of %s: its epoch %d still holds devices", instanceID, h.Epoch)
	case held && !slices.Equal(h.Devices, devices):
		return nil, fmt.Errorf("prepare devices of %s: epoch %d holds others: %w", instanceID, epoch, device.ErrImpossible)
	case !held:
		if err := b.check(devices); err != nil {
			return nil, fmt.Errorf("prepare devices of %s: %w", instanceID, err)
		}
		if want.Kind == "vm" {
			if err := b.together(devices); err != nil {
				return nil, fmt.Errorf("prepare devices of %s: %w", instanceID, err)
			}
		}
		h = hold{Epoch: epoch, Devices: slices.Clone(devices)}
		for _, d := range devices {
			minor, err := b.minor(d, h.Minors)
			if err != nil {
				return nil, fmt.Errorf("prepare devices of %s: %w", instanceID, err)
			}
			h.Minors = append(h.Minors, minor)
		}
		b.state.Held[instanceID] = h
		if err := b.save(); err != nil {
			delete(b.state.Held, instanceID)
			return nil, fmt.Errorf("prepare devices of %s: %w", instanceID, err)
		}
	}
	if err := b.present(instanceID, h); err != nil {
		return nil, fmt.Errorf("prepare devices of %s: %w", instanceID, err)
	}
	grants := make([]device.Grant, len(devices))
	for i, d := range devices {
		if want.Kind == "vm" {
			grants[i].Emulated = true
		} else {
			grants[i].CDI = cdiKind + "=" + b.deviceUUID(*b.card(d.GPUUUID), d)
		}
	}
	return grants, nil
}

// Release gives an instance's devices back; a stale epoch changes nothing.
func (b *Board) Release(_ context.Context, instanceID string, epoch int64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	h, held := b.state.Held[instanceID]
	if !held || h.Epoch > epoch {
		return nil
	}
	if err := b.withdraw(instanceID); err != nil {
		return fmt.Errorf("release devices of %s: %w", instanceID, err)
	}
	delete(b.state.Held, instanceID)
	now := b.cfg.Now()
	for _, d := range h.Devices {
		if c := b.card(d.GPUUUID); d.Profile == gpu.Whole && b.cfg.Clean > 0 {
			s := b.state.Cards[c.PCIAddress]
			s.Clean = now.Add(b.cfg.Clean)
			b.state.Cards[c.PCIAddress] = s
		}
	}
	if err := b.save(); err != nil {
		b.state.Held[instanceID] = h
		return fmt.Errorf("release devices of %s: %w", instanceID, err)
	}
	return nil
}

// check refuses what the hardware would refuse: for ever, or while others hold
// what they hold.
func (b *Board) check(devices []nodewire.Device) error {
	asked, all := map[string][]gpu.Place{}, map[string][]gpu.Place{}
	wholes := map[string]bool{}
	for _, d := range devices {
		c := b.card(d.GPUUUID)
		if c == nil {
			return fmt.Errorf("no card %s here: %w", d.GPUUUID, device.ErrImpossible)
		}
		if d.Mode != c.mode {
			return fmt.Errorf("card %d is in mode %s, not %s: %w", c.index, c.mode, d.Mode, device.ErrImpossible)
		}
		if d.Mode == "whole" {
			if d.SlotStart != gpu.WholeSlots.Start || d.SlotEnd != gpu.WholeSlots.End || d.Profile != gpu.Whole || wholes[d.GPUUUID] {
				return fmt.Errorf("card %d: not one whole card: %w", c.index, device.ErrImpossible)
			}
			wholes[d.GPUUUID] = true
			continue
		}
		p, ok := c.geo.Profile(d.Profile)
		if !ok || p.At(d.SlotStart).End != d.SlotEnd {
			return fmt.Errorf("card %d has no profile %s at slots %d to %d: %w", c.index, d.Profile, d.SlotStart, d.SlotEnd, device.ErrImpossible)
		}
		asked[d.GPUUUID] = append(asked[d.GPUUUID], gpu.Place{Class: d.Profile, Start: d.SlotStart})
		if err := c.geo.Check(asked[d.GPUUUID]); err != nil {
			return fmt.Errorf("card %d: %w: %w", c.index, err, device.ErrImpossible)
		}
		place := nodewire.Place{Profile: d.Profile, SlotStart: d.SlotStart, SlotEnd: d.SlotEnd}
		if fixed := b.state.Cards[c.PCIAddress].Form.Layout; len(fixed) > 0 && !slices.Contains(fixed, place) {
			return fmt.Errorf("card %d is laid out without %s at %d: %w", c.index, d.Profile, d.SlotStart, device.ErrImpossible)
		}
		if slices.Contains(b.lost[c.uuid], place) {
			return fmt.Errorf("card %d does not show its %s at %d now", c.index, d.Profile, d.SlotStart)
		}
	}
	for owner, h := range b.state.Held {
		for _, o := range h.Devices {
			if wholes[o.GPUUUID] {
				return fmt.Errorf("%s is held by %s", o.GPUUUID, owner)
			}
			if o.Profile != gpu.Whole {
				all[o.GPUUUID] = append(all[o.GPUUUID], gpu.Place{Class: o.Profile, Start: o.SlotStart})
			}
		}
	}
	for _, d := range devices {
		c := b.card(d.GPUUUID)
		if m, ok := b.marks[c.uuid]; ok {
			return fmt.Errorf("card %d is %s: %s", c.index, m.State, m.Reason)
		}
		if why := b.busy(c, b.cfg.Now()); why != "" {
			return fmt.Errorf("card %d: %s", c.index, why)
		}
		if err := c.geo.Check(append(all[d.GPUUUID], asked[d.GPUUUID]...)); err != nil {
			return fmt.Errorf("card %d: beside what others hold: %w", c.index, err)
		}
	}
	return nil
}

// minor finds a device number that nothing else has.
func (b *Board) minor(d nodewire.Device, mine []int) (int, error) {
	if d.Mode == "whole" {
		return firstMinor + b.card(d.GPUUUID).index, nil
	}
	used := map[int]bool{}
	for _, m := range mine {
		used[m] = true
	}
	for _, h := range b.state.Held {
		for _, m := range h.Minors {
			used[m] = true
		}
	}
	for m := firstMinor + len(b.cards); m < pastTTYs+16*len(b.cards); m++ {
		if m == lastMinor+1 {
			m = pastTTYs // in between are serial lines
		}
		if !used[m] {
			return m, nil
		}
	}
	return 0, fmt.Errorf("all device numbers of major %d are taken", major)
}

// deviceUUID names a card, or the slice at a place; the same place has the same
// name again.
func (b *Board) deviceUUID(c card, d nodewire.Device) string {
	if d.Mode == "whole" {
		return c.uuid
	}
	if d.Profile == gpu.Share || d.Profile == gpu.VGPU {
		return "PART-SIM-" + b.uuid("part", c.index, d.Profile, c.geo.Slots, d.SlotStart)
	}
	return "MIG-SIM-" + b.uuid("mig", c.index, d.Profile, d.SlotStart)
}
