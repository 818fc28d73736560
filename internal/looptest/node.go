package looptest

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/nodewire"
	"github.com/tenon-cloud/tenon/internal/postgres"
)

// Node is a node of a world.
type Node struct {
	w     *World
	ID    cloud.NodeID
	Cards []cloud.GPUID
}

// Assigned is one instance that the node must make so.
type Assigned struct {
	ID         cloud.InstanceID
	Epoch      int64
	Generation int64
	State      cloud.InstanceState
}

// Assignment reads, as the node's own role, what is placed on it.
func (n Node) Assignment(ctx context.Context) (out []Assigned, err error) {
	err = n.w.DB.InNode(ctx, n.ID, func(tx *postgres.Tx) error {
		rows, err := tx.Query(ctx, `SELECT id, epoch, generation, state FROM instance ORDER BY id`)
		if err != nil {
			return err
		}
		out, err = pgx.CollectRows(rows, pgx.RowToStructByPos[Assigned])
		return err
	})
	return out, err
}

// Say reports, as the node's own role and in the order of a report: first the
// node, then its instances.
func (n Node) Say(ctx context.Context, list ...postgres.Observation) error {
	return n.w.DB.InNode(ctx, n.ID, func(tx *postgres.Tx) error {
		if _, err := tx.Exec(ctx, `UPDATE node SET last_seen_at = now() WHERE id = $1`, n.ID); err != nil {
			return err
		}
		news, err := postgres.ObservationPut(ctx, tx, n.ID, list)
		if news > 0 {
			tx.Wake(postgres.TopicLifecycle)
		}
		return err
	})
}

// Guest is what a node really runs, kept by a Machine.
type Guest struct {
	Epoch   int64
	State   string // a nodewire.Guest… word
	Ends    bool   // it ends by itself at the next look
	Off     bool   // a VM that ends so has switched itself off
	Code    int
	Boots   bool // its node is booted under it at the next look
	started time.Time
	ended   time.Time
}

// Machine is a node that acts: it makes its assignment so and reports.
type Machine struct {
	Node
	Guests  map[cloud.InstanceID]*Guest
	Volumes map[cloud.VolumeID]bool // whether it has it still
}

// NewMachine makes the node act.
func NewMachine(n Node) *Machine {
	return &Machine{Node: n, Guests: map[cloud.InstanceID]*Guest{}, Volumes: map[cloud.VolumeID]bool{}}
}

// Act takes one step: reads the assignment, moves each guest one state on, and
// reports them all.
func (m *Machine) Act(ctx context.Context) error {
	assigned, err := m.Assignment(ctx)
	if err != nil {
		return err
	}
	wanted := map[cloud.InstanceID]bool{}
	var said []postgres.Observation
	for _, a := range assigned {
		wanted[a.ID] = true
		g := m.Guests[a.ID]
		if g == nil || g.Epoch != a.Epoch {
			if g != nil && g.State == nodewire.GuestRunning {
				return fmt.Errorf("instance %s is placed anew (epoch %d) while epoch %d runs", a.ID, a.Epoch, g.Epoch)
			}
			g = &Guest{Epoch: a.Epoch, State: nodewire.GuestPending}
			m.Guests[a.ID] = g
		}
		g.step(a.State)
		o := postgres.Observation{InstanceID: a.ID, Epoch: g.Epoch, Generation: a.Generation, State: g.State}
		if !g.started.IsZero() {
			end := g.ended
			if end.IsZero() {
				end = time.Now()
			}
			o.RanFor = end.Sub(g.started)
		}
		if !g.ended.IsZero() {
			o.StateFor = time.Since(g.ended)
			if g.Boots {
				o.Reason, o.Message = nodewire.ReasonRebooted, "its node was booted again while it ran"
			}
			if g.Ends {
				o.ExitCode, o.Reason, o.LastLines = &g.Code, nodewire.ReasonExited, "the last line"
				if g.Off {
					o.ExitCode, o.Reason, o.LastLines = nil, nodewire.ReasonPowerOff, ""
				}
			}
		}
		said = append(said, o)
	}
	for id := range m.Guests {
		if !wanted[id] {
			delete(m.Guests, id) // released: every trace goes
		}
	}
	if err := m.keep(ctx); err != nil {
		return err
	}
	return m.Say(ctx, said...)
}

// keep makes the volumes that the node is given so, and reports them.
func (m *Machine) keep(ctx context.Context) error {
	return m.w.DB.InNode(ctx, m.ID, func(tx *postgres.Tx) error {
		if _, err := tx.Exec(ctx, `UPDATE node SET last_seen_at = now() WHERE id = $1`, m.ID); err != nil { // before its volumes, as in a report
			return err
		}
		list, err := postgres.VolumesAssigned(ctx, tx, m.ID)
		if err != nil {
			return err
		}
		var said []postgres.VolumeSaid
		for _, v := range list {
			m.Volumes[v.ID] = !v.Gone
			state := nodewire.VolumePresent
			if v.Gone {
				state = nodewire.VolumeGone
			}
			said = append(said, postgres.VolumeSaid{ID: v.ID, State: state, UsedMiB: 1})
		}
		news, _, err := postgres.VolumesReported(ctx, tx, m.ID, said)
		if news {
			tx.Wake(postgres.TopicLifecycle)
		}
		return err
	})
}

// step moves a guest towards what its instance's state asks of the node.
func (g *Guest) step(state cloud.InstanceState) {
	switch state {
	case cloud.StateStarting, cloud.StateRunning:
		switch g.State {
		case nodewire.GuestPending:
			g.State = nodewire.GuestStarting
		case nodewire.GuestStarting:
			if g.Boots { // within its start
				g.State, g.ended = nodewire.GuestFailed, time.Now()
				return
			}
			g.State, g.started = nodewire.GuestRunning, time.Now()
		case nodewire.GuestRunning:
			if g.Boots {
				g.State, g.ended = nodewire.GuestFailed, time.Now()
			}
			if g.Ends {
				g.State, g.ended = nodewire.GuestStopped, time.Now()
			}
		}
	case cloud.StateStopping, cloud.StateDeleting:
		if g.ended.IsZero() {
			g.ended = time.Now()
		}
		g.State = nodewire.GuestStopped
		if state == cloud.StateDeleting {
			g.State = nodewire.GuestGone
		}
	}
}
