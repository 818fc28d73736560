package host_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tenon-cloud/tenon/internal/device/host"
	"github.com/tenon-cloud/tenon/internal/device/nvml/simnvml"
	"github.com/tenon-cloud/tenon/internal/device/pci"
	"github.com/tenon-cloud/tenon/internal/device/pci/recorded"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

const near, far = "0000:17:00.0", "0000:65:00.0" // the two cards of host a100

// C1 and C2, as a node reports them.
func TestAnInstinctIsOneCardAndABridgeIsNone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, strings.Join([]string{
		"00:1c.5 class=060400 id=8086:a33d driver=pcieport group=5",
		"03:00.0 under=00:1c.5 class=038000 id=1002:740f driver=amdgpu group=9 bars=0:64Gp reset=flr"}, "\n"))
	list := w.inventory().GPUs
	if len(list) != 1 || list[0].PCIAddress != "0000:03:00.0" || list[0].Vendor != "1002" || list[0].State != nodewire.GPUReady || !slices.Contains(list[0].Modes, "whole") {
		t.Fatalf("%+v", list)
	}
	if e := w.b.Excluded(); len(e) != 0 {
		t.Errorf("excluded: %+v", e)
	}
	g := w.prepare(vm("inst-a", 1, w.wholes("0000:03:00.0")...))
	if len(g[0].Pass) != 1 || g[0].Pass[0].BARBytes != 64<<30 {
		t.Errorf("%+v", g)
	}
}

// One card that its driver can't tell of is out; the others are as they were, so
// that what there is drops by exactly one.
func TestOneCardThatItsDriverLostLeavesTheOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "a100", twoA100())
	w.cfg.Driver.(boundDriver).Lose(near, true) // its configuration space answers, as after XID 119
	inv := w.inventory()
	if !inv.OK || len(inv.GPUs) != 2 {
		t.Errorf("%+v", inv)
	}
	w.wants(near, nodewire.GPUUnknown, "the probe failed")
	w.wants(far, nodewire.GPUReady)
	w.refused(vm("inst-a", 1, w.wholes(near)...), false, "unknown")
	w.b.Tell(host.Signal{Card: near, XID: 119, GI: -1})
	w.wants(near, nodewire.GPUUnhealthy, "XID 119")
	w.wants(far, nodewire.GPUReady)
}

// A card is its UUID and its address: one that is in another slot after a reboot
// is not given to whom the other one was, and takes along what is known of it.
func TestCardsThatChangedPlacesAreNotMistaken(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "a100", twoA100())
	d := w.cfg.Driver.(boundDriver)
	one, two := w.mustGPU(near).UUID, w.mustGPU(far).UUID
	w.b.Tell(host.Signal{Card: far, XID: 79, GI: -1})
	want := vm("inst-a", 1, w.wholes(near)...)
	w.prepare(want)
	w.m.Change(address(t, near), func(d *recorded.Device) { d.Driver, d.Override = "nvidia", "" })
	d.Change(near, func(c *host.DriverCard) { c.UUID = two })
	d.Change(far, func(c *host.DriverCard) { c.UUID = one })
	w.cfg.BootID = "boot-2"
	w.open()
	if a, b := w.mustGPU(near), w.mustGPU(far); a.UUID != two || b.UUID != one {
		t.Errorf("%s at %s, %s at %s", a.UUID, near, b.UUID, far)
	}
	w.refused(want, false, near, far)
	w.wants(near, nodewire.GPUUnhealthy, "XID 79")
	if list := w.b.Incidents(); len(list) != 1 || list[0].PCIAddress != near || list[0].GPUUUID != two {
		t.Errorf("%+v", list)
	}
	w.wants(far, nodewire.GPUQuarantined, "another slot")
	w.release("inst-a", 1)
	w.wish(nodewire.Card{PCIAddress: far, Recover: 1})
	w.wants(far, nodewire.GPUReady)
	w.prepare(vm("inst-a", 2, w.wholes(far)...))
}

