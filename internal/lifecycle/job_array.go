package lifecycle

import (
	"fmt"
	"time"

	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/postgres"
)

// tasks looks at an array: each task is on its own, so many of them at once, and
// one that fails for good holds up no other.
func (s *jobStep) tasks(members []postgres.Standing, now time.Time) {
	j := &s.job
	var pending []postgres.Standing
	active, onNode, running, done, failed := 0, false, 0, 0, 0
	for _, m := range members {
		onNode = onNode || m.State.OnNode()
		switch how := taskState(m); how {
		case taskActive:
			active++
			if m.State == cloud.StateRunning {
				running++
				j.StartedAt = earlier(j.StartedAt, *orNow(m.StartedAt, now))
				s.limit(m, now)
			}
		case taskPending:
			pending = append(pending, m)
		case cloud.JobSuccess:
			done++
		default:
			if s.taskMayAgain(m, how) {
				pending = append(pending, m)
			} else {
				failed++
			}
		}
	}
	if j.Desired == cloud.JobWantedCancelled {
		s.cancelTasks(members, onNode, now)
		return
	}
	if active == 0 && len(pending) == 0 {
		if failed == 0 {
			s.finish(cloud.JobSucceeded, "", fmt.Sprintf("all %s exited with code 0", count(done, "task")), now)
			return
		}
		s.finish(cloud.JobFailed, "tasks_failed", fmt.Sprintf("%d of %s failed", failed, count(len(members), "task")), now)
		return
	}
	next := pending[:min(len(pending), max(0, j.ArrayParallel-active))]
	if !s.noRoom {
		for _, m := range next {
			s.queue = append(s.queue, m.JobRank)
			s.taskAgain(m, now)
		}
	} else if len(next) > 0 {
		s.askAgain(now)
	}
	message := fmt.Sprintf("%d of %d tasks are done", done+failed, len(members))
	if failed > 0 {
		message += fmt.Sprintf(", %d failed", failed)
	}
	switch {
	case running > 0 && j.State != cloud.JobRunning:
		s.enter(cloud.JobRunning, "", message, now)
		s.say("running", "the first of its tasks runs", now, nil)
	case onNode && j.State == cloud.JobQueued:
		j.PlacedAt = &now
		s.enter(cloud.JobStarting, "", message, now)
	}
	switch {
	case s.noRoom && active == 0:
		s.waitForRoom(now)
	case j.State != cloud.JobQueued:
		j.Reason, j.Message = "", message
	case j.Reason == reasonQuota:
		j.Reason, j.Message = "", ""
	}
}

// cancelTasks ends what runs, and what waits.
func (s *jobStep) cancelTasks(members []postgres.Standing, onNode bool, now time.Time) {
	for _, m := range members {
		switch m.State {
		case cloud.StateQueued, cloud.StateStarting, cloud.StateRunning:
			s.stop[m.JobRank] = why{reasonJobOver, "stopped with its job: cancelled as asked"}
		}
	}
	if onNode {
		s.job.Message = "its tasks are being stopped"
		return
	}
	s.finish(cloud.JobCancelled, "", "cancelled as asked", now)
}

const (
	taskActive  = "active"
	taskPending = "pending"
)

// taskState is where a task is, or how it ended.
func taskState(m postgres.Standing) string {
	switch {
	case m.State == cloud.StateQueued || m.State.OnNode():
		return taskActive
	case m.State == cloud.StateStopped && m.Reason == reasonTurn:
		return taskPending
	}
	return memberEnded(m)
}

// taskMayAgain reports that a task that ended badly may be started again.
func (s *jobStep) taskMayAgain(m postgres.Standing, how string) bool {
	return how == cloud.JobFailure && m.JobTries < s.job.Retries || how == cloud.JobPlatform && m.JobFree < mostFreeRuns
}

// taskAgain counts a task that is started again.
func (s *jobStep) taskAgain(m postgres.Standing, now time.Time) {
	how := taskState(m)
	switch how {
	case cloud.JobFailure:
		m.JobTries++
	case cloud.JobPlatform:
		m.JobFree++
	default:
		return
	}
	rank := m.JobRank
	s.attempts = append(s.attempts, cloud.JobAttempt{Rank: &rank, StartedAt: m.StartedAt, EndedAt: m.StateAt, Outcome: how, Message: endText(m), Members: []cloud.JobMemberEnd{memberEnd(m)}})
	s.tries = append(s.tries, m)
	s.say("task_again", fmt.Sprintf("task %d: %s. Started again", rank, endText(m)), now, map[string]any{"rank": rank})
}

// limit ends a task that has run for as long as it may.
func (s *jobStep) limit(m postgres.Standing, now time.Time) {
	if s.job.MaxSeconds == nil || m.StartedAt == nil {
		return
	}
	end := m.StartedAt.Add(time.Duration(*s.job.MaxSeconds) * time.Second)
	if now.Before(end) {
		s.job.LookAt = earlier(s.job.LookAt, end)
		return
	}
	s.stop[m.JobRank] = why{reasonMaxRun, fmt.Sprintf("it ran for its %d s at most", *s.job.MaxSeconds)}
}

func orNow(t *time.Time, now time.Time) *time.Time {
	if t == nil {
		return &now
	}
	return t
}
