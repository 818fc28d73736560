package lifecycle

import (
	"fmt"
	"time"

	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/nodewire"
	"github.com/tenon-cloud/tenon/internal/postgres"
)

const (
	// A run that a boot of its node ended within this is taken for what may have
	// caused it; after so many in a row a person has to start it.
	rebootSoon  = 10 * time.Minute
	mostReboots = 3
)

// rebooted starts an instance again on the node that was booted under it, if it is
// to. It keeps its place: what it holds there moves to the next epoch and is never
// free, and nothing is charged until it runs again.
func (s *step) rebooted(o postgres.Observation, ended, now time.Time, data map[string]any) bool {
	in := &s.inst
	if o.Reason != nodewire.ReasonRebooted || o.State != nodewire.GuestFailed || in.OnReboot != cloud.RebootRestarts ||
		in.Desired != cloud.DesiredRunning || in.State != cloud.StateRunning && in.State != cloud.StateStarting {
		return false
	}
	if in.StartedAt != nil && ended.Sub(*in.StartedAt) >= rebootSoon { // one that was not seen to run may have done it at once
		in.Reboots = 0
	}
	if in.Reboots >= mostReboots {
		return false
	}
	in.Reboots++
	in.State, in.StateAt, in.StartedAt = cloud.StateStarting, now, nil
	in.Reason, in.Message, in.Reasons, in.Progress = "", "its node was booted again: it starts there anew", nil, nil
	in.ExitCode, in.Address = nil, ""
	deadline := now.Add(cloud.StartWithin)
	in.DeadlineAt = &deadline
	s.changed, s.progress, s.renewed = true, false, true
	s.events = append(s.events, postgres.InstanceEvent(in, "restarting", in.Message, ended, data)) // of the run that ended
	in.Epoch++
	return true
}

// rebootMessage says why an instance is not started again.
func rebootMessage(in postgres.Standing, o postgres.Observation) string {
	message := or(o.Message, "its node was booted again while it ran")
	if in.OnReboot == cloud.RebootRestarts && in.Reboots >= mostReboots {
		message += fmt.Sprintf("; it is not started again by itself, since that happened %d times in a row within %d minutes of its start",
			mostReboots+1, int(rebootSoon.Minutes()))
	}
	return message
}
