package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tenon-cloud/tenon/internal/nodewire"
)

// MIGLedger keeps which slices are ours. Each call is on disk when it returns.
type MIGLedger interface {
	Owned(card string) []OwnedSlice
	// Own adds a slice or replaces what was noted of its place: without a UUID
	// before it is made, with one after.
	Own(card string, s OwnedSlice) error
	// Disown forgets a place of which nothing of ours is left.
	Disown(card string, p nodewire.Place) error
}

// MIGResult is how a card is after ApplyMIG, as read back.
type MIGResult struct {
	Reading MIGReading
	Slices  []nodewire.Slice // owners are not filled in
	Missing []nodewire.Place // of the wish
	Wish    string           // why it is not as wished; empty: it is
	Busy    bool             // something uses what was to go
}

// ApplyMIG brings a card to its wish, one step at a time. After each it looks
// again and plans anew, so that it may be stopped anywhere and called again; a
// step that fails, or that succeeds and shows no effect, is not tried twice.
// The caller holds the card's lock, and has seen that nothing else is about to
// use it.
func ApplyMIG(ctx context.Context, d Driver, ledger MIGLedger, boot, card string, wish MIGWish) (MIGResult, error) {
	var failures []string
	busy, tried := false, map[MIGStep]bool{}
	for {
		r, err := ReadMIG(ctx, d, card)
		if err != nil {
			return MIGResult{}, err
		}
		plan := PlanMIG(wish, r, ledger.Owned(card), boot)
		next := slices.IndexFunc(plan.Steps, func(s MIGStep) bool { return !tried[s] && !blockedNow(s, r) })
		if next < 0 {
			out, err := finish(ledger, boot, card, wish, r, append(failures, plan.Reasons...))
			out.Busy = busy || plan.Busy
			return out, err
		}
		step := plan.Steps[next]
		tried[step] = true
		if err := takeStep(ctx, d, ledger, boot, r, step); err != nil {
			if ctx.Err() != nil {
				return MIGResult{}, fmt.Errorf("%s on %s: %w", step, card, ctx.Err())
			}
			var disk *ledgerError
			if errors.As(err, &disk) {
				return MIGResult{}, fmt.Errorf("%s on %s: %w", step, card, err)
			}
			failures, busy = append(failures, fmt.Sprintf("%s: %v", step, err)), busy || errors.Is(err, ErrBusy)
		}
	}
}

// ReadMIG looks at a card.
func ReadMIG(ctx context.Context, d Driver, card string) (MIGReading, error) {
	cards, err := d.Cards(ctx)
	i := slices.IndexFunc(cards, func(c DriverCard) bool { return c.PCIAddress == card })
	if i < 0 { // an error may be another card's, and then this one is in the list
		return MIGReading{}, fmt.Errorf("read %s: %w", card, cmp.Or(err, ErrNoCard))
	}
	if !cards[i].MIG.Current {
		return MIGReading{Card: cards[i]}, nil
	}
	return readCut(ctx, d, cards[i])
}

// readCut looks at a card in MIG mode that was just listed. The driver lists how
// each may be cut; one of which it lists nothing was not read.
func readCut(ctx context.Context, d Driver, c DriverCard) (r MIGReading, err error) {
	r.Card = c
	if r.Profiles, err = d.Profiles(ctx, c.PCIAddress); err != nil {
		return r, fmt.Errorf("list MIG profiles of %s: %w", c.PCIAddress, err)
	}
	if len(r.Profiles) == 0 {
		return r, fmt.Errorf("list MIG profiles of %s: it is in MIG mode and its driver lists none", c.PCIAddress)
	}
	if r.Instances, err = d.Instances(ctx, c.PCIAddress); err != nil {
		return r, fmt.Errorf("list GPU instances of %s: %w", c.PCIAddress, err)
	}
	return r, nil
}

// blockedNow: what was to be destroyed is still in the way.
func blockedNow(s MIGStep, r MIGReading) bool {
	switch s.Action {
	case MIGCreate:
		return slices.ContainsFunc(r.Instances, func(i GPUInstance) bool { return overlap(s.Place, i) })
	case MIGOff, MIGReset:
		return len(r.Instances) > 0
	}
	return false
}

type ledgerError struct{ err error }

