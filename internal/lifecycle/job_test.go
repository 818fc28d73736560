package lifecycle_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/looptest"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

var cpuOnly = cloud.Shape{VCPU: 1, MemoryMiB: 128, DiskMiB: 128}

func placedMembers(t testing.TB, w *looptest.World, job cloud.JobID) int {
	t.Helper()
	return looptest.One[int](t, w, `SELECT count(*)::int FROM instance WHERE job_id = $1 AND node_id IS NOT NULL`, job)
}

// end has members' programs end at their machine's next look.
func end(m *looptest.Machine, code int, ids ...cloud.InstanceID) {
	for _, id := range ids {
		if g := m.Guests[id]; g != nil {
			g.Ends, g.Code = true, code
		}
	}
}

func TestAGangStartsWholeAndSucceeds(t *testing.T) {
	t.Parallel()
	w := looptest.New(t)
	m := looptest.NewMachine(w.Node(t, 8, 16384, "h100-80gb", cloud.ModeWhole, 2))
	l := w.Loops()
	first := w.MustCreate(t, looptest.Whole(1)) // one of the two cards
	l.Until(t, "the first runs", func() bool { return w.State(t, first) == cloud.StateRunning }, m)
	job, members := w.MustCreateJob(t, looptest.Job{Min: 2, Max: 2}, looptest.Whole(1))
	for range 5 {
		l.Turn(t, m)
		if n := placedMembers(t, w, job); n != 0 {
			t.Fatalf("%d of 2 members are placed where only one fits", n)
		}
	}
	if got := looptest.One[string](t, w, `SELECT message FROM instance WHERE id = $1`, members[1]); got != "needs one node for all 2 members, waits: 1 node: some fitting GPUs, but fewer than asked; 1 GPU: in use" {
		t.Errorf("it says %q", got)
	}
	if err := w.Want(t.Context(), first, cloud.DesiredDeleted); err != nil {
		t.Fatal(err)
	}
	l.Until(t, "the gang runs", func() bool { return w.JobState(t, job) == cloud.JobRunning }, m)
	w.Check(t)
	end(m, 0, members[0])
	l.Until(t, "one is done", func() bool { return w.State(t, members[0]) == cloud.StateStopped }, m)
	if s := w.JobState(t, job); s != cloud.JobRunning {
		t.Errorf("the job is %s while a member runs", s)
	}
	if n := looptest.One[int](t, w, `SELECT count(*)::int FROM gpu_claim`); n != 1 {
		t.Errorf("%d claims are held after one of two members is done", n)
	}
	end(m, 0, members[1])
	l.Until(t, "the job succeeded", func() bool { return w.JobState(t, job) == cloud.JobSucceeded }, m)
	if got := looptest.One[string](t, w, `SELECT format('%s %s %s', number, outcome, jsonb_array_length(members)) FROM job_attempt`); got != "1 succeeded 2" {
		t.Errorf("its history is %s", got)
	}
	if used := looptest.One[int](t, w, `SELECT used::int FROM project_quota WHERE resource = 'gpu_milli'`); used != 0 {
		t.Errorf("%d thousandths of a GPU are still counted", used)
	}
	w.Check(t)
}

