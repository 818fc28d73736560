package queue

import (
	"math/rand/v2"
	"testing"
	"time"
)

// A lower one starts only if it delays the expected start of no higher one.
func TestS8Backfill(t *testing.T) {
	t.Parallel()
	s := tell(t, 10, Policy{Reservations: 100}, share("a", 0))
	s.add("runs", "a", 6, lasts(time.Hour), firm)
	s.goes("runs")
	s.later(time.Minute)
	s.add("first", "a", 8, lasts(30*time.Minute), firm, prio(2))
	s.add("second", "a", 10, lasts(time.Hour), firm, prio(1))
	s.add("fits", "a", 2, lasts(2*time.Hour), firm)       // beside first, but it would delay second
	s.add("short", "a", 2, lasts(59*time.Minute), firm)   // ends as first begins
	s.add("unknown", "a", 1, firm)                        // nobody knows
	s.add("tooLong", "a", 4, lasts(60*time.Minute), firm) // would delay first
	p := s.goes("short")
	if len(p.Reserve) < 2 || p.Reserve[0] != (Reserve{"first", time.Hour}) || p.Reserve[1] != (Reserve{"second", 90 * time.Minute}) {
		t.Errorf("reserved: %+v", p.Reserve)
	}
	for id, want := range map[string]string{"first": "starts at 1h0m0s", "second": "starts at 1h30m0s", "unknown": "starts at 2h30m0s"} {
		s.says(id, want)
	}
	if w := s.waits("first"); w.Start != time.Hour || !w.Promised || w.Position != 1 {
		t.Errorf("first waits with %+v", w)
	}
	s.later(59 * time.Minute)
	s.end("runs", "short")
	s.goes("first")
	s.later(30 * time.Minute)
	s.end("first")
	s.goes("second")
}

// Over random loads, the head's start is never put off as long as work ends when it
// said. One further back may be passed by one before it that found an earlier start,
// and then its own is put off; that is rare.
func TestS8PromisesAreKept(t *testing.T) {
	t.Parallel()
	promises, early, late := 0, 0, 0
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 5))
		s := tell(t, 16, Policy{Reservations: 1000}, share("a", 0))
		promised, head := map[string]time.Duration{}, ""
		for n := range 400 {
			if rng.IntN(3) == 0 {
				s.add(idOf(n), "a", 1+rng.IntN(8), lasts(time.Duration(1+rng.IntN(20))*time.Second), firm)
			}
			for id, j := range s.q.jobs {
				if j.state == running && s.now == j.started+j.Expected {
					s.end(id)
				}
			}
			p := s.decide()
			for _, st := range p.Start {
				if at, ok := promised[st.ID]; ok && s.now < at {
					early++
				}
				delete(promised, st.ID)
			}
			for i, r := range p.Reserve {
				if at, ok := promised[r.ID]; ok && r.At > at {
					late++
					if i > 0 || r.ID != head {
						promised[r.ID] = r.At
						continue
					}
					t.Fatalf("seed %d: at %s %s was promised %s, and now %s", seed, s.now, r.ID, at, r.At)
				}
				promised[r.ID] = r.At
				promises++
			}
			if head = ""; len(p.Reserve) > 0 {
				head = p.Reserve[0].ID
			}
			s.later(time.Second)
		}
	}
	t.Logf("%d promises, %d started before their time, %d put off", promises, early, late)
	if promises < 1000 || 100*late > promises {
		t.Errorf("%d of %d promises were put off", late, promises)
	}
}

// Without known ends, a large gang that has waited long enough gets what comes free.
func TestPatienceEndsStarvation(t *testing.T) {
	t.Parallel()
	s := tell(t, 4, Policy{Reservations: 1, Patience: time.Minute}, share("a", 0))
	for _, id := range []string{"r1", "r2", "r3", "r4"} {
		s.add(id, "a", 1, firm)
	}
	s.goes("r1 r2 r3 r4")
	s.add("gang", "a", 1, members(4, 4), firm)
	s.later(time.Second)
	s.add("small1", "a", 1, firm)
	s.end("r1")
	s.goes("small1") // it may pass
	s.later(time.Minute)
	s.add("small2", "a", 1, firm)
	for _, id := range []string{"r2", "r3", "r4"} {
		s.end(id)
		s.goes("")
	}
	s.says("gang", "it gets what comes free; when that is enough, nobody can tell")
	s.says("small2", "reserved for gang")
	s.end("small1")
	s.goes("gang")
}

func TestReservationOfCapacity(t *testing.T) {
	t.Parallel()
	s := tell(t, 8, Policy{}, share("a", 0))
	s.q.Reserve([]Reservation{{ID: "demo", Class: 2, Members: 3, From: time.Hour, Until: 2 * time.Hour}})
	s.add("long", "a", 2, lasts(3*time.Hour), firm)
	s.add("short", "a", 4, lasts(time.Hour), firm)
	s.add("unknown", "a", 2, firm)
	s.add("mine", "a", 2, firm, inside("demo"))
	s.goes("long short") // 6 of 8 are kept from an hour on; short is gone by then
	s.says("unknown", "reserved for demo until 1h0m0s")
	s.says("mine", "its reservation demo begins at 1h0m0s")
	s.later(time.Hour)
	s.end("short")
	s.add("other", "a", 2, lasts(time.Minute), firm)
	s.goes("mine")
	s.add("mine2", "a", 2, firm, inside("demo"))
	s.goes("mine2")
	s.later(time.Hour)
	s.goes("unknown") // it is over, what runs in it goes on
	s.add("mine3", "a", 2, firm, inside("demo"))
	s.goes("")
	s.says("mine3", "its reservation demo is over")

	short := tell(t, 4, Policy{}, share("a", 0))
	short.add("endless", "a", 3, firm)
	short.goes("endless")
	short.q.Reserve([]Reservation{{ID: "demo", Class: 2, Members: 2, From: time.Hour, Until: 2 * time.Hour}})
	if p := short.goes(""); len(p.Short) != 1 || p.Short[0] != (Short{"demo", 2}) {
		t.Errorf("nobody is told that capacity is missing: %+v", p.Short)
	}
}

func TestOverdueWorkMovesPromises(t *testing.T) {
	t.Parallel()
	s := tell(t, 2, Policy{Reservations: 1}, share("a", 0))
	s.add("runs", "a", 2, lasts(time.Hour), firm)
	s.goes("runs")
	s.add("next", "a", 2, firm)
	s.goes("")
	s.later(80 * time.Minute)
	s.goes("")
	if w := s.waits("next"); w.Start <= s.now || w.Start > s.now+15*time.Minute {
		t.Errorf("work that is 20 minutes late ends at %s", w.Start)
	}
}
