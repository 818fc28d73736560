package app

import (
	"context"
	"fmt"
	"slices"
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
// What it gave back is counted against the limits anew. One that held its place
// starts there.
func (a *App) InstanceStart(ctx context.Context, c Call, project, instance string, in StartInput, ifMatch int64) (cloud.Instance, error) {
	return a.intend(ctx, c, project, instance, ifMatch, wanted{action: authz.InstanceStart, intent: intentStart, withoutGPU: in.WithoutGPU})
}

// InstanceStop ends an instance gracefully. It holds nothing afterwards, unless
// it is a VM that shall hold its place.
func (a *App) InstanceStop(ctx context.Context, c Call, project, instance string, in StopInput, ifMatch int64) (cloud.Instance, error) {
	switch in.GPU {
	case "", cloud.StopReleases, cloud.StopHolds:
	default:
		return cloud.Instance{}, cloud.Invalid(cloud.Field{Location: "body.gpu", Message: "release or hold", Value: in.GPU})
	}
	return a.intend(ctx, c, project, instance, ifMatch, wanted{action: authz.InstanceStop, intent: intentStop, stop: in.GPU})
}

// InstanceRestart ends and starts an instance where it is; it keeps its place.
func (a *App) InstanceRestart(ctx context.Context, c Call, project, instance string, ifMatch int64) (cloud.Instance, error) {
	return a.intend(ctx, c, project, instance, ifMatch, wanted{action: authz.InstanceRestart, intent: intentRestart})
}

// InstanceDelete ends an instance and every trace of it. Asked twice, it is the
// same intent.
func (a *App) InstanceDelete(ctx context.Context, c Call, project, instance string, ifMatch int64) (cloud.Instance, error) {
	return a.intend(ctx, c, project, instance, ifMatch, wanted{action: authz.InstanceDelete, intent: intentDelete})
}

// wanted is what a person wants of an instance.
type wanted struct {
	action     authz.Action
	intent     string
	stop       cloud.StopPolicy // of a stop; empty: its own
	withoutGPU bool             // of a start
}

func (a *App) intend(ctx context.Context, c Call, project, instance string, ifMatch int64, w wanted) (cloud.Instance, error) {
	return a.onInstance(ctx, c, w.action, project, instance, ifMatch, func(tx *postgres.Tx, s postgres.Standing) error {
		if w.intent == intentDelete && s.State == cloud.StateDeleting {
			return nil
		}
		return apply(ctx, tx, c, w, s)
	})
}

// onInstance changes one instance under its lock, and the project's limits'.
func (a *App) onInstance(ctx context.Context, c Call, action authz.Action, project, instance string, ifMatch int64,
	change func(tx *postgres.Tx, s postgres.Standing) error,
) (out cloud.Instance, err error) {
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
		if err := notMember(s); err != nil {
			return err
		}
		if ifMatch != 0 && ifMatch != s.Generation {
			return cloud.E(cloud.KindPrecondition, "generation_changed", "instance %q is at generation %d, not %d", s.Name, s.Generation, ifMatch).
				WithHint("look at it again, and decide again").With("generation", s.Generation)
		}
		if err := change(tx, s); err != nil {
			return err
		}
		row, err := postgres.InstanceGet(ctx, tx, p.ID, postgres.RefTo(id))
		if err != nil {
			return err
		}
		rows := []postgres.Instance{row}
		err = withVolumes(ctx, tx, rows)
		out = rows[0].Instance
		return err
	})
	if excess, ok := postgres.QuotaExceeded(err); ok {
		return cloud.Instance{}, quotaError(in, excess)
	}
	return out, err
}

// move is an intent as it is carried out: how the instance becomes, and what
// goes with it.
type move struct {
	postgres.Standing
	was     postgres.Standing
	now     time.Time
	change  postgres.Amounts // of the limits
	queued  *time.Time       // it joins the queue
	touch   []cloud.NodeID   // whose assignment becomes another
	release bool             // what it holds while it is stopped
	resume  bool             // it starts with what it held
	end     bool             // what it keeps goes
	make    *cloud.Volume    // what it should keep is not there
	verb    string
	message string
	data    map[string]any
}

// apply carries an intent out on a locked instance.
func apply(ctx context.Context, tx *postgres.Tx, c Call, w wanted, s postgres.Standing) error {
	now, err := postgres.Now(ctx, tx)
	if err != nil {
		return err
	}
	m := &move{Standing: s, was: s, now: now, change: postgres.Amounts{}, message: "asked for by " + c.Actor.Email}
	m.Generation++
	switch w.intent {
	case intentStart:
		err = m.start(ctx, tx, w)
	case intentStop:
		err = m.stop(w)
	case intentRestart:
		if err = m.possible(intentRestart); err == nil {
			m.verb, m.Message = "restarting", "its node restarts it"
		}
	case intentDelete:
		err = m.delete(ctx, tx)
	}
	if err != nil {
		return err
	}
	return m.write(ctx, tx, c, w.action)
}

