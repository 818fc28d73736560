package lifecycle

import (
	"context"
	"fmt"
	"time"

	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/postgres"
)

const (
	lateAfter = 15 * time.Second
	lostAfter = 5 * time.Minute
)

// Liveness judges nodes by when they were last heard of. While nobody led,
// nobody listened, so silence counts from the begin of this term at most.
func (l *Lifecycle) Liveness(ctx context.Context) error {
	err := l.cfg.Leader.In(ctx, func(tx *postgres.Tx) error {
		moves, err := postgres.NodesJudge(ctx, tx, lateAfter, lostAfter, time.Since(l.cfg.Leader.Since()))
		if err != nil {
			return err
		}
		var found []string
		for _, m := range moves {
			l.log.Info("node changed", "node", m.ID.String(), "name", m.Name, "from", m.From, "to", m.To)
			if m.From == cloud.NodeLost {
				found = append(found, lostKey(m.ID))
			}
			switch m.To {
			case cloud.NodeReady:
				tx.Wake(postgres.TopicSchedule)
			case cloud.NodeLost:
				err := postgres.AlarmRaise(ctx, tx, lostAlarm(m.ID, m.Name))
				if err != nil {
					return err
				}
			}
		}
		return postgres.AlarmsClear(ctx, tx, found)
	})
	if err != nil {
		return ended(err)
	}
	for _, part := range []func(context.Context) error{l.fence, l.forget, l.forsaken} {
		if err := part(ctx); err != nil {
			return ended(err)
		}
	}
	return nil
}

// forsaken marks what ran or kept its place on a node that is lost or fenced and
// stays there, says what it waits for, and looks again at it once the node is back:
// what kept its place counts from then on, what ran when its node says that it does.
func (l *Lifecycle) forsaken(ctx context.Context) error {
	err := l.each(ctx, postgres.InstanceForsaken, func(ctx context.Context, tx *postgres.Tx, was postgres.Standing, now time.Time) (step, error) {
		s := step{inst: was}
		if was.State != cloud.StateRunning && !was.Held || was.Reason == postgres.ReasonNodeLost {
			return s, nil
		}
		f, err := postgres.FenceFactsGet(ctx, tx, was.ID)
		if err != nil || f.State != cloud.NodeLost && !f.Fenced || f.Takeable {
			return s, err
		}
		s.lost(f.SeenAt, waitsFor(was, f), now)
		return s, nil
	})
	if err != nil {
		return err
	}
	err = l.each(ctx, postgres.InstanceRegained, func(ctx context.Context, tx *postgres.Tx, was postgres.Standing, now time.Time) (step, error) {
		s := step{inst: was}
		if !was.Held || was.Reason != postgres.ReasonNodeLost {
			return s, nil
		}
		f, err := postgres.FenceFactsGet(ctx, tx, was.ID)
		if err != nil || f.State != cloud.NodeReady || f.Fenced {
			return s, err
		}
		s.regained(now)
		return s, nil
	})
	if err != nil {
		return err
	}
	return l.cfg.Leader.In(ctx, func(tx *postgres.Tx) error {
		n, err := postgres.ObservationRevive(ctx, tx, lateAfter)
		if n > 0 {
			tx.Wake(postgres.TopicLifecycle)
		}
		return err
	})
}

// waitsFor says why an instance stays on a node that nobody hears of.
func waitsFor(was postgres.Standing, f postgres.FenceFacts) string {
	switch {
	case was.Held:
		return "its node has not been heard of: it keeps its place there, which isn't charged until the node is back"
	case was.OnNodeLoss != cloud.LossRestarts:
		return "its node has not been heard of: it waits for it, and what it holds stays held (on_node_loss is wait)"
	case f.Data:
		return "its node has not been heard of; its data lies on that node, so it waits for it instead of restarting elsewhere"
	case !f.Watchdog:
		return "its node has not been heard of and has no watchdog: it restarts elsewhere once an operator confirms that the node is off"
	}
	return "its node has not been heard of; it may still run there, and restarts elsewhere once nothing of it can"
}

func lostKey(id cloud.NodeID) string { return fmt.Sprintf("node:%s:lost", id) }

// Clean deletes what has expired: answers kept for repeated requests, and
// sessions, and what is known of cards from long ago.
func (l *Lifecycle) Clean(ctx context.Context) error {
	return ended(l.cfg.Leader.In(ctx, func(tx *postgres.Tx) error {
		if _, err := postgres.IdempotencyPrune(ctx, tx, answersKept); err != nil {
			return err
		}
		if err := postgres.IncidentsExpire(ctx, tx, incidentsKept); err != nil {
			return err
		}
		if err := postgres.GPUStaysExpire(ctx, tx, staysKept); err != nil {
			return err
		}
		_, err := postgres.SessionPrune(ctx, tx)
		return err
	}))
}

// answersKept is how long a repeated request is recognised.
const answersKept = 24 * time.Hour
