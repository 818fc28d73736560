package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/tenon-cloud/tenon/internal/device/pci"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

// Wish implements device.Keeper. Each card by itself: one that can't be as wished
// keeps no other from it. A wish stays, and is tried again whenever its card has
// become idle, and after a restart.
func (b *Board) Wish(ctx context.Context, cards []nodewire.Card) error {
	wished := map[string]nodewire.Card{}
	for _, c := range cards {
		a, err := pci.ParseAddress(c.PCIAddress)
		if err != nil {
			b.cfg.Log.Warn("a wish names no card", "error", err)
			continue
		}
		c.PCIAddress = a.String()
		wished[c.PCIAddress] = c
	}
	if err := b.keepWishes(ctx, wished); err != nil {
		return fmt.Errorf("keep wishes: %w", err)
	}
	b.mu.Lock()
	maps.DeleteFunc(b.wishes, func(card, _ string) bool { _, still := wished[card]; return !still })
	b.mu.Unlock()
	for _, address := range slices.Sorted(maps.Keys(wished)) {
		if err := b.fulfilLocked(ctx, wished[address]); err != nil {
			return fmt.Errorf("wish of card %s: %w", address, err)
		}
	}
	return nil
}

// keepWishes notes them before any is acted on.
func (b *Board) keepWishes(ctx context.Context, wished map[string]nodewire.Card) error {
	known := b.ledger.read().Cards
	if slices.ContainsFunc(slices.Collect(maps.Keys(wished)), func(a string) bool { return known[a].UUID == "" }) {
		if _, err := b.look(ctx); err != nil { // nobody has read the inventory yet
			return err
		}
		known = b.ledger.read().Cards
	}
	same := func(w *nodewire.Card, n nodewire.Card, wanted bool) bool {
		return w == nil && !wanted || w != nil && wanted && sameWish(*w, n)
	}
	changed := false
	for address, rec := range known {
		n, wanted := wished[address]
		changed = changed || !same(rec.Wish, n, wanted)
	}
	if !changed {
		return nil
	}
	return b.ledger.change(func(s *ledgerState) {
		for address, rec := range s.Cards {
			n, wanted := wished[address]
			if rec.Wish = nil; wanted {
				rec.Wish = &n
			}
			s.Cards[address] = rec
		}
	})
}

func sameWish(a, b nodewire.Card) bool {
	return a.Mode == b.Mode && a.Shares == b.Shares && a.VGPUType == b.VGPUType && a.Recover == b.Recover && slices.Equal(a.Layout, b.Layout)
}

func (b *Board) fulfilLocked(ctx context.Context, wish nodewire.Card) error {
	unlock, err := b.lock(ctx, wish.PCIAddress)
	if err != nil {
		return err
	}
	defer unlock()
	rec := b.ledger.card(wish.PCIAddress)
	// A check that met somebody on the card is still to be ended.
	if rec.UUID != "" && (wish.Recover > rec.Recovered || rec.Phase == nodewire.GPUCleaning) {
		if b.isHeld(wish.PCIAddress) || rec.HeldAs != "" && b.heldElsewhere(wish.PCIAddress, rec.HeldAs) != "" {
			b.setWish(wish.PCIAddress, "it is recovered once nobody holds it")
			return nil
		}
		if err := b.recover(ctx, wish.PCIAddress, max(wish.Recover, rec.Recovered)); err != nil {
			b.setWish(wish.PCIAddress, "its check could not be ended: "+err.Error())
			return ctx.Err()
		}
	}
	b.fulfil(ctx, wish)
	return ctx.Err()
}

// fulfil brings a card to its wish if it can, and notes why not. The caller has
// the card's lock.
func (b *Board) fulfil(ctx context.Context, wish nodewire.Card) {
	reason, err := b.become(ctx, wish)
	if err != nil {
		reason = err.Error()
	}
	b.setWish(wish.PCIAddress, reason)
}

func (b *Board) setWish(card, reason string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if reason == "" {
		delete(b.wishes, card)
		return
	}
	b.wishes[card] = reason
}

