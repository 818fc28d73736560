package postgres_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/looptest"
	"github.com/tenon-cloud/tenon/internal/postgres"
)

// A card is found by its id, its UUID or its PCI address; what may mean several is
// told, with the ids of those.
func TestACardIsFoundByWhatIsKnownOfIt(t *testing.T) {
	t.Parallel()
	w := looptest.New(t)
	n := w.Node(t, 8, 8192, "h100-80gb", cloud.ModeWhole, 2)
	look := func(ref string) (g cloud.GPU, code, said string) {
		err := w.DB.InSystem(t.Context(), func(tx *postgres.Tx) (err error) {
			g, err = postgres.GPUGet(t.Context(), tx, postgres.RefOf(cloud.GPUID{}, ref))
			return err
		})
		var told *cloud.Error
		switch {
		case errors.As(err, &told):
			return g, told.Code, told.Message
		case postgres.Missing(err):
			return g, "not_found", ""
		case err != nil:
			t.Fatal(err)
		}
		return g, "", ""
	}
	const uuid = "GPU-SIM-01da9be5"
	w.Exec(t, `UPDATE gpu SET uuid = $1, pci_address = CASE WHEN id = $2 THEN '0fff:db:00.0' ELSE '0fff:dc:00.0' END, state = CASE WHEN id = $2 THEN 'missing' ELSE 'ready' END`, uuid, n.Cards[0])
	// It changed its slot: the UUID is where it is now, the address is the place.
	for ref, want := range map[string]cloud.GPUID{uuid: n.Cards[1], "0fff:db:00.0": n.Cards[0], "0FFF:DC:00.0": n.Cards[1], n.Cards[0].String(): n.Cards[0]} {
		if g, code, _ := look(ref); g.ID != want {
			t.Errorf("%s is %s %q, want %s", ref, g.ID, code, want)
		}
	}
	// Missing at both places.
	w.Exec(t, `UPDATE gpu SET state = 'missing'`)
	if _, code, said := look(uuid); code != "gpu_ambiguous" || !strings.Contains(said, n.Cards[0].String()) || !strings.Contains(said, n.Cards[1].String()) || !strings.Contains(said, "0fff:db:00.0") {
		t.Errorf("missing at two places: %q %q", code, said)
	}
	// Another node has a card at the same address: one's ghost isn't taken for the other's card.
	w.Exec(t, `UPDATE gpu SET state = 'ready', pci_address = '0fff:db:00.0', node_id = $2 WHERE id = $1`, n.Cards[1], w.Node(t, 8, 8192, "h100-80gb", cloud.ModeWhole, 0).ID)
	if _, code, _ := look("0fff:db:00.0"); code != "gpu_ambiguous" {
		t.Errorf("an address that two nodes have: %q", code)
	}
	if _, code, _ := look("0fff:ff:00.0"); code != "not_found" {
		t.Errorf("an address that none has: %q", code)
	}
}

// What came to another slot of its node counts once, and its old place can be shown.
func TestACardThatChangedItsSlotCountsOnce(t *testing.T) {
	t.Parallel()
	w := looptest.New(t)
	n := w.Node(t, 8, 8192, "h100-80gb", cloud.ModeWhole, 3)
	w.Exec(t, `UPDATE gpu SET uuid = 'GPU-moved', state = CASE WHEN id = $1 THEN 'missing' ELSE state END WHERE id IN ($1, $2)`, n.Cards[0], n.Cards[1])
	count := func() (total, capacity, listed int) {
		err := w.DB.InSystem(t.Context(), func(tx *postgres.Tx) error {
			nodes := []cloud.Node{{ID: n.ID}}
			if err := postgres.NodesFill(t.Context(), tx, nodes); err != nil {
				return err
			}
			rows, err := postgres.Capacity(t.Context(), tx)
			if err != nil {
				return err
			}
			for _, r := range rows {
				capacity += r.Total
			}
			list, err := postgres.GPUList(t.Context(), tx, postgres.GPUFilter{Node: n.ID}, cloud.GPUID{}, 10)
			total, listed = len(nodes[0].GPUs), len(list)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return total, capacity, listed
	}
	if total, capacity, listed := count(); total != 2 || capacity != 2 || listed != 3 {
		t.Errorf("the node has %d cards, the capacity is %d, listed are %d; want 2, 2, 3", total, capacity, listed)
	}
	// One that is nowhere else counts: it may come back.
	w.Exec(t, `UPDATE gpu SET uuid = 'GPU-pulled' WHERE id = $1`, n.Cards[0])
	if total, capacity, _ := count(); total != 3 || capacity != 3 {
		t.Errorf("with one pulled the node has %d cards, the capacity is %d; want 3, 3", total, capacity)
	}
}