func TestAFailedMemberStartsTheGangAgain(t *testing.T) {
	t.Parallel()
	w := looptest.New(t)
	m := looptest.NewMachine(w.Node(t, 8, 16384, "h100-80gb", cloud.ModeWhole, 2))
	l := w.Loops()
	job, members := w.MustCreateJob(t, looptest.Job{Min: 2, Max: 2, Retries: 1}, looptest.Whole(1))
	for attempt := 1; attempt <= 2; attempt++ {
		l.Until(t, fmt.Sprintf("attempt %d runs", attempt), func() bool {
			return w.JobState(t, job) == cloud.JobRunning && looptest.One[int](t, w, `SELECT attempt FROM job WHERE id = $1`, job) == attempt
		}, m)
		end(m, 3, members[1])
		l.Until(t, "the attempt is over", func() bool {
			return looptest.One[int](t, w, `SELECT count(*)::int FROM job_attempt WHERE job_id = $1`, job) == attempt
		}, m)
		w.Check(t)
	}
	if s := w.JobState(t, job); s != cloud.JobFailed {
		t.Errorf("after its retries the job is %s", s)
	}
	if got := looptest.One[string](t, w, `SELECT format('%s|%s|%s', reason, message, retries_used) FROM job WHERE id = $1`, job); got != "member_failed|member 1: exited with code 3|1" {
		t.Errorf("it says %s", got)
	}
	if got := looptest.One[string](t, w, `SELECT string_agg(format('%s %s', epoch, state), ', ' ORDER BY job_rank) FROM instance`); got != "2 stopped, 2 failed" {
		t.Errorf("the same instances are at %s, want their second epoch", got)
	}
	if got := looptest.One[string](t, w, `SELECT members->1->>'exit_code' FROM job_attempt WHERE number = 1`); got != "3" {
		t.Errorf("the history keeps exit code %s of the first attempt", got)
	}
}

func TestWhatThePlatformEndsUsesNoRetry(t *testing.T) {
	t.Parallel()
	w := looptest.New(t)
	m := looptest.NewMachine(w.Node(t, 8, 16384, "h100-80gb", cloud.ModeWhole, 2))
	l := w.Loops()
	job, members := w.MustCreateJob(t, looptest.Job{Min: 2, Max: 2}, cpuOnly)
	for attempt := 1; attempt <= 6; attempt++ {
		l.Until(t, "it runs", func() bool { return w.JobState(t, job) == cloud.JobRunning }, m)
		m.Guests[members[0]].Boots = true
		l.Until(t, "the attempt is over", func() bool {
			return looptest.One[int](t, w, `SELECT count(*)::int FROM job_attempt WHERE job_id = $1`, job) == attempt
		}, m)
		w.Check(t)
		if got := looptest.One[string](t, w, `SELECT format('%s %s', outcome, (SELECT retries_used FROM job)) FROM job_attempt WHERE number = $1`, attempt); got != "platform 0" {
			t.Errorf("attempt %d is kept as %s", attempt, got)
		}
	}
	if s := w.JobState(t, job); s != cloud.JobFailed { // not for ever
		t.Errorf("after six such ends in a row it is %s", s)
	}
}

func TestAGangIsNeverPlacedInPart(t *testing.T) {
	t.Parallel()
	// The process ends after each of its transactions in turn, and another goes on.
	for after := 1; after <= 12; after++ {
		t.Run(fmt.Sprint(after), func(t *testing.T) {
			t.Parallel()
			w := looptest.New(t)
			m := looptest.NewMachine(w.Node(t, 16, 16384, "h100-80gb", cloud.ModeMIG, 1))
			job, members := w.MustCreateJob(t, looptest.Job{Min: 4, Max: 4, Retries: 1}, looptest.Slices(1, "1g"))
			n := 0
			killed := errors.New("killed")
			var l looptest.Loops
			l = w.LoopsLed(looptest.Leader{DB: w.DB, After: func(context.Context) error {
				if p := placedMembers(t, w, job); p != 0 && p != 4 && n < after { // before anything ended
					t.Errorf("%d of 4 members are placed", p)
				}
				if n++; n == after {
					return killed
				}
				return nil
			}})
			for range 10 {
				if err := l.Step(t.Context()); err != nil && !errors.Is(err, killed) {
					t.Fatal(err)
				}
				if err := m.Act(t.Context()); err != nil {
					t.Fatal(err)
				}
				w.Check(t)
			}
			l = w.Loops()
			l.Until(t, "it runs", func() bool { return w.JobState(t, job) == cloud.JobRunning }, m)
			end(m, 0, members...)
			l.Until(t, "it succeeded", func() bool { return w.JobState(t, job) == cloud.JobSucceeded }, m)
			w.Check(t)
		})
	}
}

