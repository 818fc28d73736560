package host

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tenon-cloud/tenon/internal/device/pci"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

// Release implements device.Board. The cards are cleaned and checked in it; one
// that doesn't pass is quarantined, which is no reason for its tenant to wait.
func (b *Board) Release(ctx context.Context, instanceID string, epoch int64) error {
	h, held := b.ledger.hold(instanceID)
	if !held || h.Epoch > epoch {
		return nil
	}
	unlock, err := b.lock(ctx, h.cards()...)
	if err != nil {
		return fmt.Errorf("release devices of %s: %w", instanceID, err)
	}
	defer unlock()
	if h, held = b.ledger.hold(instanceID); !held || h.Epoch > epoch {
		return nil
	}
	if err := b.release(ctx, instanceID, h); err != nil {
		return fmt.Errorf("release devices of %s: %w", instanceID, err)
	}
	return nil
}

func (b *Board) release(ctx context.Context, id string, h hold) error {
	if !h.Releasing {
		h.Releasing = true
		if err := b.ledger.setHold(id, h); err != nil {
			return err
		}
	}
	if b.cfg.CDI != nil && h.Kind != "vm" {
		if err := b.cfg.CDI.Withdraw(ctx, id); err != nil {
			return fmt.Errorf("withdraw from the container engine: %w", err)
		}
	}
	verdicts := map[string]verdict{}
	for place, p := range h.Parts {
		v, judged, err := b.takeBack(ctx, id, place, p)
		if err != nil {
			b.setWait(p.Card, fmt.Sprintf("it is taken back from %s, and that is tried again: %v", id, err))
			return err
		}
		b.setWait(p.Card, "")
		if judged {
			verdicts[p.Card] = v
		}
	}
	if h.Partition != nil && b.cfg.Fabric != nil {
		if err := b.applyFabric(ctx, h.Partition); err != nil {
			return err
		}
	}
	err := b.ledger.change(func(s *ledgerState) {
		delete(s.Holds, id)
		for card, v := range verdicts {
			if c, there := s.Cards[card]; there { // else it is in another slot now
				c.settle(v)
				s.Cards[card] = c
			}
		}
	})
	if err != nil {
		return err
	}
	for card, v := range verdicts {
		switch {
		case v.reason != "":
			b.cfg.Log.Warn("card is quarantined", "card", card, "reason", v.reason)
		case v.reset: // a card that its VM never got was only looked at
			b.changeHealth(func(h *Health, now time.Duration) { h.Reset(card, now) })
		}
	}
	for _, card := range slices.Compact(slices.Sorted(slices.Values(h.cards()))) {
		b.settleIdle(ctx, card)
	}
	return nil
}

// takeBack undoes one device of a hold. judged: the verdict is of the whole card.
func (b *Board) takeBack(ctx context.Context, id string, place int, p part) (v verdict, judged bool, err error) {
	switch {
	case len(p.Functions) > 0:
		v, err = b.cleanPassed(ctx, id, place, p)
		return v, true, err
	case p.Whole:
		v, err = b.cleanByDriver(ctx, p)
		return v, true, err
	case p.Mediated != nil:
		return v, false, b.removeMediated(ctx, *p.Mediated)
	case p.Virtual != nil && p.Slice != nil:
		return v, false, b.takeBacked(ctx, id, p)
	case p.Virtual != nil:
		return v, false, b.clearVirtual(ctx, *p.Virtual)
	case p.Slice != nil:
		return v, false, b.destroySlice(ctx, p)
	case p.Share:
		v, err = b.leaveShare(ctx, id, p)
		return v, v.reason != "", err
	}
	return v, false, nil
}

// leaveShare sees that no program of the guest is left on a card of which it gives
// a share back, and with the last share that nobody's is.
func (b *Board) leaveShare(ctx context.Context, id string, p part) (v verdict, err error) {
	last := true
	for other, h := range b.ledger.read().Holds {
		last = last && (other == id || !slices.Contains(h.cards(), p.Card))
	}
	a, err := pci.ParseAddress(p.Card)
	if err != nil {
		return v, err
	}
	if gone, err := b.isGone(a); gone || err != nil {
		return v, err
	}
	c, _, err := b.driverCard(ctx, a)
	switch {
	case err != nil && notYet(ctx, err):
		return v, err
	case err != nil:
		v.add(err.Error())
		v.unreset = true
	}
	for _, left := range c.Processes {
		his := last
		if !last {
			if his, err = b.isOf(left, id); err != nil {
				return v, fmt.Errorf("take back a share of %s: %w: %w", p.Card, ErrBusy, err)
			}
		}
		if his {
			return v, fmt.Errorf("take back a share of %s: %w: %s still uses it", p.Card, ErrBusy, left)
		}
	}
	return v, nil
}

// destroySlice has the driver clear its memory with it.
func (b *Board) destroySlice(ctx context.Context, p part) error {
	a, err := pci.ParseAddress(p.Card)
	if err != nil {
		return err
	}
	if gone, err := b.isGone(a); gone || err != nil {
		return err // what was on it is gone with it
	}
	r, err := b.applyMIG(ctx, p.Card, p.Slice)
	if err != nil {
		return err
	}
	for _, s := range r.Slices {
		if !s.Foreign && s.SlotStart < p.Slice.SlotEnd && p.Slice.SlotStart < s.SlotEnd && s.Profile == p.Slice.Profile {
			err := errors.New(r.Wish)
			if r.Busy {
				err = fmt.Errorf("%w: %s", ErrBusy, r.Wish)
			}
			return fmt.Errorf("destroy slice %s on %s: %w", spell(*p.Slice), p.Card, err)
		}
	}
	return nil
}

