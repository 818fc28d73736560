package lifecycle

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/nodewire"
	"github.com/tenon-cloud/tenon/internal/postgres"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// placed is an instance that has been in a state for ten minutes.
func placed(state cloud.InstanceState) postgres.Standing {
	var node cloud.NodeID
	node[0] = 1
	s := postgres.Standing{State: state, Desired: cloud.DesiredRunning, Generation: 1, NodeID: node, Epoch: 3, EventSeq: 5, StateAt: noon.Add(-10 * time.Minute), HoldsQuota: true}
	if state == cloud.StateRunning {
		at := s.StateAt
		s.StartedAt = &at
	}
	return s
}

func said(s postgres.Standing, state string) postgres.Observation {
	return postgres.Observation{InstanceID: s.ID, NodeID: s.NodeID, Epoch: s.Epoch, Generation: 1, State: state, ReceivedAt: noon}
}

func TestWhereAnEndLeads(t *testing.T) {
	t.Parallel()
	code := func(n int) *int { return &n }
	for name, c := range map[string]struct {
		from   cloud.InstanceState
		say    func(*postgres.Observation)
		state  cloud.InstanceState
		reason string
	}{
		"exit 0":                {cloud.StateRunning, func(o *postgres.Observation) { o.State, o.ExitCode = nodewire.GuestStopped, code(0) }, cloud.StateStopped, "exited"},
		"exit 3":                {cloud.StateRunning, func(o *postgres.Observation) { o.State, o.ExitCode = nodewire.GuestStopped, code(3) }, cloud.StateFailed, "exited"},
		"out of memory":         {cloud.StateRunning, func(o *postgres.Observation) { o.State, o.Reason = nodewire.GuestStopped, nodewire.ReasonOOM }, cloud.StateFailed, "out_of_memory"},
		"stopped as asked":      {cloud.StateStopping, func(o *postgres.Observation) { o.State, o.ExitCode = nodewire.GuestStopped, code(137) }, cloud.StateStopped, "asked"},
		"pull failed":           {cloud.StateStarting, func(o *postgres.Observation) { o.State, o.Reason = nodewire.GuestFailed, nodewire.ReasonImagePull }, cloud.StateFailed, "image_pull_failed"},
		"gone by itself":        {cloud.StateRunning, func(o *postgres.Observation) { o.State = nodewire.GuestGone }, cloud.StateFailed, "lost_on_node"},
		"gone as asked":         {cloud.StateDeleting, func(o *postgres.Observation) { o.State = nodewire.GuestGone }, cloud.StateDeleted, ""},
		"ended but not gone":    {cloud.StateDeleting, func(o *postgres.Observation) { o.State = nodewire.GuestStopped }, cloud.StateDeleting, ""},
		"another epoch":         {cloud.StateRunning, func(o *postgres.Observation) { o.State, o.Epoch = nodewire.GuestStopped, 2 }, cloud.StateRunning, ""},
		"another node":          {cloud.StateRunning, func(o *postgres.Observation) { o.State, o.NodeID = nodewire.GuestStopped, cloud.NodeID{9} }, cloud.StateRunning, ""},
		"running while deleted": {cloud.StateDeleting, func(o *postgres.Observation) { o.State = nodewire.GuestRunning }, cloud.StateDeleting, ""},
	} {
		t.Run(name, func(t *testing.T) {
			was := placed(c.from)
			o := said(was, "")
			c.say(&o)
			s := decide(was, o, noon)
			if s.inst.State != c.state || s.inst.Reason != c.reason {
				t.Errorf("leads to %s (%s), want %s (%s)", s.inst.State, s.inst.Reason, c.state, c.reason)
			}
			if s.released != (c.state != c.from) {
				t.Errorf("released: %v", s.released)
			}
		})
	}
}

// TestAStopSaysHowItWent when its node has something to say of it.
func TestAStopSaysHowItWent(t *testing.T) {
	t.Parallel()
	o := said(placed(cloud.StateStopping), nodewire.GuestStopped)
	o.Reason, o.Message = nodewire.ReasonAsked, "it was switched off by force"
	s := decide(placed(cloud.StateStopping), o, noon)
	if s.inst.State != cloud.StateStopped || s.inst.Message != o.Message || len(s.events) != 1 {
		t.Errorf("it is %s: %q, with %d events", s.inst.State, s.inst.Message, len(s.events))
	}
}

func TestTimesAreClampedToThePlacement(t *testing.T) {
	t.Parallel()
	was := placed(cloud.StateStarting)
	for name, c := range map[string]struct {
		ran, state time.Duration
		start, end time.Time
	}{
		"honest":             {4 * time.Minute, time.Minute, noon.Add(-5 * time.Minute), noon.Add(-time.Minute)},
		"older than placed":  {9 * time.Hour, time.Minute, was.StateAt, noon.Add(-time.Minute)},
		"ended before begun": {time.Minute, 9 * time.Hour, was.StateAt, was.StateAt},
		"in the future":      {time.Minute, -time.Hour, noon.Add(-time.Minute), noon},
	} {
		t.Run(name, func(t *testing.T) {
			o := said(was, nodewire.GuestStopped)
			o.RanFor, o.StateFor = c.ran, c.state
			s := decide(was, o, noon)
			if len(s.events) != 2 || s.events[0].Verb != "running" || s.events[1].Verb != "stopped" {
				t.Fatalf("events %v, want running and stopped", s.events)
			}
			if !s.events[0].At.Equal(c.start) || !s.events[1].At.Equal(c.end) {
				t.Errorf("ran from %s to %s, want %s to %s", s.events[0].At, s.events[1].At, c.start, c.end)
			}
		})
	}
}

