package lifecycle

import (
	"fmt"
	"time"

	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/nodewire"
	"github.com/tenon-cloud/tenon/internal/postgres"
)

// reasonStartTimeout marks a stop that the platform asked for, so that the end
// is a failure.
const reasonStartTimeout = "start_timeout"

// step is what one observation or intent does to an instance.
type step struct {
	inst     postgres.Standing // as it becomes
	events   []cloud.Event
	changed  bool
	progress bool // nothing but words and percents changed
	released bool // the placement is over: give everything back
	requeued bool // it waits for another place
	renewed  bool // it goes on in its place, at the next epoch
	fenced   bool // it left its node without that node's word: what it held there stays held
}

// decide turns what a node said into a step. What is of another placement, or
// of an instance that is on no node, changes nothing.
func decide(was postgres.Standing, o postgres.Observation, now time.Time) step {
	s := step{inst: was}
	if !was.State.OnNode() || o.NodeID != was.NodeID || o.Epoch != was.Epoch {
		return s
	}
	if seen := min(o.Generation, was.Generation); seen > was.ObservedGeneration {
		s.inst.ObservedGeneration, s.changed = seen, true
	}
	switch o.State {
	case nodewire.GuestPending, nodewire.GuestPulling, nodewire.GuestStarting:
		s.starting(o, now)
	case nodewire.GuestRunning:
		s.running(o, now)
	case nodewire.GuestStopped, nodewire.GuestFailed, nodewire.GuestGone:
		s.over(o, now)
	}
	return s
}

// starting keeps what the node is busy with; each move of it moves the deadline,
// so that a slow pull that goes on is not killed.
func (s *step) starting(o postgres.Observation, now time.Time) {
	in := &s.inst
	if in.State != cloud.StateStarting {
		return
	}
	message := o.Message
	if message == "" {
		message = map[string]string{
			nodewire.GuestPending:  "its node has not begun yet",
			nodewire.GuestPulling:  "its image is being pulled",
			nodewire.GuestStarting: "its devices, disk and network are being prepared",
		}[o.State]
	}
	if in.Reason == o.State && in.Message == message && equal(in.Progress, o.Progress) {
		return
	}
	s.progress = !s.changed && in.Reason == o.State
	s.changed = true
	in.Reason, in.Message, in.Progress = o.State, message, o.Progress
	deadline := now.Add(cloud.StartWithin)
	in.DeadlineAt = &deadline
}

func (s *step) running(o postgres.Observation, now time.Time) {
	in := &s.inst
	switch in.State {
	case cloud.StateStarting:
		// Not before the node was told, not after it said so.
		at := clamp(o.ReceivedAt.Add(-o.RanFor), in.StateAt, o.ReceivedAt)
		s.run(at)
		in.Address = o.Address
	case cloud.StateRunning:
		if in.Reason == postgres.ReasonNodeLost && now.Sub(o.ReceivedAt) < lateAfter {
			s.found(o)
		}
		if in.Reason != postgres.ReasonNodeLost && in.Reason != postgres.ReasonDegraded && in.Message != "" && o.Generation >= in.Generation {
			in.Message, s.changed = "", true // a restart is over, and what runs began with it
			if began := clamp(o.ReceivedAt.Add(-o.RanFor), in.StateAt, o.ReceivedAt); in.StartedAt != nil && began.After(*in.StartedAt) {
				in.StartedAt = &began
			}
		}
		if in.Address != o.Address && o.Address != "" {
			in.Address, s.changed = o.Address, true
		}
	}
}

// run enters running at a moment.
func (s *step) run(at time.Time) {
	in := &s.inst
	in.State, in.StateAt, in.StartedAt, in.DeadlineAt = cloud.StateRunning, at, &at, nil
	in.Reason, in.Message, in.Progress = "", "", nil
	s.changed = true
	s.events = append(s.events, postgres.InstanceEvent(in, "running", "started", at, nil))
}

// lost notes that nobody knows whether the instance still runs, or has its place.
func (s *step) lost(proven time.Time, why string, now time.Time) {
	in := &s.inst
	in.Reason, in.Message = postgres.ReasonNodeLost, why
	s.changed = true
	s.events = append(s.events, postgres.InstanceEvent(in, "node_lost", in.Message, now, map[string]any{
		"proven_until": clamp(proven, in.StateAt, now),
	}))
}

