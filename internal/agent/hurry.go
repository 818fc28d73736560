package agent

import (
	"context"
	"time"

	"github.com/tenon-cloud/tenon/internal/hypervisor"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

// endGuest asks a guest to end and switches it off once its grace is over. A
// deletion that comes meanwhile cuts what is left of the grace to its own.
func (w *worker) endGuest(ctx context.Context, d hypervisor.Driver, grace time.Duration) (hypervisor.Guest, error) {
	if grace <= deleteGrace {
		return d.Stop(ctx, w.id, grace)
	}
	patient, hurry := context.WithCancel(ctx)
	defer hurry()
	w.mu.Lock()
	w.hurry = hurry
	// An assignment that came before this found nobody to hurry.
	served, now := w.intent, w.a.intentOf(w.a.ledger.snapshot(), w.id)
	w.mu.Unlock()
	if now != served && now.unwanted() {
		hurry()
	}
	g, err := d.Stop(patient, w.id, grace)
	w.mu.Lock()
	w.hurry = nil
	w.mu.Unlock()
	if err == nil || patient.Err() == nil || ctx.Err() != nil {
		return g, err
	}
	w.log.Info("it is deleted while it stops: it is waited for no longer than for a deletion")
	return d.Stop(ctx, w.id, deleteGrace)
}

// unwanted: nothing of it is to be left here, so it has nothing left to save.
func (i intent) unwanted() bool { return !i.present || i.desired == nodewire.DesiredGone }
