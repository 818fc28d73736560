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
			switch m.To {
			case cloud.NodeReady:
				tx.Wake(postgres.TopicSchedule)
				found = append(found, lostKey(m.ID))
			case cloud.NodeLost:
				err := postgres.AlarmRaise(ctx, tx, cloud.Alarm{
					Key: lostKey(m.ID), Severity: "critical", Subject: m.ID.String(),
					Message: fmt.Sprintf("node %s has not been heard of for %d minutes; what it held stays held until it reports", m.Name, int(lostAfter.Minutes())),
				})
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
	return ended(l.forsaken(ctx))
}

// forsaken marks what ran on a lost node, and looks again at it once the node
// is back and says that it runs.
func (l *Lifecycle) forsaken(ctx context.Context) error {
	err := l.each(ctx, postgres.InstanceForsaken, func(ctx context.Context, tx *postgres.Tx, was postgres.Standing, now time.Time) (step, error) {
		s := step{inst: was}
		if was.State != cloud.StateRunning || was.Reason == postgres.ReasonNodeLost {
			return s, nil
		}
		seen, lost, err := postgres.NodeProof(ctx, tx, was.NodeID)
		if err == nil && lost {
			s.lost(seen, now)
		}
		return s, err
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

func lostKey(id cloud.NodeID) string { return fmt.Sprintf("node:%s:lost", id) }

// Clean deletes what has expired: answers kept for repeated requests, and
// sessions.
func (l *Lifecycle) Clean(ctx context.Context) error {
	return ended(l.cfg.Leader.In(ctx, func(tx *postgres.Tx) error {
		if _, err := postgres.IdempotencyPrune(ctx, tx, answersKept); err != nil {
			return err
		}
		_, err := postgres.SessionPrune(ctx, tx)
		return err
	}))
}

// answersKept is how long a repeated request is recognised.
const answersKept = 24 * time.Hour
