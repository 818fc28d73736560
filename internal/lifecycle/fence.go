package lifecycle

import (
	"context"
	"fmt"
	"time"

	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/postgres"
)

// fenceAfterDefault is how long a node with a watchdog must have been silent
// before nothing that may restart elsewhere can still run on it.
const fenceAfterDefault = cloud.FenceAfter + cloud.FenceMargin

// fenceDue reports that a node has been silent for so long that it has ended by
// itself what may restart elsewhere. While nobody led, nobody listened: what it
// said then went to nobody. Without a watchdog time proves nothing; a person has
// to confirm that it is off.
func fenceDue(n postgres.SilentNode, listened, after time.Duration) bool {
	return n.Watchdog && n.State != cloud.NodeReady && min(n.Silent, listened) >= after
}

// fence marks silent nodes, takes from fenced ones what may restart elsewhere,
// and lifts the fence of those that are back.
func (l *Lifecycle) fence(ctx context.Context) error {
	err := l.cfg.Leader.In(ctx, func(tx *postgres.Tx) error {
		silent, err := postgres.NodesSilent(ctx, tx)
		if err != nil {
			return err
		}
		listened := time.Since(l.cfg.Leader.Since())
		own := l.silence.of(silent)
		due := silent[:0:0]
		for _, n := range silent {
			if !l.cfg.ByDatabaseClock {
				n.Silent = own[n.ID]
			}
			if fenceDue(n, listened, l.cfg.FenceAfter) {
				due = append(due, n)
			}
		}
		if len(due) == 0 {
			return nil
		}
		fenced, err := postgres.NodesFence(ctx, tx, due)
		for _, id := range fenced {
			l.log.Info("node fenced", "node", id.String())
			tx.Wake(postgres.TopicNode(id))
		}
		return err
	})
	if err != nil {
		return err
	}
	if err := l.each(ctx, postgres.InstanceFenceable, takeAway); err != nil {
		return err
	}
	return l.lift(ctx)
}

// takeAway puts an instance of a fenced node back into the queue. What it held
// there stays held until that node has spoken.
func takeAway(ctx context.Context, tx *postgres.Tx, was postgres.Standing, now time.Time) (step, error) {
	s := step{inst: was}
	if !was.HasPlace() {
		return s, nil
	}
	f, err := postgres.FenceFactsGet(ctx, tx, was.ID)
	if err != nil || !f.Takeable {
		return s, err
	}
	s.requeue("its node is lost and nothing of it runs there any more: it waits for another place", f.SeenAt, now, map[string]any{})
	s.fenced, s.released = true, false
	return s, nil
}

// requeue takes an instance from a node that lost it; nothing is charged after
// the last proof that it ran.
func (s *step) requeue(message string, proven, now time.Time, data map[string]any) {
	in := &s.inst
	from, ran := in.NodeID, in.State == cloud.StateRunning
	since := in.StateAt
	in.State, in.StateAt, in.StartedAt = cloud.StateQueued, now, nil
	in.Reason, in.Message, in.Reasons = postgres.ReasonNodeLost, message, nil
	s.leave()
	s.requeued = true
	data["from_node"] = from.String()
	if ran {
		data["proven_until"] = clamp(proven, since, now)
	}
	s.events = append(s.events, postgres.InstanceEvent(in, "restarting", message, now, data))
}

// lift releases what fenced nodes have proven that they no longer hold. A fence
// goes with the last of it.
func (l *Lifecycle) lift(ctx context.Context) error {
	var back []postgres.BackNode
	err := l.cfg.DB.InSystem(ctx, func(tx *postgres.Tx) (err error) {
		back, err = postgres.NodesBack(ctx, tx)
		return err
	})
	if err != nil {
		return err
	}
	for _, n := range back {
		for _, o := range n.Leftovers {
			if err := l.lateNews(ctx, n, o); err != nil {
				return err
			}
		}
		if !n.Current {
			continue
		}
		err := l.cfg.Leader.In(ctx, func(tx *postgres.Tx) error {
			released, lifted, err := postgres.FencedRelease(ctx, tx, n)
			if err != nil {
				return err
			}
			if released > 0 || lifted {
				tx.Wake(postgres.TopicSchedule)
				l.log.Info("fenced node is back", "node", n.ID.String(), "name", n.Name, "claims_released", released, "lifted", lifted)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// lateNews corrects what was charged of a run that was taken from its node, once
// that node says how long it really ran.
func (l *Lifecycle) lateNews(ctx context.Context, n postgres.BackNode, o postgres.Leftover) error {
	if !o.Over || o.RanFor <= 0 || o.Epoch == 0 {
		return nil
	}
	return l.cfg.Leader.In(ctx, func(tx *postgres.Tx) error {
		standing, now, err := lockAll(ctx, tx, []cloud.InstanceID{cloud.InstanceID(o.ID)})
		if err != nil {
			return err
		}
		was, ok := standing[cloud.InstanceID(o.ID)]
		if !ok || was.Epoch == o.Epoch && was.HasPlace() {
			return nil
		}
		began, unknown, err := postgres.FencedRun(ctx, tx, was.ID, o.Epoch)
		if err != nil || !unknown {
			return err
		}
		until := clamp(began.Add(time.Duration(o.RanFor*float64(time.Second))), began, n.At)
		s := step{inst: was}
		s.events = append(s.events, postgres.InstanceEvent(&s.inst, "node_back", fmt.Sprintf("node %s is back and says how long it ran there", n.Name), now,
			map[string]any{"state": "unknown", "epoch": o.Epoch, "ran_until": until}))
		return apply(ctx, tx, []change{{was, s}})
	})
}
