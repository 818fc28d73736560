package queue

import (
	"fmt"
	"math/rand/v2"

	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tenon-cloud/tenon/internal/fairshare"
)

// Other queues give way only if they borrow; the last taken are given back first.
func TestQ4FewestVictims(t *testing.T) {
	t.Parallel()
	s := tell(t, 10, Policy{}, share("a", 4), share("b", 6))
	for i, size := range []int{1, 1, 4, 1, 3} {
		s.now = time.Duration(i)
		s.add("b"+strconv.Itoa(i+1), "b", size)
		s.goes("b" + strconv.Itoa(i+1))
	}
	s.later(time.Minute)
	s.add("a1", "a", 4)
	// The most recent first: 3, then 1 make 4. b is 4 above its guarantee.
	s.goes("-b4 -b5 a1")
	s.later(time.Minute)
	s.add("a2", "a", 1)
	s.goes("") // b has its guarantee
	s.says("a2", "1 of GPUs short: what else there is is in use")

	s = tell(t, 10, Policy{}, share("a", 4), share("b", 0))
	s.add("b1", "b", 5)
	s.goes("b1")
	s.later(time.Second)
	s.add("b2", "b", 4)
	s.goes("b2")
	s.later(time.Second)
	s.add("b3", "b", 1)
	s.goes("b3")
	s.later(time.Second)
	s.add("a1", "a", 4)
	s.goes("-b2 a1") // b3 is taken first, and given back
}

// Whatever runs, no victim can be left out.
func TestQ4VictimsAreMinimal(t *testing.T) {
	t.Parallel()
	claims := 0
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 3))
		build := func() *story {
			rng = rand.New(rand.NewPCG(seed, 3))
			s := tell(t, 24, Policy{}, share("a", 12), share("b", 0), share("c", 4))
			for i := range 14 {
				s.now = time.Duration(i) * time.Second
				s.add("w"+strconv.Itoa(i), []string{"b", "c"}[rng.IntN(2)], 1+rng.IntN(5), prio(rng.IntN(2)))
				s.q.Decide(s.now)
			}
			s.later(time.Minute)
			s.add("claims", "a", 3+rng.IntN(9))
			return s
		}
		s := build()
		p := s.q.Decide(s.now)
		if !strings.Contains(fmt.Sprint(p.Start), "{claims ") {
			continue
		}
		claims++
		for _, spared := range p.Preempt {
			if spared.For != "claims" {
				continue
			}
			other := build()
			for _, v := range p.Preempt {
				if v != spared && v.For == "claims" {
					other.end(v.ID)
				}
			}
			if other.pool.Free(0) >= int64(other.q.jobs["claims"].Class) {
				t.Errorf("seed %d: %s made room for nothing", seed, spared.ID)
			}
		}
	}
	if claims < 100 {
		t.Errorf("only %d claims", claims)
	}
}

func TestK4GuaranteeComesBackFromBorrowers(t *testing.T) {
	t.Parallel()
	s := tell(t, 16, Policy{}, share("acme", 8), share("beta", 8), share("acme/p", 8), share("beta/p", 8), share("beta/q", 0))
	s.add("b1", "beta/p", 8)
	s.add("b2", "beta/q", 8)
	s.goes("b1 b2")
	s.later(time.Minute)
	s.add("a1", "acme/p", 8)
	p := s.goes("-b2 a1") // never what beta/p is guaranteed
	if p.Preempt[0].Why != CauseReclaim || p.Preempt[0].For != "a1" {
		t.Errorf("%+v", p.Preempt[0])
	}
}

func TestK5SecondPassEvictsNothing(t *testing.T) {
	t.Parallel()
	s := tell(t, 12, Policy{}, share("a", 0), share("b", 0))
	for i := range 12 {
		s.add("b"+strconv.Itoa(i+10), "b", 1)
	}
	s.goes("b10 b11 b12 b13 b14 b15 b16 b17 b18 b19 b20 b21")
	s.later(time.Minute)
	for i := range 12 {
		s.add("a"+strconv.Itoa(i+10), "a", 1)
	}
	s.goes("-b16 -b17 -b18 -b19 -b20 -b21 a10 a11 a12 a13 a14 a15") // decide() decides twice
	for range 20 {
		s.later(10 * time.Minute)
		s.goes("")
	}
}

