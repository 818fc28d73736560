package lifecycle

import (
	"context"
	"time"

	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/postgres"
)

// reasonForgotten marks what ended because an operator gave its node up.
const reasonForgotten = "node_forgotten"

// forget settles what forgotten nodes had: nobody waits for their word any more.
func (l *Lifecycle) forget(ctx context.Context) error {
	if err := l.each(ctx, postgres.InstanceForgotten, forsake); err != nil {
		return err
	}
	return l.cfg.Leader.In(ctx, func(tx *postgres.Tx) error {
		n, err := postgres.ForgottenClear(ctx, tx)
		if n > 0 {
			tx.Wake(postgres.TopicSchedule)
		}
		return err
	})
}

// forsake ends what an instance had on a forgotten node: its place, and the data
// that lay there.
func forsake(ctx context.Context, tx *postgres.Tx, was postgres.Standing, now time.Time) (step, error) {
	lost, seen, err := postgres.VolumesLose(ctx, tx, was.ID, now)
	if err != nil {
		return step{inst: was}, err
	}
	here, err := postgres.OnForgotten(ctx, tx, was.NodeID)
	if err != nil || !here && lost == 0 {
		return step{inst: was}, err
	}
	return forgotten(was, here, lost > 0, seen, now), nil
}

// forgotten decides what becomes of an instance whose node is given up: here, it
// had its place there; lost, data of it lay there.
func forgotten(was postgres.Standing, here, lost bool, seen, now time.Time) step {
	s := step{inst: was}
	in := &s.inst
	const gone = "its node was given up by an operator"
	message := gone
	if lost {
		message = gone + ", and its data with it"
	}
	if !here { // it was not placed, or is by now somewhere else
		s.changed = true
		s.events = append(s.events, postgres.InstanceEvent(in, "volume_lost", message, now, map[string]any{"state": ""}))
		if !was.State.OnNode() && was.State != cloud.StateDeleted {
			in.Message = message
		}
		return s
	}
	end := func(to cloud.InstanceState, reason string) {
		since, ran := in.StateAt, in.State == cloud.StateRunning || in.Held
		in.State, in.StateAt, in.Reason, in.Message, in.Held = to, now, reason, message, false
		if to == cloud.StateDeleted {
			in.DeletedAt, in.Reason, in.Message = &now, "", "deleted"
		}
		s.leave()
		data := map[string]any{}
		if ran {
			data["proven_until"] = clamp(seen, since, now)
		}
		s.events = append(s.events, postgres.InstanceEvent(in, string(to), in.Message, now, data))
	}
	switch {
	case was.State == cloud.StateDeleting:
		end(cloud.StateDeleted, "")
	case was.State == cloud.StateStopped, was.State == cloud.StateStopping && !lost:
		end(cloud.StateStopped, reasonForgotten)
	case was.OnNodeLoss == cloud.LossRestarts && !lost && was.Desired == cloud.DesiredRunning && was.State != cloud.StateStopping:
		s.requeue(gone+": it waits for another place", seen, now, map[string]any{})
	default:
		end(cloud.StateFailed, reasonForgotten)
	}
	return s
}