// A card in a quarantined one's slot is another; the quarantined one is so
// wherever it is put.
func TestAnotherCardInTheSlotBeginsAnew(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "a100", twoA100())
	d := w.cfg.Driver.(boundDriver)
	old := w.mustGPU(near).UUID
	d.Change(near, func(c *host.DriverCard) { c.Processes = []host.Process{{PID: 7, Command: "left"}} })
	w.prepare(vm("inst-a", 1, w.wholes(near)...))
	w.release("inst-a", 1)
	w.wants(near, nodewire.GPUQuarantined, "left (process 7)")
	w.b.Tell(host.Signal{Card: near, XID: 79, GI: -1})
	d.Change(near, func(c *host.DriverCard) { c.UUID, c.Processes = "GPU-new", nil })
	w.open()
	w.wants(near, nodewire.GPUReady)
	if list := w.b.Incidents(); len(list) != 0 {
		t.Errorf("the new one's: %+v", list)
	}
	d.Change(far, func(c *host.DriverCard) { c.UUID = old })
	w.open()
	w.wants(far, nodewire.GPUQuarantined)

	// So is one that was first seen without its driver, under a name of ours.
	w = newWorld(t, "a100")
	w.b.Tell(host.Signal{Card: near, XID: 79, GI: -1})
	ours := w.mustGPU(near).UUID
	twoA100()(w)
	w.open()
	if g := w.mustGPU(near); g.UUID != ours {
		t.Errorf("%s became %s", ours, g.UUID)
	}
	d = w.cfg.Driver.(boundDriver)
	list, err := d.Driver.Cards(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	d.Change(near, func(c *host.DriverCard) { c.UUID = "GPU-new" })
	w.open()
	w.wants(near, nodewire.GPUReady)
	d.Change(far, func(c *host.DriverCard) { c.UUID = list[0].UUID })
	w.open()
	w.wants(far, nodewire.GPUUnhealthy, "XID 79")
}

// What a driver or a VM left of a card's settings is put back: persistence, and a
// row of its memory that waits.
func TestPersistenceAndRowsAreAsTheyWere(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "a100", twoA100())
	d := w.cfg.Driver.(boundDriver)
	seen := func() host.DriverCard {
		t.Helper()
		list, err := d.Driver.Cards(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		return list[0]
	}
	w.prepare(vm("inst-a", 1, w.wholes(near)...))
	if seen().Persistence {
		t.Error("the driver was to keep a card that goes to a VM")
	}
	d.Change(near, func(c *host.DriverCard) { c.Remap.Pending = true })
	w.release("inst-a", 1)
	if c := seen(); !c.Persistence || c.Remap.Pending {
		t.Errorf("the next tenant gets %+v", c)
	}
	w.wants(near, nodewire.GPUReady)
	w.prepare(vm("inst-a", 2, w.wholes(near)...))
	d.Stick(near, true)
	d.Change(near, func(c *host.DriverCard) { c.ECC.Current, c.ECC.Pending = false, false })
	w.release("inst-a", 2)
	w.wants(near, nodewire.GPUQuarantined, "ECC is not on")
	d.Change(near, func(c *host.DriverCard) { c.ECC.Current, c.ECC.Pending = true, true })
	w.wish(nodewire.Card{PCIAddress: near, Mode: "whole", Recover: 1})
	w.prepare(vm("inst-a", 3, w.wholes(near)...))
	d.Change(near, func(c *host.DriverCard) { c.Remap.Pending = true })
	w.release("inst-a", 3) // whose reset changes nothing
	w.wants(near, nodewire.GPUQuarantined, "waits to be replaced")
}

// A card that needs a reset and that nobody holds has no release to wait for; one
// that is held is left till then.
func TestAnIdleCardIsResetWithoutARelease(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "a100", twoA100())
	d := w.cfg.Driver.(boundDriver)
	w.prepare(container("inst-a", 1, w.wholes(far)...))
	for _, c := range []string{near, far} {
		w.b.Tell(host.Signal{Card: c, XID: 94, GI: -1})
		w.wants(c, nodewire.GPUNeedsReset, "XID 94")
	}
	w.refused(vm("inst-b", 1, w.wholes(near)...), false, "needs_reset")
	d.Fail(simnvml.Reset, 1, host.ErrBusy)
	w.b.ResetIdle(context.Background())
	w.wants(near, nodewire.GPUNeedsReset) // somebody of the host's is on it
	w.b.ResetIdle(context.Background())
	w.wants(near, nodewire.GPUReady)
	w.wants(far, nodewire.GPUNeedsReset)
	if slices.Contains(d.Log(), "reset "+far) {
		t.Error("a held card was reset")
	}
	w.release("inst-a", 1)
	w.wants(far, nodewire.GPUReady)
}

