package host

import (
	"cmp"
	"errors"
	"maps"
	"reflect"
	"time"

	"github.com/tenon-cloud/tenon/internal/device/pci"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

// recordOf finds what is kept of a card. Another card in its place is another, and
// one that comes from another place brings along what is known against it.
func (b *Board) recordOf(c pci.Card, d *DriverCard, known map[string]cardRecord) (cardRecord, error) {
	address := c.Function.Address.String()
	rec := b.ledger.card(address)
	next, before := rec, ""
	if rec.UUID == "" || rec.ID != c.Function.ID || d != nil && rec.DriverUUID != "" && rec.DriverUUID != d.UUID {
		next = cardRecord{ID: c.Function.ID, UUID: b.ledger.cardUUID(address, c.Function.ID)}
		if d != nil {
			next.UUID = d.UUID
			was, err := b.fromElsewhere(address, d.UUID, known)
			if err != nil {
				return rec, err
			}
			next.Phase, next.Reason, before = was.Phase, was.Reason, was.UUID
		}
		b.changeHealth(func(h *Health, _ time.Duration) { h.Seen(address, next.UUID, before) })
	}
	if d != nil {
		next.DriverUUID, next.MemoryMiB, next.Module, next.NVSwitch = d.UUID, d.MemoryMiB, d.Module, d.NVSwitch
	}
	if reflect.DeepEqual(next, rec) {
		return rec, nil
	}
	if next.UUID == rec.UUID {
		return next, b.ledger.changeCard(address, func(r *cardRecord) {
			r.DriverUUID, r.MemoryMiB, r.Module, r.NVSwitch = next.DriverUUID, next.MemoryMiB, next.Module, next.NVSwitch
		})
	}
	return next, b.ledger.change(func(s *ledgerState) {
		if rec.Phase != "" || rec.DriverUUID != "" && rec.UUID != rec.DriverUUID {
			if s.Away == nil {
				s.Away = map[string]cardRecord{}
			}
			s.Away[cmp.Or(rec.DriverUUID, rec.UUID)] = rec
		}
		s.Cards[address] = next
	})
}

// is: the driver's name is the surer one, since a card keeps the one that it was
// first seen under.
func (c cardRecord) is(uuid string) bool { return cmp.Or(c.DriverUUID, c.UUID) == uuid }

// fromElsewhere finds what is known of a card that was at another place, and drops
// it there.
func (b *Board) fromElsewhere(address, uuid string, known map[string]cardRecord) (was cardRecord, err error) {
	state := b.ledger.read()
	was, found := state.Away[uuid]
	for from, rec := range known {
		if from != address && rec.is(uuid) {
			was, found = rec, true
		}
	}
	if !found {
		return was, nil
	}
	return was, b.ledger.change(func(s *ledgerState) {
		maps.DeleteFunc(s.Cards, func(from string, rec cardRecord) bool { return from != address && rec.is(uuid) })
		delete(s.Away, uuid)
	})
}

// keep has the ledger remember each card as last seen.
func (b *Board) keep(list []nodewire.GPU) error {
	var errs []error
	for _, g := range list {
		if last := b.ledger.card(g.PCIAddress).Last; last != nil && reflect.DeepEqual(*last, g) || g.State == nodewire.GPUMissing || g.State == nodewire.GPUUnknown {
			continue
		}
		errs = append(errs, b.ledger.changeCard(g.PCIAddress, func(r *cardRecord) { r.Last = &g }))
	}
	return errors.Join(errs...)
}
