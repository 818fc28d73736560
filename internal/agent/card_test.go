package agent

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tenon-cloud/tenon/internal/hypervisor/fake"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

// wishing is an assignment that wants something of a card.
func wishing(generation int64, c nodewire.Card, instances ...nodewire.Instance) nodewire.Assignment {
	as := assignment("e", generation, instances...)
	as.Cards = []nodewire.Card{c}
	return as
}

// TestNoReportCallsAWishDoneThatWasNotRead: from the moment that an assignment is
// held, a report says of its cards either what was read after the board had the
// wish, or that it was not read yet.
func TestNoReportCallsAWishDoneThatWasNotRead(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Options{}, func(t *testing.T, w *world, n *node) {
		first := n.door.last().GPUs[0]
		mustAssign(t, n, wishing(2, nodewire.Card{PCIAddress: first.PCIAddress, Mode: "mig"}))
		if g := n.Report().GPUs[0]; g.Mode != "mig" && g.Wish == "" {
			t.Errorf("at once: %+v", g)
		}
		pass(2 * time.Second)
		if g := n.card(first.UUID); g.Mode != "mig" || g.Wish != "" {
			t.Errorf("later: mode %s, %q", g.Mode, g.Wish)
		}
		n.door.mu.Lock()
		defer n.door.mu.Unlock()
		for _, r := range n.door.reports {
			if g := r.GPUs[0]; r.Generation == 2 && g.Mode != "mig" && g.Wish == "" {
				t.Errorf("report %d says that the card is so, and it is %s", r.Sequence, g.Mode)
			}
		}
	})
}

// TestAHeldCardChangesOnceItIsGivenBack: it says who is in the way until then.
func TestAHeldCardChangesOnceItIsGivenBack(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Options{}, func(t *testing.T, w *world, n *node) {
		inst := withDevice(w, container("inst_1", 1))
		mustAssign(t, n, assignment("e", 1, inst))
		pass(5 * time.Second)
		expect(t, n, "inst_1", nodewire.GuestRunning, "")
		uuid := inst.Devices[0].GPUUUID
		whole := nodewire.Card{PCIAddress: n.card(uuid).PCIAddress, Mode: "whole"}
		mustAssign(t, n, wishing(2, whole, inst))
		pass(5 * time.Second)
		if g := n.card(uuid); g.Mode != "mig" || g.Wish == "" {
			t.Errorf("held: mode %s, %q", g.Mode, g.Wish)
		}
		mustAssign(t, n, wishing(3, whole, desired(inst, nodewire.DesiredGone)))
		pass(15 * time.Second)
		if g := n.card(uuid); g.Mode != "whole" || g.Wish != "" {
			t.Errorf("given back: mode %s, %q", g.Mode, g.Wish)
		}
	})
}

// TestALayoutIsThereForItsGuest: a wish and the guest that needs it may come in one
// assignment.
func TestALayoutIsThereForItsGuest(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Options{}, func(t *testing.T, w *world, n *node) {
		inv, _ := w.board.Inventory(t.Context())
		g := inv.GPUs[0]
		inst := container("inst_1", 1)
		inst.Devices = []nodewire.Device{{GPUUUID: g.UUID, Mode: "mig", Profile: "3g", SlotStart: 4, SlotEnd: 8}}
		layout := []nodewire.Place{{Profile: "3g", SlotStart: 4, SlotEnd: 8}}
		mustAssign(t, n, wishing(1, nodewire.Card{PCIAddress: g.PCIAddress, Mode: "mig", Layout: layout}, inst))
		pass(20 * time.Second) // the wish may come after the first try
		expect(t, n, "inst_1", nodewire.GuestRunning, "")
		if got := n.card(g.UUID).Slices; len(got) != 1 || got[0].Owner != "inst_1" {
			t.Errorf("slices: %+v", got)
		}
	})
}

// TestAfterABootLayoutsComeBeforeGuests: cards are made what they are to be, and read
// back, before anything is prepared or started on them.
func TestAfterABootLayoutsComeBeforeGuests(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Options{PrepareDelay: 10 * time.Second}, func(t *testing.T, w *world, n *node) {
		inv, _ := w.board.Inventory(t.Context())
		g := inv.GPUs[0]
		inst := container("inst_1", 1)
		inst.Devices = []nodewire.Device{{GPUUUID: g.UUID, Mode: "mig", Profile: "3g", SlotStart: 4, SlotEnd: 8}}
		mustAssign(t, n, wishing(1, nodewire.Card{PCIAddress: g.PCIAddress, Mode: "mig", Layout: []nodewire.Place{{Profile: "3g", SlotStart: 4, SlotEnd: 8}}}, inst))
		n.end() // the power goes while it is prepared
		w.boot, w.did = "boot-2", nil
		n2 := w.start(t, &fuse{})
		pass(time.Minute)
		expect(t, n2, "inst_1", nodewire.GuestRunning, "")
		n2.end()
		order := strings.Join(w.did, " ")
		if !strings.HasPrefix(order, "wish read ") || strings.Index(order, "prepare") > strings.Index(order, "start") || !strings.Contains(order, "prepare") {
			t.Errorf("in this order: %s", order)
		}
	})
}

