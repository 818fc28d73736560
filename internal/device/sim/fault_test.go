package sim

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenon-cloud/tenon/internal/device"
	"github.com/tenon-cloud/tenon/internal/device/host"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

func faultsOf(xids ...int) (out []nodewire.Fault) {
	for i, xid := range xids {
		out = append(out, nodewire.Fault{ID: fmt.Sprintf("fault-%d", i), XID: xid})
	}
	return out
}

// said is a board's incidents as "id xid holder".
func said(b *Board) (out []string) {
	for _, x := range b.Incidents() {
		out = append(out, strings.TrimSpace(fmt.Sprint(x.ID, " ", x.XID, " ", x.InstanceID)))
	}
	return out
}

func holdWhole(t *testing.T, b *Board, g nodewire.GPU, owner string) {
	t.Helper()
	if _, err := b.Prepare(t.Context(), oneOf(owner, g, "whole", 0, 8)); err != nil {
		t.Fatal(err)
	}
}

// TestEveryFaultThatIsAskedForIsShownOnce: several at once, the same one twice, told
// again and again, after a restart, and until somebody has heard of it.
func TestEveryFaultThatIsAskedForIsShownOnce(t *testing.T) {
	t.Parallel()
	c := &clock{time.Now()}
	cfg := Config{Board: "dgx-a100", StateDir: t.TempDir(), Seed: "x", Now: c.now}
	b, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	g := seenCard(t, b, 0)
	holdWhole(t, b, g, "inst-a")
	w := nodewire.Card{PCIAddress: g.PCIAddress, Mode: g.Mode, Faults: faultsOf(31, 48, 31, 79)}
	want := []string{"fault-0 31 inst-a", "fault-1 48 inst-a", "fault-2 31 inst-a", "fault-3 79 inst-a"}
	for range 2 {
		wish(t, b, w)
		if diff := cmp.Diff(want, said(b)); diff != "" {
			t.Fatal(diff)
		}
	}
	// Its process is killed before anybody has heard, and its node is cut off for long.
	c.at = c.at.Add(2 * incidentsKept)
	if b, err = Open(cfg); err != nil {
		t.Fatal(err)
	}
	wish(t, b, w)
	if diff := cmp.Diff(want, said(b)); diff != "" {
		t.Errorf("after a restart: %s", diff)
	}
	if s := seenCard(t, b, 0); s.State != nodewire.GPUUnhealthy {
		t.Errorf("after a restart it is %s", s.State)
	}
	w.Faults = append(faultsOf(31, 48, 31, 79)[3:], nodewire.Fault{ID: "later", XID: 13}) // the others have come
	wish(t, b, w)
	want = []string{"fault-3 79 inst-a", "later 13 inst-a"}
	if diff := cmp.Diff(want, said(b)); diff != "" {
		t.Errorf("those that have come: %s", diff)
	}
	wish(t, b) // all have, and nothing is wished of it
	c.at = c.at.Add(2 * incidentsKept)
	if got := said(b); len(got) != 0 {
		t.Errorf("long after: %v", got)
	}
	if err := b.Release(t.Context(), "inst-a", 1); err != nil {
		t.Fatal(err)
	}
	wish(t, b, nodewire.Card{PCIAddress: g.PCIAddress, Mode: g.Mode, Recover: 1})
	if s := seenCard(t, b, 0); s.State != "ready" {
		t.Errorf("recovered: %+v", s)
	}
}

// TestAFaultThatCouldNotBeKeptIsKeptLater: what could not be written is written with
// the next word.
func TestAFaultThatCouldNotBeKeptIsKeptLater(t *testing.T) {
	t.Parallel()
	dir := t.TempDir() + "/state"
	b := keeper(t, &clock{time.Now()}, dir)
	g := seenCard(t, b, 0)
	w := nodewire.Card{PCIAddress: g.PCIAddress, Mode: g.Mode, Faults: faultsOf(79)}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir, nil, 0o600); err != nil { // no folder can be made there
		t.Fatal(err)
	}
	if err := b.Wish(t.Context(), []nodewire.Card{w}); err == nil {
		t.Fatal("it was written into a file")
	}
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	wish(t, b, w)
	b = keeper(t, &clock{time.Now()}, dir)
	if diff := cmp.Diff([]string{"fault-0 79"}, said(b)); diff != "" {
		t.Error(diff)
	}
}

// TestASimulatedFaultMeansWhatARealOneDoes: the same kind, action, words and state of
// the card for every number.
func TestASimulatedFaultMeansWhatARealOneDoes(t *testing.T) {
	t.Parallel()
	for xid := 1; xid <= 200; xid++ {
		b, err := Open(Config{Board: "dgx-a100", StateDir: t.TempDir(), Seed: "x"})
		if err != nil {
			t.Fatal(err)
		}
		g := seenCard(t, b, 0)
		real := host.NewHealth("boot", nil)
		real.Hear(host.Signal{Card: g.PCIAddress, UUID: g.UUID, XID: xid, At: time.Second, GI: -1})
		want := real.Incidents(time.Second)[0]
		wish(t, b, nodewire.Card{PCIAddress: g.PCIAddress, Mode: g.Mode, Faults: []nodewire.Fault{{ID: want.ID, XID: xid}}})
		got := b.Incidents()[0]
		want.Message += " (simulated)"
		want.AgeSeconds, got.AgeSeconds = 0, 0
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("XID %d: %s", xid, diff)
		}
		state, _ := real.State(g.PCIAddress)
		now := seenCard(t, b, 0).State
		if state == nodewire.GPUNeedsReset && now == nodewire.GPUReady {
			now = state // nobody holds it: it was reset at once
		}
		if state != now {
			t.Errorf("XID %d: the card is %s, a real one %s", xid, now, state)
		}
	}
}

// TestWhoseASimulatedFaultIs: a program's own is one holder's; of a card with several
// holders nobody is named, as on a real one, and the control plane tells each.
func TestWhoseASimulatedFaultIs(t *testing.T) {
	t.Parallel()
	b := keeper(t, &clock{time.Now()}, t.TempDir())
	i := 0
	for seenCard(t, b, i).Mode != "mig" {
		i++
	}
	g := seenCard(t, b, i)
	for start, owner := range []string{"a", "b"} {
		if _, err := b.Prepare(t.Context(), device.Request{InstanceID: owner, Epoch: 1, Kind: "container",
			Devices: []nodewire.Device{{GPUUUID: g.UUID, Mode: "mig", Profile: "1g", SlotStart: start, SlotEnd: start + 1}}}); err != nil {
			t.Fatal(err)
		}
	}
	wish(t, b, nodewire.Card{PCIAddress: g.PCIAddress, Mode: g.Mode, Faults: faultsOf(31, 48, 79)})
	if diff := cmp.Diff([]string{"fault-0 31 a", "fault-1 48", "fault-2 79"}, said(b)); diff != "" {
		t.Error(diff)
	}
}
