package lifecycle

import (
	"context"
	"fmt"
	"time"

	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/postgres"
)

// overdue deals with states that have lasted too long. A start that makes no
// progress is stopped, which its node has to confirm; a stop or a deletion that
// its node does not confirm holds its GPUs, and is an alarm.
func (l *Lifecycle) overdue(ctx context.Context) error {
	return l.each(ctx, postgres.InstanceOverdue, func(ctx context.Context, tx *postgres.Tx, was postgres.Standing, now time.Time) (step, error) {
		s := step{inst: was}
		in := &s.inst
		if was.DeadlineAt == nil || was.DeadlineAt.After(now) {
			return s, nil
		}
		s.changed = true
		switch was.State {
		case cloud.StateStarting:
			deadline := now.Add(cloud.StopWithin)
			in.State, in.StateAt, in.DeadlineAt = cloud.StateStopping, now, &deadline
			in.Reason, in.Progress = reasonStartTimeout, nil
			in.Message = fmt.Sprintf("the start made no progress for %d minutes; the last was: %s", int(cloud.StartWithin.Minutes()), or(was.Message, "nothing"))
			s.events = append(s.events, postgres.InstanceEvent(in, "stopping", in.Message, now, nil))
		case cloud.StateStopping, cloud.StateDeleting:
			deadline := now.Add(cloud.StopWithin)
			in.DeadlineAt = &deadline
			in.Message = "its node has not confirmed the end yet; its GPUs stay held until it does"
			err := postgres.AlarmRaise(ctx, tx, cloud.Alarm{
				Key: stuckKey(was.ID), Severity: "warning", Subject: was.ID.String(),
				Message: fmt.Sprintf("instance %s is %s since %s and its node has not confirmed the end", was.Name, was.State, was.StateAt.UTC().Format(time.RFC3339)),
			})
			return s, err
		default:
			in.DeadlineAt = nil
		}
		return s, nil
	})
}
