package host_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/tenon-cloud/tenon/internal/device/host"
	"github.com/tenon-cloud/tenon/internal/device/nvml/simnvml"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

func twoA100() func(*world) {
	return withDriver(simnvml.Card{Model: "a100-80gb", PCIAddress: "0000:17:00.0", Resets: true}, simnvml.Card{Model: "a100-80gb", PCIAddress: "0000:65:00.0"})
}

// TestACardChangesOnlyWhenIdle (C11), each card by itself, and after a restart.
func TestACardChangesOnlyWhenIdle(t *testing.T) {
	t.Parallel()
	one, two := "0000:17:00.0", "0000:65:00.0"
	w := newWorld(t, "a100", twoA100())
	halves := []nodewire.Place{{Profile: "3g", SlotStart: 0, SlotEnd: 4}, {Profile: "3g", SlotStart: 4, SlotEnd: 8}}
	w.prepare(vm("inst-a", 1, w.wholes(one)...))
	w.wish(nodewire.Card{PCIAddress: one, Mode: "mig", Layout: halves}, nodewire.Card{PCIAddress: two, Mode: "mig", Layout: halves})
	if g := w.mustGPU(one); g.Mode != "whole" || !strings.Contains(g.Wish, "held by inst-a") {
		t.Errorf("a held card: %+v", g)
	}
	if g := w.mustGPU(two); g.Mode != "mig" || len(g.Slices) != 2 || g.Wish != "" || len(g.Missing) > 0 {
		t.Errorf("the other: %+v", g)
	}
	w.release("inst-a", 1)
	if g := w.mustGPU(one); g.Mode != "mig" || len(g.Slices) != 2 || g.Wish != "" {
		t.Errorf("once it is idle: %+v", g)
	}
	// A reboot takes the slices; they are there again before a guest starts.
	w.cfg.Driver.(boundDriver).Reboot()
	w.cfg.BootID = "boot-2"
	w.open()
	if g := w.mustGPU(two); g.Mode != "mig" || len(g.Slices) != 2 || len(g.Missing) > 0 || g.Slices[0].Foreign {
		t.Errorf("after a reboot: %+v", g)
	}
	w.prepare(container("inst-b", 1, w.slice(two, "3g", 4, 8)))
	w.wish(nodewire.Card{PCIAddress: one, Mode: "mig", Layout: halves}, nodewire.Card{PCIAddress: two, Mode: "whole"})
	if g := w.mustGPU(two); g.Mode != "mig" || !strings.Contains(g.Wish, "inst-b") {
		t.Errorf("a slice is held: %+v", g)
	}
	w.release("inst-b", 1)
	if g := w.mustGPU(two); g.Mode != "whole" || g.Wish != "" || len(g.Slices) != 0 {
		t.Errorf("whole again: %+v", g)
	}
}

// TestSlicesAreMadeAsAssigned at exact places, and cleared between tenants.
func TestSlicesAreMadeAsAssigned(t *testing.T) {
	t.Parallel()
	card := "0000:65:00.0"
	w := newWorld(t, "a100", twoA100())
	w.wish(nodewire.Card{PCIAddress: card, Mode: "mig"})
	grants := w.prepare(container("inst-a", 1, w.slice(card, "3g", 4, 8)))
	w.prepare(container("inst-b", 1, w.slice(card, "1g", 0, 1)))
	g := w.mustGPU(card)
	if len(g.Slices) != 2 || g.Slices[1].Owner != "inst-a" || g.Slices[0].Owner != "inst-b" || grants[0].CDI != "tenon.test/gpu="+g.Slices[1].UUID {
		t.Errorf("%+v %+v", g.Slices, grants)
	}
	w.refused(vm("inst-c", 1, w.slice(card, "1g", 1, 2)), true, "no PCI function")
	w.refused(container("inst-c", 1, w.slice(card, "1g", 5, 6)), false, "held by inst-a")
	w.release("inst-a", 1)
	if g := w.mustGPU(card); len(g.Slices) != 1 || g.Slices[0].Owner != "inst-b" {
		t.Errorf("%+v", g.Slices)
	}
	w.wish(nodewire.Card{PCIAddress: card, Mode: "mig", Layout: []nodewire.Place{{Profile: "1g", SlotStart: 0, SlotEnd: 1}, {Profile: "4g", SlotStart: 0, SlotEnd: 4}}})
	if g := w.mustGPU(card); g.Wish == "" || len(g.Slices) != 1 {
		t.Errorf("an impossible layout: %+v", g)
	}
	if _, err := w.cfg.Driver.(boundDriver).Foreign(card, 19, 6, false); err != nil {
		t.Fatal(err)
	}
	if g := w.mustGPU(card); len(g.Slices) != 2 || !g.Slices[1].Foreign {
		t.Errorf("%+v", g.Slices)
	}
	w.refused(container("inst-c", 1, w.slice(card, "3g", 4, 8)), false, "did not make")
}