// Behind NVSwitches only what Fabric Manager lists goes out, and before the
// vendor's driver has told nobody knows what hangs on them.
func TestSwitchesKeepCardsThatNobodyKnows(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "hgx-h100")
	list := w.inventory().GPUs
	if len(list) != 8 {
		t.Fatalf("%d cards", len(list))
	}
	for _, g := range list {
		if g.State != nodewire.GPUReady || !strings.Contains(g.Reason, "NVSwitches") || !g.NotForVM {
			t.Errorf("%+v", g)
		}
	}
	w.refused(vm("inst-a", 1, w.wholes(list[0].PCIAddress)...), true, "NVSwitches")
}

// A GPU that shares its group with a network card is a container's, and says why
// it is no VM's.
func TestASharedGroupIsStillAContainers(t *testing.T) {
	t.Parallel()
	gpu := "0000:01:00.0"
	w := newWorld(t, "shared-nic", withDriver(simnvml.Card{Model: "a100-80gb", PCIAddress: gpu}))
	g := w.mustGPU(gpu)
	if g.State != nodewire.GPUReady || !g.NotForVM || !strings.Contains(g.Reason, "0000:02:00.0 (network") {
		t.Errorf("%+v", g)
	}
	w.refused(vm("inst-a", 1, w.wholes(gpu)...), true, "0000:02:00.0 (network")
	w.prepare(container("inst-a", 1, w.wholes(gpu)...))
}

// A late release of an earlier owner takes nothing from the next, though the type
// is the same one again.
func TestALateReleaseTakesNothingFromTheNextOwner(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "a100-vgpu")
	w.wish(nodewire.Card{PCIAddress: parted, Mode: "vgpu", VGPUType: "GRID A100D-20C"})
	first := w.prepare(vm("inst-a", 1, w.vgpu(parted, 0)))[0].Virtual.Address
	w.release("inst-a", 1)
	next := w.prepare(vm("inst-b", 1, w.vgpu(parted, 0)))[0].Virtual.Address
	if next != first {
		t.Fatalf("%s, then %s", first, next)
	}
	w.release("inst-a", 1)
	w.release("inst-a", 9)
	if d, _ := w.m.Device(address(t, next)); d.Current != 696 {
		t.Errorf("its type is %d", d.Current)
	}
}

// openDriver knows whether its library has the cards open.
type openDriver struct {
	boundDriver
	open *atomic.Bool
}

func (d openDriver) Cards(ctx context.Context) ([]host.DriverCard, error) {
	d.open.Store(true)
	return d.boundDriver.Cards(ctx)
}

func (d openDriver) Close() error {
	d.open.Store(false)
	return d.boundDriver.Close()
}

// What is busy is often our own monitor: whoever reads the cards meanwhile, the
// driver is closed each time that we look who has the card, and as it is taken.
func TestWeNeverKeepACardBusyOurselves(t *testing.T) {
	t.Parallel()
	var open atomic.Bool
	var looks, taken int
	w := newWorld(t, "a100", twoA100(), func(w *world) {
		w.cfg.Driver = openDriver{w.cfg.Driver.(boundDriver), &open}
	})
	w.cfg.Holders = func(context.Context, []string) (out []host.Process, _ error) {
		looks++
		if looks < 3 {
			out = append(out, host.Process{PID: 4711, Command: "dcgm-exporter"})
		}
		if open.Load() {
			out = append(out, host.Process{PID: 1, Command: "tenon-agent"})
		}
		open.Store(true) // somebody else of ours reads the cards
		return out, nil
	}
	unbind := pci.DriverFile("nvidia", "unbind")
	w.cfg.Sys = watched{w.cfg.Sys.(killable), func(name string) {
		if name == unbind {
			taken++
			if open.Load() {
				t.Error("the card is taken from the driver while we have it open")
			}
		}
	}}
	w.cfg.BusyFor = 0 // the usual
	w.open()
	w.prepare(vm("inst-a", 1, w.wholes(near)...))
	if looks < 3 || taken != 1 {
		t.Errorf("%d looks, taken %d times", looks, taken)
	}
}

type watched struct {
	killable
	before func(name string)
}

func (w watched) WriteFile(name string, data []byte) error {
	w.before(name)
	return w.killable.WriteFile(name, data)
}

