package lifecycle

import (
	"fmt"
	"time"

	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/nodewire"
	"github.com/tenon-cloud/tenon/internal/postgres"
)

const (
	// Why a job ends a member; the instance carries it to its end.
	reasonJobOver   = "job_over"
	reasonMaxRun    = "max_runtime"
	reasonNotNeeded = "not_needed"
	reasonTurn      = postgres.ReasonTurn
	reasonQuota     = "quota"

	// An attempt that the platform ended within this is taken for one that may fail
	// for ever; after so many in a row the job fails.
	freeSoon     = 10 * time.Minute
	mostFreeRuns = 5
	askAgain     = 5 * time.Second // when the project's limits left no room
)

// jobStep is what one look at a job does to it and its members.
type jobStep struct {
	job      postgres.JobStanding
	stop     map[int]why // by rank: members to be ended
	queue    []int       // members to be queued
	remove   []int       // members to be deleted
	tries    []postgres.Standing
	attempts []cloud.JobAttempt
	events   []cloud.Event
	noRoom   bool
}

// why a member is ended.
type why struct{ reason, message string }

// decideJob looks at a job and its members, by rank and without deleted ones, and
// says what to do. It is pure: taken again after a crash, it goes on.
//
// noRoom: the project's limits leave no room for members that are to be queued.
func decideJob(was postgres.JobStanding, members []postgres.Standing, now time.Time, noRoom bool) jobStep {
	s := jobStep{job: was, stop: map[int]why{}, noRoom: noRoom}
	s.job.LookAt = nil
	switch {
	case was.State == cloud.JobDeleted:
	case was.Desired == cloud.JobWantedDeleted:
		s.deleteAll(members, now)
	case was.State.Over():
	case was.ArrayTasks > 0:
		s.tasks(members, now)
	default:
		s.gang(members, now)
	}
	return s
}

func (s *jobStep) say(verb, message string, at time.Time, data map[string]any) {
	s.events = append(s.events, postgres.JobEvent(&s.job, verb, message, at, data))
}

func (s *jobStep) deleteAll(members []postgres.Standing, now time.Time) {
	left := false
	for _, m := range members {
		left = left || m.State.OnNode()
		if m.Desired != cloud.DesiredDeleted {
			s.remove = append(s.remove, m.JobRank)
		}
	}
	if left {
		s.job.Message = "its members are being removed"
		return
	}
	if !s.job.State.Over() {
		s.job.FinishedAt = &now
	}
	s.enter(cloud.JobDeleted, "", "deleted", now)
	s.job.DeletedAt = &now
	s.say("deleted", "deleted", now, nil)
}

func (s *jobStep) enter(to cloud.JobState, reason, message string, now time.Time) {
	if s.job.State != to {
		s.job.State, s.job.StateAt = to, now
	}
	s.job.Reason, s.job.Message = reason, message
}

// gang looks at a job whose members run together or not at all.
func (s *jobStep) gang(members []postgres.Standing, now time.Time) {
	j := &s.job
	if j.Desired == cloud.JobWantedCancelled {
		j.Ending, j.EndingMessage = cloud.JobCancel, "cancelled as asked"
	}
	if j.State == cloud.JobQueued {
		if j.Ending == cloud.JobCancel {
			s.conclude(members, now)
			return
		}
		s.enqueue(members, now)
		return
	}
	run, rest := members[:min(j.Size, len(members))], members[min(j.Size, len(members)):]
	for _, m := range rest {
		if m.State == cloud.StateQueued {
			s.stop[m.JobRank] = why{reasonNotNeeded, fmt.Sprintf("its job runs with %d of its members, as many as fit", j.Size)}
		}
	}
	if j.Ending == "" {
		s.observe(run, now)
	}
	if j.Ending == "" {
		s.progress(run, now)
		return
	}
	onNode := false
	for _, m := range run {
		onNode = onNode || m.State.OnNode()
		if m.State == cloud.StateStarting || m.State == cloud.StateRunning {
			s.stop[m.JobRank] = s.whyEnds()
		}
	}
	if onNode {
		others := " other"
		if j.Ending == cloud.JobCancel || j.Ending == cloud.JobTimedOut {
			others = ""
		}
		j.Message = fmt.Sprintf("%s; its%s members are being stopped", j.EndingMessage, others)
		return
	}
	s.conclude(run, now)
}