func TestAnElasticGangTakesWhatFits(t *testing.T) {
	t.Parallel()
	w := looptest.New(t)
	m := looptest.NewMachine(w.Node(t, 8, 16384, "h100-80gb", cloud.ModeWhole, 3))
	l := w.Loops()
	job, members := w.MustCreateJob(t, looptest.Job{Min: 2, Max: 6, Retries: 1}, looptest.Whole(1))
	l.Until(t, "it runs", func() bool { return w.JobState(t, job) == cloud.JobRunning }, m)
	if n := looptest.One[int](t, w, `SELECT size FROM job WHERE id = $1`, job); n != 3 {
		t.Errorf("it runs with %d members where three cards are", n)
	}
	l.Turn(t, m)
	if got := looptest.One[string](t, w, `SELECT reason FROM instance WHERE id = $1`, members[5]); got != "not_needed" {
		t.Errorf("a member that did not fit says %q", got)
	}
	if used := looptest.One[int](t, w, `SELECT used::int FROM project_quota WHERE resource = 'gpu_milli'`); used != 3000 {
		t.Errorf("%d thousandths are counted", used)
	}
	w.Check(t)
	end(m, 1, members[0]) // the next attempt may have all six again
	l.Until(t, "it runs again", func() bool {
		return w.JobState(t, job) == cloud.JobRunning && looptest.One[int](t, w, `SELECT attempt FROM job WHERE id = $1`, job) == 2
	}, m)
	end(m, 0, members...)
	l.Until(t, "it succeeded", func() bool { return w.JobState(t, job) == cloud.JobSucceeded }, m)
	w.Check(t)
}

func TestAnArrayRunsSoManyAtOnce(t *testing.T) {
	t.Parallel()
	w := looptest.New(t)
	m := looptest.NewMachine(w.Node(t, 8, 16384, "h100-80gb", cloud.ModeWhole, 1))
	l := w.Loops()
	job, members := w.MustCreateJob(t, looptest.Job{Tasks: 5, AtOnce: 2, Retries: 1}, cpuOnly)
	failed := map[cloud.InstanceID]int{}
	for range 50 {
		if n := placedMembers(t, w, job); n > 2 {
			t.Fatalf("%d tasks at once, want 2 at most", n)
		}
		for i, id := range members {
			g := m.Guests[id]
			if g == nil || g.State != nodewire.GuestRunning || g.Ends {
				continue
			}
			g.Ends = true
			if i == 1 && failed[id] < 1 || i == 3 {
				g.Code = 7
				failed[id]++
			}
		}
		if w.JobState(t, job).Over() {
			break
		}
		l.Turn(t, m)
		w.Check(t)
	}
	if got := looptest.One[string](t, w, `SELECT format('%s|%s|%s', state, reason, message) FROM job WHERE id = $1`, job); got != "failed|tasks_failed|1 of 5 tasks failed" {
		t.Errorf("it is %s", got)
	}
	if got := looptest.One[string](t, w, `SELECT string_agg(format('%s %s %s', job_rank, state, epoch), ', ' ORDER BY job_rank) FROM instance`); got != "0 stopped 1, 1 stopped 2, 2 stopped 1, 3 failed 2, 4 stopped 1" {
		t.Errorf("its tasks are %s", got)
	}
}

