package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/tenon-cloud/tenon/internal/device/pci"
)

// verdict is what cleaning a card came to. A card with a reason is quarantined.
type verdict struct {
	reason  string
	restore []functionHold // that could not go back
	noWay   bool           // the kernel can't reset it, which only an operator's word makes good
	reset   bool           // it was reset, or the host booted since
	unreset bool           // a tenant had it, and no reset since went well
}

func (v *verdict) add(reason string) {
	if v.reason != "" {
		v.reason += "; "
	}
	v.reason += reason
}

// notYet: not a finding about the card, but something that may pass. It is tried
// again, and until then the card stays with whom it was.
func notYet(ctx context.Context, err error) bool {
	return ctx.Err() != nil || errors.Is(err, ErrBusy)
}

// cleanPassed makes a card that a VM had fit for the next tenant: reset, looked
// at, and only then given to the host's own driver, which a tenant's leftovers
// would meet otherwise.
func (b *Board) cleanPassed(ctx context.Context, id string, place int, p part) (verdict, error) {
	var v verdict
	if err := b.vfioUsers(ctx, p.Functions); err != nil {
		return v, err
	}
	a, err := pci.ParseAddress(p.Card)
	if err != nil {
		return v, err
	}
	gone, err := b.isGone(a)
	if err != nil {
		return v, fmt.Errorf("look for %s: %w", a, err)
	}
	if gone {
		v.add("it is gone from the bus")
		v.restore, v.unreset = p.Functions, p.Given
		return v, nil
	}
	if p.Given {
		dead, err := b.resetOnce(ctx, id, place, p, a, &v)
		if err != nil {
			return v, err
		}
		if dead { // a driver would hang on it
			v.restore = p.Functions
			return v, nil
		}
	}
	if err := b.restoreAll(ctx, p.Functions, &v); err != nil {
		return v, err
	}
	if len(v.restore) > 0 {
		return v, nil
	}
	err = b.checkByDriver(ctx, a, &v)
	return v, err
}

// resetOnce resets a card and has the ledger keep what came of it: after that the
// functions go back, and a crash there must not make a failed reset forgotten.
func (b *Board) resetOnce(ctx context.Context, id string, place int, p part, a pci.Address, v *verdict) (dead bool, err error) {
	if p.Cleaned != nil {
		if *p.Cleaned != "" {
			v.add(*p.Cleaned)
		}
		v.reset, v.unreset = *p.Cleaned == "", *p.Cleaned != ""
		live, err := pci.LiveID(b.cfg.Sys, a)
		return live.Vendor == 0xffff, err
	}
	f, err := pci.ReadFunction(b.cfg.Sys, a)
	if err != nil {
		return false, err
	}
	// Its own driver has it again: by a boot, which makes a card anew, or because
	// somebody took it off the bus and looked again, which does not.
	switch own := f.Driver != "" && f.Driver != vfioDriver; {
	case own && f.CanReset && f.Driver == b.cfg.DriverName && b.cfg.Driver != nil:
		if err := b.cfg.Driver.Reset(ctx, a.String()); err != nil {
			v.add("its reset failed: " + err.Error())
		}
	case own && f.CanReset && p.Boot != "" && p.Boot != b.cfg.BootID:
	default:
		if own {
			if err := b.free(ctx, f); err != nil {
				return false, err
			}
		}
		if dead, err = b.resetBySysfs(ctx, a, v); err != nil {
			return false, err
		}
	}
	v.reset, v.unreset = v.reason == "", v.reason != ""
	reason := v.reason
	return dead, b.ledger.change(func(s *ledgerState) {
		h := s.Holds[id]
		h.Parts = slices.Clone(h.Parts)
		h.Parts[place].Cleaned = &reason
		s.Holds[id] = h
	})
}

// resetBySysfs resets a card and reads from it. dead: it doesn't answer.
func (b *Board) resetBySysfs(ctx context.Context, a pci.Address, v *verdict) (dead bool, err error) {
	inv, err := pci.Scan(b.cfg.Sys, b.cfg.Options)
	if err != nil {
		return false, err
	}
	c, known := inv.Card(a)
	switch {
	case !known:
		return false, fmt.Errorf("%s can't be read now: %w", a, errUnknown)
	case !c.Reset.OK:
		v.noWay = true
		v.add("it can't be cleaned between tenants: " + c.Reset.Reason)
	default:
		if err := b.write(ctx, c.ResetFile, "1"); errors.Is(err, syscall.ENOTTY) {
			v.noWay = true // what it promised is none
			v.add("it can't be cleaned between tenants: the kernel knows no way to reset it")
		} else if err != nil {
			if notYet(ctx, err) {
				return false, fmt.Errorf("reset %s: %w", a, err)
			}
			v.add("its reset failed: " + err.Error())
			b.hear(Signal{Card: a.String(), Fault: ResetFailed, GI: -1, Text: err.Error()})
		}
		// FLR of one function leaves the others of its card.
		for _, f := range c.Companions {
			if inv.Resettable(f) && v.reason == "" {
				if err := b.write(ctx, pci.DeviceFile(f.Address, "reset"), "1"); err != nil {
					if notYet(ctx, err) {
						return false, fmt.Errorf("reset %s: %w", f.Address, err)
					}
					v.add(fmt.Sprintf("the reset of %s failed: %v", f.Address, err))
				}
			}
		}
	}
	id, err := pci.LiveID(b.cfg.Sys, a)
	if err != nil {
		return false, err
	}
	if id.Vendor == 0xffff {
		v.add("it no longer answers: its configuration space reads as ones")
		return true, nil
	}
	if id != c.Function.ID {
		v.add(fmt.Sprintf("it answers as %s, and was %s", id, c.Function.ID))
		return true, nil
	}
	return false, nil
}

