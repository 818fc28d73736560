package agent

import (
	"fmt"
	"time"

	"github.com/tenon-cloud/tenon/internal/hypervisor"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

// action is one idempotent step of a worker.
type action string

const (
	actIdle    action = "idle"    // as it should be, and nothing runs
	actMake    action = "make"    // prepare, devices, start
	actWatch   action = "watch"   // it runs as it should
	actRestart action = "restart" // end this run, keep the devices, make it anew
	actClear   action = "clear"   // end what earlier epochs left
	actEnd     action = "end"     // write down how the run ended
	actFinish  action = "finish"  // give everything back and prove it
	actForget  action = "forget"  // absent from the assignment: leave no trace
)

// view is everything that a decision depends on.
type view struct {
	want  *nodewire.Instance // nil: absent from the assignment
	rec   *record            // nil: never ours
	guest *hypervisor.Guest  // nil: the engine has none
	boot  string             // of this host's present run
	since time.Time          // when this agent began to watch
	proof time.Time          // when the agent before it last lived; zero: not known
	// booted is when this host's present run began, by the clock as it is now; zero:
	// not known.
	booted time.Time
	// stray: another run of it, from before a restore, is here and stays.
	stray bool
	// fenced: the control plane was not heard of for longer than this instance may
	// run without.
	fenced bool
}

// decide maps a view to the next step. It is pure: the same view gives the same
// step, whatever was done before a crash.
func decide(v view) (action, *ending) {
	switch {
	case v.rec == nil:
		return actIdle, nil
	case v.stray:
		return decideBlocked(v)
	case v.want == nil:
		return actForget, nil
	case len(v.rec.Earlier) > 0, v.guest != nil && v.guest.Epoch != v.want.Epoch:
		return actClear, nil
	case v.want.Desired == nodewire.DesiredGone && (v.rec.End == nil || v.rec.End.State != nodewire.GuestGone):
		return actEnd, &ending{State: nodewire.GuestGone, Reason: nodewire.ReasonAsked, RanForSeconds: ran(v)}
	case v.rec.End != nil && v.rec.End.Done && v.guest == nil:
		return actIdle, nil
	case v.rec.End != nil:
		return actFinish, nil
	case v.want.Desired == nodewire.DesiredStopped:
		return actEnd, &ending{State: nodewire.GuestStopped, Reason: nodewire.ReasonAsked, RanForSeconds: ran(v)}
	}
	return decideRunning(v)
}

// decideBlocked holds nothing and touches nothing while a stray of the same id is
// here: what the engine and the board show under that id is the stray's.
func decideBlocked(v view) (action, *ending) {
	switch end := v.rec.End; {
	case v.want == nil:
		return actForget, nil
	case v.want.Desired == nodewire.DesiredGone && (end == nil || end.State != nodewire.GuestGone):
		return actEnd, &ending{State: nodewire.GuestGone, Reason: nodewire.ReasonAsked, Done: true}
	case end != nil:
		return actIdle, nil
	case v.want.Desired == nodewire.DesiredStopped:
		return actEnd, &ending{State: nodewire.GuestStopped, Reason: nodewire.ReasonAsked, Done: true}
	}
	return actEnd, &ending{
		State: nodewire.GuestFailed, Reason: nodewire.ReasonStray, Done: true,
		Message: "another run of it, from before the control plane was restored, goes on at this node until an operator ends it",
	}
}

func decideRunning(v view) (action, *ending) {
	switch {
	case v.fenced && !endedUnfenced(v):
		return actEnd, &ending{
			State: nodewire.GuestFailed, Reason: nodewire.ReasonFenced, RanForSeconds: ran(v),
			Message: fmt.Sprintf("its node had no contact with the control plane for %d s and ended it", v.want.StopAfterSeconds),
		}
	case rebooted(v) && v.rec.RunBoot == "":
		return actEnd, lostWith(v, nodewire.ReasonRebooted, "its node was booted again while it started")
	case rebooted(v):
		return actEnd, lostWith(v, nodewire.ReasonRebooted, "its node was booted again while it ran")
	case v.guest == nil && v.rec.RunGeneration != 0 && v.rec.counts(v.rec.RunGeneration) == v.want.Generation:
		return actEnd, interrupted(v)
	case v.guest == nil && v.rec.RunGeneration == 0 && v.want.Expected:
		return actEnd, &ending{
			State: nodewire.GuestFailed, Reason: nodewire.ReasonInterrupted,
			Message: "it ran when the backup was made that the control plane was restored from, and nothing of it is left at its node",
		}
	case v.guest == nil, v.guest.State == hypervisor.Prepared:
		return actMake, nil
	case v.rec.counts(v.guest.Generation) != v.want.Generation:
		return actRestart, nil
	case v.guest.State == hypervisor.Running:
		return actWatch, nil
	case killedUnwatched(v):
		return actEnd, interrupted(v)
	}
	return actEnd, exited(v)
}

// endedUnfenced: it ended with its node's boot or by itself, and not by the
// watchdog's hand, which kills.
func endedUnfenced(v view) bool {
	return rebooted(v) || v.guest != nil && v.guest.State == hypervisor.Exited && v.guest.ExitCode != 137
}

// killedUnwatched tells a guest that was killed with its node's services, before
// this agent began, from one that ended by itself.
func killedUnwatched(v view) bool {
	g := v.guest
	return g.ExitCode == 137 && !g.OOMKilled && (g.ExitedAt.IsZero() || g.ExitedAt.Before(v.since))
}

// rebooted: it ran, or was being started, in another boot of this host, which no
// process outlives, or was shut down for one. What the engine still has of it, if anything, is no run.
func rebooted(v view) bool {
	return (v.rec.Halted || began(v) != "" && began(v) != v.boot) && (v.guest == nil || v.guest.State != hypervisor.Running)
}

// began is the boot that it last ran in or, if it never did, was to be started in.
func began(v view) string {
	if v.rec.RunBoot != "" {
		return v.rec.RunBoot
	}
	return v.rec.StartBoot
}

func interrupted(v view) *ending {
	return lostWith(v, nodewire.ReasonInterrupted, "the node restarted or lost this instance while it ran")
}

// lostWith is the end of a guest that its node took down. Nothing is charged
// after the last proof that it ran, however long the node was away.
func lostWith(v view, reason, message string) *ending {
	e := &ending{State: nodewire.GuestFailed, Reason: reason, Message: message}
	if v.guest != nil {
		e.At = v.guest.ExitedAt
	}
	if !v.proof.IsZero() && (e.At.IsZero() || e.At.After(v.proof)) {
		e.At = v.proof
	}
	// No run outlives its boot, whatever was noted by another clock, or not at all.
	if reason == nodewire.ReasonRebooted && began(v) != v.boot && !v.booted.IsZero() && (e.At.IsZero() || e.At.After(v.booted)) {
		e.At = v.booted
	}
	e.RanForSeconds = ranUntil(v, e.At)
	return e
}

// exited is the end that a guest chose itself.
func exited(v view) *ending {
	code := v.guest.ExitCode
	e := &ending{State: nodewire.GuestFailed, Reason: nodewire.ReasonExited, ExitCode: &code, RanForSeconds: ran(v), At: v.guest.ExitedAt}
	switch {
	case v.guest.OOMKilled:
		e.Reason, e.Message = nodewire.ReasonOOM, fmt.Sprintf("it needed more than its %d MiB of memory", v.want.MemoryMiB)
	case code == 0 && v.want.Kind == "vm":
		e.State, e.Reason, e.Message = nodewire.GuestStopped, nodewire.ReasonPowerOff, "it switched itself off"
	case code == 0:
		e.State, e.Message = nodewire.GuestStopped, "it ended by itself"
	default:
		e.Message = fmt.Sprintf("it ended by itself with exit code %d", code)
	}
	return e
}

// ran is how long the engine says that a guest has run.
func ran(v view) float64 {
	if v.guest == nil {
		return 0
	}
	return ranUntil(v, v.guest.ExitedAt)
}

// ranUntil is how long a guest had run at a moment; zero: now.
func ranUntil(v view, end time.Time) float64 {
	if v.guest == nil || v.guest.StartedAt.IsZero() {
		return 0
	}
	if end.IsZero() {
		end = time.Now()
	}
	return max(0, end.Sub(v.guest.StartedAt).Seconds())
}