// settleIdle does what waited for a card to be idle: a reset for its health, and
// its wish. What fails is told with the card.
func (b *Board) settleIdle(ctx context.Context, card string) {
	rec := b.ledger.card(card)
	b.mu.Lock()
	state, _ := b.health.State(card)
	b.mu.Unlock()
	if state == nodewire.GPUNeedsReset && !b.isHeld(card) && b.cfg.Driver != nil && rec.Phase == "" {
		others, err := b.othersOn(ctx, card)
		if err == nil && others != "" {
			err = fmt.Errorf("%w: %s", ErrBusy, others)
		}
		if err == nil {
			err = b.cfg.Driver.Reset(ctx, card)
		}
		if err != nil {
			b.setWait(card, err.Error())
			b.cfg.Log.Warn("reset a card that needs it", "card", card, "error", err)
		} else {
			b.setWait(card, "")
			b.changeHealth(func(h *Health, now time.Duration) { h.Reset(card, now) })
		}
	}
	if rec.Wish != nil {
		b.fulfil(ctx, *rec.Wish)
	}
}

// resetIdle resets the cards that need it and that nobody holds: such a card has
// no release to wait for. A check that met somebody on its card is tried again.
func (b *Board) resetIdle(ctx context.Context) {
	for card, rec := range b.ledger.read().Cards {
		b.mu.Lock()
		state, _ := b.health.State(card)
		b.mu.Unlock()
		checking := rec.Phase == nodewire.GPUCleaning
		if state != nodewire.GPUNeedsReset && !checking || b.isHeld(card) {
			continue
		}
		unlock, err := b.lock(ctx, card)
		if err != nil {
			return
		}
		if rec := b.ledger.card(card); checking && rec.Phase == nodewire.GPUCleaning && !b.isHeld(card) {
			if err := b.recover(ctx, card, rec.Recovered); err != nil {
				b.cfg.Log.Warn("end a check that was interrupted", "card", card, "error", err)
			}
		}
		b.settleIdle(ctx, card)
		unlock()
	}
}

// mend does so now and then, until ctx ends.
func (b *Board) mend(ctx context.Context) {
	tick := time.NewTicker(mendEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			b.resetIdle(ctx)
		}
	}
}

// choosePartition notes which NVSwitch partition a VM's cards need.
func (b *Board) choosePartition(ctx context.Context, id string, h *hold, cards []string) error {
	list, err := b.cfg.Fabric.Partitions(ctx)
	if err != nil {
		return fmt.Errorf("list fabric partitions: %w", err)
	}
	parts, reasons := MapPartitions(list, b.modules())
	p, ok := PartitionOf(parts, cards)
	if !ok {
		return fmt.Errorf("fabric manager lists no partition of exactly these cards; it lists partitions of %v cards %v", TogetherEver(parts), reasons)
	}
	h.Partition = &p.ID
	return b.ledger.setHold(id, *h)
}

func (b *Board) modules() map[int]string {
	out := map[int]string{}
	for address, rec := range b.ledger.read().Cards {
		if rec.Module > 0 {
			out[rec.Module] = address
		}
	}
	return out
}

// fabricLock is held from the reading of what guests need to the last change: of
// two starts and ends neither then undoes what the other has just done.
const fabricLock = "NVSwitch partitions"

// applyFabric has exactly those partitions active whose VMs have their cards. An
// error concerns the given one, or all when it is nil: what is wrong with another
// guest's is that guest's.
func (b *Board) applyFabric(ctx context.Context, partition *int) error {
	unlock, err := b.lock(ctx, fabricLock)
	if err != nil {
		return err
	}
	defer unlock()
	var need []int
	for _, h := range b.ledger.read().Holds {
		if h.Partition != nil && !h.Releasing {
			need = append(need, *h.Partition)
		}
	}
	err = ApplyFabric(ctx, b.cfg.Fabric, b.ledger, b.modules(), need)
	var lacks *FabricError
	if partition == nil || !errors.As(err, &lacks) {
		return err
	}
	if _, concerned := lacks.Lacking[*partition]; !concerned {
		b.cfg.Log.Warn("a partition of another guest is not as it needs it", "error", err)
		return nil
	}
	return err
}

// Held implements device.Board: every hold that is not wholly taken back. The
// ledger names each before anything is made and forgets it after nothing is left,
// so no device of ours is ever without its owner here. Others' devices are shown
// with their cards, and are nobody's here.
func (b *Board) Held(context.Context) (map[string][]nodewire.Device, error) {
	if _, err := pci.Scan(b.cfg.Sys, b.cfg.Options); err != nil {
		return nil, fmt.Errorf("list held devices: %w", err)
	}
	out := map[string][]nodewire.Device{}
	for id, h := range b.ledger.read().Holds {
		out[id] = slices.Clone(h.Devices)
	}
	return out, nil
}

// Telemetry implements device.Board: what the vendor's driver measures. A card
// that a VM has is the VM's to measure.
func (b *Board) Telemetry(ctx context.Context) ([]nodewire.GPUSample, map[string]nodewire.Sample, error) {
	byInstance := map[string]nodewire.Sample{}
	if b.cfg.Driver == nil {
		return nil, byInstance, nil
	}
	list, err := b.cfg.Driver.Samples(ctx)
	if errors.Is(err, ErrNoDriver) {
		return nil, byInstance, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("measure cards: %w", err)
	}
	state := b.ledger.read()
	var cards []nodewire.GPUSample
	for _, s := range list {
		if s.GI < 0 {
			s.GPUSample.UUID = state.Cards[s.PCIAddress].UUID
			cards = append(cards, s.GPUSample)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(state.Holds)) {
		if sample, ok := b.sampleOf(ctx, state.Holds[id], list); ok {
			byInstance[id] = sample
		}
	}
	return cards, byInstance, nil
}