// Of each mode, one kind of guest is refused whatever the control plane says.
func TestWhichKindTakesWhat(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "a100", twoA100())
	w.wish(nodewire.Card{PCIAddress: near, Mode: "shared", Shares: 2}, nodewire.Card{PCIAddress: far, Mode: "mig"})
	share := nodewire.Device{GPUUUID: w.mustGPU(near).UUID, Mode: "shared", Profile: "share", SlotStart: 0, SlotEnd: 1}
	w.refused(vm("inst-a", 1, share), true, "a share is a container's")
	w.refused(vm("inst-a", 1, w.slice(far, "1g", 0, 1)), true, "no PCI function")
	w.prepare(container("inst-a", 1, share, w.slice(far, "1g", 0, 1)))
	w.refused(container("inst-b", 1, w.wholes(far)...), true, "mode mig, not whole")
	w = newWorld(t, "a100-vgpu")
	w.wish(nodewire.Card{PCIAddress: parted, Mode: "vgpu", VGPUType: "GRID A100D-20C"})
	w.refused(container("inst-a", 1, w.vgpu(parted, 0)), true, "a vGPU is a virtual machine's")
	w.refused(vm("inst-a", 1, w.wholes(parted)...), true, "mode vgpu, not whole")
}

// A partition of NVSwitches ends with its guest wherever a crash comes between,
// and is there again for a guest that stays when Fabric Manager was started anew.
func TestNoCrashKeepsAPartition(t *testing.T) {
	t.Parallel()
	begin := func() (*fleet, *joined) {
		j := &joined{parts: []host.FabricPartition{{ID: 0, GPUs: []host.FabricGPU{{Module: 3, PCIAddress: near}, {Module: 1}}}}}
		w := newWorld(t, "a100", withDriver(simnvml.Card{Model: "a100-80gb", PCIAddress: near, Module: 3}, simnvml.Card{Model: "a100-80gb", PCIAddress: far, Module: 1}),
			func(w *world) { w.cfg.Fabric = j })
		return &fleet{world: w}, j
	}
	for _, starting := range []bool{true, false} {
		for at := 1; ; at++ {
			f, j := begin()
			want := vm("inst-a", 1, f.wholes(near, far)...)
			act := func() { f.prepare(want) }
			if !starting {
				f.prepare(want)
				act = func() { f.release("inst-a", 1) }
			}
			if !f.dies(at, act) {
				if at < 10 || j.parts[0].Active != starting {
					t.Errorf("starting %v: %d changes, active %v", starting, at, j.parts[0].Active)
				}
				break
			}
			f.open()
			f.release("inst-a", 1) // as the agent asks again
			if j.parts[0].Active {
				t.Errorf("starting %v, killed at %d: still active", starting, at)
			}
		}
	}
	f, j := begin()
	f.prepare(vm("inst-a", 1, f.wholes(near, far)...))
	j.parts[0].Active = false
	f.open()
	if !j.parts[0].Active {
		t.Error("its guest is there, and the partition is not")
	}
}

// The layout says four slices and the driver shows three: three are usable, one is
// missing and told once, the card stays in service, and all is well when it is back.
func TestAMissingSliceCostsOnlyItself(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "a100", twoA100())
	d := w.cfg.Driver.(boundDriver)
	four := nodewire.Card{PCIAddress: far, Mode: "mig", Layout: []nodewire.Place{{Profile: "2g", SlotStart: 0, SlotEnd: 2},
		{Profile: "2g", SlotStart: 2, SlotEnd: 4}, {Profile: "2g", SlotStart: 4, SlotEnd: 6}, {Profile: "1g", SlotStart: 6, SlotEnd: 7}}}
	w.wish(four)
	if g := w.mustGPU(far); len(g.Slices) != 4 || len(w.b.Incidents()) != 0 {
		t.Fatalf("%+v", g)
	}
	d.Vanish(far)
	d.Fail(simnvml.Create, 1, errors.New("insufficient resources"))
	w.wish(four)
	for range 2 {
		g := w.mustGPU(far)
		if g.State != nodewire.GPUReady || len(g.Slices) != 3 || len(g.Missing) != 1 || g.Missing[0] != four.Layout[0] || g.Wish == "" {
			t.Errorf("%+v", g)
		}
		if list := w.b.Incidents(); len(list) != 1 || list[0].Kind != "missing_slice" || list[0].Action != nodewire.ActionNone || list[0].PCIAddress != far {
			t.Errorf("%+v", list)
		}
	}
	w.prepare(container("inst-a", 1, w.slice(far, "2g", 2, 4)))
	w.wish(four)
	if g := w.mustGPU(far); len(g.Slices) != 4 || len(g.Missing) != 0 || g.Wish != "" || len(w.b.Incidents()) != 0 {
		t.Errorf("back: %+v, %+v", g, w.b.Incidents())
	}
}
