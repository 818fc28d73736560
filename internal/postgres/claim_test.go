package postgres_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/looptest"
	"github.com/tenon-cloud/tenon/internal/postgres"
)

const writers, claimsEach = 8, 100

// Writers that want the same slots, in whatever order they name them: one gets
// them, the others step aside, nobody waits for ever.
func TestWritersOnTheSameSlotsNeverDeadlock(t *testing.T) {
	for name, c := range map[string]struct {
		cards int
		slots cloud.Slots
		class string
		lock  bool // as the scheduler does it, or with bare claims
	}{
		"one slice, bare":                       {1, cloud.Slots{Start: 2, End: 3}, "1g", false},
		"one slice, scheduled":                  {1, cloud.Slots{Start: 2, End: 3}, "1g", true},
		"two GPUs in opposite order, bare":      {2, cloud.Slots{Start: 0, End: 8}, "7g", false},
		"two GPUs in opposite order, scheduled": {2, cloud.Slots{Start: 0, End: 8}, "7g", true},
	} {
		t.Run(name, func(t *testing.T) {
			w := looptest.New(t)
			n := w.Node(t, 64, 65536, "h100-80gb", cloud.ModeMIG, c.cards)
			var mu sync.Mutex
			var took []time.Duration
			won := 0
			var all sync.WaitGroup
			for k := range writers {
				id := w.MustCreate(t, looptest.Slices(c.cards, c.class))
				all.Go(func() {
					cards := slices.Clone(n.Cards)
					if k%2 == 1 {
						slices.Reverse(cards)
					}
					for range claimsEach {
						began := time.Now()
						got, err := claim(t.Context(), w, n, id, cards, c.slots, c.class, c.lock)
						d := time.Since(began)
						if err != nil {
							t.Error(err)
							return
						}
						mu.Lock()
						took = append(took, d)
						if got == c.cards {
							won++
						}
						mu.Unlock()
						if got > 0 {
							err := w.DB.InSystem(t.Context(), func(tx *postgres.Tx) error { return postgres.ClaimsDrop(t.Context(), tx, id, 1) })
							if err != nil {
								t.Error(err)
								return
							}
						}
					}
				})
			}
			began := time.Now()
			all.Wait()
			sum := time.Since(began)
			slices.Sort(took)
			if len(took) == 0 {
				t.Fatal("nobody finished")
			}
			deadlocks := looptest.One[int](t, w, `SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()`)
			p99 := took[len(took)*99/100]
			t.Logf("%d writers, %d claims in %s (%.0f a second): %d won, %d deadlocks, median %s, p99 %s, most %s", writers, len(took), sum.Round(time.Millisecond),
				float64(len(took))/sum.Seconds(), won, deadlocks, took[len(took)/2], p99, took[len(took)-1])
			if deadlocks != 0 || won == 0 {
				t.Errorf("%d deadlocks, %d claims won", deadlocks, won)
			}
			if p99 > 500*time.Millisecond { // a deadlock takes at least the server's second
				t.Errorf("p99 %s", p99)
			}
		})
	}
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
