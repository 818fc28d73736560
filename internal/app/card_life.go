package app

import (
	"context"
	"errors"

	"github.com/google/uuid"

	"github.com/tenon-cloud/tenon/internal/authz"
	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/postgres"
)

// CardHistory lists who held a card and when, newest first. A forgotten card is
// found by its id, or its driver's UUID.
func (a *App) CardHistory(ctx context.Context, c Call, ref string, p Page) (List[cloud.GPUStay], error) {
	limit, err := p.size()
	if err != nil {
		return List[cloud.GPUStay]{}, err
	}
	before, err := afterID(cloud.GPUStayID{}, p)
	if err != nil {
		return List[cloud.GPUStay]{}, err
	}
	var rows []cloud.GPUStay
	err = a.inPlatform(ctx, c, authz.GPUHistory, func(tx *postgres.Tx) error {
		named := postgres.RefOf(cloud.GPUID{}, ref)
		g, err := postgres.GPUGet(ctx, tx, named)
		var several *cloud.Error
		if postgres.Missing(err) || errors.As(err, &several) && several.Code == "gpu_ambiguous" { // a UUID is one card, wherever it was
			last, gone := postgres.GPUStayOf(ctx, tx, named)
			if gone == nil || postgres.Missing(err) {
				g.ID, err = last, gone
			}
		}
		if err != nil {
			return notFound(err, "GPU", ref)
		}
		rows, err = postgres.GPUStayList(ctx, tx, g.ID, before, limit+1)
		return err
	})
	return paged(rows, limit, func(s cloud.GPUStay) string { return s.ID.String() }), err
}

// CardFault has a simulated card show a fault, by NVIDIA's number: its node reports
// it as it would a real one. Each that is asked for is one incident, however many are
// asked for before the node looks.
func (a *App) CardFault(ctx context.Context, c Call, ref string, xid int) (cloud.GPU, error) {
	if err := may(c, authz.GPUFault, c.Actor.OrgID); err != nil {
		return cloud.GPU{}, err
	}
	if xid < 1 || xid > 1000 {
		return cloud.GPU{}, cloud.Invalid(cloud.Field{Location: "body.xid", Message: "1 to 1000", Value: xid})
	}
	type request struct {
		GPU string
		XID int
	}
	return once(ctx, a, c, "gpu.fault", request{ref, xid}, func(keep func(*postgres.Tx, cloud.GPU) error) (out cloud.GPU, err error) {
		err = a.onCard(ctx, c, authz.GPUFault, ref, func(tx *postgres.Tx, g cloud.GPU) error {
			if !g.Simulated {
				return cloud.E(cloud.KindConflict, "gpu_not_simulated", "GPU %s on node %s is real: no fault is simulated on it", g.PCIAddress, g.NodeName).
					WithHint("take a card that is shown as simulated")
			}
			asked, err := postgres.CardFault(ctx, tx, g, cloud.SimulatedFault{ID: "simulated-" + uuid.Must(uuid.NewV7()).String(), XID: xid})
			if err != nil {
				return err
			}
			if !asked {
				return cloud.E(cloud.KindConflict, "too_many_faults", "GPU %s on node %s has %d faults to show that its node has not shown yet", g.PCIAddress, g.NodeName, postgres.FaultsWaiting).
					WithHint("see whether the node answers, and ask again when it has reported them")
			}
			tx.Wake(postgres.TopicNode(g.NodeID))
			if err := audit(ctx, tx, c, cloud.OrgID{}, authz.GPUFault, g.ID.String(), map[string]any{"node": g.NodeName, "address": g.PCIAddress, "xid": xid}); err != nil {
				return err
			}
			out = g
			return keep(tx, g)
		})
		return out, err
	})
}

// CardForget gives up a card that was pulled for good: it leaves the count, and what
// is known of its holders stays.
func (a *App) CardForget(ctx context.Context, c Call, ref string) error {
	return a.onCard(ctx, c, authz.GPUForget, ref, func(tx *postgres.Tx, g cloud.GPU) error {
		if len(g.Claims) > 0 {
			return cardHeld(g, "it is forgotten once nothing of it is held")
		}
		if g.State != cloud.GPUMissing {
			return cloud.E(cloud.KindConflict, "gpu_not_missing", "GPU %s on node %s is %s: only one that its node no longer sees can be forgotten", g.PCIAddress, g.NodeName, g.State).
				WithHint("take it out of the machine first; a card that is broken and still there is kept in quarantine").With("state", string(g.State))
		}
		gone, err := postgres.CardForget(ctx, tx, g.ID)
		if err != nil {
			return err
		}
		if !gone {
			return cloud.NotFound("GPU", ref)
		}
		tx.Wake(postgres.TopicNode(g.NodeID))
		tx.Wake(postgres.TopicSchedule)
		tx.Wake(postgres.TopicLifecycle)
		return audit(ctx, tx, c, cloud.OrgID{}, authz.GPUForget, g.ID.String(), map[string]any{"node": g.NodeName, "address": g.PCIAddress, "uuid": g.UUID, "model": g.Model})
	})
}

// onCard does something with a card under its lock.
func (a *App) onCard(ctx context.Context, c Call, action authz.Action, ref string, do func(tx *postgres.Tx, g cloud.GPU) error) error {
	return a.inPlatform(ctx, c, action, func(tx *postgres.Tx) error {
		g, err := postgres.GPUGet(ctx, tx, postgres.RefOf(cloud.GPUID{}, ref))
		if err != nil {
			return notFound(err, "GPU", ref)
		}
		if err := postgres.GPULock(ctx, tx, g.NodeID, g.ID); err != nil {
			return err
		}
		if g, err = postgres.GPUGet(ctx, tx, postgres.RefTo(g.ID)); err != nil {
			return notFound(err, "GPU", ref)
		}
		return do(tx, g)
	})
}