// regained notes that what keeps its place has it again. While its node was away
// nobody could have started it, so that isn't charged afterwards.
func (s *step) regained(now time.Time) {
	in := &s.inst
	in.Reason, in.Message = nodewire.ReasonAsked, "stopped; its node is back, and it keeps its place"
	s.changed = true
	s.events = append(s.events, postgres.InstanceEvent(in, "node_back", "its node is back; its place is held again", now, nil))
}

// found notes that it ran all the while: late news, which corrects what was
// charged, and a new stretch from here.
func (s *step) found(o postgres.Observation) {
	in := &s.inst
	in.Reason, in.Message = "", ""
	s.changed = true
	s.events = append(s.events,
		postgres.InstanceEvent(in, "node_back", "its node is back", o.ReceivedAt, map[string]any{"state": "unknown", "ran_until": o.ReceivedAt}),
		postgres.InstanceEvent(in, "running", "it ran all the while", o.ReceivedAt, nil))
}

// over ends a placement: the node says that nothing of it runs any more.
func (s *step) over(o postgres.Observation, now time.Time) {
	in := &s.inst
	if in.State == cloud.StateDeleting && o.State != nodewire.GuestGone {
		return // ended, but not yet gone
	}
	ended := clamp(o.ReceivedAt.Add(-o.StateFor), in.StateAt, o.ReceivedAt)
	if in.State == cloud.StateStarting && o.RanFor > 0 {
		// It ran and ended between two reports: what ran is charged.
		s.run(clamp(ended.Add(-o.RanFor), in.StateAt, ended))
		ended = clamp(ended, in.StateAt, o.ReceivedAt)
	}
	data := map[string]any{}
	if o.ExitCode != nil {
		data["exit_code"] = *o.ExitCode
	}
	if in.Reason == postgres.ReasonNodeLost && in.State == cloud.StateRunning {
		if o.RanFor > 0 && in.StartedAt != nil {
			data["ran_until"] = clamp(in.StartedAt.Add(o.RanFor), *in.StartedAt, ended)
		}
		ended = o.ReceivedAt // when it became known, after the event of the loss
	}
	if o.Reason == nodewire.ReasonFenced && in.OnNodeLoss == cloud.LossRestarts && in.Desired == cloud.DesiredRunning && in.State != cloud.StateStopping {
		s.requeue("its node had lost contact and ended it: it waits for another place", ended, ended, data)
		return
	}
	if s.rebooted(o, ended, now, data) {
		return
	}
	to, reason, message := outcome(*in, o)
	holds := keepsPlace(*in, reason)
	in.State, in.StateAt = to, ended
	in.Reason, in.Message = reason, message
	in.ExitCode = o.ExitCode
	if o.LastLines != "" {
		in.LastLines = &o.LastLines
	}
	if to == cloud.StateDeleted {
		in.DeletedAt = &ended
	}
	if to == cloud.StateStopped && holds {
		s.hold(data, ended)
	} else {
		s.leave()
	}
	s.events = append(s.events, postgres.InstanceEvent(in, string(to), message, ended, data))
}

// keepsPlace reports that a VM that has stopped holds its place: as its stop was
// asked for or, when it switched itself off, by its own policy.
func keepsPlace(in postgres.Standing, reason string) bool {
	if in.Kind != cloud.KindVM {
		return false
	}
	if in.State == cloud.StateStopping {
		return in.Reason == postgres.ReasonHold
	}
	return reason == nodewire.ReasonPowerOff && in.OnStop == cloud.StopHolds
}

// hold keeps a stopped VM on its node with all that it holds. Late proof of what
// ran before needs an event of its own, since a held one is charged on.
func (s *step) hold(data map[string]any, at time.Time) {
	in := &s.inst
	if until, late := data["ran_until"]; late {
		delete(data, "ran_until")
		s.events = append(s.events, postgres.InstanceEvent(in, "node_back", "its node is back", at, map[string]any{"state": "unknown", "ran_until": until}))
	}
	in.Held, in.Address, in.DeadlineAt, in.Progress = true, "", nil, nil
	in.Message += "; it keeps its place"
	s.changed, s.progress = true, false
}

// leave takes the instance off its node. NodeID and Epoch of the step's origin
// say what is released.
func (s *step) leave() {
	in := &s.inst
	in.NodeID, in.Held, in.Address, in.DeadlineAt, in.Progress = cloud.NodeID{}, false, "", nil, nil
	s.changed, s.released, s.progress = true, true, false
}