var errUnknown = errors.New("unknown")

// restoreAll gives each function back to its own driver.
func (b *Board) restoreAll(ctx context.Context, list []functionHold, v *verdict) error {
	for _, h := range list {
		err := b.restore(ctx, h)
		switch {
		case err == nil:
		case notYet(ctx, err):
			return err
		default:
			v.add("not all of it is back as it was: " + err.Error())
			v.restore = append(v.restore, h)
		}
	}
	return nil
}

// checkByDriver has the vendor's driver say that a card is as it was made: MIG
// off unless that is its mode, ECC and the rest at their defaults, no memory row
// waiting, nobody on it. A card without the vendor's driver has no such check.
func (b *Board) checkByDriver(ctx context.Context, a pci.Address, v *verdict) error {
	card := a.String()
	c, ok, err := b.driverCard(ctx, a)
	if err != nil || !ok {
		if err != nil && !notYet(ctx, err) {
			v.add(err.Error())
			return nil
		}
		return err
	}
	if len(c.Processes) > 0 {
		v.add(fmt.Sprintf("%s still uses it", c.Processes[0]))
		return nil
	}
	if !b.keepsMIG(card) && (c.MIG.Current || c.MIG.Pending) {
		r, err := ApplyMIG(ctx, b.cfg.Driver, b.ledger, b.cfg.BootID, card, MIGWish{})
		if err != nil {
			return fmt.Errorf("clean %s: %w", card, err)
		}
		if r.Wish != "" {
			v.add("MIG could not be switched off: " + r.Wish)
		}
	}
	if err := b.cfg.Driver.Defaults(ctx, card); err != nil && !errors.Is(err, ErrRefused) {
		v.add("its settings could not be put back: " + err.Error())
	}
	if c, ok, err = b.driverCard(ctx, a); err != nil || !ok {
		return err
	}
	if c.Remap.Pending || c.ECC.Capable && c.ECC.Current != c.ECC.Pending {
		if err := b.cfg.Driver.Reset(ctx, card); err != nil {
			v.add("what waits for a reset stays: " + err.Error())
		} else {
			v.reset = true
		}
		if c, ok, err = b.driverCard(ctx, a); err != nil || !ok {
			return err
		}
	}
	if !c.Persistence { // as it is while the host has it, without a start of the driver for each program
		if err := b.cfg.Driver.SetPersistence(ctx, card, true); err != nil && !errors.Is(err, ErrRefused) {
			v.add("its persistence could not be put back: " + err.Error())
		}
	}
	switch {
	case c.Remap.Pending:
		v.add("a row of its memory still waits to be replaced")
	case c.ECC.Capable && !(c.ECC.Current && c.ECC.Pending):
		v.add("ECC is not on")
	}
	return nil
}

// driverCard finds a card that is with the vendor's driver; the driver shows it
// some time after it was given it. false: it isn't the driver's.
func (b *Board) driverCard(ctx context.Context, a pci.Address) (DriverCard, bool, error) {
	if b.cfg.Driver == nil {
		return DriverCard{}, false, nil
	}
	f, err := pci.ReadFunction(b.cfg.Sys, a)
	if err != nil {
		return DriverCard{}, false, err
	}
	if f.Driver != b.cfg.DriverName {
		return DriverCard{}, false, nil
	}
	deadline := time.Now().Add(b.cfg.BusyFor)
	for {
		list, err := b.cfg.Driver.Cards(ctx)
		for _, c := range list {
			if c.PCIAddress == a.String() {
				return c, true, nil
			}
		}
		if !time.Now().Before(deadline) {
			if err == nil {
				err = ErrNoCard
			}
			return DriverCard{}, false, fmt.Errorf("driver %s does not show it: %w", f.Driver, err)
		}
		select {
		case <-ctx.Done():
			return DriverCard{}, false, ctx.Err()
		case <-time.After(min(busyLook, b.cfg.BusyFor)):
		}
	}
}

func (b *Board) keepsMIG(card string) bool {
	w := b.ledger.card(card).Wish
	return w != nil && MIGWishOf(*w, nil).On
}

// cleanByDriver cleans a whole card that a container had.
func (b *Board) cleanByDriver(ctx context.Context, p part) (verdict, error) {
	v := verdict{unreset: true}
	a, err := pci.ParseAddress(p.Card)
	if err != nil {
		return v, err
	}
	c, ok, err := b.driverCard(ctx, a)
	switch {
	case err != nil && notYet(ctx, err):
		return v, err
	case err != nil:
		v.add(err.Error())
		return v, nil
	case !ok:
		v.add("its vendor's driver no longer has it")
		return v, nil
	case len(c.Processes) > 0:
		return v, fmt.Errorf("clean %s: %w: %s still uses it", p.Card, ErrBusy, c.Processes[0])
	}
	if err := b.cfg.Driver.Reset(ctx, p.Card); err != nil {
		v.add("its reset failed: " + err.Error())
		b.hear(Signal{Card: p.Card, UUID: c.UUID, Fault: ResetFailed, GI: -1, Text: err.Error()})
	} else {
		v.reset, v.unreset = true, false
	}
	if id, err := pci.LiveID(b.cfg.Sys, a); err != nil || id.Vendor == 0xffff {
		v.add("it no longer answers")
		return v, err
	}
	err = b.checkByDriver(ctx, a, &v)
	return v, err
}
