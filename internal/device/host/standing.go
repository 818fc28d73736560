package host

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tenon-cloud/tenon/internal/device/pci"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

// stateOf says whether a card takes new work. Only a ready one does.
func (b *Board) stateOf(ctx context.Context, s *scan, v *view, holds map[string]hold) {
	g, rec, f := &v.gpu, v.rec, v.card.Function
	address := g.PCIAddress
	owner := ownerOf(holds, address, func(part) bool { return true })
	releasing := false
	for _, h := range holds {
		releasing = releasing || h.Releasing && slices.Contains(h.cards(), address)
	}
	// A card that was reset since it was read has got over what was read of it.
	b.changeHealth(func(h *Health, _ time.Duration) {
		if !isSoft(f.Address) {
			h.Present(address, g.UUID, !f.Dead, s.began)
		}
		if v.driver != nil {
			h.Read(*v.driver, s.began)
		}
		if v.mig != nil {
			h.Missing(address, g.UUID, g.Missing, s.began)
		}
	})
	b.mu.Lock()
	state, reason := b.health.State(address)
	b.mu.Unlock()
	set := func(state, reason string) { g.State, g.Reason = state, reason }
	switch {
	case g.State == nodewire.GPUUnknown:
	case releasing || rec.Phase == nodewire.GPUCleaning:
		reason := "it is being cleaned and checked"
		if why := b.waitOf(address); why != "" {
			reason = why
		}
		set(nodewire.GPUCleaning, reason)
	case rec.Phase == nodewire.GPUQuarantined:
		set(nodewire.GPUQuarantined, rec.Reason)
	case state == nodewire.GPUNeedsReset:
		set(state, reason+"; it is reset "+b.resetWaits(v, holds))
	case state != nodewire.GPUReady:
		set(state, reason)
	case b.cfg.Driver != nil && f.Driver == b.cfg.DriverName && v.driver == nil:
		set(nodewire.GPUUnknown, fmt.Sprintf("the probe failed: %v", s.driverErr))
	case g.Mode == "vgpu" && (rec.VGPUType == "" || v.places == 0) && v.mig == nil:
		set(nodewire.GPUQuarantined, "no vGPU type was chosen for it")
	case s.foreign && f.Driver == vfioDriver && owner == "":
		if why := b.foreignUse(ctx, f); why != "" {
			set(nodewire.GPUQuarantined, why)
		}
	case g.Mode == "whole":
		if why := b.notForVM(s, v); why != "" {
			g.Reason, g.NotForVM = "not for virtual machines: "+why, true
		}
	}
}

// resetWaits says when a card that needs a reset gets one: of its own, since each
// release and the watch look again.
func (b *Board) resetWaits(v *view, holds map[string]hold) string {
	address := v.gpu.PCIAddress
	var who []string
	for id, h := range holds {
		if slices.Contains(h.cards(), address) {
			who = append(who, id)
		}
	}
	slices.Sort(who)
	if len(who) > 0 {
		return "once " + strings.Join(who, ", ") + map[bool]string{true: " has", false: " have"}[len(who) == 1] + " given it back"
	}
	if b.cfg.Driver == nil {
		return "by the next boot: no driver of its vendor answers here"
	}
	if why := v.others(); why != "" {
		return "once that is over: " + why
	}
	if why := b.waitOf(address); why != "" {
		return "again soon: " + why
	}
	return "now"
}

// waitOf is what the work on a card last met.
func (b *Board) waitOf(card string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.waits[card]
}

// setWait notes what the work on a card has met; empty: nothing is in its way.
func (b *Board) setWait(card, why string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if why == "" {
		delete(b.waits, card)
		return
	}
	b.waits[card] = why
}

// notForVM says why no VM can have a card whole; empty: one can.
func (b *Board) notForVM(s *scan, v *view) string {
	switch {
	case !v.card.Whole.OK:
		return v.card.Whole.Reason
	case len(s.inv.Switches) > 0 && v.card.Function.ID.Vendor == pci.VendorNVIDIA && v.rec.DriverUUID == "":
		return "this host has NVSwitches, and the vendor's driver has not told whether it hangs on them"
	case v.rec.NVSwitch && b.cfg.Fabric == nil:
		return "it hangs on NVSwitches, and there is no Fabric Manager in shared mode to part it from the others"
	}
	return ""
}

// anyForeign asks once for all cards, since it has to look at every process.
func (b *Board) anyForeign(ctx context.Context, inv pci.Inventory, holds map[string]hold) bool {
	var files []string
	for _, c := range inv.Cards {
		if c.Function.Driver == vfioDriver && ownerOf(holds, c.Function.Address.String(), func(part) bool { return true }) == "" {
			files = append(files, b.deviceFiles(c.Function, -1)...)
		}
	}
	if len(files) == 0 || b.cfg.Holders == nil {
		return false
	}
	who, err := b.cfg.Holders(ctx, files)
	return err != nil || len(who) > 0
}

// foreignUse names who has a card that we did not give away.
func (b *Board) foreignUse(ctx context.Context, f pci.Function) string {
	if b.cfg.Holders == nil {
		return ""
	}
	who, err := b.cfg.Holders(ctx, b.deviceFiles(f, -1))
	switch {
	case err != nil:
		return "who uses it is unknown: " + err.Error()
	case len(who) > 0:
		return "it is used by " + processes(who) + ", which Tenon did not start"
	}
	return ""
}