// TestSharesOfOneCard: device nodes of the whole card, as often as it is shared.
func TestSharesOfOneCard(t *testing.T) {
	t.Parallel()
	card := "0000:65:00.0"
	w := newWorld(t, "a100", twoA100())
	w.wish(nodewire.Card{PCIAddress: card, Mode: "shared", Shares: 4})
	g := w.mustGPU(card)
	if g.Mode != "shared" || g.Geometry != "share4" {
		t.Fatalf("%+v", g)
	}
	share := func(i int) nodewire.Device {
		return nodewire.Device{GPUUUID: g.UUID, Mode: "shared", Profile: "share", SlotStart: i, SlotEnd: i + 1}
	}
	w.prepare(container("inst-a", 1, share(0)))
	w.prepare(container("inst-b", 1, share(3)))
	w.refused(container("inst-c", 1, share(3)), false, "held by inst-b")
	w.refused(container("inst-c", 1, share(4)), true, "no share")
	w.wish(nodewire.Card{PCIAddress: card, Mode: "shared", Shares: 2})
	if g := w.mustGPU(card); g.Geometry != "share4" || !strings.Contains(g.Wish, "inst-a, inst-b") {
		t.Errorf("%+v", g)
	}
	w.release("inst-a", 1)
	w.release("inst-b", 1)
	if g := w.mustGPU(card); g.Geometry != "share2" || g.Wish != "" {
		t.Errorf("%+v", g)
	}
}

// TestTheLastShareIsLookedAt as a whole card is: while its program is still on the
// card it is not given back.
func TestTheLastShareIsLookedAt(t *testing.T) {
	t.Parallel()
	card := "0000:65:00.0"
	w := newWorld(t, "a100", twoA100())
	d := w.cfg.Driver.(boundDriver)
	w.wish(nodewire.Card{PCIAddress: card, Mode: "shared", Shares: 2})
	share := func(i int) nodewire.Device {
		return nodewire.Device{GPUUUID: w.mustGPU(card).UUID, Mode: "shared", Profile: "share", SlotStart: i, SlotEnd: i + 1}
	}
	w.prepare(container("inst-a", 1, share(0)))
	w.prepare(container("inst-b", 1, share(1)))
	d.Change(card, func(c *host.DriverCard) { c.Processes = []host.Process{{PID: 7, Command: "train"}} })
	w.release("inst-b", 1) // it may be inst-a's
	err := w.b.Release(context.Background(), "inst-a", 1)
	if !errors.Is(err, host.ErrBusy) || !strings.Contains(err.Error(), "train (process 7)") {
		t.Errorf("%v", err)
	}
	if held, err := w.b.Held(context.Background()); err != nil || len(held["inst-a"]) != 1 {
		t.Errorf("held %v, %v", held, err)
	}
	d.Change(card, func(c *host.DriverCard) { c.Processes = nil })
	w.release("inst-a", 1)
	w.wants(card, nodewire.GPUReady)
}

