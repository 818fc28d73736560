package postgres_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/looptest"
	"github.com/tenon-cloud/tenon/internal/postgres"
)

// TestFaultsThatAreAskedForWaitUntilTheyAreTold: in their order, each until its own
// incident has come, and no more than there is room for.
func TestFaultsThatAreAskedForWaitUntilTheyAreTold(t *testing.T) {
	t.Parallel()
	w := looptest.New(t)
	n, other := w.Node(t, 8, 8192, "h100-80gb", cloud.ModeWhole, 1), w.Node(t, 8, 8192, "h100-80gb", cloud.ModeWhole, 1)
	ask := func(id string) bool {
		asked := false
		err := w.DB.InAPI(t.Context(), postgres.Scope{Org: w.Org, Operator: true}, func(tx *postgres.Tx) (err error) {
			asked, err = postgres.CardFault(t.Context(), tx, cloud.GPU{ID: n.Cards[0], NodeID: n.ID}, cloud.SimulatedFault{ID: id, XID: 79})
			return err
		})
		if err != nil {
			t.Error(err)
		}
		return asked
	}
	waiting := func() string {
		t.Helper()
		return looptest.One[string](t, w, `SELECT COALESCE(string_agg(f->>'id', ' ' ORDER BY n), '') FROM gpu, jsonb_array_elements(faults) WITH ORDINALITY x (f, n) WHERE gpu.id = $1`, n.Cards[0])
	}
	tell := func(node looptest.Node, id string) {
		t.Helper()
		err := w.DB.InNode(t.Context(), node.ID, func(tx *postgres.Tx) error {
			x := postgres.IncidentSaid{PCIAddress: "0000:01:00.0", Incident: cloud.Incident{ID: id, Kind: "xid", XID: 79, Action: cloud.IncidentOut}}
			_, err := postgres.IncidentsReported(t.Context(), tx, node.ID, []postgres.IncidentSaid{x})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	generation := func() int64 { return looptest.One[int64](t, w, `SELECT generation FROM node WHERE id = $1`, n.ID) }
	before := generation()
	for _, id := range []string{"a", "b", "c"} {
		ask(id)
	}
	if got := generation(); waiting() != "a b c" || got != before+3 {
		t.Errorf("waiting: %s; generation %d, then %d", waiting(), before, got)
	}
	tell(n, "b")
	tell(other, "a") // not its card
	tell(n, "b")
	if diff := cmp.Diff("a c", waiting()); diff != "" {
		t.Error(diff)
	}
	tell(n, "a")
	tell(n, "c")
	if got := generation(); waiting() != "" || got != before+6 { // what it is told is another
		t.Errorf("all were told, and %s waits; generation %d, then %d", waiting(), before, got)
	}
	var all sync.WaitGroup
	room := make([]bool, postgres.FaultsWaiting+3)
	for i := range room {
		all.Go(func() { room[i] = ask(fmt.Sprint("many-", i)) })
	}
	all.Wait()
	got := 0
	for _, asked := range room {
		if asked {
			got++
		}
	}
	kept := looptest.One[int](t, w, `SELECT jsonb_array_length(faults) FROM gpu WHERE id = $1`, n.Cards[0])
	if got != postgres.FaultsWaiting || kept != got {
		t.Errorf("%d were accepted and %d kept, of %d", got, kept, len(room))
	}
}