func (e *ledgerError) Error() string { return "write the ledger: " + e.err.Error() }
func (e *ledgerError) Unwrap() error { return e.err }

func written(err error) error {
	if err != nil {
		return &ledgerError{err}
	}
	return nil
}

// takeStep does one step and looks whether it happened: tools report success
// falsely.
func takeStep(ctx context.Context, d Driver, ledger MIGLedger, boot string, before MIGReading, s MIGStep) error {
	card := before.Card.PCIAddress
	var err error
	switch s.Action {
	case MIGDestroy:
		err = d.DestroyInstance(ctx, card, s.Instance)
	case MIGCreate:
		if err := written(ledger.Own(card, OwnedSlice{Place: s.Place, Boot: boot})); err != nil {
			return err
		}
		err = d.CreateInstance(ctx, card, s.ProfileID, s.Place.SlotStart)
	case MIGOn, MIGOff:
		_, err = d.SetMIG(ctx, card, s.Action == MIGOn)
	case MIGReset:
		err = d.Reset(ctx, card)
	}
	after, readErr := ReadMIG(ctx, d, card)
	if readErr != nil {
		return errors.Join(err, readErr)
	}
	happened, shows := effect(s, after)
	switch {
	case happened && s.Action == MIGDestroy:
		return written(ledger.Disown(card, s.Place))
	case happened && s.Action == MIGCreate:
		i := slices.IndexFunc(after.Instances, func(i GPUInstance) bool { return overlap(s.Place, i) })
		return written(ledger.Own(card, OwnedSlice{Place: s.Place, UUID: after.Instances[i].UUID, Boot: boot}))
	case happened:
		return nil
	case err != nil:
		return err
	}
	return fmt.Errorf("the driver said that it was done, and shows %s", shows)
}

func effect(s MIGStep, r MIGReading) (happened bool, shows string) {
	mode := r.Card.MIG
	switch s.Action {
	case MIGDestroy:
		i := slices.IndexFunc(r.Instances, func(i GPUInstance) bool { return i.ID == s.Instance && i.Start == s.Place.SlotStart })
		return i < 0, fmt.Sprintf("GPU instance %d still", s.Instance)
	case MIGCreate:
		for _, i := range r.Instances {
			if i.ProfileID == s.ProfileID && i.Start == s.Place.SlotStart && i.Start+i.Size == s.Place.SlotEnd {
				return i.UUID != "", fmt.Sprintf("GPU instance %d without a compute instance", i.ID)
			}
		}
		return false, "no such GPU instance"
	case MIGReset:
		return mode.Current == mode.Pending, fmt.Sprintf("MIG mode %s still, %s pending", onOff(mode.Current), onOff(mode.Pending))
	}
	return mode.Pending == (s.Action == MIGOn), fmt.Sprintf("MIG mode %s, %s pending", onOff(mode.Current), onOff(mode.Pending))
}

func onOff(b bool) string {
	if b {
		return "on"
	}
	return "off"
}

// finish forgets what is gone and says how the card is.
func finish(ledger MIGLedger, boot, card string, wish MIGWish, r MIGReading, reasons []string) (MIGResult, error) {
	mine, _ := splitInstances(r, ledger.Owned(card), boot)
	_, unknown := GeometryOf(r.Profiles) // then no instance can be told
	for _, o := range slices.Clone(ledger.Owned(card)) {
		there := r.Card.MIG.Current && unknown != nil
		for _, p := range mine {
			there = there || p == o.Place
		}
		if !there {
			if err := ledger.Disown(card, o.Place); err != nil {
				return MIGResult{}, fmt.Errorf("forget %s on %s: %w", spell(o.Place), card, err)
			}
		}
	}
	owned := ledger.Owned(card)
	out := MIGResult{Reading: r, Slices: SlicesOf(r, owned, boot), Missing: MissingOf(wish.Places, r, owned, boot)}
	if mode := r.Card.MIG; wish.On != mode.Current && wish.On == mode.Pending {
		reasons = append(reasons, fmt.Sprintf("MIG mode %s is pending: it comes with a reset of the card, or a reboot", onOff(wish.On)))
	}
	if len(out.Missing) > 0 && len(reasons) == 0 {
		reasons = append(reasons, "what was made is gone again")
	}
	slices.Sort(reasons)
	out.Wish = strings.Join(slices.Compact(reasons), "; ")
	return out, nil
}
