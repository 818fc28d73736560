package host_test

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tenon-cloud/tenon/internal/device/host"
	"github.com/tenon-cloud/tenon/internal/device/nvml/simnvml"
	"github.com/tenon-cloud/tenon/internal/device/pci"
	"github.com/tenon-cloud/tenon/internal/device/pci/recorded"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

var quadro = []string{"0000:01:00.0", "0000:01:00.1", "0000:01:00.2", "0000:01:00.3"}

// TestAWholeCardGoesAndComesBack: all its functions, each back to its own driver.
func TestAWholeCardGoesAndComesBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "workstation")
	before := w.drivers(quadro...)
	want := vm("inst-a", 1, w.wholes(quadro[0])...)
	grants := w.prepare(want)
	var got []string
	for _, f := range grants[0].Pass {
		got = append(got, f.Address)
		if d, _ := w.m.Device(address(t, f.Address)); d.Driver != recorded.VFIO || f.NUMANode != -1 {
			t.Errorf("%+v is with %s", f, d.Driver)
		}
	}
	if diff := cmp.Diff(quadro, got); diff != "" {
		t.Errorf("functions: %s", diff)
	}
	if grants[0].Pass[0].BARBytes != 304<<20 {
		t.Errorf("regions of %d bytes", grants[0].Pass[0].BARBytes)
	}
	if err := w.m.Attach("inst-a", address(t, quadro[0]), address(t, quadro[1]), address(t, quadro[2]), address(t, quadro[3])); err != nil {
		t.Fatalf("no guest can open it: %v", err)
	}
	writes := w.m.Writes()
	w.prepare(want) // again: nothing to do
	if w.m.Writes() != writes {
		t.Errorf("a second preparation wrote %d times", w.m.Writes()-writes)
	}
	w.refused(vm("inst-b", 1, w.wholes(quadro[0])...), false, "held by inst-a")
	w.release("inst-a", 0) // an epoch before
	if held, _ := w.b.Held(context.Background()); len(held["inst-a"]) != 1 {
		t.Error("a stale release changed something")
	}
	w.m.Detach("inst-a")
	w.release("inst-a", 1)
	w.same(before, quadro...)
	if d, _ := w.m.Device(address(t, quadro[0])); d.Resets == 0 {
		t.Error("it was not reset")
	}
	w.wants(quadro[0], nodewire.GPUReady)
	if held, _ := w.b.Held(context.Background()); len(held) > 0 {
		t.Errorf("held: %v", held)
	}
}

// TestNoResetIsQuarantined, and an operator's word brings it back.
func TestNoResetIsQuarantined(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "lab")
	card := "0000:00:02.0"
	before := w.drivers(card)
	w.prepare(vm("inst-a", 1, w.wholes(card, "0000:00:04.0")...))
	w.release("inst-a", 1)
	w.same(before, card)
	w.wants(card, nodewire.GPUQuarantined, "no way to reset it")
	w.wants("0000:00:04.0", nodewire.GPUReady)
	w.refused(vm("inst-b", 1, w.wholes(card)...), false, "quarantined", card)
	w.open()
	w.wants(card, nodewire.GPUQuarantined, "no way to reset it")
	w.wish(nodewire.Card{PCIAddress: card, Mode: "whole", Recover: 1})
	w.wants(card, nodewire.GPUReady)
	if g := w.mustGPU(card); g.Recovered != 1 {
		t.Errorf("recovered %d", g.Recovered)
	}
	w.prepare(vm("inst-b", 1, w.wholes(card)...))
	w.release("inst-b", 1)
	w.wish(nodewire.Card{PCIAddress: card, Mode: "whole", Recover: 1})
	w.wants(card, nodewire.GPUQuarantined) // one word is for one time
}

// TestADeadCardIsNotHandedOn whether the kernel says so or not, nor given to a
// driver that would hang on it.
func TestADeadCardIsNotHandedOn(t *testing.T) {
	t.Parallel()
	for _, after := range []recorded.Aftermath{recorded.Silent, recorded.Lost} {
		w := newWorld(t, "a100")
		card := "0000:17:00.0"
		w.prepare(vm("inst-a", 1, w.wholes(card)...))
		w.m.Change(address(t, card), func(d *recorded.Device) { d.After = after })
		w.release("inst-a", 1)
		w.wants(card, nodewire.GPUQuarantined, "reads as ones")
		if d, _ := w.m.Device(address(t, card)); d.Driver == "nvidia" {
			t.Errorf("%s: a dead card is with its driver", after)
		}
		w.wish(nodewire.Card{PCIAddress: card, Mode: "whole", Recover: 1})
		w.wants(card, nodewire.GPUQuarantined, "reads as ones")
		w.m.Change(address(t, card), func(d *recorded.Device) { d.After, d.Dead = recorded.Well, false })
		w.wish(nodewire.Card{PCIAddress: card, Mode: "whole", Recover: 2})
		w.wants(card, nodewire.GPUReady)
		w.same([]string{card + ` "nvidia" ""`}, card)
	}
}

