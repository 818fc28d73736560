package agent

import (
	"context"
	"fmt"
	"time"

	"github.com/tenon-cloud/tenon/internal/hypervisor"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

const (
	peerLook = 50 * time.Millisecond
	peerTell = 15 * time.Second
)

// awaitPeers holds a guest's start until every other guest of its group has an
// address, or has ended already, or is not assigned any more: none of them runs
// before all can be found by name.
func (w *worker) awaitPeers(ctx context.Context, d hypervisor.Driver) error {
	n, ok := d.(hypervisor.Neighbours)
	if !ok {
		return nil
	}
	tick := time.NewTicker(peerLook)
	defer tick.Stop()
	for began := time.Now(); ; {
		missing := w.missingPeer(n)
		if missing == nil {
			return nil
		}
		// Told with the time, so that a wait that goes on is not taken for one that is stuck.
		if waited := time.Since(began).Truncate(peerTell); waited > 0 {
			w.change(func(p *published) {
				p.message = fmt.Sprintf("it is prepared, and has waited %s for %s of its job", waited, missing.Name)
			})
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w", missing.Name, context.Cause(ctx))
		case <-tick.C:
		}
	}
}

// missingPeer is one that is still to come; nil: none is.
func (w *worker) missingPeer(n hypervisor.Neighbours) *nodewire.Peer {
	s := w.a.ledger.snapshot()
	want := s.want(w.id)
	if want == nil {
		return nil // the next look sees to it
	}
	for _, p := range want.Peers {
		rec, known := s.Records[p.ID]
		over := known && rec.Epoch == p.Epoch && rec.End != nil
		if p.ID != w.id && s.want(p.ID) != nil && !over && n.PeerAddress(p) == "" {
			return &p
		}
	}
	return nil
}
