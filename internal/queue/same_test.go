package queue

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/tenon-cloud/tenon/internal/fairshare"
)

// TestDeterminism: the same history has the same hash on 1, 2 and 8 processors.
func TestDeterminism(t *testing.T) {
	procs := runtime.GOMAXPROCS(0)
	defer runtime.GOMAXPROCS(procs)
	var want uint64
	for _, n := range []int{1, 2, 8} {
		runtime.GOMAXPROCS(n)
		w := newWorld(t, 42, policies[3])
		for range 600 {
			w.arrive()
			w.pass(time.Duration(w.rng.IntN(8)) * time.Second)
			w.decide()
		}
		if got := w.hash(); want != 0 && got != want {
			t.Errorf("%d processors: %x, not %x", n, got, want)
		} else {
			want = got
		}
	}
	t.Logf("hash %x on 1, 2 and 8 processors", want)
}

// state is everything that a queue knows, as somebody else would tell it.
func (w *world) state() State {
	s := State{Now: w.now, Reservations: w.q.reservations}
	for _, id := range w.ids() {
		switch j := w.q.jobs[id]; j.state {
		case waiting, promised:
			s.Waiting = append(s.Waiting, j.Workload)
			if j.state == promised {
				s.Promised = append(s.Promised, id)
			}
		default:
			s.Running = append(s.Running, Running{Workload: j.Workload, Members: j.members, StartedAt: j.started, Booking: j.booking, Ending: j.ending, For: j.forWhom})
		}
	}
	return s
}

// fresh decides on a state by a new queue, tree and fleet.
func (w *world) fresh(s State, rng *rand.Rand) (Plan, *Queue) {
	tree, err := fairshare.New(w.nodes, w.tree.Capacity())
	if err != nil {
		w.t.Fatal(err)
	}
	pool := NewPool(w.pool.capacity, w.pool.Classes)
	rng.Shuffle(len(s.Running), func(a, b int) { s.Running[a], s.Running[b] = s.Running[b], s.Running[a] })
	rng.Shuffle(len(s.Waiting), func(a, b int) { s.Waiting[a], s.Waiting[b] = s.Waiting[b], s.Waiting[a] })
	for i := range s.Running {
		s.Running[i].Booking, _ = pool.Place(s.Running[i].Class, s.Running[i].Members, s.Running[i].Members)
	}
	p, q, err := Decide(s, tree, pool, w.q.policy)
	if err != nil {
		w.t.Fatal(err)
	}
	return p, q
}

// said is a plan without bookings, which count up as they are given.
func said(p Plan) string {
	p.Start = slices.Clone(p.Start)
	for i := range p.Start {
		p.Start[i].Booking = 0
	}
	return fmt.Sprintf("%+v", p)
}

// TestFreshAndShuffled: a queue that was told of every change decides, and says of
// what waits, the same as one that is told everything at once, in any order.
func TestFreshAndShuffled(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 1))
	for seed := range uint64(16) {
		policy := policies[seed%4] // what counts usage knows more than a State says
		w := newWorld(t, seed, policy)
		for range 150 {
			if len(w.q.jobs) < 80 {
				w.arrive()
				w.arrive()
			}
			w.pass(time.Duration(w.rng.IntN(6)) * time.Second)
			s := w.state()
			one, q := w.fresh(w.state(), rng)
			two, _ := w.fresh(s, rng)
			p := w.decide()
			if said(one) != said(two) {
				t.Fatalf("seed %d: another order, another plan:\n%s\n%s", seed, said(one), said(two))
			}
			if said(one) != said(p) {
				t.Fatalf("seed %d: told at once\n%s\ntold of changes\n%s", seed, said(one), said(p))
			}
			if a, b := fmt.Sprint(q.Waiting(w.now)), fmt.Sprint(w.q.Waiting(w.now)); a != b {
				t.Fatalf("seed %d: told at once\n%s\ntold of changes\n%s", seed, a, b)
			}
		}
	}
}
