package app

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/tenon-cloud/tenon/internal/authz"
	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/postgres"
)

// intents that a person may have, and the states in which each is possible.
const (
	intentStart   = "start"
	intentStop    = "stop"
	intentRestart = "restart"
	intentDelete  = "delete"
)

var intentStates = map[string][]cloud.InstanceState{
	intentStart:   {cloud.StateStopped, cloud.StateFailed},
	intentStop:    {cloud.StateQueued, cloud.StateStarting, cloud.StateRunning},
	intentRestart: {cloud.StateRunning},
	intentDelete:  {cloud.StateQueued, cloud.StateStarting, cloud.StateRunning, cloud.StateStopping, cloud.StateStopped, cloud.StateFailed},
}

// InstanceStart queues a stopped or failed instance again, under its own id.
// What it gave back is counted against the limits anew.
func (a *App) InstanceStart(ctx context.Context, c Call, project, instance string, ifMatch int64) (cloud.Instance, error) {
	return a.intend(ctx, c, authz.InstanceStart, intentStart, project, instance, ifMatch)
}

// InstanceStop ends an instance gracefully; it holds nothing afterwards.
func (a *App) InstanceStop(ctx context.Context, c Call, project, instance string, ifMatch int64) (cloud.Instance, error) {
	return a.intend(ctx, c, authz.InstanceStop, intentStop, project, instance, ifMatch)
}

// InstanceRestart ends and starts an instance where it is; it keeps its place.
func (a *App) InstanceRestart(ctx context.Context, c Call, project, instance string, ifMatch int64) (cloud.Instance, error) {
	return a.intend(ctx, c, authz.InstanceRestart, intentRestart, project, instance, ifMatch)
}

// InstanceDelete ends an instance and every trace of it. Asked twice, it is the
// same intent.
func (a *App) InstanceDelete(ctx context.Context, c Call, project, instance string, ifMatch int64) (cloud.Instance, error) {
	return a.intend(ctx, c, authz.InstanceDelete, intentDelete, project, instance, ifMatch)
}

func (a *App) intend(ctx context.Context, c Call, action authz.Action, intent, project, instance string, ifMatch int64) (out cloud.Instance, err error) {
	var in cloud.Project
	err = a.inProject(ctx, c, action, project, func(tx *postgres.Tx, p cloud.Project) error {
		in = p
		id, err := postgres.InstanceFind(ctx, tx, p.ID, postgres.RefOf(cloud.InstanceID{}, instance))
		if err != nil {
			return notFound(err, "instance", instance)
		}
		// Limits are locked before instances, everywhere.
		if err := postgres.QuotaLock(ctx, tx, []cloud.ProjectID{p.ID}); err != nil {
			return err
		}
		list, err := postgres.StandingLock(ctx, tx, []cloud.InstanceID{id})
		if err != nil {
			return err
		}
		if len(list) == 0 || list[0].State == cloud.StateDeleted {
			return cloud.NotFound("instance", instance)
		}
		s := list[0]
		if ifMatch != 0 && ifMatch != s.Generation {
			return cloud.E(cloud.KindPrecondition, "generation_changed", "instance %q is at generation %d, not %d", s.Name, s.Generation, ifMatch).
				WithHint("look at it again, and decide again").With("generation", s.Generation)
		}
		if intent != intentDelete || s.State != cloud.StateDeleting {
			if err := apply(ctx, tx, c, action, intent, s); err != nil {
				return err
			}
		}
		row, err := postgres.InstanceGet(ctx, tx, p.ID, postgres.RefTo(id))
		out = row.Instance
		return err
	})
	if excess, ok := postgres.QuotaExceeded(err); ok {
		return cloud.Instance{}, quotaError(in, excess)
	}
	return out, err
}