// become changes a card's mode or layout. A reason says why it stays as it is.
func (b *Board) become(ctx context.Context, wish nodewire.Card) (reason string, err error) {
	if wish.Mode == "" {
		return "", nil
	}
	s, err := b.look(ctx)
	if err != nil {
		return "", err
	}
	v := s.cards[wish.PCIAddress]
	if v == nil {
		return "the card is not there, or can't be read", nil
	}
	if v.gpu.State == nodewire.GPUUnknown {
		return "how it is is unknown: " + v.gpu.Reason, nil
	}
	if b.isAs(v, wish) {
		if MIGWishOf(wish, nil).On {
			r, err := b.applyMIG(ctx, wish.PCIAddress, nil)
			return r.Wish, err
		}
		return "", nil
	}
	backed := wish.Mode == "vgpu" && wish.VGPUType == ""
	if backed {
		if reason, err := b.notBacked(ctx, v); reason != "" || err != nil {
			return reason, err
		}
	}
	why := b.inTheWay(v)
	if why != "" && !adopts(v, wish) {
		return why, nil
	}
	if reason, err = b.leave(ctx, v, wish); reason != "" || err != nil {
		return reason, err
	}
	if backed {
		return b.enterBacked(ctx, v, wish)
	}
	if v.rec.isBacked() { // its virtual functions have gone with its slices
		if s, err = b.look(ctx); err != nil {
			return "", err
		}
		if v = s.cards[wish.PCIAddress]; v == nil {
			return "the card is not there, or can't be read", nil
		}
	}
	return b.enter(ctx, v, wish)
}

// isAs says whether the mode is as wished; a layout is looked at by itself.
func (b *Board) isAs(v *view, wish nodewire.Card) bool {
	switch wish.Mode {
	case "shared":
		return v.gpu.Mode == "shared" && v.rec.Shares == wish.Shares
	case "vgpu":
		if wish.VGPUType == "" {
			return v.gpu.Mode == "vgpu" && v.mig != nil && len(v.card.Function.Virtual) > 0
		}
		return v.gpu.Mode == "vgpu" && v.vgpu.ID != "" && v.rec.VGPUType == wish.VGPUType
	case "mig":
		return v.gpu.Mode == "mig"
	}
	return v.gpu.Mode == wish.Mode && (v.driver == nil || v.driver.MIG.Settled(false))
}

// adopts: nothing of the card changes; it only becomes known which type its vGPUs
// have, and all that others made have that one.
func adopts(v *view, wish nodewire.Card) bool {
	if wish.Mode != "vgpu" || v.gpu.Mode != "vgpu" || v.rec.VGPUType != "" || v.rec.Phase != "" {
		return false
	}
	t, ok := typeByName(v.gpu.VGPUTypes, wish.VGPUType)
	return ok && !slices.ContainsFunc(v.made, func(m made) bool { return m.typ != t.ID })
}

// inTheWay is the guard before every change: who has something of the card.
func (b *Board) inTheWay(v *view) string {
	var who []string
	for owner, h := range b.ledger.read().Holds {
		if slices.Contains(h.cards(), v.gpu.PCIAddress) {
			who = append(who, owner)
		}
	}
	slices.Sort(who)
	switch {
	case len(who) > 0:
		return "it changes once it is idle: held by " + strings.Join(who, ", ")
	case v.rec.Phase != "":
		return fmt.Sprintf("it changes once it is no longer %s", v.rec.Phase)
	case len(v.made) > 0:
		return fmt.Sprintf("it changes once vGPU %s is gone, which Tenon did not make", v.made[0].name())
	case v.driver != nil && len(v.driver.Processes) > 0:
		return fmt.Sprintf("it changes once nothing uses it: %s does", v.driver.Processes[0])
	case v.gpu.State == nodewire.GPUQuarantined && v.card.Function.Driver == vfioDriver:
		return v.gpu.Reason
	}
	return ""
}

// leave ends the mode that a card is in.
func (b *Board) leave(ctx context.Context, v *view, wish nodewire.Card) (reason string, err error) {
	card := wish.PCIAddress
	if reason, err := b.leaveBacked(ctx, v, wish); reason != "" || err != nil {
		return reason, err
	}
	if v.card.Partitioned && wish.Mode != "vgpu" {
		if isSoft(v.card.Function.Address) {
			return "it has vGPUs alone", nil
		}
		if !v.rec.MadeVFs {
			return "it has virtual functions that Tenon did not make: take them away with sriov_numvfs, then it changes", nil
		}
		if err := b.setVFs(ctx, v.card.Function.Address, 0); err != nil {
			return err.Error(), nil
		}
		if err := b.ledger.changeCard(card, func(c *cardRecord) { c.MadeVFs = false }); err != nil {
			return "", err
		}
	}
	if v.rec.Switched != "" && v.rec.Switched != wish.Mode {
		if err := b.ledger.changeCard(card, func(c *cardRecord) { c.Switched, c.VGPUType, c.Shares = "", "", 0 }); err != nil {
			return "", err
		}
	}
	if v.driver != nil && (v.driver.MIG.Current || v.driver.MIG.Pending) && !MIGWishOf(wish, nil).On {
		r, err := ApplyMIG(ctx, b.cfg.Driver, b.ledger, b.cfg.BootID, card, MIGWish{})
		return r.Wish, err
	}
	return "", nil
}