func TestAJobIsCancelledAndDeleted(t *testing.T) {
	t.Parallel()
	for name, at := range map[string]cloud.JobState{"while it waits": cloud.JobQueued, "while it runs": cloud.JobRunning} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := looptest.New(t)
			cards := 2
			if at == cloud.JobQueued {
				cards = 1
			}
			m := looptest.NewMachine(w.Node(t, 8, 16384, "h100-80gb", cloud.ModeWhole, cards))
			l := w.Loops()
			job, _ := w.MustCreateJob(t, looptest.Job{Min: 2, Max: 2, Retries: 5}, looptest.Whole(1))
			l.Turn(t, m)
			l.Until(t, "it is where it should be", func() bool { return w.JobState(t, job) == at }, m)
			if err := w.WantJob(t.Context(), job, cloud.JobWantedCancelled); err != nil {
				t.Fatal(err)
			}
			l.Until(t, "it is cancelled", func() bool { return w.JobState(t, job) == cloud.JobCancelled }, m)
			if n := looptest.One[int](t, w, `SELECT count(*)::int FROM instance WHERE state = 'stopped' AND reason = 'job_over'`); n != 2 {
				t.Errorf("%d members were stopped with it", n)
			}
			w.Check(t)
			if err := w.WantJob(t.Context(), job, cloud.JobWantedDeleted); err != nil {
				t.Fatal(err)
			}
			l.Until(t, "it is deleted", func() bool { return w.JobState(t, job) == cloud.JobDeleted }, m)
			if used := looptest.One[int](t, w, `SELECT sum(used)::int FROM project_quota`); used != 0 {
				t.Errorf("%d of its limits are still used", used)
			}
			w.Check(t)
		})
	}
}

func TestAJobEndsAtItsLimit(t *testing.T) {
	t.Parallel()
	w := looptest.New(t)
	m := looptest.NewMachine(w.Node(t, 8, 16384, "h100-80gb", cloud.ModeWhole, 2))
	l := w.Loops()
	limit := 3600
	job, members := w.MustCreateJob(t, looptest.Job{Min: 2, Max: 2, Retries: 3, MaxSeconds: &limit}, cpuOnly)
	l.Until(t, "it runs", func() bool { return w.JobState(t, job) == cloud.JobRunning }, m)
	at := looptest.One[time.Time](t, w, `SELECT look_at FROM job WHERE id = $1`, job)
	if left := time.Until(at); left < 59*time.Minute || left > time.Hour {
		t.Errorf("it is looked at again in %s", left)
	}
	w.Exec(t, `UPDATE job SET started_at = started_at - interval '1 hour', look_at = now() WHERE id = $1`, job)
	l.Until(t, "it is over", func() bool { return w.JobState(t, job).Over() }, m)
	if got := looptest.One[string](t, w, `SELECT format('%s %s', state, reason) FROM job WHERE id = $1`, job); got != "failed max_runtime" {
		t.Errorf("it is %s", got)
	}
	if got := looptest.One[string](t, w, `SELECT format('%s %s', state, reason) FROM instance WHERE id = $1`, members[0]); got != "failed max_runtime" {
		t.Errorf("its member is %s", got)
	}
}

func TestARetryWaitsForTheLimits(t *testing.T) {
	t.Parallel()
	w := looptest.New(t)
	m := looptest.NewMachine(w.Node(t, 8, 16384, "h100-80gb", cloud.ModeWhole, 2))
	l := w.Loops()
	job, members := w.MustCreateJob(t, looptest.Job{Min: 2, Max: 2, Retries: 1}, looptest.Whole(1))
	l.Until(t, "it runs", func() bool { return w.JobState(t, job) == cloud.JobRunning }, m)
	w.Exec(t, `UPDATE project_quota SET limit_amount = 2000 WHERE resource = 'gpu_milli'`)
	end(m, 1, members...)
	w.Exec(t, `UPDATE project_quota SET limit_amount = 0 WHERE resource = 'gpu_milli'`)
	l.Until(t, "it waits", func() bool { return w.JobState(t, job) == cloud.JobQueued }, m)
	if got := looptest.One[string](t, w, `SELECT reason FROM job WHERE id = $1`, job); got != "quota" {
		t.Errorf("it waits for %q", got)
	}
	w.Check(t)
	w.Exec(t, `UPDATE project_quota SET limit_amount = 2000 WHERE resource = 'gpu_milli'`)
	w.Exec(t, `UPDATE job SET look_at = now()`)
	l.Until(t, "it runs again", func() bool { return w.JobState(t, job) == cloud.JobRunning }, m)
	w.Check(t)
}