// write commits a move in the global order of locks: nodes, claims, the rest.
func (m *move) write(ctx context.Context, tx *postgres.Tx, c Call, action authz.Action) error {
	if len(m.change) > 0 {
		if err := postgres.QuotaReserve(ctx, tx, m.ProjectID, m.change); err != nil {
			return err
		}
	}
	if !m.was.NodeID.IsZero() {
		m.touch = append(m.touch, m.was.NodeID)
		tx.Wake(postgres.TopicLifecycle)
	}
	slices.SortFunc(m.touch, func(a, b cloud.NodeID) int { return slices.Compare(a[:], b[:]) })
	for _, node := range slices.Compact(m.touch) {
		if err := postgres.NodeTouch(ctx, tx, node); err != nil {
			return err
		}
		tx.Wake(postgres.TopicNode(node))
	}
	if m.release {
		if err := postgres.HeldRelease(ctx, tx, m.ID); err != nil {
			return err
		}
		tx.Wake(postgres.TopicSchedule)
	}
	if err := m.prove(ctx, tx); err != nil {
		return err
	}
	event := postgres.InstanceEvent(&m.Standing, m.verb, m.message, m.now, m.data)
	if err := postgres.IntentSave(ctx, tx, m.Standing, m.queued); err != nil {
		return err
	}
	if m.resume {
		n, err := postgres.HeldStart(ctx, tx, m.ID)
		if err != nil {
			return err
		}
		if n != m.Shape.GPUCount {
			return fmt.Errorf("start held instance %s: it holds %d of its %d devices", m.ID, n, m.Shape.GPUCount)
		}
	}
	if err := postgres.EventsAppend(ctx, tx, []cloud.Event{event}); err != nil {
		return err
	}
	if m.end {
		if err := postgres.VolumesEnd(ctx, tx, []cloud.InstanceID{m.ID}, m.now); err != nil {
			return err
		}
		tx.Wake(postgres.TopicLifecycle)
	}
	if m.make != nil {
		if err := postgres.VolumeAdd(ctx, tx, *m.make); err != nil {
			return err
		}
	}
	if m.State != m.was.State || m.Held != m.was.Held {
		tx.Wake(postgres.TopicMeter)
	}
	if m.State == cloud.StateQueued {
		tx.Wake(postgres.TopicSchedule)
	}
	tx.Wake(postgres.TopicChange(m.ProjectID))
	detail := map[string]any{"name": m.Name, "from": string(m.was.State)}
	if m.was.Held || m.Held || m.Reason == postgres.ReasonHold {
		detail["held"] = m.Held || m.Reason == postgres.ReasonHold
	}
	return audit(ctx, tx, c, m.OrgID, action, m.ID.String(), detail)
}

// prove has a charge end with the last sign of life, where the node is silent.
func (m *move) prove(ctx context.Context, tx *postgres.Tx) error {
	if m.was.NodeID.IsZero() {
		return nil
	}
	silent, err := postgres.SilentSince(ctx, tx, m.ID)
	if err != nil || silent.IsZero() {
		return err
	}
	if silent.Before(m.was.StateAt) {
		silent = m.was.StateAt
	}
	if m.data == nil {
		m.data = map[string]any{}
	}
	m.data["proven_until"] = silent
	return nil
}

// enter moves to a state.
func (m *move) enter(to cloud.InstanceState, within time.Duration, reason, message string) {
	m.State, m.StateAt, m.DeadlineAt = to, m.now, nil
	if within > 0 {
		deadline := m.now.Add(within)
		m.DeadlineAt = &deadline
	}
	m.Reason, m.Message, m.Reasons, m.Progress = reason, message, nil, nil
	m.verb = string(to)
}

// giveBack returns what it counts against the limits.
func (m *move) giveBack() error {
	if !m.HoldsQuota {
		return nil
	}
	compute, err := takes(m.was.Shape)
	if err != nil {
		return fmt.Errorf("weigh instance %s: %w", m.ID, err)
	}
	for r, n := range compute {
		m.change[r] -= n
	}
	m.HoldsQuota = false
	return nil
}

// leave gives up a place that is held.
func (m *move) leave() {
	m.release = m.Held
	m.Held, m.NodeID, m.Address = false, cloud.NodeID{}, ""
}

func (m *move) delete(ctx context.Context, tx *postgres.Tx) error {
	if err := m.possible(intentDelete); err != nil {
		return err
	}
	m.Desired, m.end = cloud.DesiredDeleted, true
	have, err := postgres.VolumesOf(ctx, tx, []cloud.InstanceID{m.ID})
	if err != nil {
		return err
	}
	for _, v := range have[m.ID] {
		if !v.NodeID.IsZero() {
			m.touch = append(m.touch, v.NodeID) // it must hear that the data goes
		}
	}
	if m.State.OnNode() {
		m.enter(cloud.StateDeleting, cloud.DeleteWithin, "", "its node removes it")
		return nil
	}
	if err := m.giveBack(); err != nil {
		return err
	}
	m.change[cloud.QuotaInstances] = -1
	m.leave()
	m.DeletedAt = &m.now
	m.enter(cloud.StateDeleted, 0, "", "deleted")
	return nil
}

func possible(intent string, state cloud.InstanceState) bool {
	return slices.Contains(intentStates[intent], state)
}

// possible refuses an intent that the state does not allow, and says what it
// allows instead.
func (m *move) possible(intent string) error {
	if possible(intent, m.State) {
		return nil
	}
	var allowed []string
	for _, other := range []string{intentStart, intentStop, intentRestart, intentDelete} {
		if possible(other, m.State) {
			allowed = append(allowed, other)
		}
	}
	e := cloud.E(cloud.KindConflict, "state_conflict", "instance %q is %s: it can't %s now", m.Name, m.State, intent).
		With("state", string(m.State)).With("allowed", allowed)
	if len(allowed) == 0 {
		return e.WithHint("wait until it is gone")
	}
	return e.WithHint("what can be done now: %s", strings.Join(allowed, ", "))
}