// Whatever a node says, an instance makes only legal moves, leaves its node
// exactly when it is released, and numbers its events without holes.
func TestNoReportBreaksAnInstance(t *testing.T) {
	t.Parallel()
	guests := []string{nodewire.GuestPending, nodewire.GuestPulling, nodewire.GuestStarting, nodewire.GuestRunning, nodewire.GuestStopping, nodewire.GuestStopped, nodewire.GuestFailed, nodewire.GuestGone}
	rapid.Check(t, func(t *rapid.T) {
		was := placed(rapid.SampledFrom(cloud.InstanceStates).Draw(t, "state"))
		if !was.State.OnNode() {
			was.NodeID = cloud.NodeID{}
		}
		was.Reason = rapid.SampledFrom([]string{"", postgres.ReasonNodeLost, reasonStartTimeout}).Draw(t, "why")
		o := said(placed(was.State), rapid.SampledFrom(guests).Draw(t, "guest"))
		o.Epoch = rapid.Int64Range(2, 4).Draw(t, "epoch")
		o.Generation = rapid.Int64Range(0, 9).Draw(t, "generation")
		o.RanFor = time.Duration(rapid.Int64Range(-int64(time.Hour), int64(time.Hour)).Draw(t, "ran"))
		o.StateFor = time.Duration(rapid.Int64Range(-int64(time.Hour), int64(time.Hour)).Draw(t, "for"))
		s := decide(was, o, noon)
		if (o.Epoch != was.Epoch || was.NodeID.IsZero()) && s.changed {
			t.Fatalf("a report of another placement changes %s", was.State)
		}
		at := was.State
		for i, e := range s.events {
			if e.Seq != was.EventSeq+int64(i)+1 {
				t.Fatalf("event %d has number %d after %d", i, e.Seq, was.EventSeq)
			}
			if e.At.Before(was.StateAt) || e.At.After(noon) {
				t.Fatalf("event at %s, outside [%s, %s]", e.At, was.StateAt, noon)
			}
		}
		if s.inst.State != at && !cloud.CanMove(at, s.inst.State) {
			t.Fatalf("moves from %s to %s", at, s.inst.State)
		}
		if s.released != (!was.NodeID.IsZero() && s.inst.NodeID.IsZero()) || s.inst.State.OnNode() == s.inst.NodeID.IsZero() {
			t.Fatalf("state %s, node %v, released %v", s.inst.State, s.inst.NodeID, s.released)
		}
		if s.inst.ObservedGeneration > was.Generation {
			t.Fatal("it has observed a generation that nobody wrote")
		}
		if again := decide(s.inst, o, noon); again.changed {
			t.Fatalf("the same report changes %s a second time", s.inst.State)
		}
	})
}

func TestIntents(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		from    cloud.InstanceState
		desired cloud.DesiredState
		to      cloud.InstanceState
	}{
		{cloud.StateQueued, cloud.DesiredStopped, cloud.StateStopped},
		{cloud.StateQueued, cloud.DesiredDeleted, cloud.StateDeleted},
		{cloud.StateStarting, cloud.DesiredStopped, cloud.StateStopping},
		{cloud.StateRunning, cloud.DesiredStopped, cloud.StateStopping},
		{cloud.StateRunning, cloud.DesiredDeleted, cloud.StateDeleting},
		{cloud.StateStopping, cloud.DesiredDeleted, cloud.StateDeleting},
		{cloud.StateStopped, cloud.DesiredDeleted, cloud.StateDeleted},
		{cloud.StateFailed, cloud.DesiredDeleted, cloud.StateDeleted},
		{cloud.StateStopping, cloud.DesiredStopped, cloud.StateStopping},
		{cloud.StateStopped, cloud.DesiredStopped, cloud.StateStopped},
		{cloud.StateDeleting, cloud.DesiredDeleted, cloud.StateDeleting},
		{cloud.StateRunning, cloud.DesiredRunning, cloud.StateRunning},
	} {
		was := placed(c.from)
		was.Desired = c.desired
		s := intend(was, noon)
		if s.inst.State != c.to || s.changed != (c.to != c.from) {
			t.Errorf("%s, %s wanted: becomes %s (changed %v), want %s", c.from, c.desired, s.inst.State, s.changed, c.to)
		}
		if s.changed && c.to.OnNode() && s.inst.DeadlineAt == nil {
			t.Errorf("%s has no deadline", c.to)
		}
	}
}

// What is known of a run, by its node, begins with its last restart.
func TestARestartBeginsTheRunAnew(t *testing.T) {
	t.Parallel()
	was := placed(cloud.StateRunning)
	was.Generation, was.Message = 2, "its node restarts it"
	o := said(was, nodewire.GuestRunning)
	o.Generation, o.RanFor = 2, time.Minute
	got := decide(was, o, noon)
	if got.inst.StartedAt == nil || !got.inst.StartedAt.Equal(noon.Add(-time.Minute)) || got.inst.Message != "" || len(got.events) != 0 {
		t.Errorf("it began at %v with message %q and %d events", got.inst.StartedAt, got.inst.Message, len(got.events))
	}
}
