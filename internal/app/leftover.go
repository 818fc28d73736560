package app

import (
	"context"

	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/nodewire"
	"github.com/tenon-cloud/tenon/internal/postgres"
)

// leftovers is what a report shows that something of an instance may be left, or
// that it has ended; the database knows which of them are the node's own.
func leftovers(r nodewire.Report) []postgres.Leftover {
	var out []postgres.Leftover
	for _, i := range r.Instances {
		var id cloud.InstanceID
		if id.UnmarshalText([]byte(i.ID)) != nil {
			continue
		}
		over := i.State == nodewire.GuestStopped || i.State == nodewire.GuestFailed || i.State == nodewire.GuestGone
		out = append(out, postgres.Leftover{ID: id.UUID(), Epoch: i.Epoch, Over: over, RanFor: seconds(i.RanForSeconds).Seconds()})
	}
	for _, o := range r.Orphans {
		var id cloud.InstanceID
		if id.UnmarshalText([]byte(o.ID)) == nil {
			out = append(out, postgres.Leftover{ID: id.UUID()})
		}
	}
	return out
}

// NodeTried notes that an assignment was sent to a node and not answered.
func (a *App) NodeTried(ctx context.Context, id cloud.NodeID) error {
	return a.db.InNode(ctx, id, func(tx *postgres.Tx) error { return postgres.NodeTried(ctx, tx, id) })
}