// TestABundleGoesTogether or not at all.
func TestABundleGoesTogether(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "shared-gpus")
	one, two := "0000:01:00.0", "0000:02:00.0"
	all := []string{one, "0000:01:00.1", two, "0000:02:00.1"}
	before := w.drivers(all...)
	w.refused(vm("inst-a", 1, w.wholes(one)...), true, "only together with "+two)
	w.same(before, all...)
	w.prepare(vm("inst-a", 1, w.wholes(one, two)...))
	var functions []pci.Address
	for _, a := range all {
		functions = append(functions, address(t, a))
	}
	if err := w.m.Attach("inst-a", functions...); err != nil {
		t.Fatal(err)
	}
	w.m.Detach("inst-a")
	w.release("inst-a", 1)
	w.same(before, all...)
}

// TestASharedGroupIsRefusedWithItsReason: a card that nobody here can use is not
// offered.
func TestASharedGroupIsRefusedWithItsReason(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "shared-nic")
	if list := w.inventory().GPUs; len(list) != 0 {
		t.Errorf("offered: %+v", list)
	}
	if e := w.b.Excluded(); !slices.ContainsFunc(e, func(e nodewire.Excluded) bool { return strings.Contains(e.Reason, "also has") && e.Vendor == "10de" }) {
		t.Errorf("excluded: %+v", e)
	}
}

// TestBusyNamesTheHolder and gives up in time, with nothing changed.
func TestBusyNamesTheHolder(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "a100", withDriver(simnvml.Card{Model: "a100-80gb", PCIAddress: "0000:17:00.0"}, simnvml.Card{Model: "a100-80gb", PCIAddress: "0000:65:00.0"}))
	before := w.drivers("0000:17:00.0")
	w.holders["/dev/nvidia0"] = []host.Process{{PID: 4711, Command: "dcgm-exporter"}}
	w.refused(vm("inst-a", 1, w.wholes("0000:17:00.0")...), false, "in use", "dcgm-exporter (process 4711)")
	w.same(before, "0000:17:00.0")
	if w.cfg.Driver.(boundDriver).Closes() == 0 {
		t.Error("our own handle was not closed first")
	}
	w.release("inst-a", 1)
	w.wants("0000:17:00.0", nodewire.GPUReady)
	if d, _ := w.m.Device(address(t, "0000:17:00.0")); d.Resets != 0 {
		t.Error("a card that nobody had was reset under its user")
	}
	delete(w.holders, "/dev/nvidia0")
	w.prepare(vm("inst-a", 2, w.wholes("0000:17:00.0")...))
	w.wants("0000:17:00.0", nodewire.GPUReady)
	w.release("inst-a", 2)
	w.wants("0000:17:00.0", nodewire.GPUReady)
	w.same(before, "0000:17:00.0")
}

// TestAForeignGuestIsShownAndLeft: a function on vfio-pci that we gave nobody.
func TestAForeignGuestIsShownAndLeft(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "lab")
	card := "0000:00:03.0"
	w.m.Change(address(t, card), func(d *recorded.Device) { d.Driver, d.Override = recorded.VFIO, recorded.VFIO })
	w.wants(card, nodewire.GPUReady) // bound at boot and free, as many hosts are
	w.holders["/dev/vfio/3"] = []host.Process{{PID: 99, Command: "qemu-system-x86"}}
	w.wants(card, nodewire.GPUQuarantined, "qemu-system-x86 (process 99)", "did not start")
	w.refused(vm("inst-a", 1, w.wholes(card)...), false, "process 99")
	delete(w.holders, "/dev/vfio/3")
	w.prepare(vm("inst-a", 1, w.wholes(card)...))
	w.release("inst-a", 1)
	w.same([]string{card + ` "vfio-pci" "vfio-pci"`}, card)
}

