package host

import (
	"cmp"
	"errors"
	"reflect"
	"slices"
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
		next.Recovered = max(rec.asked(), b.ledger.read().Asked[address]) // what was asked of the slot was asked of another card
		if d != nil {
			next.UUID = d.UUID
			was, err := b.fromElsewhere(address, d.UUID, known)
			if err != nil {
				return rec, err
			}
			next.Phase, next.Reason, next.HeldAs, next.Unreset, before = was.Phase, was.Reason, was.HeldAs, was.Unreset, was.UUID
			if as := b.heldElsewhere(address, d.UUID, was.UUID); as != "" {
				next.moved(as)
			}
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
		if heldAt(s.Holds, address, rec.UUID) {
			rec.moved(rec.UUID)
		}
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
		if !found && from != address && rec.is(uuid) {
			was, found = rec, true
		}
	}
	if !found {
		return was, nil
	}
	return was, b.ledger.change(func(s *ledgerState) {
		for from, rec := range s.Cards {
			if from != address && rec.is(uuid) {
				if s.Asked == nil {
					s.Asked = map[string]int64{}
				}
				s.Asked[from] = max(rec.asked(), s.Asked[from])
				delete(s.Cards, from)
			}
		}
		delete(s.Away, uuid)
	})
}

// asked is how often operators have asked for the recovery of what is in a slot.
func (c cardRecord) asked() int64 {
	if c.Wish != nil {
		return max(c.Recovered, c.Wish.Recover)
	}
	return c.Recovered
}

// moved: a card left its slot while it was held there, so that nothing cleans it:
// what its holder releases is the slot.
func (c *cardRecord) moved(as string) {
	c.HeldAs, c.Unreset, c.Phase = as, true, nodewire.GPUQuarantined
	c.Reason = "it was put into another slot while an instance had it, and was not cleaned since: once that instance is released, recover it"
}

// heldElsewhere finds under which of its UUIDs a card is held at another place.
func (b *Board) heldElsewhere(address string, uuids ...string) string {
	for _, h := range b.ledger.read().Holds {
		for i, p := range h.Parts {
			if p.Card != address && i < len(h.Devices) && slices.Contains(uuids, h.Devices[i].GPUUUID) {
				return h.Devices[i].GPUUUID
			}
		}
	}
	return ""
}

func heldAt(holds map[string]hold, address, uuid string) bool {
	for _, h := range holds {
		for i, p := range h.Parts {
			if p.Card == address && i < len(h.Devices) && h.Devices[i].GPUUUID == uuid {
				return true
			}
		}
	}
	return false
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
