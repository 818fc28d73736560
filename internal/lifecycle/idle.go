package lifecycle

import (
	"context"
	"fmt"
	"time"

	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/nodewire"
	"github.com/tenon-cloud/tenon/internal/postgres"
)

const (
	// reasonIdle marks a stop for idleness.
	reasonIdle = "idle"
	// idleGPUPercent is what a card shows when nothing uses it.
	idleGPUPercent = 5.0
	// activityFresh is how old a node's word of a notebook may be and still count.
	activityFresh = time.Minute
)

// idlePolicy is a project's.
type idlePolicy struct {
	Stop time.Duration // 0: never
	Warn time.Duration // before that
}

// idleState is what is known of a notebook's idleness.
type idleState struct {
	Since    *time.Time // nil: something goes on, or nobody knows
	WarnedAt *time.Time
}

// idleAct is what to do about it.
type idleAct string

const (
	idleNothing idleAct = ""
	idleNote    idleAct = "note"  // idleness begins, without a word
	idleWarn    idleAct = "warn"  // it will be stopped
	idleStop    idleAct = "stop"  // now
	idleClear   idleAct = "clear" // something goes on, or nobody knows any more
)

// idle reports that nothing goes on in a notebook: no kernel is busy, nobody has
// a terminal or SSH in it, and its GPU, if it has one, is known to do nothing. An
// open browser tab is no activity; what isn't known isn't idleness.
func idle(a *nodewire.Activity) bool {
	return a != nil && a.BusyKernels == 0 && a.Sessions == 0 &&
		(!a.HasGPU || a.GPUPercent != nil && *a.GPUPercent < idleGPUPercent)
}

// idleVerdict decides on a running notebook by what its node said last and how
// long ago. It gives the state to keep and, with a policy, when it stops.
func idleVerdict(a *nodewire.Activity, age time.Duration, policy idlePolicy, was idleState, now time.Time) (act idleAct, is idleState, stopAt time.Time) {
	if !idle(a) || age > activityFresh {
		if was.Since != nil || was.WarnedAt != nil {
			return idleClear, idleState{}, time.Time{}
		}
		return idleNothing, was, time.Time{}
	}
	// A kernel that did something between two words was busy, and one that has
	// been quiet for long may have had a terminal beside it until now.
	quiet := now.Add(-age - time.Duration(a.QuietSeconds*float64(time.Second)))
	is = was
	switch {
	case was.Since == nil:
		since := now.Add(-age)
		is.Since = &since
		act = idleNote
	case quiet.After(was.Since.Add(time.Second)):
		is = idleState{Since: &quiet}
		act = idleNote
		if was.WarnedAt != nil {
			return idleClear, is, time.Time{}
		}
	}
	if policy.Stop <= 0 {
		if was.WarnedAt != nil {
			return idleClear, idleState{Since: is.Since}, time.Time{}
		}
		return act, is, time.Time{}
	}
	warn := min(policy.Warn, policy.Stop)
	stopAt = is.Since.Add(policy.Stop)
	if is.WarnedAt != nil && warn > 0 && stopAt.Before(is.WarnedAt.Add(warn)) {
		stopAt = is.WarnedAt.Add(warn) // warned late: the policy is newer than the idleness
	}
	switch {
	case warn > 0 && is.WarnedAt == nil && !now.Before(is.Since.Add(policy.Stop-warn)):
		is.WarnedAt = &now
		if late := now.Add(warn); stopAt.Before(late) {
			stopAt = late
		}
		return idleWarn, is, stopAt
	case !now.Before(stopAt) && (warn == 0 || is.WarnedAt != nil):
		return idleStop, is, stopAt
	}
	return act, is, stopAt
}

// Idle looks at every running notebook.
func (l *Lifecycle) Idle(ctx context.Context) error {
	return ended(l.each(ctx, func(ctx context.Context, q postgres.Querier, limit int) ([]postgres.InstanceRef, error) {
		rows, now, err := postgres.NotebooksRunning(ctx, q)
		if err != nil {
			return nil, err
		}
		var refs []postgres.InstanceRef
		for _, n := range rows {
			if act, _, _ := verdict(n, now); act != idleNothing && len(refs) < limit {
				refs = append(refs, postgres.InstanceRef{ID: n.ID, ProjectID: n.ProjectID})
			}
		}
		return refs, nil
	}, idleStep))
}

func verdict(n postgres.Notebook, now time.Time) (idleAct, idleState, time.Time) {
	policy := idlePolicy{Warn: time.Duration(n.WarnSeconds) * time.Second}
	if n.StopSeconds != nil {
		policy.Stop = time.Duration(*n.StopSeconds) * time.Second
	}
	return idleVerdict(n.Activity, n.Age, policy, idleState{n.IdleSince, n.WarnedAt}, now)
}

// idleStep acts on one, under its lock.
func idleStep(ctx context.Context, tx *postgres.Tx, was postgres.Standing, now time.Time) (step, error) {
	s := step{inst: was}
	n, err := postgres.NotebookGet(ctx, tx, was.ID)
	if err != nil || was.State != cloud.StateRunning || was.Desired != cloud.DesiredRunning || n.ID.IsZero() {
		return s, err
	}
	act, is, stopAt := verdict(n, now)
	if act == idleNothing {
		return s, nil
	}
	if err := postgres.IdleSave(ctx, tx, was.ID, is.Since, is.WarnedAt); err != nil {
		return s, err
	}
	tx.Wake(postgres.TopicChange(was.ProjectID))
	in := &s.inst
	say := func(verb, message string, data map[string]any) {
		s.changed = true
		s.events = append(s.events, postgres.InstanceEvent(in, verb, message, now, data))
	}
	switch act {
	case idleWarn:
		say("idle_warning", fmt.Sprintf("nothing has gone on in it since %s; it is stopped at %s unless something does",
			is.Since.UTC().Format("15:04:05 UTC"), stopAt.UTC().Format("15:04:05 UTC")),
			map[string]any{"state": "", "idle_since": is.Since, "idle_stop_at": stopAt})
	case idleClear:
		if n.WarnedAt != nil {
			say("idle_over", "it is not stopped for idleness: something goes on in it, or nobody knows", map[string]any{"state": ""})
		}
	case idleStop:
		deadline := now.Add(cloud.StopWithin)
		in.State, in.StateAt, in.DeadlineAt = cloud.StateStopping, now, &deadline
		in.Reason, in.Progress = reasonIdle, nil
		in.Message = fmt.Sprintf("stopped for idleness: nothing had gone on in it since %s", is.Since.UTC().Format("2006-01-02 15:04:05 UTC"))
		say("stopping", in.Message, map[string]any{"idle_since": is.Since})
	}
	return s, nil
}
