package app

import (
	"context"
	"time"

	"github.com/tenon-cloud/tenon/internal/authn"
	"github.com/tenon-cloud/tenon/internal/authz"
	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/gpu"
	"github.com/tenon-cloud/tenon/internal/postgres"
)

const (
	joinDefaultFor = time.Hour
	joinMaximumFor = 7 * 24 * time.Hour
)

// NodeList lists nodes by name, with their cards and claims.
func (a *App) NodeList(ctx context.Context, c Call, p Page) (List[cloud.Node], error) {
	limit, err := p.size()
	if err != nil {
		return List[cloud.Node]{}, err
	}
	after, err := p.after()
	if err != nil {
		return List[cloud.Node]{}, err
	}
	var rows []cloud.Node
	err = a.inPlatform(ctx, c, authz.NodeList, func(tx *postgres.Tx) (err error) {
		if rows, err = postgres.NodeList(ctx, tx, after, limit+1); err != nil {
			return err
		}
		return postgres.NodesFill(ctx, tx, rows)
	})
	return paged(rows, limit, func(n cloud.Node) string { return n.Name }), err
}

// NodeGet shows one with its cards and their claims.
func (a *App) NodeGet(ctx context.Context, c Call, node string) (out cloud.Node, err error) {
	err = a.inPlatform(ctx, c, authz.NodeRead, func(tx *postgres.Tx) (err error) {
		out, err = nodeGet(ctx, tx, node)
		return err
	})
	return out, err
}

func nodeGet(ctx context.Context, tx *postgres.Tx, node string) (cloud.Node, error) {
	n, err := postgres.NodeGet(ctx, tx, postgres.RefOf(cloud.NodeID{}, node))
	if err != nil {
		return n, notFound(err, "node", node)
	}
	list := []cloud.Node{n}
	if err := postgres.NodesFill(ctx, tx, list); err != nil {
		return n, err
	}
	list[0].Counted = true
	list[0].Stays, err = postgres.StayCount(ctx, tx, n.ID)
	return list[0], err
}

// NodeDrain keeps new placements from a node; what runs there goes on.
func (a *App) NodeDrain(ctx context.Context, c Call, node string) (cloud.Node, error) {
	return a.drain(ctx, c, authz.NodeDrain, node, true)
}

// NodeUndrain lets new placements on a node again.
func (a *App) NodeUndrain(ctx context.Context, c Call, node string) (cloud.Node, error) {
	return a.drain(ctx, c, authz.NodeUndrain, node, false)
}

func (a *App) drain(ctx context.Context, c Call, action authz.Action, node string, drained bool) (out cloud.Node, err error) {
	err = a.inPlatform(ctx, c, action, func(tx *postgres.Tx) error {
		n, err := nodeGet(ctx, tx, node)
		if err != nil {
			return err
		}
		if n.Drained != drained {
			if err := postgres.NodeDrain(ctx, tx, n.ID, drained); err != nil {
				return err
			}
			if err := audit(ctx, tx, c, cloud.OrgID{}, action, n.ID.String(), map[string]any{"name": n.Name}); err != nil {
				return err
			}
			tx.Wake(postgres.TopicSchedule)
		}
		n.Drained = drained
		out = n
		return nil
	})
	return out, err
}

// JoinTokenCreate makes a secret with which one node may enrol, once.
func (a *App) JoinTokenCreate(ctx context.Context, c Call, in JoinTokenInput) (JoinToken, error) {
	if in.Pool == "" {
		in.Pool = poolDefault
	}
	if in.ValidFor == 0 {
		in.ValidFor = joinDefaultFor
	}
	if err := may(c, authz.NodeJoinTokenCreate, c.Actor.OrgID); err != nil {
		return JoinToken{}, err
	}
	if in.ValidFor < time.Minute || in.ValidFor > joinMaximumFor {
		return JoinToken{}, cloud.Invalid(cloud.Field{Location: "body.valid_for", Message: "one minute to seven days", Value: in.ValidFor.String()})
	}
	out := JoinToken{Secret: authn.SecretNew(authn.PrefixJoin), Pool: in.Pool}
	err := a.inPlatform(ctx, c, authz.NodeJoinTokenCreate, func(tx *postgres.Tx) error {
		pool, err := postgres.PoolGet(ctx, tx, postgres.RefOf(cloud.PoolID{}, in.Pool))
		if postgres.Missing(err) {
			return cloud.Invalid(cloud.Field{Location: "body.pool", Message: "there is no such pool", Value: in.Pool})
		}
		if err != nil {
			return err
		}
		now, err := postgres.Now(ctx, tx)
		if err != nil {
			return err
		}
		out.Pool, out.ExpiresAt = pool.Name, now.Add(in.ValidFor)
		if err := postgres.JoinTokenAdd(ctx, tx, authn.SecretHash(out.Secret), pool.ID, pool.Simulated, c.Actor.UserID, out.ExpiresAt); err != nil {
			return err
		}
		return audit(ctx, tx, c, cloud.OrgID{}, authz.NodeJoinTokenCreate, pool.ID.String(), map[string]any{"pool": pool.Name})
	})
	return out, err
}