// TestContactDoesNotWaitForCards: at the agent's start reports come at once and the
// fencing clock runs, guests that run are left alone, and one that needs a card waits.
func TestContactDoesNotWaitForCards(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Options{}, func(t *testing.T, w *world, n *node) {
		runs, late, fenced := withDevice(w, container("inst_1", 1)), withDevice(w, container("inst_2", 1)), container("inst_3", 1)
		late.Devices[0].SlotStart, late.Devices[0].SlotEnd = 2, 4
		fenced.StopAfterSeconds = 90
		mustAssign(t, n, assignment("e", 1, runs, fenced))
		pass(5 * time.Second)
		expect(t, n, "inst_1", nodewire.GuestRunning, "")
		n.end()
		w.slow, w.did = time.Hour, nil // it is ended by its limit
		n2 := w.start(t, &fuse{})
		began := time.Now()
		pass(5 * time.Second)
		n2.door.mu.Lock()
		if len(n2.door.reports) == 0 || n2.door.reports[0].ProbeOK || len(n2.door.reports[0].GPUs) > 0 || n2.door.reports[0].Generation != 1 {
			t.Errorf("the reports are %+v", n2.door.reports)
		}
		n2.door.mu.Unlock()
		expect(t, n2, "inst_1", nodewire.GuestRunning, "")
		expect(t, n2, "inst_3", nodewire.GuestRunning, "")
		n2.door.setCut(true)
		mustAssign(t, n2, assignment("e", 2, runs, fenced, late))
		pass(100 * time.Second)
		n2.door.setCut(false)
		pass(6 * time.Second)
		expect(t, n2, "inst_3", nodewire.GuestFailed, nodewire.ReasonFenced)
		expect(t, n2, "inst_2", nodewire.GuestStarting, "")
		if strings.Contains(strings.Join(w.deeds(), " "), "prepare") {
			t.Errorf("a card was prepared %s after the start", time.Since(began))
		}
		pass(20 * time.Second)
		expect(t, n2, "inst_2", nodewire.GuestRunning, "")
		expect(t, n2, "inst_1", nodewire.GuestRunning, "")
		if r := n2.door.last(); !r.ProbeOK || len(r.GPUs) == 0 {
			t.Errorf("later: %v, %d cards", r.ProbeOK, len(r.GPUs))
		}
		n2.end()
	})
}

// TestAStartThatTakesItsHostDownIsCounted: it is no new start at the next boot, but
// an end that the control plane counts.
func TestAStartThatTakesItsHostDownIsCounted(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Options{}, func(t *testing.T, w *world, n *node) {
		w.dies = true
		mustAssign(t, n, assignment("e", 1, withDevice(w, container("inst_1", 1))))
		<-n.done
		w.dies, w.boot, w.did = false, "boot-2", nil
		n2 := w.start(t, &fuse{})
		pass(time.Minute)
		expect(t, n2, "inst_1", nodewire.GuestFailed, nodewire.ReasonRebooted)
		if strings.Contains(strings.Join(w.deeds(), " "), "start") {
			t.Error("it was started again")
		}
		n2.end()
	})
}

// TestTheLastWishIsWithdrawn: a board that remembers a wish is told once that there is
// none, at an agent's start too, and by no agent that holds no assignment.
func TestTheLastWishIsWithdrawn(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Options{}, func(t *testing.T, w *world, n *node) {
		wishes := func() (count int) {
			for _, what := range w.deeds() {
				if what == "wish" {
					count++
				}
			}
			return count
		}
		if wishes() != 0 {
			t.Error("the board was told of wishes before an assignment")
		}
		first := n.door.last().GPUs[0]
		mustAssign(t, n, wishing(1, nodewire.Card{PCIAddress: first.PCIAddress, Mode: "mig"}))
		pass(5 * time.Second)
		before := wishes()
		mustAssign(t, n, assignment("e", 2))
		pass(time.Minute)
		if after := wishes(); before == 0 || after != before+1 {
			t.Errorf("told %d times, then %d", before, after)
		}
		n.end()
		n2 := w.start(t, &fuse{})
		pass(time.Minute)
		if again := wishes(); again != before+2 {
			t.Errorf("a new agent told it %d times", again-before-1)
		}
		n2.end()
	})
}

func TestAnAssignmentWithBadCardsIsRefused(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Options{}, func(t *testing.T, _ *world, n *node) {
		good := nodewire.Card{PCIAddress: "0fff:17:00.0", Mode: "whole"}
		for _, cards := range [][]nodewire.Card{{{Mode: "whole"}}, {{PCIAddress: "0fff:17:00.0", Mode: "half"}}, {good, good}} {
			as := assignment("e", 2)
			as.Cards = cards
			if _, err := n.Assign(as); err == nil {
				t.Errorf("%+v was taken", cards)
			}
		}
	})
}

// TestFaultsAreTold: a board's incidents are in reports, with their age.
func TestFaultsAreTold(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Options{}, func(t *testing.T, w *world, n *node) {
		uuid := n.door.last().GPUs[0].UUID
		w.board.Fault(uuid, 79, "")
		pass(10 * time.Second)
		r := n.door.last()
		i := slices.IndexFunc(r.Incidents, func(x nodewire.Incident) bool { return x.XID == 79 && x.GPUUUID == uuid })
		if i < 0 || r.Incidents[i].AgeSeconds < 1 || n.card(uuid).State != nodewire.GPUUnhealthy {
			t.Errorf("incidents %+v of a card that is %s", r.Incidents, n.card(uuid).State)
		}
	})
}