// enter begins the mode that is wished.
func (b *Board) enter(ctx context.Context, v *view, wish nodewire.Card) (reason string, err error) {
	card := wish.PCIAddress
	switch {
	case MIGWishOf(wish, nil).On:
		if v.driver == nil {
			return "MIG needs the vendor's driver, which does not have the card", nil
		}
		r, err := b.applyMIG(ctx, card, nil)
		return r.Wish, err
	case wish.Mode == "shared":
		switch {
		case v.driver == nil || b.cfg.CDI == nil:
			return "sharing needs the vendor's driver and its CDI specs", nil
		case wish.Shares < fewestShares || wish.Shares > mostShares:
			return fmt.Sprintf("%d shares, not %d to %d", wish.Shares, fewestShares, mostShares), nil
		}
		return "", b.ledger.changeCard(card, func(c *cardRecord) { c.Switched, c.Shares = "shared", wish.Shares })
	case wish.Mode == "vgpu":
		return b.enterVGPU(ctx, v, wish)
	case wish.Mode == "whole":
		return "", nil
	}
	return fmt.Sprintf("there is no mode %q", wish.Mode), nil
}

// enterVGPU makes virtual functions where the driver makes its vGPUs on them.
func (b *Board) enterVGPU(ctx context.Context, v *view, wish nodewire.Card) (string, error) {
	f := v.card.Function
	if len(typesOf(v.card)) == 0 && f.Total > 0 && len(f.Virtual) == 0 {
		if f.Driver == "" || f.Driver == vfioDriver {
			return "its virtual functions are made by the vendor's vGPU driver, which does not have the card", nil
		}
		if err := b.ledger.changeCard(wish.PCIAddress, func(c *cardRecord) { c.MadeVFs = true }); err != nil {
			return "", err
		}
		if err := b.setVFs(ctx, f.Address, f.Total); err != nil {
			return err.Error(), nil
		}
		s, err := b.look(ctx)
		if err != nil {
			return "", err
		}
		if v = s.cards[wish.PCIAddress]; v == nil {
			return "the card is not there, or can't be read", nil
		}
	}
	reason, err := b.chooseType(v, wish)
	if rec := b.ledger.card(wish.PCIAddress); reason == "" || err != nil || !rec.MadeVFs || rec.Switched != "" {
		return reason, err
	}
	// It stays as it was, also when a crash came between.
	if err := b.setVFs(ctx, f.Address, 0); err != nil {
		return reason + "; " + err.Error(), nil
	}
	return reason, b.ledger.changeCard(wish.PCIAddress, func(c *cardRecord) { c.MadeVFs = false })
}

// remakeVFs makes a card's virtual functions again, which no reboot leaves. Where
// there is none nothing can be in use, so holds of the boot before don't stand in
// the way.
func (b *Board) remakeVFs(ctx context.Context, card string) error {
	unlock, err := b.lock(ctx, card)
	if err != nil {
		return err
	}
	defer unlock()
	a, err := pci.ParseAddress(card)
	if err != nil || isSoft(a) {
		return err
	}
	f, err := pci.ReadFunction(b.cfg.Sys, a)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil || len(f.Virtual) > 0 || f.Total == 0 || f.Driver == "" || f.Driver == vfioDriver {
		return err
	}
	return b.setVFs(ctx, a, f.Total)
}

func (b *Board) chooseType(v *view, wish nodewire.Card) (string, error) {
	list := typesOf(v.card)
	if _, ok := typeByName(list, wish.VGPUType); ok {
		return "", b.ledger.changeCard(wish.PCIAddress, func(c *cardRecord) { c.Switched, c.VGPUType = "vgpu", wish.VGPUType })
	}
	var names []string
	for _, t := range list {
		names = append(names, t.Name)
	}
	if len(names) == 0 {
		return "the host's driver offers no vGPU types on it", nil
	}
	return fmt.Sprintf("the host's driver offers no vGPU type %q now; it offers %s", wish.VGPUType, strings.Join(names, ", ")), nil
}

// setVFs makes all virtual functions of a card, or takes all away, and looks.
func (b *Board) setVFs(ctx context.Context, a pci.Address, n int) error {
	f, err := pci.ReadFunction(b.cfg.Sys, a)
	if err != nil {
		return err
	}
	if len(f.Virtual) == n {
		return nil
	}
	writeErr := b.write(ctx, pci.DeviceFile(a, "sriov_numvfs"), strconv.Itoa(n))
	if f, err = pci.ReadFunction(b.cfg.Sys, a); err != nil {
		return errors.Join(writeErr, err)
	}
	switch {
	case len(f.Virtual) == n:
		return nil
	case writeErr == nil:
		writeErr = fmt.Errorf("the driver said that it was done, and shows %d", len(f.Virtual))
	}
	return fmt.Errorf("make %d virtual functions of %s: %w", n, a, writeErr)
}
