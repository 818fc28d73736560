package app

import (
	"context"
	"time"

	"github.com/tenon-cloud/tenon/internal/authz"
	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/postgres"
)

// Leadership is the name that the control plane's processes stand for.
const Leadership = "cloud"

// ReplicaStale is after how long without a beat a process counts for nothing.
const ReplicaStale = 5 * time.Second

// Replica is one process of the control plane.
type Replica = postgres.Replica

// ReplicaList shows the control plane's processes to operators.
func (a *App) ReplicaList(ctx context.Context, c Call) (out []Replica, err error) {
	if err := may(c, authz.ReplicaList, c.Actor.OrgID); err != nil {
		return nil, err
	}
	err = a.db.InSystem(ctx, func(tx *postgres.Tx) (err error) {
		out, err = postgres.ReplicaList(ctx, tx, Leadership, ReplicaStale)
		return err
	})
	return out, err
}

// ReplicaBeat says that this process lives, and forgets those that were not
// heard of for an age. With nodes, what is connected here becomes exactly that;
// fresh asks for it.
func (a *App) ReplicaBeat(ctx context.Context, r Replica, nodes *[]cloud.NodeID, forget time.Duration) (fresh bool, err error) {
	err = a.db.InSystem(ctx, func(tx *postgres.Tx) (err error) {
		if fresh, err = postgres.ReplicaBeat(ctx, tx, r); err != nil {
			return err
		}
		if nodes != nil {
			if err := postgres.ReplicaNodes(ctx, tx, r.ID, *nodes); err != nil {
				return err
			}
		}
		return postgres.ReplicaPrune(ctx, tx, forget)
	})
	return fresh, err
}

// ReplicaEnd says that this process ends.
func (a *App) ReplicaEnd(ctx context.Context, id string) error {
	return a.db.InSystem(ctx, func(tx *postgres.Tx) error { return postgres.ReplicaDelete(ctx, tx, id) })
}

// ReplicasOf lists the other live processes that a node is connected to.
func (a *App) ReplicasOf(ctx context.Context, node cloud.NodeID, but string, age time.Duration) (out []Replica, err error) {
	err = a.db.InSystem(ctx, func(tx *postgres.Tx) (err error) {
		out, err = postgres.ReplicasOf(ctx, tx, node, but, age)
		return err
	})
	return out, err
}
