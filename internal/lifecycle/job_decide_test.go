package lifecycle

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/nodewire"
	"github.com/tenon-cloud/tenon/internal/postgres"
)

// members are written as "run wait ok bad lost stop go end": one word for each.
func membersOf(words ...string) (out []postgres.Standing) {
	for rank, w := range words {
		m := placed(cloud.StateRunning)
		m.JobRank, m.StateAt = rank, noon.Add(time.Duration(rank-60)*time.Second)
		rest := func(state cloud.InstanceState, reason string) {
			m.State, m.Reason, m.NodeID, m.HoldsQuota = state, reason, cloud.NodeID{}, false
		}
		switch w {
		case "wait":
			rest(cloud.StateQueued, "")
		case "ok":
			rest(cloud.StateStopped, nodewire.ReasonExited)
		case "bad":
			rest(cloud.StateFailed, nodewire.ReasonExited)
			m.Message = "exited with code 3"
		case "lost":
			rest(cloud.StateFailed, nodewire.ReasonRebooted)
		case "over":
			rest(cloud.StateStopped, reasonJobOver)
		case "turn":
			rest(cloud.StateStopped, reasonTurn)
		case "start":
			m.State, m.StartedAt = cloud.StateStarting, nil
		case "end":
			m.State, m.Reason = cloud.StateStopping, reasonJobOver
		}
		out = append(out, m)
	}
	return out
}

func gangOf(state cloud.JobState, n int) postgres.JobStanding {
	j := postgres.JobStanding{State: state, Desired: cloud.JobWanted, MembersMin: n, MembersMax: n, Attempt: 1, Size: n, Retries: 1}
	at := noon.Add(-time.Hour)
	if state == cloud.JobQueued {
		j.Size = 0
	} else {
		j.PlacedAt, j.StartedAt = &at, &at
	}
	return j
}

func ranks(m map[int]why) (out []int) {
	for r := range m {
		out = append(out, r)
	}
	slices.Sort(out)
	return out
}