// apply carries an intent out on a locked instance.
func apply(ctx context.Context, tx *postgres.Tx, c Call, action authz.Action, intent string, s postgres.Standing) error {
	if !possible(intent, s.State) {
		return impossible(intent, s)
	}
	now, err := postgres.Now(ctx, tx)
	if err != nil {
		return err
	}
	compute, err := takes(s.Shape)
	if err != nil {
		return fmt.Errorf("weigh instance %s: %w", s.ID, err)
	}
	was := s
	s.Generation++
	change := postgres.Amounts{}
	var queuedAt *time.Time
	verb, message := "", "asked for by "+c.Actor.Email
	switch intent {
	case intentStart:
		s.Desired, s.HoldsQuota = cloud.DesiredRunning, true
		change, queuedAt = compute, &now
		none := ""
		s.LastLines, s.ExitCode, s.StartedAt = &none, nil, nil
		verb = enter(&s, cloud.StateQueued, now, 0, "")
	case intentStop:
		s.Desired = cloud.DesiredStopped
		if s.State == cloud.StateQueued {
			s.HoldsQuota, change = false, giveBack(compute)
			verb = enter(&s, cloud.StateStopped, now, 0, "stopped before it was placed")
			s.Reason = "asked"
		} else {
			verb = enter(&s, cloud.StateStopping, now, cloud.StopWithin, "its node stops it")
			s.Reason = "asked"
		}
	case intentRestart:
		verb = "restarting"
		s.Message = "its node restarts it"
	case intentDelete:
		s.Desired = cloud.DesiredDeleted
		if s.State.OnNode() {
			verb = enter(&s, cloud.StateDeleting, now, cloud.DeleteWithin, "its node removes it")
			break
		}
		change[cloud.QuotaInstances] = -1
		if s.HoldsQuota {
			change = giveBack(compute)
			change[cloud.QuotaInstances] = -1
		}
		s.HoldsQuota, s.DeletedAt = false, &now
		verb = enter(&s, cloud.StateDeleted, now, 0, "deleted")
	}
	if len(change) > 0 {
		if err := postgres.QuotaReserve(ctx, tx, s.ProjectID, change); err != nil {
			return err
		}
	}
	event := postgres.InstanceEvent(&s, verb, message, now, nil)
	if err := postgres.IntentSave(ctx, tx, s, queuedAt); err != nil {
		return err
	}
	if err := postgres.EventsAppend(ctx, tx, []cloud.Event{event}); err != nil {
		return err
	}
	if !s.NodeID.IsZero() {
		if err := postgres.NodeTouch(ctx, tx, s.NodeID); err != nil {
			return err
		}
		tx.Wake(postgres.TopicNode(s.NodeID))
		tx.Wake(postgres.TopicLifecycle)
	}
	if s.State != was.State {
		tx.Wake(postgres.TopicMeter)
	}
	if s.State == cloud.StateQueued {
		tx.Wake(postgres.TopicSchedule)
	}
	tx.Wake(postgres.TopicChange(s.ProjectID))
	return audit(ctx, tx, c, s.OrgID, action, s.ID.String(), map[string]any{"name": s.Name, "from": string(was.State)})
}

// enter moves a locked instance to a state.
func enter(s *postgres.Standing, to cloud.InstanceState, now time.Time, within time.Duration, message string) (verb string) {
	s.State, s.StateAt, s.DeadlineAt = to, now, nil
	if within > 0 {
		deadline := now.Add(within)
		s.DeadlineAt = &deadline
	}
	s.Reason, s.Message, s.Reasons, s.Progress = "", message, nil, nil
	return string(to)
}

func possible(intent string, state cloud.InstanceState) bool {
	for _, s := range intentStates[intent] {
		if s == state {
			return true
		}
	}
	return false
}

// impossible says what the state allows instead.
func impossible(intent string, s postgres.Standing) error {
	var allowed []string
	for _, other := range []string{intentStart, intentStop, intentRestart, intentDelete} {
		if possible(other, s.State) {
			allowed = append(allowed, other)
		}
	}
	e := cloud.E(cloud.KindConflict, "state_conflict", "instance %q is %s: it can't %s now", s.Name, s.State, intent).
		With("state", string(s.State)).With("allowed", allowed)
	if len(allowed) == 0 {
		return e.WithHint("wait until it is gone")
	}
	return e.WithHint("what can be done now: %s", strings.Join(allowed, ", "))
}