// outcome is where an ended placement leads.
func outcome(in postgres.Standing, o postgres.Observation) (to cloud.InstanceState, reason, message string) {
	switch {
	case in.State == cloud.StateDeleting:
		return cloud.StateDeleted, "", "deleted"
	case in.State == cloud.StateStopping && in.Reason == reasonMaxRun:
		return cloud.StateFailed, reasonMaxRun, in.Message
	case in.State == cloud.StateStopping && in.Reason == reasonJobOver:
		return cloud.StateStopped, reasonJobOver, in.Message
	case in.State == cloud.StateStopping && in.Reason == reasonIdle:
		return cloud.StateStopped, reasonIdle, in.Message
	case in.State == cloud.StateStopping && in.Reason == reasonStartTimeout:
		return cloud.StateFailed, reasonStartTimeout, in.Message
	case in.State == cloud.StateStopping && o.State != nodewire.GuestFailed:
		if o.Reason == nodewire.ReasonAsked && o.Message != "" { // how it went
			return cloud.StateStopped, nodewire.ReasonAsked, o.Message
		}
		return cloud.StateStopped, nodewire.ReasonAsked, "stopped as asked"
	case o.State == nodewire.GuestGone:
		return cloud.StateFailed, "lost_on_node", "its node no longer has it"
	case o.Reason == nodewire.ReasonRebooted:
		return cloud.StateFailed, o.Reason, rebootMessage(in, o)
	case o.State == nodewire.GuestFailed:
		return cloud.StateFailed, or(o.Reason, nodewire.ReasonStart), or(o.Message, "its node could not run it")
	case o.Reason == nodewire.ReasonAsked:
		return cloud.StateStopped, nodewire.ReasonAsked, or(o.Message, "stopped as asked")
	case o.Reason == nodewire.ReasonPowerOff, in.Kind == cloud.KindVM && (o.Reason == "" || o.Reason == nodewire.ReasonExited):
		return cloud.StateStopped, nodewire.ReasonPowerOff, or(o.Message, "it switched itself off")
	case o.ExitCode != nil && *o.ExitCode != 0:
		return cloud.StateFailed, or(o.Reason, nodewire.ReasonExited), or(o.Message, fmt.Sprintf("exited with code %d", *o.ExitCode))
	case o.Reason != "" && o.Reason != nodewire.ReasonExited:
		return cloud.StateFailed, o.Reason, or(o.Message, "ended: "+o.Reason)
	}
	return cloud.StateStopped, nodewire.ReasonExited, or(o.Message, "exited with code 0")
}

// intend turns a tenant's wish into a step.
func intend(was postgres.Standing, now time.Time) step {
	s := step{inst: was}
	in := &s.inst
	gone, why := was.Desired == cloud.DesiredDeleted, nodewire.ReasonAsked
	enter := func(to cloud.InstanceState, within time.Duration, message string) {
		in.State, in.StateAt, in.Reason, in.Message, in.Progress, in.DeadlineAt = to, now, why, message, nil, nil
		if within > 0 {
			deadline := now.Add(within)
			in.DeadlineAt = &deadline
		}
		if to == cloud.StateDeleted {
			in.DeletedAt, in.Reason = &now, ""
		}
		in.Reasons = nil
		s.changed = true
		s.events = append(s.events, postgres.InstanceEvent(in, string(to), message, now, nil))
	}
	switch was.State {
	case cloud.StateQueued, cloud.StateStopped, cloud.StateFailed:
		switch {
		case gone:
			if was.Held {
				s.leave() // nothing of it runs there
			}
			enter(cloud.StateDeleted, 0, "deleted")
		case was.Desired == cloud.DesiredStopped && was.State == cloud.StateQueued:
			enter(cloud.StateStopped, 0, "stopped before it was placed")
		}
	case cloud.StateStarting, cloud.StateRunning, cloud.StateStopping:
		switch {
		case gone:
			enter(cloud.StateDeleting, cloud.DeleteWithin, "its node removes it")
		case was.Desired == cloud.DesiredStopped && was.State != cloud.StateStopping:
			if was.OnStop == cloud.StopHolds {
				why = postgres.ReasonHold
			}
			enter(cloud.StateStopping, cloud.StopWithin, "its node stops it")
		}
	}
	return s
}

func clamp(t, from, to time.Time) time.Time {
	if t.Before(from) {
		t = from
	}
	if t.After(to) {
		t = to
	}
	if t.Before(from) { // from is after to: clocks of one database, so only by rounding
		return from
	}
	return t
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

func equal(a, b *int) bool {
	return (a == nil) == (b == nil) && (a == nil || *a == *b)
}