// TestWhatCannotBeIsSaid with the card, which stays as it was.
func TestWhatCannotBeIsSaid(t *testing.T) {
	t.Parallel()
	card := "0000:65:00.0"
	w := newWorld(t, "a100", twoA100())
	for _, tc := range []struct {
		wish nodewire.Card
		says string
	}{
		{nodewire.Card{Mode: "vgpu"}, "name a vGPU type"},
		{nodewire.Card{Mode: "vgpu", VGPUType: "GRID A100D-20C"}, "no vGPU types"}, // the plain driver makes none
		{nodewire.Card{Mode: "shared", Shares: 9}, "9 shares"},
		{nodewire.Card{Mode: "folded"}, "no mode"},
	} {
		tc.wish.PCIAddress = card
		w.wish(tc.wish, nodewire.Card{PCIAddress: "0000:99:00.0", Mode: "whole"})
		if g := w.mustGPU(card); g.Mode != "whole" || g.State != nodewire.GPUReady || !strings.Contains(g.Wish, tc.says) {
			t.Errorf("%+v: %+v", tc.wish, g)
		}
	}
	w.wish()
	if g := w.mustGPU(card); g.Wish != "" {
		t.Errorf("nothing is wished any more: %q", g.Wish)
	}
}

// TestTelemetry: the driver's cards; none without a driver, which is not idle.
func TestTelemetry(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "a100", twoA100())
	w.prepare(container("inst-a", 1, w.wholes("0000:65:00.0")...))
	cards, by, err := w.b.Telemetry(context.Background())
	if err != nil || len(cards) != 2 || by["inst-a"].GPUPercent == nil {
		t.Errorf("%v %+v %v", cards, by, err)
	}
	w = newWorld(t, "a100")
	w.prepare(vm("inst-a", 1, w.wholes("0000:65:00.0")...))
	if cards, by, err := w.b.Telemetry(context.Background()); err != nil || len(cards) != 0 || len(by) != 0 {
		t.Errorf("%v %+v %v", cards, by, err)
	}
}

// joined is a Fabric Manager.
type joined struct{ parts []host.FabricPartition }

func (j *joined) Partitions(context.Context) ([]host.FabricPartition, error) {
	return slices.Clone(j.parts), nil
}
func (j *joined) Activate(_ context.Context, id int) error   { return j.set(id, true) }
func (j *joined) Deactivate(_ context.Context, id int) error { return j.set(id, false) }
func (j *joined) set(id int, on bool) error {
	for i := range j.parts {
		if j.parts[i].ID == id {
			j.parts[i].Active = on
		}
	}
	return nil
}

// TestCardsBehindSwitchesAreJoined before a start and parted after, also when the
// agent was killed between.
func TestCardsBehindSwitchesAreJoined(t *testing.T) {
	t.Parallel()
	one, two := "0000:17:00.0", "0000:65:00.0"
	gpus := []host.FabricGPU{{Module: 3, PCIAddress: one}, {Module: 1}}
	f := &joined{parts: []host.FabricPartition{{ID: 0, GPUs: gpus}, {ID: 1, GPUs: gpus[:1]}}}
	w := newWorld(t, "a100", withDriver(simnvml.Card{Model: "a100-80gb", PCIAddress: one, Module: 3}, simnvml.Card{Model: "a100-80gb", PCIAddress: two, Module: 1}),
		func(w *world) { w.cfg.Fabric = f })
	w.refused(vm("inst-a", 1, w.wholes(two)...), false, "no partition of exactly these cards")
	w.release("inst-a", 1)
	w.prepare(vm("inst-a", 2, w.wholes(one, two)...))
	if !f.parts[0].Active {
		t.Error("not joined")
	}
	w.open()
	if !f.parts[0].Active {
		t.Error("a restart parted them")
	}
	w.release("inst-a", 2)
	if f.parts[0].Active {
		t.Error("still joined")
	}
	w.wants(one, nodewire.GPUReady)
	w.cfg.Fabric = nil
	w.open()
	w.wants(one, nodewire.GPUReady, "not for virtual machines", "NVSwitches")
	w.refused(vm("inst-b", 1, w.wholes(one, two)...), true, "Fabric Manager")
}
