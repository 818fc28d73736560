package queue

import (
	"testing"
	"time"

	"github.com/tenon-cloud/tenon/internal/fairshare"
)

// What Slurm compares in order: can it preempt, reservation, tier, priority, time, id.
func TestS2Order(t *testing.T) {
	t.Parallel()
	s := tell(t, 6, Policy{Tiers: make([]Tier, 2), Deadlines: []time.Duration{time.Hour}, Urgent: time.Minute}, share("a", 0))
	s.now = 2 * time.Hour
	s.add("later", "a", 1, since(time.Second))
	s.add("id2", "a", 1, since(0))
	s.add("id1", "a", 1, since(0))
	s.add("prio", "a", 1, prio(1), since(time.Minute))
	s.add("tier", "a", 1, tier(1), prio(9), since(0))
	s.add("urgent", "a", 1, deadline(1), since(time.Hour))
	s.goes("urgent prio id1 id2 later tier")
}

func TestS3AgeGrowsWhileItCouldStart(t *testing.T) {
	t.Parallel()
	aged := func(limit time.Duration) *story {
		s := tell(t, 1, Policy{Aging: time.Hour, AgeAtMost: limit}, share("a", 0))
		s.add("runs", "a", 1, firm)
		s.goes("runs")
		s.add("old", "a", 1, since(0))
		s.add("dependent", "a", 1, since(3*time.Hour+time.Second)) // until then it waited for another
		s.now = 4 * time.Hour
		s.add("new", "a", 1, prio(3))
		s.end("runs")
		return s
	}
	aged(0).goes("old") // four hours outweigh three steps
	s := aged(2 * time.Hour)
	s.goes("new") // an age counts two hours at most
	s.end("new")
	s.goes("old") // dependent is younger, though it was asked for at the same time
}

// One job of the partition pending: none behind it starts.
func TestS7StrictPerQueue(t *testing.T) {
	t.Parallel()
	s := tell(t, 10, Policy{Strict: true}, share("a", 0), share("b", 0))
	s.add("runs", "a", 6, firm)
	s.goes("runs")
	s.later(1)
	s.add("large", "a", 5)
	s.later(1)
	s.add("small", "a", 1)
	s.add("other", "b", 1)
	s.goes("other")
	s.says("small", "behind large")
	s.add("never", "a", 11, prio(9)) // what can never fit holds nobody back
	s.end("runs")
	s.goes("large small")
}

func TestQ2BestEffortPasses(t *testing.T) {
	t.Parallel()
	s := tell(t, 10, Policy{}, share("a", 0))
	s.add("runs", "a", 6, firm)
	s.goes("runs")
	s.add("large", "a", 5)
	s.later(1)
	s.add("small", "a", 1)
	s.later(1)
	s.add("prior", "a", 1, prio(1))
	s.goes("prior small")
	s.says("large", "3 of GPUs short: what else there is is in use")
}

func TestQ3NominalBeforeBorrowing(t *testing.T) {
	t.Parallel()
	s := tell(t, 10, Policy{}, share("a", 2), share("b", 8))
	s.add("borrows", "a", 4, prio(9))
	s.add("within", "b", 8)
	s.goes("within")
	s.says("borrows", "2 of GPUs short: what else there is is in use")
}

// Not over its share first, then rank, then the smaller dominant share with the
// candidate, then without, then the older.
func TestK3QueueOrder(t *testing.T) {
	t.Parallel()
	s := tell(t, 40, Policy{}, share("poor", 4), share("rich", 0), fairshare.Node{Name: "heavy", Weight: 4}, fairshare.Node{Name: "high", Rank: 1})
	for _, q := range []string{"rich", "poor", "heavy", "high"} {
		s.add(q+"1", q, 4)
		s.add(q+"2", q, 4)
	}
	// poor1 is guaranteed; high borrows first; heavy's 8 count as 2.
	s.goes("poor1 high1 high2 heavy1 heavy2 rich1 poor2 rich2")
}

func TestTiersExpressLane(t *testing.T) {
	t.Parallel()
	s := tell(t, 10, Policy{Tiers: []Tier{{Name: "interactive", Reserve: []int64{3}, Longest: time.Hour}, {Name: "batch"}}}, share("a", 0), share("b", 0))
	for _, id := range []string{"t1", "t2", "t3", "t4"} {
		s.add(id, "a", 2, tier(1), firm)
	}
	s.add("idle", "b", 2, spot, tier(1))
	s.goes("t1 t2 t3 idle")
	s.says("t4", "1 of GPUs short: the rest is kept for shorter work")
	s.add("chat", "b", 3, lasts(time.Minute))
	s.add("endless", "b", 1)
	s.goes("-idle chat") // at once, beside long training
	s.says("endless", "its tier takes work of at most 1h0m0s alone")
}

func TestSpotUsesWhatIsIdleAndGoesFirst(t *testing.T) {
	t.Parallel()
	s := tell(t, 10, Policy{}, fairshare.Node{Name: "a", Limit: []int64{4}}, share("b", 10))
	s.add("spot1", "a", 6, spot, grace(0))
	s.add("spot2", "a", 4, spot)
	s.goes("spot1 spot2") // beyond the limit of 4, which it doesn't count against
	s.later(time.Minute)
	s.add("real", "a", 4)
	s.goes("-spot2 real")
	if w := s.waits("spot2"); w.Reason.Code != NoPlace || s.q.jobs["spot2"].Restarts != 1 || s.q.jobs["spot2"].QueuedAt != 0 {
		s.Errorf("spot2 waits with %+v", w)
	}
}

