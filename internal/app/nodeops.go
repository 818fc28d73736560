package app

import (
	"context"
	"slices"

	"github.com/tenon-cloud/tenon/internal/authz"
	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/postgres"
)

const staysMaximum = 1_000 // of each kind, of one node; the counts are whole

// NodeStays lists what a drain leaves on a node, why, and what would move it.
func (a *App) NodeStays(ctx context.Context, c Call, node string) (out []cloud.Stay, err error) {
	err = a.inPlatform(ctx, c, authz.NodeStays, func(tx *postgres.Tx) error {
		n, err := postgres.NodeGet(ctx, tx, postgres.RefOf(cloud.NodeID{}, node))
		if err != nil {
			return notFound(err, "node", node)
		}
		if out, err = postgres.StayList(ctx, tx, n.ID, staysMaximum); err != nil {
			return err
		}
		for i := range out {
			out[i].Message = stayMessage(out[i], n)
		}
		for _, o := range n.Orphans {
			out = append(out, cloud.Stay{Orphan: o.ID, Kind: o.Driver, State: o.What, Reason: cloud.StayOrphan, Message: stayMessage(cloud.Stay{Reason: cloud.StayOrphan}, n)})
		}
		return nil
	})
	return out, err
}

// stayMessage says why something stays and what would move it.
func stayMessage(s cloud.Stay, n cloud.Node) string {
	silent := n.State != cloud.NodeReady
	switch s.Reason {
	case cloud.StayRunning:
		if silent {
			return "its node has not been heard of; it moves when the node is back, is confirmed off and it may restart elsewhere, or is forgotten"
		}
		return "it runs here until its tenant stops or deletes it, or it ends by itself"
	case cloud.StayStopping:
		return "its node has to confirm the end"
	case cloud.StayHeld:
		return "a stopped VM that keeps its place; it goes when its tenant releases, starts and stops, or deletes it"
	case cloud.StayVolume:
		return "data of an instance that is not running here; it can run on this node only, and goes when its tenant deletes the instance"
	case cloud.StayFenced:
		return "its instance went elsewhere; its GPUs are free again when this node reports that nothing of it is left, or is forgotten"
	}
	return "nobody assigned it; it goes when an operator lets the node remove it"
}

// NodeFence notes that an operator has made sure that a node is off, so that
// what may restart elsewhere does at once.
func (a *App) NodeFence(ctx context.Context, c Call, node string) (out cloud.Node, err error) {
	err = a.inPlatform(ctx, c, authz.NodeFence, func(tx *postgres.Tx) error {
		n, err := postgres.NodeGet(ctx, tx, postgres.RefOf(cloud.NodeID{}, node))
		if err != nil {
			return notFound(err, "node", node)
		}
		state, _, err := postgres.NodeLock(ctx, tx, n.ID)
		if err != nil {
			return notFound(err, "node", node)
		}
		if state == cloud.NodeReady {
			return cloud.E(cloud.KindConflict, "node_ready", "node %q reports: it is not off", n.Name).
				WithHint("switch it off first, and wait until it is shown as late or lost").With("state", string(state))
		}
		if !n.FencedByHand {
			if err := postgres.NodeFence(ctx, tx, n.ID, c.Actor.UserID); err != nil {
				return err
			}
			if err := audit(ctx, tx, c, cloud.OrgID{}, authz.NodeFence, n.ID.String(), map[string]any{"name": n.Name, "state": string(state)}); err != nil {
				return err
			}
			tx.Wake(postgres.TopicLifecycle)
			tx.Wake(postgres.TopicNode(n.ID))
		}
		out, err = nodeGet(ctx, tx, n.ID.String())
		return err
	})
	return out, err
}

// NodeForget gives a node up that will not come back: what it held is free, what
// ran there ends or starts elsewhere, and the data that lay there is lost.
func (a *App) NodeForget(ctx context.Context, c Call, node string) error {
	return a.inPlatform(ctx, c, authz.NodeForget, func(tx *postgres.Tx) error {
		n, err := postgres.NodeGet(ctx, tx, postgres.RefOf(cloud.NodeID{}, node))
		if err != nil {
			return notFound(err, "node", node)
		}
		state, _, err := postgres.NodeLock(ctx, tx, n.ID)
		if err != nil {
			return notFound(err, "node", node)
		}
		if state == cloud.NodeReady || state == cloud.NodeLate && !n.FencedByHand {
			return cloud.E(cloud.KindConflict, "node_not_lost", "node %q is %s: only one that is lost, or confirmed off, can be forgotten", n.Name, state).
				WithHint("switch it off, confirm that (`tenon node fence %s`), and forget it then; to empty a node that works, drain it", n.Name).With("state", string(state))
		}
		if err := postgres.NodeForget(ctx, tx, n.ID, c.Actor.UserID); err != nil {
			return err
		}
		tx.Wake(postgres.TopicLifecycle)
		return audit(ctx, tx, c, cloud.OrgID{}, authz.NodeForget, n.ID.String(), map[string]any{"name": n.Name, "state": string(state)})
	})
}

// OrphanRemove lets a node end what it runs or keeps and nobody assigned.
func (a *App) OrphanRemove(ctx context.Context, c Call, node, orphan string) error {
	return a.inPlatform(ctx, c, authz.NodeRemoveOrphan, func(tx *postgres.Tx) error {
		n, err := postgres.NodeGet(ctx, tx, postgres.RefOf(cloud.NodeID{}, node))
		if err != nil {
			return notFound(err, "node", node)
		}
		i := slices.IndexFunc(n.Orphans, func(o cloud.Orphan) bool { return o.ID == orphan })
		if i < 0 {
			return cloud.NotFound("orphan", orphan)
		}
		added, err := postgres.RemovalAdd(ctx, tx, n.ID, orphan, c.Actor.UserID)
		if err != nil || !added {
			return err
		}
		if err := postgres.NodesTouch(ctx, tx, []cloud.NodeID{n.ID}); err != nil {
			return err
		}
		tx.Wake(postgres.TopicNode(n.ID))
		return audit(ctx, tx, c, cloud.OrgID{}, authz.NodeRemoveOrphan, n.ID.String(), map[string]any{"name": n.Name, "orphan": orphan, "what": n.Orphans[i].What})
	})
}