func TestK6FirmStaysWithinGuarantees(t *testing.T) {
	t.Parallel()
	s := tell(t, 10, Policy{FirmWithinGuarantee: true}, share("a", 4), share("b", 0))
	s.add("inference", "a", 4, firm)
	s.later(1)
	s.add("build", "a", 2, firm)
	s.add("train", "a", 6)
	s.goes("inference train")
	s.says("build", "it can't be preempted, so that it must stay within a guarantee, and that is used up")
	s.later(time.Hour)
	s.add("b1", "b", 10, prio(9))
	s.goes("") // and is nobody's victim
}

func TestK7PriorityInsideReclaimBetween(t *testing.T) {
	t.Parallel()
	s := tell(t, 4, Policy{}, share("a", 4), share("b", 0))
	s.add("low", "a", 4)
	s.goes("low")
	s.later(time.Minute)
	s.add("urgent", "b", 4, prio(100))
	s.goes("") // priority counts inside a queue alone
	s.add("same", "a", 4)
	s.goes("")
	s.add("high", "a", 4, prio(1))
	p := s.goes("-low high")
	if p.Preempt[0].Why != CausePriority {
		t.Errorf("%+v", p.Preempt[0])
	}
}

// The times of fairshare's TestK8MinimumRuntime, at work: 600 s above one side, 60 s
// above the other.
func TestK8MinRuntimeAndCuts(t *testing.T) {
	t.Parallel()
	sides := []fairshare.Node{{Name: "b", ReclaimAfter: 10 * time.Minute, Guaranteed: []int64{4}}, {Name: "d", ReclaimAfter: time.Minute, Guaranteed: []int64{4}},
		{Name: "b/1", Guaranteed: []int64{4}}, {Name: "d/3", Guaranteed: []int64{4}}}
	for victim, after := range map[string]time.Duration{"b/1": 10 * time.Minute, "d/3": time.Minute} {
		s := tell(t, 8, Policy{}, sides...)
		s.add("borrows", victim, 8)
		s.goes("borrows")
		other := map[string]string{"b/1": "d/3", "d/3": "b/1"}[victim]
		s.add("claims", other, 4)
		s.later(after - time.Second)
		s.goes("")
		s.later(time.Second)
		s.goes("-borrows claims")
	}
	s := tell(t, 8, Policy{}, sides...)
	s.add("elastic", "b/1", 1, members(2, 8), minRuntime(time.Hour))
	s.goes("elastic")
	s.later(time.Second)
	s.add("claims", "d/3", 4)
	p := s.goes("claims")
	if len(p.Cut) != 1 || p.Cut[0].Members != 2 || p.Cut[0].ID != "elastic" {
		t.Errorf("cut to the fewest, however young: %+v", p.Cut)
	}
}

func TestGraceAndComingBack(t *testing.T) {
	t.Parallel()
	s := tell(t, 4, Policy{}, share("a", 4), share("b", 0))
	s.add("b1", "b", 2, grace(30*time.Second))
	s.add("b2", "b", 2, grace(10*time.Second))
	s.goes("b1 b2")
	s.later(time.Minute)
	s.add("a1", "a", 4)
	p := s.goes("-b1 -b2")
	if len(p.Reserve) != 1 || p.Reserve[0] != (Reserve{"a1", 90 * time.Second}) {
		t.Errorf("a1 starts at %+v", p.Reserve)
	}
	s.says("a1", "others make room for it until 1m30s")
	s.add("thief", "b", 2)
	s.later(10 * time.Second)
	s.q.Requeue("b2", s.now)
	s.goes("") // the place of b2 is kept for a1
	s.later(20 * time.Second)
	s.q.Requeue("b1", s.now)
	s.goes("a1")
	if j := s.q.jobs["b1"]; j.Restarts != 1 || j.QueuedAt != 0 {
		t.Errorf("b1 came back as %+v", j.Workload)
	}
	if w := s.waits("b1"); w.Position != 1 {
		t.Errorf("b1, which has waited longest, is number %d", w.Position)
	}
}

// Two queues of equal shares in one cohort, the lowest share first, the highest
// gives way.
func TestQ5FairSharing(t *testing.T) {
	t.Parallel()
	s := tell(t, 12, Policy{}, share("a", 2), share("b", 2), fairshare.Node{Name: "c", Guaranteed: []int64{2}, Weight: 2})
	for i := range 12 {
		for _, q := range []string{"a", "b", "c"} {
			s.add(q+strconv.Itoa(i+10), q, 1)
		}
	}
	s.decide()
	// Of the six that nobody has of right, c gets half.
	for n, want := range map[int]int64{1: 3, 2: 4, 3: 5} {
		if got := s.tree.Used(n)[0]; got < want-1 || got > want+1 {
			t.Errorf("%s has %d", s.names[n], got)
		}
	}
	s.later(time.Minute)
	before := s.tree.Used(3)[0]
	s.add("a-one", "a", 1)
	s.goes("")
	if s.tree.Used(3)[0] != before {
		t.Error("a fair share was taken")
	}
}

