package postgres_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/looptest"
	"github.com/tenon-cloud/tenon/internal/postgres"
)

const writers, claimsEach = 8, 100

// contest is what writers fight over.
type contest struct {
	cards int
	slots cloud.Slots
	class string
	lock  bool // as the scheduler does it, or with bare claims
}

var contests = map[string]contest{
	"one slice, bare":                       {1, cloud.Slots{Start: 2, End: 3}, "1g", false},
	"one slice, scheduled":                  {1, cloud.Slots{Start: 2, End: 3}, "1g", true},
	"two GPUs in opposite order, bare":      {2, cloud.Slots{Start: 0, End: 8}, "7g", false},
	"two GPUs in opposite order, scheduled": {2, cloud.Slots{Start: 0, End: 8}, "7g", true},
}

// Writers that want the same slots, in whatever order they name them: one gets
// them, the others step aside, nobody waits for ever.
func TestWritersOnTheSameSlotsNeverDeadlock(t *testing.T) {
	for name, c := range contests {
		t.Run(name, func(t *testing.T) {
			f := fight(t, c, writers)
			t.Logf("%d writers, %d claims: %.0f a second, %d won, %d deadlocks, median %s, p99 %s, most %s", writers, len(f.took), f.rate(), f.won, f.deadlocks, f.at(50), f.at(99), f.at(100))
			if f.deadlocks != 0 || f.won == 0 {
				t.Errorf("%d deadlocks, %d claims won", f.deadlocks, f.won)
			}
		})
	}
}

// BenchmarkWriters is the same beside one writer that nobody disturbs.
func BenchmarkWriters(b *testing.B) {
	for _, name := range slices.Sorted(maps.Keys(contests)) {
		for _, n := range []int{1, writers} {
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				var sum fought
				for range b.N {
					sum = fight(b, contests[name], n)
				}
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(sum.rate(), "claims/s")
				b.ReportMetric(float64(sum.at(50).Microseconds())/1000, "ms-median")
				b.ReportMetric(float64(sum.at(99).Microseconds())/1000, "ms-p99")
				b.ReportMetric(float64(sum.deadlocks), "deadlocks")
			})
		}
	}
}

// fought is how a contest went.
type fought struct {
	took           []time.Duration // each try, sorted
	all            time.Duration
	won, deadlocks int
}

func (f fought) rate() float64 { return float64(len(f.took)) / f.all.Seconds() }

func (f fought) at(percent int) time.Duration {
	return f.took[min(len(f.took)*percent/100, len(f.took)-1)]
}

func fight(t testing.TB, c contest, writers int) (out fought) {
	w := looptest.New(t)
	n := w.Node(t, 64, 65536, "h100-80gb", cloud.ModeMIG, c.cards)
	ids := make([]cloud.InstanceID, writers)
	for k := range ids {
		ids[k] = w.MustCreate(t, looptest.Slices(c.cards, c.class))
	}
	var mu sync.Mutex
	var all sync.WaitGroup
	began := time.Now()
	for k, id := range ids {
		all.Go(func() {
			cards := slices.Clone(n.Cards)
			if k%2 == 1 {
				slices.Reverse(cards)
			}
			for range claimsEach {
				began := time.Now()
				got, err := claim(t.Context(), w, n, id, cards, c.slots, c.class, c.lock)
				d := time.Since(began)
				if err == nil && got > 0 {
					err = w.DB.InSystem(t.Context(), func(tx *postgres.Tx) error { return postgres.ClaimsDrop(t.Context(), tx, id, 1) })
				}
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				out.took = append(out.took, d)
				if got == c.cards {
					out.won++
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	out.all = time.Since(began)
	slices.Sort(out.took)
	if len(out.took) == 0 {
		t.Fatal("nobody finished")
	}
	out.deadlocks = looptest.One[int](t, w, `SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()`)
	return out
}

// claim takes the slots on every card, or none of them.
func claim(ctx context.Context, w *looptest.World, n looptest.Node, id cloud.InstanceID, cards []cloud.GPUID, slots cloud.Slots, class string, lock bool) (got int, err error) {
	err = w.DB.InSystem(ctx, func(tx *postgres.Tx) error {
		if lock {
			if _, err := postgres.PlacementLock(ctx, tx, []cloud.InstanceID{id}, []cloud.NodeID{n.ID}, cards); err != nil {
				return err
			}
		}
		var list []postgres.NewClaim
		for _, card := range cards {
			c := postgres.NewClaim{Geometry: "mig8", Claim: cloud.Claim{GPUID: card, OrgID: w.Org, ProjectID: w.Project, InstanceID: id,
				Epoch: 1, Mode: cloud.ModeMIG, Profile: class, Slots: slots}}
			looptest.ID(&c.ID)
			list = append(list, c)
		}
		by, err := postgres.ClaimsInsert(ctx, tx, list)
		if err != nil {
			return err
		}
		if got = by[id]; got > 0 && got < len(cards) {
			got = 0
			return postgres.ClaimsDrop(ctx, tx, id, 1)
		}
		return nil
	})
	return got, err
}