func (s *jobStep) whyEnds() why {
	if s.job.Ending == cloud.JobTimedOut {
		return why{reasonMaxRun, s.job.EndingMessage}
	}
	return why{reasonJobOver, "stopped with its job: " + s.job.EndingMessage}
}

// observe finds why the present attempt has to end, if it does: the member that
// ended first decides.
func (s *jobStep) observe(run []postgres.Standing, now time.Time) {
	j := &s.job
	var first *postgres.Standing
	succeeded := 0
	for i := range run {
		m := &run[i]
		switch how := memberEnded(*m); how {
		case "":
			if m.StartedAt != nil && m.State == cloud.StateRunning {
				j.StartedAt = earlier(j.StartedAt, *m.StartedAt)
			}
		case cloud.JobSuccess:
			succeeded++
			if m.StartedAt != nil {
				j.StartedAt = earlier(j.StartedAt, *m.StartedAt)
			}
		default:
			if first == nil || m.StateAt.Before(first.StateAt) {
				first = m
			}
		}
	}
	switch {
	case first != nil:
		j.Ending, j.EndingMessage = memberEnded(*first), memberText(*first)
	case succeeded == len(run):
		j.Ending, j.EndingMessage = cloud.JobSuccess, "every member exited with code 0"
	case j.MaxSeconds != nil && j.StartedAt != nil:
		end := j.StartedAt.Add(time.Duration(*j.MaxSeconds) * time.Second)
		if now.Before(end) {
			j.LookAt = &end
			return
		}
		j.Ending, j.EndingMessage = cloud.JobTimedOut, fmt.Sprintf("it ran for its %d s at most", *j.MaxSeconds)
	}
}

// memberEnded is how a member's run ended; empty: it has not.
func memberEnded(m postgres.Standing) string {
	switch m.State {
	case cloud.StateStopped:
		if m.Reason == nodewire.ReasonExited {
			return cloud.JobSuccess
		}
		return cloud.JobPlatform
	case cloud.StateFailed:
		switch m.Reason {
		case nodewire.ReasonExited, nodewire.ReasonOOM, nodewire.ReasonImagePull, nodewire.ReasonStart:
			return cloud.JobFailure
		case reasonMaxRun:
			return cloud.JobTimedOut
		}
		return cloud.JobPlatform
	case cloud.StateQueued, cloud.StateDeleted: // taken from its node
		return cloud.JobPlatform
	}
	return ""
}

func memberText(m postgres.Standing) string {
	return fmt.Sprintf("member %d: %s", m.JobRank, endText(m))
}

func endText(m postgres.Standing) string { return or(m.Message, or(m.Reason, string(m.State))) }

func earlier(a *time.Time, b time.Time) *time.Time {
	if a == nil || b.Before(*a) {
		return &b
	}
	return a
}

// progress moves between starting and running.
func (s *jobStep) progress(run []postgres.Standing, now time.Time) {
	running, over := 0, 0
	for _, m := range run {
		switch m.State {
		case cloud.StateRunning:
			running++
		case cloud.StateStopped:
			over++
		}
	}
	j := &s.job
	switch {
	case running+over < len(run):
		j.Message = fmt.Sprintf("%d of %d members run", running+over, len(run))
	case j.State == cloud.JobStarting:
		s.enter(cloud.JobRunning, "", "", now)
		s.say("running", fmt.Sprintf("all %s run", count(len(run), "member")), now, nil)
	}
	if j.State == cloud.JobRunning {
		j.Message = ""
		if over > 0 {
			j.Message = fmt.Sprintf("%d of %d members are done", over, len(run))
		}
	}
}

