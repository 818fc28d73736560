package agent

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/tenon-cloud/tenon/internal/hypervisor/fake"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

// orphan is what the last report says of something that nobody assigned.
func (n *node) orphan(id string) (what []string) {
	for _, o := range n.door.last().Orphans {
		if o.ID == id {
			what = append(what, o.Driver+": "+o.What)
		}
	}
	return what
}

func (n *node) card(uuid string) nodewire.GPU {
	for _, g := range n.door.last().GPUs {
		if g.UUID == uuid {
			return g
		}
	}
	return nodewire.GPU{}
}

// TestARestoredControlPlaneKillsNothing: what its new era does not name, or names
// at another epoch, goes on and is shown until an operator lets it go; what it
// names as it runs is its own again.
func TestARestoredControlPlaneKillsNothing(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Options{}, func(t *testing.T, w *world, n *node) {
		unknown, later, same := withDevice(w, container("inst_unknown", 1)), container("inst_later", 7), container("inst_same", 3)
		same.Generation = 9
		unknown.Mounts = []nodewire.Mount{{VolumeID: "vol_1", Role: "home", Path: "/home/tenon"}}
		ended := desired(container("inst_ended", 1), nodewire.DesiredStopped)
		mustAssign(t, n, withVolume(assignment("0191", 70, unknown, later, same, ended), nodewire.VolumePresent))
		pass(2 * time.Second)
		card := unknown.Devices[0].GPUUUID
		before := guests(t, w)
		if len(before) != 3 || held(t, w) != 1 {
			t.Fatalf("guests: %+v, held by %d", before, held(t, w))
		}

		// Restored from before: one is not known, one at an earlier epoch, one at an
		// earlier generation; another volume list, too.
		later.Epoch, same.Generation = 5, 4
		mustAssign(t, n, assignment("0192", 3, later, same))
		if g := n.Report(); !strings.Contains(g.GPUs[1].Reason, "inst_unknown") {
			t.Errorf("the first report of the new era offers the stray's card: %+v", g.GPUs[1])
		}
		pass(15 * time.Second)
		check := func() {
			t.Helper()
			after := guests(t, w)
			if len(after) != len(before) || held(t, w) != 1 {
				t.Fatalf("guests: %+v, held by %d", after, held(t, w))
			}
			for i, g := range after {
				if g.ID != before[i].ID || g.Epoch != before[i].Epoch || g.StartedAt != before[i].StartedAt {
					t.Errorf("a guest was touched: %+v, was %+v", g, before[i])
				}
			}
			expect(t, n, "inst_later", nodewire.GuestFailed, nodewire.ReasonStray)
			if r := expect(t, n, "inst_same", nodewire.GuestRunning, ""); r.Epoch != 3 || r.Generation != 4 {
				t.Errorf("what is known as it runs: %+v", r)
			}
			for id, lines := range map[string]int{"inst_unknown": 2, "inst_later": 1, "vol_1": 1, "inst_same": 0, "inst_ended": 0} {
				if got := n.orphan(id); len(got) != lines {
					t.Errorf("orphans of %s: %q", id, got)
				}
			}
			if g := n.card(card); g.State != "quarantined" || !strings.Contains(g.Reason, "inst_unknown") {
				t.Errorf("the card that a stray holds: %s (%s)", g.State, g.Reason)
			}
		}
		check()
		n.end() // and over a restart of the agent
		n2 := w.start(t, &fuse{})
		*n = *n2
		pass(15 * time.Second)
		check()

		// The tenant asks again, and the operator lets the strays go, one by one.
		later.Epoch, later.Generation = 6, 8
		as := assignment("0192", 4, later, same)
		as.Remove = []string{"inst_later", "inst_same"} // the second is assigned: it is no orphan
		mustAssign(t, n, as)
		pass(15 * time.Second)
		later.Epoch = 8
		as = assignment("0192", 5, later, same)
		as.Remove = []string{"inst_unknown", "vol_1"}
		mustAssign(t, n, as)
		pass(15 * time.Second)
		if r := expect(t, n, "inst_later", nodewire.GuestRunning, ""); r.Epoch != 8 {
			t.Errorf("after the stray was let go: %+v", r)
		}
		expect(t, n, "inst_same", nodewire.GuestRunning, "")
		if got := n.door.last().Orphans; len(got) != 0 || held(t, w) != 0 || len(guests(t, w)) != 2 {
			t.Errorf("left: %+v, held by %d, guests %+v", got, held(t, w), guests(t, w))
		}
		if left, _ := w.store.List(context.Background()); len(left) != 0 {
			t.Errorf("volumes: %+v", left)
		}
		if g := n.card(card); g.State != "ready" {
			t.Errorf("the card is %s (%s)", g.State, g.Reason)
		}
		// A restart by the tenant is one again.
		same.Generation = 5
		mustAssign(t, n, assignment("0192", 6, later, same))
		pass(2 * time.Second)
		for _, g := range guests(t, w) {
			if g.ID == "inst_same" && g.Generation != 5 {
				t.Errorf("the restart was not done: %+v", g)
			}
		}
	})
}

// TestABlockedInstanceCanBeDeleted: its stray stays, and the blocked run leaves no
// trace of its own.
func TestABlockedInstanceCanBeDeleted(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Options{}, func(t *testing.T, w *world, n *node) {
		mustAssign(t, n, assignment("0191", 70, withDevice(w, container("inst_1", 7))))
		pass(2 * time.Second)
		mustAssign(t, n, assignment("0192", 3, withDevice(w, container("inst_1", 5))))
		pass(2 * time.Second)
		mustAssign(t, n, assignment("0192", 4, desired(withDevice(w, container("inst_1", 5)), nodewire.DesiredGone)))
		pass(2 * time.Second)
		expect(t, n, "inst_1", nodewire.GuestGone, nodewire.ReasonAsked)
		mustAssign(t, n, assignment("0192", 5))
		pass(12 * time.Second)
		if g := guests(t, w); len(g) != 1 || g[0].Epoch != 7 || held(t, w) != 1 || len(n.orphan("inst_1")) != 2 {
			t.Errorf("guests: %+v, held by %d, orphans %q", g, held(t, w), n.orphan("inst_1"))
		}
		// It ends by itself: what it held is still an operator's to let go.
		w.engine.Exit("inst_1", 0)
		pass(12 * time.Second)
		if held(t, w) != 1 {
			t.Error("a device of a stray was freed")
		}
	})
}

// TestAnOrphanThatWasNeverOursGoesOnlyByName.
func TestAnOrphanThatWasNeverOursGoesOnlyByName(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Options{}, func(t *testing.T, w *world, n *node) {
		if _, err := w.engine.Start(context.Background(), specOf(container("inst_alien", 4))); err != nil {
			t.Fatal(err)
		}
		mustAssign(t, n, assignment("e", 1))
		pass(25 * time.Second)
		if len(guests(t, w)) != 1 || len(n.orphan("inst_alien")) != 1 {
			t.Fatalf("guests %+v, orphans %+v", guests(t, w), n.door.last().Orphans)
		}
		as := assignment("e", 2)
		as.Remove = []string{"inst_alien", "inst_nowhere"}
		mustAssign(t, n, as)
		pass(15 * time.Second)
		if len(guests(t, w)) != 0 || len(n.door.last().Orphans) != 0 {
			t.Errorf("guests %+v, orphans %+v", guests(t, w), n.door.last().Orphans)
		}
	})
}
