package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tenon-cloud/tenon/internal/device"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

const (
	// wishTimeout bounds one turn of making cards what they are to be: resets of
	// real ones take seconds each.
	wishTimeout = 2 * time.Minute
	// settleEvery is how often cards are looked at while one of them changes.
	settleEvery = 500 * time.Millisecond
	wishNotRead = "its node has not acted on it yet"
	wishNoBoard = "the cards of this node can't be changed"
)

// cards is what the agent remembers of the assignment's wishes for cards.
type cards struct {
	kick  chan struct{}
	begun chan struct{} // closed once they are what they were left to be
	taken sync.Mutex    // one reading at a time, so that a later one is never replaced by an earlier
	// acted is the wishes that the board was last given, as text; shown those that
	// it had when the inventory was read that reports tell of.
	acted, shown atomic.Pointer[[]byte]
}

func (c *cards) init() { c.kick, c.begun = make(chan struct{}, 1), make(chan struct{}) }

func (c *cards) nudge() {
	select {
	case c.kick <- struct{}{}:
	default:
	}
}

// wanted are the wishes of the assignment that is held.
func (a *Agent) wanted() []nodewire.Card {
	if as := a.ledger.snapshot().Assignment; as != nil {
		return as.Cards
	}
	return nil
}

func cardsText(list []nodewire.Card) []byte {
	raw, err := json.Marshal(list)
	if err != nil {
		return nil // plain fields can't fail to encode
	}
	return raw
}

// cardLoop has the board make cards what they are to be: when that changes, and
// now and then, since a card that is held waits for its holder's end.
func (a *Agent) cardLoop(ctx context.Context) {
	if _, ok := a.cfg.Board.(device.Keeper); !ok {
		return
	}
	if a.awaitCards(ctx) != nil {
		return
	}
	for {
		wait := a.t.Resync
		if a.wishCards(ctx) {
			wait = settleEvery
		}
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-a.cards.kick:
		case <-ctx.Done():
		}
		t.Stop()
		if ctx.Err() != nil {
			return
		}
	}
}

// wishCards gives the board the wishes once and reads back what came of them. It
// says whether something is under way.
func (a *Agent) wishCards(ctx context.Context) (underWay bool) {
	keeper, ok := a.cfg.Board.(device.Keeper)
	if !ok {
		return false
	}
	var err error
	held := a.ledger.snapshot().Assignment != nil // before the wishes: else they may be newer
	list := a.wanted()
	text := cardsText(list)
	last := a.cards.acted.Load()
	// No wish is one too, once: the board lets go of what it remembers. With no
	// assignment nothing is known.
	if len(list) > 0 || held && (last == nil || !bytes.Equal(*last, text)) {
		within, cancel := context.WithTimeout(ctx, wishTimeout)
		err = keeper.Wish(within, list)
		cancel()
		if err != nil && ctx.Err() == nil {
			a.log.Warn("make cards what they are to be", "error", err)
		}
	}
	if held && (err == nil || len(list) > 0) {
		a.cards.acted.Store(&text)
	}
	a.takeInventory(ctx)
	inv := a.inventory.Load()
	return inv != nil && slices.ContainsFunc(inv.GPUs, func(g nodewire.GPU) bool {
		return g.State == nodewire.GPUCleaning || g.Wish != "" && g.State == nodewire.GPUReady
	})
}

// tellCards adds to a report what became of the wishes. A reading from before the
// board had them says nothing of them.
func (a *Agent) tellCards(r *nodewire.Report, held *state, shown []byte) {
	if w, ok := a.cfg.Board.(device.Watcher); ok {
		r.Incidents, r.Excluded = w.Incidents(), w.Excluded()
	}
	if p, ok := a.cfg.Board.(device.Parted); ok {
		r.Partitions = p.Partitions()
	}
	if held.Assignment == nil || len(held.Assignment.Cards) == 0 {
		return
	}
	why := ""
	if _, ok := a.cfg.Board.(device.Keeper); !ok {
		why = wishNoBoard
	} else if !bytes.Equal(shown, cardsText(held.Assignment.Cards)) {
		why = wishNotRead
	}
	if why == "" {
		return
	}
	r.GPUs = slices.Clone(r.GPUs)
	for i := range r.GPUs {
		g := &r.GPUs[i]
		wished := slices.ContainsFunc(held.Assignment.Cards, func(c nodewire.Card) bool {
			return c.PCIAddress == g.PCIAddress && (why == wishNotRead || c.Mode != g.Mode || len(c.Layout) > 0)
		})
		if wished && g.Wish == "" {
			g.Wish = why
		}
	}
}

// cardsChanged reports news in a reading.
func cardsChanged(last, now *device.Inventory) bool {
	return last == nil || last.OK != now.OK || !reflect.DeepEqual(last.GPUs, now.GPUs)
}
