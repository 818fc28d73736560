package host

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/tenon-cloud/tenon/internal/device/pci"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

// recover does what an operator's word asks for: check, and offer again if it
// passes. A card that can't be reset passes by the operator's word alone, if it
// answers and its functions are back.
func (b *Board) recover(ctx context.Context, card string, count int64) error {
	rec := b.ledger.card(card)
	if rec.Phase != nodewire.GPUCleaning || rec.Recovered != count {
		if err := b.ledger.changeCard(card, func(c *cardRecord) {
			c.Phase, c.Recovered = nodewire.GPUCleaning, count
		}); err != nil {
			return err
		}
	}
	a, err := pci.ParseAddress(card)
	if err != nil {
		return err
	}
	var v verdict
	gone, err := b.isGone(a)
	switch {
	case isSoft(a): // it is no PCI function, and nothing of it outlives its vGPUs
	case err != nil:
		return err
	case gone:
		v.add("it is gone from the bus")
		v.restore, v.unreset = rec.Restore, rec.Unreset
	default:
		if err := b.recheck(ctx, a, rec.Restore, &v); err != nil {
			return err
		}
	}
	if v.reason == "" {
		b.changeHealth(func(h *Health, now time.Duration) { h.Recover(card, now) })
	}
	return b.ledger.changeCard(card, func(c *cardRecord) {
		if v.reason == "" {
			c.HeldAs = ""
		}
		c.settle(v)
	})
}

func (b *Board) recheck(ctx context.Context, a pci.Address, restore []functionHold, v *verdict) error {
	id, err := pci.LiveID(b.cfg.Sys, a)
	if err != nil {
		return err
	}
	f, err := pci.ReadFunction(b.cfg.Sys, a)
	if err != nil {
		return err
	}
	var after verdict
	dead := false
	again := b.ledger.card(a.String()).Unreset
	switch with := f.Driver != "" && f.Driver != vfioDriver && id.Vendor != 0xffff; {
	case !with || again && (b.cfg.Driver == nil || f.Driver != b.cfg.DriverName):
		if with { // a tenant had it since it was last reset
			if restore, err = b.takeForReset(ctx, f, restore); err != nil {
				return err
			}
		}
		if dead, err = b.resetBySysfs(ctx, a, &after); err != nil {
			return err
		}
	case again:
		why, err := b.othersOn(ctx, a.String())
		if err != nil {
			return err
		}
		if why != "" {
			return fmt.Errorf("reset %s: %w: %s", a, ErrBusy, why)
		}
		if err := b.cfg.Driver.Reset(ctx, a.String()); err != nil {
			if notYet(ctx, err) {
				return fmt.Errorf("reset %s: %w", a, err)
			}
			after.add("its reset failed: " + err.Error())
		}
	}
	if dead || after.reason != "" && !after.noWay {
		v.add(after.reason)
		v.restore, v.unreset = restore, true
		return nil
	}
	if err := b.restoreAll(ctx, restore, v); err != nil || len(v.restore) > 0 {
		return err
	}
	return b.checkByDriver(ctx, a, v)
}

// settle notes what a check came to.
func (c *cardRecord) settle(v verdict) {
	if c.HeldAs != "" && v.reason == "" {
		return // that was of its slot, for who had another card there
	}
	c.Phase, c.Reason, c.Restore, c.Unreset = "", "", v.restore, v.unreset
	if v.reason != "" {
		c.Phase, c.Reason = nodewire.GPUQuarantined, v.reason
	}
}

// takeForReset takes a card from its own driver, and has the ledger name that one
// first, for the way back.
func (b *Board) takeForReset(ctx context.Context, f pci.Function, restore []functionHold) ([]functionHold, error) {
	if !slices.ContainsFunc(restore, func(h functionHold) bool { return h.Address == f.Address }) {
		restore = append(slices.Clone(restore), functionHold{Address: f.Address, Driver: f.Driver, Override: f.Override})
	}
	if err := b.ledger.changeCard(f.Address.String(), func(c *cardRecord) { c.Restore = restore }); err != nil {
		return restore, err
	}
	return restore, b.free(ctx, f)
}

// free takes a function from its driver for a reset, which would run on under it.
// One that can't be reset stays.
func (b *Board) free(ctx context.Context, f pci.Function) error {
	inv, err := pci.Scan(b.cfg.Sys, b.cfg.Options)
	if err != nil {
		return err
	}
	if c, known := inv.Card(f.Address); known && !c.Reset.OK {
		return nil
	}
	if err := b.waitFree(ctx, f, -1); err != nil {
		return err
	}
	return b.unbind(ctx, f.Address, f.Driver)
}

// othersOn says what of others a reset of a card that nobody holds would end:
// slices, vGPUs, programs. Such things are shown and never touched.
func (b *Board) othersOn(ctx context.Context, card string) (string, error) {
	s, err := b.look(ctx)
	if err != nil {
		return "", err
	}
	return s.cards[card].others(), nil
}

func (v *view) others() string {
	if v == nil || v.driver == nil || v.gpu.State == nodewire.GPUUnknown {
		return "what is on it can't be read"
	}
	if i := slices.IndexFunc(v.gpu.Slices, func(s nodewire.Slice) bool { return s.Foreign }); i >= 0 {
		return fmt.Sprintf("a slice that Tenon did not make is on it, at %d to %d", v.gpu.Slices[i].SlotStart, v.gpu.Slices[i].SlotEnd)
	}
	switch {
	case len(v.made) > 0:
		return fmt.Sprintf("vGPU %s is on it, which Tenon did not make", v.made[0].name())
	case len(v.driver.Processes) > 0:
		return fmt.Sprintf("%s uses it", v.driver.Processes[0])
	}
	return ""
}