// TestAProbeThatFailsIsUnknown (C5): nothing is removed, nothing is free.
func TestAProbeThatFailsIsUnknown(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "a100", withDriver(simnvml.Card{Model: "a100-80gb", PCIAddress: "0000:17:00.0"}, simnvml.Card{Model: "a100-80gb", PCIAddress: "0000:65:00.0"}))
	driver := w.cfg.Driver.(boundDriver)
	w.wants("0000:17:00.0", nodewire.GPUReady)
	unknown := func(what string) {
		t.Helper()
		inv, err := w.b.Inventory(context.Background())
		if err != nil || inv.OK || len(inv.GPUs) != 2 || inv.GPUs[0].State != nodewire.GPUUnknown || inv.GPUs[1].State != nodewire.GPUUnknown {
			t.Errorf("%s: %+v, %v", what, inv, err)
		}
	}
	driver.Down(true)
	unknown("the driver fails")
	w.open() // the same after a restart
	unknown("the driver fails after a restart")
	driver.Down(false)
	driver.Lose("0000:17:00.0", true)
	driver.Lose("0000:65:00.0", true)
	unknown("the driver succeeds and lists nothing")
	driver.Lose("0000:17:00.0", false)
	driver.Lose("0000:65:00.0", false)
	w.wants("0000:17:00.0", nodewire.GPUReady)
	w.m.Unreadable("bus/pci/devices", fs.ErrPermission)
	unknown("sysfs fails")
	w.m.Unreadable("bus/pci/devices", nil)
	w.m.Unreadable("bus/pci/devices/0000:17:00.0/class", syscall.EIO)
	if g := w.mustGPU("0000:17:00.0"); g.State != nodewire.GPUUnknown {
		t.Errorf("one unreadable card: %+v", g)
	}
	w.m.Unreadable("bus/pci/devices/0000:17:00.0/class", nil)
	if inv := w.inventory(); !inv.OK || inv.GPUs[0].State != nodewire.GPUReady {
		t.Errorf("it does not come back: %+v", inv)
	}
}

// TestACardThatIsGoneIsMissing, and a guest that was to have it is told which.
func TestACardThatIsGoneIsMissing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "a100")
	card := "0000:65:00.0"
	devices := w.wholes(card)
	w.m.Vanish(address(t, card))
	w.wants(card, nodewire.GPUMissing, "gone from the bus")
	w.refused(vm("inst-a", 1, devices...), false, card)
	if list := w.b.Incidents(); len(list) != 1 || list[0].Kind != "fell_off_bus" || list[0].Action != nodewire.ActionOut || list[0].PCIAddress != card {
		t.Errorf("incidents: %+v", list)
	}
	w.b.Tell(host.Signal{Card: card, XID: 79, GI: -1}) // C23: the same fault
	if list := w.b.Incidents(); len(list) != 1 {
		t.Errorf("one fault is %d incidents", len(list))
	}
	w.open()
	if list := w.b.Incidents(); len(list) != 1 {
		t.Errorf("a restart forgot: %+v", list)
	}
	w.wants(card, nodewire.GPUMissing)
}

// TestAnApplicationsFaultLeavesTheCard (C23).
func TestAnApplicationsFaultLeavesTheCard(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "a100")
	card := "0000:65:00.0"
	w.prepare(vm("inst-a", 1, w.wholes(card)...))
	w.b.Tell(host.Signal{Card: card, XID: 31, GI: -1})
	if list := w.b.Incidents(); len(list) != 1 || list[0].InstanceID != "inst-a" || list[0].Action != nodewire.ActionNone {
		t.Errorf("incidents: %+v", list)
	}
	w.wants(card, nodewire.GPUReady)
	w.b.Tell(host.Signal{Card: card, XID: 95, GI: -1})
	w.wants(card, nodewire.GPUNeedsReset)
	w.release("inst-a", 1) // resets it
	w.wants(card, nodewire.GPUReady)
}

// TestTheDriverRefusesItsCardBack: then it is the operator's.
func TestTheDriverRefusesItsCardBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "workstation")
	w.prepare(vm("inst-a", 1, w.wholes(quadro[0])...))
	w.m.Refuse("snd_hda_intel", address(t, quadro[1]), syscall.ENODEV)
	w.release("inst-a", 1)
	w.wants(quadro[0], nodewire.GPUQuarantined, quadro[1], "snd_hda_intel")
	w.m.Refuse("snd_hda_intel", address(t, quadro[1]), nil)
	w.wish(nodewire.Card{PCIAddress: quadro[0], Mode: "whole", Recover: 7})
	w.wants(quadro[0], nodewire.GPUReady)
	w.same([]string{quadro[1] + ` "snd_hda_intel" ""`}, quadro[1])
}

