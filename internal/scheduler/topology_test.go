package scheduler_test

import (
	"slices"
	"testing"

	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/looptest"
)

// Case C22 from what nodes reported to what is claimed: NVLink pairs (0,2), (1,3),
// (4,5), (6,7). Nobody in the queue need ask for two for one to be kept from
// breaking a fresh pair.
func TestC22PairsFromTheReportToTheClaim(t *testing.T) {
	t.Parallel()
	w := looptest.New(t)
	n := w.Node(t, 64, 65536, "h100-80gb", cloud.ModeWhole, 8)
	for i, peer := range []int{2, 3, 0, 1, 5, 4, 7, 6} {
		w.Exec(t, `UPDATE gpu SET nvlink = ARRAY[(SELECT pci_address FROM gpu WHERE id = $2)] WHERE id = $1`, n.Cards[i], n.Cards[peer])
	}
	s := newScheduler(w.DB)
	has := func(id cloud.InstanceID) (out []int) {
		for i, card := range n.Cards {
			if looptest.One[bool](t, w, `SELECT EXISTS (SELECT FROM gpu_claim WHERE gpu_id = $1 AND instance_id = $2)`, card, id) {
				out = append(out, i)
			}
		}
		return out
	}
	asks := func(count int) []int {
		id := w.MustCreate(t, looptest.Whole(count))
		tick(t, s)
		return has(id)
	}
	first := asks(1)
	if len(first) != 1 {
		t.Fatalf("one card was asked for: %v", first)
	}
	peer := map[int]int{0: 2, 2: 0, 1: 3, 3: 1, 4: 5, 5: 4, 6: 7, 7: 6}
	if got, want := asks(1), []int{peer[first[0]]}; !slices.Equal(got, want) {
		t.Errorf("with %v in use one gets %v, want %v", first, got, want)
	}
	if got := looptest.One[string](t, w, `SELECT string_agg(message, '|' ORDER BY seq) FROM event WHERE verb = 'placed'`); got != "a place was found|a place was found: the GPUs that it has NVLink to are in use" {
		t.Errorf("their events say %q", got)
	}
	if got := asks(2); len(got) != 2 || peer[got[0]] != got[1] {
		t.Errorf("two get %v, which is no pair", got)
	}
	w.Check(t)
}