// GPUList lists cards with their claims.
func (a *App) GPUList(ctx context.Context, c Call, f GPUFilter, p Page) (List[cloud.GPU], error) {
	limit, err := p.size()
	if err != nil {
		return List[cloud.GPU]{}, err
	}
	after, err := afterID(cloud.GPUID{}, p)
	if err != nil {
		return List[cloud.GPU]{}, err
	}
	if after == nil {
		after = &cloud.GPUID{}
	}
	var rows []cloud.GPU
	err = a.inPlatform(ctx, c, authz.GPUList, func(tx *postgres.Tx) error {
		filter := postgres.GPUFilter{Model: f.Model, State: f.State}
		if f.Node != "" {
			n, err := postgres.NodeGet(ctx, tx, postgres.RefOf(cloud.NodeID{}, f.Node))
			if err != nil {
				return notFound(err, "node", f.Node)
			}
			filter.Node = n.ID
		}
		rows, err = postgres.GPUList(ctx, tx, filter, *after, limit+1)
		return err
	})
	return paged(rows, limit, func(g cloud.GPU) string { return g.ID.String() }), err
}

// GPUGet shows a card, by its id, the driver's UUID or its PCI address.
func (a *App) GPUGet(ctx context.Context, c Call, ref string) (out cloud.GPU, err error) {
	err = a.inPlatform(ctx, c, authz.GPURead, func(tx *postgres.Tx) (err error) {
		out, err = postgres.GPUGet(ctx, tx, postgres.RefOf(cloud.GPUID{}, ref))
		return notFound(err, "GPU", ref)
	})
	return out, err
}

// PoolList lists the pools.
func (a *App) PoolList(ctx context.Context, c Call) (out []cloud.Pool, err error) {
	err = a.inPlatform(ctx, c, authz.PoolList, func(tx *postgres.Tx) (err error) {
		out, err = postgres.PoolList(ctx, tx)
		return err
	})
	return out, err
}

// Capacity counts the cards.
func (a *App) Capacity(ctx context.Context, c Call) (out Capacity, err error) {
	err = a.inPlatform(ctx, c, authz.CapacityRead, func(tx *postgres.Tx) error {
		rows, err := postgres.Capacity(ctx, tx)
		out = Capacity{}
		for _, r := range rows {
			l := CapacityLine{Model: r.Model, ModelName: gpu.DisplayName(r.Model, gpu.Whole), Simulated: r.Simulated,
				Total: r.Total, Healthy: r.Healthy, Used: r.Used, Free: r.Free, SlotsTotal: r.SlotsTotal, SlotsUsed: r.SlotsUsed}
			out.Models = append(out.Models, l)
			out.Total.Total += l.Total
			out.Total.Healthy += l.Healthy
			out.Total.Used += l.Used
			out.Total.Free += l.Free
			out.Total.SlotsTotal += l.SlotsTotal
			out.Total.SlotsUsed += l.SlotsUsed
			out.Total.Simulated = out.Total.Simulated || l.Simulated
		}
		return err
	})
	return out, err
}

// AlarmList lists alarms, newest first.
func (a *App) AlarmList(ctx context.Context, c Call, open bool, p Page) (List[cloud.Alarm], error) {
	limit, err := p.size()
	if err != nil {
		return List[cloud.Alarm]{}, err
	}
	before, err := afterID(cloud.AlarmID{}, p)
	if err != nil {
		return List[cloud.Alarm]{}, err
	}
	var rows []cloud.Alarm
	err = a.inPlatform(ctx, c, authz.AlarmList, func(tx *postgres.Tx) (err error) {
		rows, err = postgres.AlarmList(ctx, tx, open, before, limit+1)
		return err
	})
	return paged(rows, limit, func(x cloud.Alarm) string { return x.ID.String() }), err
}

// AlarmAcknowledge notes that an operator has seen an alarm.
func (a *App) AlarmAcknowledge(ctx context.Context, c Call, alarm string) (out cloud.Alarm, err error) {
	var id cloud.AlarmID
	if err := id.UnmarshalText([]byte(alarm)); err != nil {
		return out, cloud.NotFound("alarm", alarm)
	}
	err = a.inPlatform(ctx, c, authz.AlarmAcknowledge, func(tx *postgres.Tx) error {
		now, err := postgres.Now(ctx, tx)
		if err != nil {
			return err
		}
		if out, err = postgres.AlarmAcknowledge(ctx, tx, id, now); err != nil {
			return notFound(err, "alarm", alarm)
		}
		return audit(ctx, tx, c, cloud.OrgID{}, authz.AlarmAcknowledge, id.String(), map[string]any{"key": out.Key})
	})
	return out, err
}