// Two queues of equal weight, each with work that takes the whole cloud: they
// alternate, and each has half of the time in the long run. With weights of 3 and
// 1, three quarters.
func TestK9Alternates(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ weight, want float64 }{{1, 0.5}, {3, 0.75}} {
		s := tell(t, 8, Policy{Strength: 20}, fairshare.Node{Name: "a", Weight: c.weight}, fairshare.Node{Name: "b"})
		s.tree.Account(fairshare.Billing{}, time.Hour)
		s.add("a0", "a", 8, minRuntime(5*time.Minute))
		s.add("b0", "b", 8, minRuntime(5*time.Minute))
		var had, all time.Duration
		turns, who := 0, ""
		for s.now < 48*time.Hour {
			s.q.Decide(s.now)
			for id, j := range s.q.jobs {
				if j.state == running && id != who {
					who = id
					turns++
				}
			}
			if s.now > 12*time.Hour {
				if all += time.Minute; who == "a0" {
					had += time.Minute
				}
			}
			s.later(time.Minute)
		}
		if got := had.Seconds() / all.Seconds(); got < c.want-0.05 || got > c.want+0.05 {
			t.Errorf("weight %g: a had %.3f of the time, not %.2f", c.weight, got, c.want)
		}
		if turns < 50 {
			t.Errorf("weight %g: only %d turns", c.weight, turns)
		}
	}
}

// A budget: half the weight, jobs of a size that leaves others room; after a burst
// of one, the other catches up within 5 %.
func TestK9Budget(t *testing.T) {
	t.Parallel()
	s := tell(t, 20, Policy{Strength: 2, ByUsage: true, NoPreemption: true}, fairshare.Node{Name: "a", Weight: 3}, fairshare.Node{Name: "b", Weight: 2})
	s.tree.Account(fairshare.Billing{}, 6*time.Hour)
	n := 0
	for s.now < 72*time.Hour {
		waits := map[int]int{}
		for id, j := range s.q.jobs {
			if j.state == waiting {
				waits[j.Queue]++
			} else if s.now >= j.started+j.Expected {
				s.end(id)
			}
		}
		for leaf, q := range []string{"", "a", "b"} {
			for ; waits[leaf] < 10 && (q == "b" || q == "a" && s.now > 6*time.Hour); waits[leaf]++ {
				n++
				s.add(q+strconv.Itoa(n), q, 1+n%3, lasts(time.Duration(10+n%20)*time.Minute))
			}
		}
		s.q.Decide(s.now)
		s.later(5 * time.Minute)
	}
	a, b := s.tree.Usage(1, s.now), s.tree.Usage(2, s.now)
	if got := a / (a + b); got < 0.57 || got > 0.63 {
		t.Errorf("a had %.3f, where its weight is 0.6 of all", got)
	}
}

// A burst of a hundred can't win before its usage is there to be seen.
func TestQ6EntryPenalty(t *testing.T) {
	t.Parallel()
	s := tell(t, 10, Policy{ByUsage: true, Ahead: time.Minute}, share("a", 0), share("b", 0))
	s.tree.Account(fairshare.Billing{}, time.Hour)
	for i := range 100 {
		s.add("a"+strconv.Itoa(100+i), "a", 1, firm)
	}
	for i := range 5 {
		s.add("b"+strconv.Itoa(i), "b", 1, firm)
	}
	s.goes("a100 b0 a101 b1 a102 b2 a103 b3 a104 b4")
	// History counts: after a while of a alone, b goes first.
	s = tell(t, 2, Policy{ByUsage: true}, share("a", 0), share("b", 0))
	s.tree.Account(fairshare.Billing{}, time.Hour)
	s.add("a1", "a", 2, firm)
	s.goes("a1")
	s.later(time.Hour)
	s.end("a1")
	for _, id := range []string{"1", "2"} {
		s.add("a"+id, "a", 1, firm, since(0))
		s.add("b"+id, "b", 1, firm)
	}
	s.goes("b1 b2")
}