func TestWhatAJobDoesNext(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		job     func(*postgres.JobStanding)
		state   cloud.JobState
		members []string
		want    string // state ending stopped queued removed
	}{
		"waits":                     {nil, cloud.JobQueued, []string{"wait", "wait"}, "queued  [] [] []"},
		"starts":                    {nil, cloud.JobStarting, []string{"run", "start"}, "starting  [] [] []"},
		"runs":                      {nil, cloud.JobStarting, []string{"run", "run"}, "running  [] [] []"},
		"one is done":               {nil, cloud.JobRunning, []string{"ok", "run"}, "running  [] [] []"},
		"all are done":              {nil, cloud.JobRunning, []string{"ok", "ok"}, "succeeded  [] [] []"},
		"one fails":                 {nil, cloud.JobRunning, []string{"run", "bad", "ok"}, "running failed [0] [] []"},
		"the rest is being stopped": {func(j *postgres.JobStanding) { j.Ending = cloud.JobFailure }, cloud.JobRunning, []string{"end", "bad"}, "running failed [] [] []"},
		"tried again":               {func(j *postgres.JobStanding) { j.Ending = cloud.JobFailure }, cloud.JobRunning, []string{"over", "bad"}, "queued  [] [0 1] []"},
		"tried often enough":        {func(j *postgres.JobStanding) { j.Ending, j.RetriesUsed = cloud.JobFailure, 1 }, cloud.JobRunning, []string{"over", "bad"}, "failed  [] [] []"},
		"lost":                      {nil, cloud.JobRunning, []string{"run", "lost"}, "running platform [0] [] []"},
		"taken from its node":       {nil, cloud.JobRunning, []string{"run", "wait"}, "running platform [0] [] []"},
		"lost, and queued with it":  {func(j *postgres.JobStanding) { j.Ending, j.RetriesUsed = cloud.JobPlatform, 1 }, cloud.JobRunning, []string{"over", "wait"}, "queued  [] [0] []"},
		"lost too often": {func(j *postgres.JobStanding) {
			j.Ending, j.FreeRestarts = cloud.JobPlatform, 5
			s := noon.Add(-time.Second)
			j.StartedAt = &s
		}, cloud.JobRunning, []string{"over", "wait"}, "failed  [1] [] []"},
		"the first one decides":       {nil, cloud.JobRunning, []string{"lost", "bad"}, "queued  [] [0 1] []"},
		"cancelled while it waits":    {func(j *postgres.JobStanding) { j.Desired = cloud.JobWantedCancelled }, cloud.JobQueued, []string{"wait", "wait"}, "cancelled  [0 1] [] []"},
		"cancelled while it runs":     {func(j *postgres.JobStanding) { j.Desired = cloud.JobWantedCancelled }, cloud.JobRunning, []string{"run", "ok"}, "running cancelled [0] [] []"},
		"deleted while it runs":       {func(j *postgres.JobStanding) { j.Desired = cloud.JobWantedDeleted }, cloud.JobRunning, []string{"run", "ok"}, "running  [] [] [0 1]"},
		"deleted when it is over":     {func(j *postgres.JobStanding) { j.Desired = cloud.JobWantedDeleted }, cloud.JobSucceeded, []string{"ok", "ok"}, "deleted  [] [] [0 1]"},
		"past its limit":              {func(j *postgres.JobStanding) { n := 3600; j.MaxSeconds = &n }, cloud.JobRunning, []string{"run", "ok"}, "running max_runtime [0] [] []"},
		"over, and left alone":        {nil, cloud.JobFailed, []string{"bad"}, "failed  [] [] []"},
		"a retry that waits for room": {nil, cloud.JobQueued, []string{"wait", "over"}, "queued  [] [1] []"},
		"more than it could place":    {func(j *postgres.JobStanding) { j.Size, j.MembersMin = 1, 1 }, cloud.JobRunning, []string{"run", "wait"}, "running  [1] [] []"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := gangOf(c.state, len(c.members))
			if c.job != nil {
				c.job(&j)
			}
			s := decideJob(j, membersOf(c.members...), noon, false)
			got := fmt.Sprint(s.job.State, " ", s.job.Ending, " ", append([]int{}, ranks(s.stop)...), " ", append([]int{}, s.queue...), " ", append([]int{}, s.remove...))
			if got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

func TestAnArrayTakesTheNextOnes(t *testing.T) {
	t.Parallel()
	j := gangOf(cloud.JobRunning, 1)
	j.ArrayTasks, j.ArrayParallel, j.Size = 6, 2, 0
	s := decideJob(j, membersOf("ok", "run", "turn", "turn", "turn", "turn"), noon, false)
	if got := fmt.Sprint(s.queue, s.job.Message); got != "[2]1 of 6 tasks are done" {
		t.Errorf("next: %s", got)
	}
	s = decideJob(j, membersOf("bad", "run", "turn", "turn", "turn", "turn"), noon, false)
	if len(s.queue) != 1 || s.queue[0] != 0 || len(s.attempts) != 1 || s.tries[0].JobTries != 1 {
		t.Errorf("a failed task: %v, %v", s.queue, s.attempts)
	}
	s = decideJob(j, membersOf("bad", "run", "turn", "turn", "turn", "turn"), noon, true)
	if len(s.queue) != 0 || len(s.attempts) != 0 || s.job.LookAt == nil {
		t.Errorf("without room: %v, %v", s.queue, s.attempts)
	}
}

// Whatever its members do, a job comes to rest: a second look at the same members
// changes nothing more of its state, and nobody is both stopped and queued.
func TestAJobsLookIsSettled(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOfN(rapid.SampledFrom([]string{"run", "start", "ok", "bad", "lost", "wait", "over", "end"}), 1, 5).Draw(t, "members")
		j := gangOf(rapid.SampledFrom([]cloud.JobState{cloud.JobStarting, cloud.JobRunning}).Draw(t, "state"), len(words))
		j.Desired = rapid.SampledFrom([]cloud.JobDesired{cloud.JobWanted, cloud.JobWantedCancelled, cloud.JobWantedDeleted}).Draw(t, "desired")
		members := membersOf(words...)
		s := decideJob(j, members, noon, false)
		for _, rank := range s.queue {
			if _, both := s.stop[rank]; both || members[rank].State.OnNode() {
				t.Fatalf("member %d (%s) is queued", rank, words[rank])
			}
		}
		onNode := slices.ContainsFunc(members, func(m postgres.Standing) bool { return m.State.OnNode() })
		if onNode && s.job.State != cloud.JobStarting && s.job.State != cloud.JobRunning {
			t.Fatalf("it is %s with members %v", s.job.State, words)
		}
		if s.job.State == cloud.JobQueued && len(s.queue) == 0 && !slices.ContainsFunc(members, func(m postgres.Standing) bool { return m.State == cloud.StateQueued }) {
			t.Fatal("it waits, and no member does")
		}
		again := decideJob(s.job, members, noon, false)
		if s.job.State != cloud.JobQueued && again.job.State != s.job.State && s.job.Ending == "" {
			t.Fatalf("%s, then %s of %v", s.job.State, again.job.State, words)
		}
	})
}