// TestAContainerNeedsTheDriver and says so.
func TestAContainerNeedsTheDriver(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "a100")
	w.refused(container("inst-a", 1, w.wholes("0000:17:00.0")...), true, "vendor's driver")
	w = newWorld(t, "a100", withDriver(simnvml.Card{Model: "a100-80gb", PCIAddress: "0000:17:00.0"}, simnvml.Card{Model: "a100-80gb", PCIAddress: "0000:65:00.0"}))
	g := w.prepare(container("inst-a", 1, w.wholes("0000:17:00.0")...))
	if g[0].CDI != "tenon.test/gpu="+w.mustGPU("0000:17:00.0").UUID {
		t.Errorf("%+v", g)
	}
	w.cfg.Driver.(boundDriver).Change("0000:17:00.0", func(c *host.DriverCard) { c.Remap.Pending = true })
	w.release("inst-a", 1)
	if len(w.cdi.of) > 0 {
		t.Errorf("left for containers: %v", w.cdi.of)
	}
	w.wants("0000:17:00.0", nodewire.GPUReady)
	if !slices.Contains(w.cfg.Driver.(boundDriver).Log(), "reset 0000:17:00.0") {
		t.Errorf("not reset: %v", w.cfg.Driver.(boundDriver).Log())
	}
}

// TestATenantsSettingsEndWithIt: MIG mode survives a VM on some cards.
func TestATenantsSettingsEndWithIt(t *testing.T) {
	t.Parallel()
	card := "0000:17:00.0"
	w := newWorld(t, "a100", withDriver(simnvml.Card{Model: "a100-80gb", PCIAddress: card, Resets: true, Keeps: true}, simnvml.Card{Model: "a100-80gb", PCIAddress: "0000:65:00.0"}))
	w.prepare(vm("inst-a", 1, w.wholes(card)...))
	w.cfg.Driver.(boundDriver).Change(card, func(c *host.DriverCard) {
		c.MIG.Current, c.MIG.Pending = true, true
		c.ECC.Current, c.ECC.Pending = false, false
	})
	w.release("inst-a", 1)
	w.wants(card, nodewire.GPUReady)
	list, err := w.cfg.Driver.Cards(context.Background())
	if err != nil || list[0].MIG.Current || list[0].MIG.Pending || !list[0].ECC.Current {
		t.Errorf("the next tenant gets %+v, %v", list[0], err)
	}
	if g := w.mustGPU(card); g.Mode != "whole" {
		t.Errorf("mode %s", g.Mode)
	}
}

func TestARealFailureIsNoGrant(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "a100")
	w.m.Refuse(recorded.VFIO, address(t, "0000:17:00.0"), errors.New("no")) // drivers_probe succeeds all the same
	w.refused(vm("inst-a", 1, w.wholes("0000:17:00.0")...), false, "0000:17:00.0", "shows no driver")
	w.m.Refuse(recorded.VFIO, address(t, "0000:17:00.0"), nil)
	w.release("inst-a", 1)
	w.same([]string{`0000:17:00.0 "nvidia" ""`}, "0000:17:00.0")
}

// TestAfterARebootAGuestGetsItsCardAgain, or gives it back: the kernel has put
// every function with its own driver meanwhile.
func TestAfterARebootAGuestGetsItsCardAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "a100", twoA100())
	card := "0000:17:00.0"
	reboot := func(boot string) {
		w.m.Change(address(t, card), func(d *recorded.Device) { d.Driver, d.Override = "nvidia", "" })
		w.cfg.BootID = boot
		w.open()
	}
	want := vm("inst-a", 1, w.wholes(card)...)
	w.prepare(want)
	reboot("boot-2")
	if held, err := w.b.Held(context.Background()); err != nil || len(held["inst-a"]) != 1 {
		t.Errorf("held %v, %v", held, err)
	}
	w.refused(vm("inst-b", 1, want.Devices...), false, "held by inst-a")
	w.prepare(want)
	w.same([]string{card + ` "vfio-pci" "vfio-pci"`}, card)
	reboot("boot-3")
	w.release("inst-a", 1)
	w.wants(card, nodewire.GPUReady)
	w.same([]string{card + ` "nvidia" ""`}, card)
	if !slices.Contains(w.cfg.Driver.(boundDriver).Log(), "reset "+card) {
		t.Errorf("what a tenant left was not reset: %v", w.cfg.Driver.(boundDriver).Log())
	}
}
