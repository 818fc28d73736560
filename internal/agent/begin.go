package agent

import (
	"context"
	"time"

	"github.com/tenon-cloud/tenon/internal/device"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

const (
	// resumeTimeout bounds the ending of what the agent before this one left undone
	// on the cards.
	resumeTimeout = 2 * time.Minute
	// beginTimeout is when cards are taken as they are, though work on one of them
	// has outlived its own limits.
	beginTimeout = resumeTimeout + wishTimeout + 30*time.Second
)

// beginCards makes the cards what they were left to be. Contact with the control
// plane and the guests that run do not wait for it; what needs a card does.
func (a *Agent) beginCards(ctx context.Context) {
	done := make(chan struct{})
	a.wg.Go(func() {
		defer close(done)
		if b, ok := a.cfg.Board.(device.Resumer); ok {
			within, cancel := context.WithTimeout(ctx, resumeTimeout)
			b.Resume(within)
			cancel()
		}
		if _, ok := a.cfg.Board.(device.Keeper); ok {
			a.wishCards(ctx) // a layout is there again before a guest starts on it
		} else {
			a.takeInventory(ctx)
		}
	})
	t := time.NewTimer(beginTimeout)
	defer t.Stop()
	select {
	case <-done:
	case <-t.C:
		a.log.Error("work on the cards has not ended in time: guests go on without it", "seconds", int(beginTimeout.Seconds()))
	case <-ctx.Done():
		return
	}
	close(a.cards.begun)
	a.dirty()
}

// awaitCards waits until the cards are what they were left to be.
func (a *Agent) awaitCards(ctx context.Context) error {
	select {
	case <-a.cards.begun:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (a *Agent) cardsBegun() bool {
	select {
	case <-a.cards.begun:
		return true
	default:
		return false
	}
}

// awaitCards is the agent's, and no failure of this instance's step.
func (w *worker) awaitCards(ctx context.Context) error {
	if w.a.cardsBegun() {
		return nil
	}
	w.change(func(p *published) {
		if p.state == nodewire.GuestStarting {
			p.message = "its node checks its GPUs first"
		}
	})
	if err := w.a.awaitCards(ctx); err != nil {
		return err
	}
	w.mu.Lock()
	w.fails.since = time.Now()
	w.mu.Unlock()
	return nil
}