func TestGangsAreWholeAndElastic(t *testing.T) {
	t.Parallel()
	s := tell(t, 10, Policy{}, share("a", 0))
	s.add("runs", "a", 3, firm)
	s.goes("runs")
	s.add("gang", "a", 2, members(4, 4))
	s.later(1)
	s.add("elastic", "a", 2, members(2, 9))
	p := s.goes("elastic")
	if p.Start[0].Members != 3 {
		s.Errorf("%d members, where 3 have room", p.Start[0].Members)
	}
	s.says("gang", "7 of GPUs short: what else there is is in use")
	s.end("runs", "elastic")
	if p := s.goes("gang"); p.Start[0].Members != 4 {
		s.Errorf("%d of 4 members", p.Start[0].Members)
	}
}

// C24: 46,068 MiB and 24 asks of 2,000 MiB: 23 fit.
func TestC24TheLastOneWaits(t *testing.T) {
	t.Parallel()
	s := tell(t, 46068, Policy{}, share("a", 0))
	for i := range 24 {
		s.add(string(rune('a'+i)), "a", 2000, firm)
	}
	s.goes("a b c d e f g h i j k l m n o p q r s t u v w")
	s.says("x", "1932 of GPUs short: what else there is is in use")
}

func TestDeadlinesGoFirstWhenTheyAreNear(t *testing.T) {
	t.Parallel()
	s := tell(t, 1, Policy{Deadlines: []time.Duration{time.Hour, 10 * time.Minute}, Urgent: 2 * time.Minute}, share("a", 0))
	s.add("hour", "a", 1, deadline(1))
	s.later(52 * time.Minute)
	s.add("ten", "a", 1, deadline(2))
	s.add("prior", "a", 1, prio(5))
	s.goes("prior")
	s.end("prior")
	s.later(7 * time.Minute) // 59 minutes: hour is a minute from its promise, ten three
	s.add("prior2", "a", 1, prio(5), firm)
	s.goes("hour")
	s.end("hour")
	s.later(time.Minute + time.Second)
	s.goes("ten")
}

func TestLimitsAndNeverSayWhose(t *testing.T) {
	t.Parallel()
	s := tell(t, 10, Policy{}, fairshare.Node{Name: "acme", Limit: []int64{6}}, share("acme/vision", 2), share("acme/speech", 2))
	s.add("one", "acme/vision", 5)
	s.add("two", "acme/speech", 3, prio(-1))
	s.add("big", "acme/speech", 7)
	s.goes("one")
	s.says("two", "quota: 2 of GPUs short of the limit of acme")
	s.says("big", "never fits: 1 of GPUs more than acme may ever have")
}

// A plan is taken for done; what could not be done is told.
func TestWhatWasNotDoneIsTold(t *testing.T) {
	t.Parallel()
	s := tell(t, 4, Policy{}, share("a", 0))
	s.add("first", "a", 4)
	s.later(1)
	s.add("second", "a", 4)
	s.goes("first")
	s.q.Requeue("first", s.now) // its node said no
	if j := s.q.jobs["first"]; j.Restarts != 0 || s.pool.Free(0) != 4 || s.tree.Used(0)[0] != 0 {
		t.Errorf("it never ran, and yet: %+v, %d free, %v used", j.Workload, s.pool.Free(0), s.tree.Used(0))
	}
	s.goes("first")
	s.end("first")
	s.goes("second")
	if err := s.q.Add(Workload{ID: "second", Queue: 1}); err == nil {
		t.Error("the same name twice")
	}
	for _, bad := range []Workload{{ID: "x", Queue: 0}, {ID: "x", Queue: 9}, {ID: "x", Queue: 1, Tier: 1}, {ID: "x", Queue: 1, Min: 3, Max: 2},
		{ID: "x", Queue: 1, Resources: []int64{-1}}, {ID: "x", Queue: 1, Resources: []int64{1, 1}}, {ID: "x", Queue: 1, Deadline: 1}} {
		if err := s.q.Add(bad); err == nil {
			t.Errorf("taken: %+v", bad)
		}
	}
}

func TestPositionsAndWhoIsAhead(t *testing.T) {
	t.Parallel()
	s := tell(t, 16, Policy{}, share("a", 0))
	s.q.fleet = newShelf(1) // eight cards on one node
	s.add("runs", "a", 5, firm, lasts(time.Hour))
	s.goes("runs")
	for i, id := range []string{"x1", "x2", "x3"} {
		s.now = time.Duration(i+1) * time.Minute
		s.add(id, "a", 4, firm)
	}
	s.add("top", "a", 4, firm, prio(1))
	s.goes("")
	s.says("top", "no room")
	s.says("x1", "no room")
	s.says("x2", "behind x1")
	s.says("x3", "behind 2 of its kind, the first of which is x1")
	for i, id := range []string{"top", "x1", "x2", "x3"} {
		if w := s.waits(id); w.Position != i+1 || w.Start != time.Hour || w.Promised {
			t.Errorf("%s waits with %+v", id, w)
		}
	}
}