// conclude ends an attempt of which nothing is on a node any more.
func (s *jobStep) conclude(run []postgres.Standing, now time.Time) {
	j := &s.job
	if j.PlacedAt != nil {
		a := cloud.JobAttempt{Number: j.Attempt, PlacedAt: j.PlacedAt, StartedAt: j.StartedAt, EndedAt: now, Outcome: j.Ending, Message: j.EndingMessage}
		for _, m := range run {
			a.Members = append(a.Members, memberEnd(m))
		}
		s.attempts = append(s.attempts, a)
	}
	switch j.Ending {
	case cloud.JobSuccess:
		s.finish(cloud.JobSucceeded, "", j.EndingMessage, now)
	case cloud.JobTimedOut:
		s.finish(cloud.JobFailed, reasonMaxRun, j.EndingMessage, now)
	case cloud.JobFailure:
		if j.RetriesUsed < j.Retries {
			j.RetriesUsed++
			s.again(run, fmt.Sprintf("%s. Started again, retry %d of %d", j.EndingMessage, j.RetriesUsed, j.Retries), now)
			return
		}
		s.finish(cloud.JobFailed, "member_failed", j.EndingMessage, now)
	case cloud.JobPlatform:
		if j.StartedAt != nil && now.Sub(*j.StartedAt) >= freeSoon {
			j.FreeRestarts = 0
		}
		if j.FreeRestarts < mostFreeRuns {
			j.FreeRestarts++
			s.again(run, j.EndingMessage+". The platform ended this attempt, so the job is queued again and no retry is used", now)
			return
		}
		s.finish(cloud.JobFailed, "platform", fmt.Sprintf("%s; given up, since the platform ended %d attempts in a row soon after their start", j.EndingMessage, j.FreeRestarts+1), now)
	default:
		s.finish(cloud.JobCancelled, "", j.EndingMessage, now)
	}
	for _, m := range run {
		if m.State == cloud.StateQueued {
			s.stop[m.JobRank] = why{reasonJobOver, "stopped with its job: " + j.EndingMessage}
		}
	}
}

// again takes a gang to another attempt.
func (s *jobStep) again(run []postgres.Standing, message string, now time.Time) {
	j := &s.job
	j.Attempt++
	j.Size, j.Ending, j.EndingMessage, j.PlacedAt, j.StartedAt = 0, "", "", nil, nil
	s.enter(cloud.JobQueued, "", "", now)
	s.say("requeued", message, now, nil)
	s.enqueue(run, now)
	// Members that the last attempt had no place for come back with the next look.
	j.LookAt = earlier(j.LookAt, now)
}

// enqueue queues members that are at rest, if the limits have room for them.
func (s *jobStep) enqueue(members []postgres.Standing, now time.Time) {
	var rest []int
	for _, m := range members {
		if m.State == cloud.StateStopped || m.State == cloud.StateFailed {
			rest = append(rest, m.JobRank)
		}
	}
	switch {
	case len(rest) == 0:
		if s.job.Reason == reasonQuota {
			s.job.Reason, s.job.Message = "", ""
		}
	case !s.noRoom:
		s.queue, s.job.Reason, s.job.Message = rest, "", ""
	case len(members)-len(rest) < s.job.MembersMin:
		s.waitForRoom(now)
	default:
		s.askAgain(now) // it can begin with those that wait already
	}
}

func (s *jobStep) waitForRoom(now time.Time) {
	s.job.Reason, s.job.Message = reasonQuota, "waits until the project's limits have room for its members again"
	s.askAgain(now)
}

func (s *jobStep) askAgain(now time.Time) {
	at := now.Add(askAgain)
	s.job.LookAt = &at
}

func (s *jobStep) finish(to cloud.JobState, reason, message string, now time.Time) {
	s.job.FinishedAt, s.job.Ending = &now, ""
	s.enter(to, reason, message, now)
	s.say(string(to), message, now, nil)
}

func memberEnd(m postgres.Standing) cloud.JobMemberEnd {
	at := m.StateAt
	end := cloud.JobMemberEnd{Rank: m.JobRank, State: m.State, Reason: m.Reason, Message: m.Message, ExitCode: m.ExitCode, Epoch: m.Epoch, StartedAt: m.StartedAt, EndedAt: &at}
	if m.Reason == reasonJobOver || m.Reason == reasonMaxRun {
		end.ExitCode = nil // of the hand that stopped it
	}
	return end
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
