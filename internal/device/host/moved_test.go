package host_test

import (
	"testing"

	"github.com/tenon-cloud/tenon/internal/device/host"
	"github.com/tenon-cloud/tenon/internal/device/pci/recorded"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

// A card that was put into another slot while an instance had it is nobody's until
// that is released and an operator had it checked: a release cleans the slot.
func TestACardThatLeftItsSlotWhileHeldIsKept(t *testing.T) {
	t.Parallel()
	for _, swapped := range []bool{true, false} {
		w := newWorld(t, "a100", twoA100())
		d := w.cfg.Driver.(boundDriver)
		a, b := w.mustGPU(near).UUID, w.mustGPU(far).UUID
		w.prepare(vm("inst-a", 1, w.wholes(near)...))
		w.m.Change(address(t, near), func(d *recorded.Device) { d.Driver, d.Override = "nvidia", "" })
		d.Change(near, func(c *host.DriverCard) { c.UUID = b })
		if swapped {
			d.Change(far, func(c *host.DriverCard) { c.UUID, c.ECC.Current, c.ECC.Pending = a, false, false })
		} else { // it is put in after the release
			d.Change(far, func(c *host.DriverCard) { c.UUID = "GPU-third" })
		}
		w.cfg.BootID = "boot-2"
		w.open()
		if swapped {
			w.wants(far, nodewire.GPUQuarantined, "another slot")
			w.refused(vm("inst-b", 1, w.wholes(far)...), false, "quarantined")
			w.wish(nodewire.Card{PCIAddress: far, Recover: 1})
			w.wants(far, nodewire.GPUQuarantined) // it is still held
			w.wish()
		}
		w.refused(vm("inst-b", 1, w.wholes(near)...), false, "inst-a")
		w.release("inst-a", 1)
		if !swapped {
			d.Change(far, func(c *host.DriverCard) { c.UUID, c.ECC.Current, c.ECC.Pending = a, false, false })
			w.open()
		}
		w.wants(near, nodewire.GPUReady)
		w.wants(far, nodewire.GPUQuarantined, "another slot")
		w.open()
		w.wants(far, nodewire.GPUQuarantined, "another slot")
		w.wish(nodewire.Card{PCIAddress: far, Recover: 2})
		w.wants(far, nodewire.GPUReady)
		w.prepare(vm("inst-b", 1, w.wholes(far)...))
		w.release("inst-b", 1)
		w.wants(far, nodewire.GPUReady)
	}
}

// Two held cards that changed places clear neither of them by their releases.
func TestTwoHeldCardsThatChangedPlacesAreBothKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "a100", twoA100())
	d := w.cfg.Driver.(boundDriver)
	a, b := w.mustGPU(near).UUID, w.mustGPU(far).UUID
	w.prepare(vm("inst-a", 1, w.wholes(near)...))
	w.prepare(vm("inst-b", 1, w.wholes(far)...))
	for _, at := range []string{near, far} {
		w.m.Change(address(t, at), func(d *recorded.Device) { d.Driver, d.Override = "nvidia", "" })
	}
	d.Change(near, func(c *host.DriverCard) { c.UUID = b })
	d.Change(far, func(c *host.DriverCard) { c.UUID = a })
	w.cfg.BootID = "boot-2"
	w.open()
	w.release("inst-a", 1)
	w.release("inst-b", 1)
	w.wants(near, nodewire.GPUQuarantined, "another slot")
	w.wants(far, nodewire.GPUQuarantined, "another slot")
}

// An operator's word was of the card that was in the slot then.
func TestAnOldRecoverLiftsNoOtherCardsQuarantine(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "a100", twoA100())
	d := w.cfg.Driver.(boundDriver)
	a, b := w.mustGPU(near).UUID, w.mustGPU(far).UUID
	w.wish(nodewire.Card{PCIAddress: far, Recover: 1})
	w.wants(far, nodewire.GPUReady)
	d.Change(near, func(c *host.DriverCard) { c.Processes = []host.Process{{PID: 7, Command: "left"}} })
	w.prepare(vm("inst-a", 1, w.wholes(near)...))
	w.release("inst-a", 1)
	w.wants(near, nodewire.GPUQuarantined)
	d.Change(near, func(c *host.DriverCard) { c.UUID, c.Processes = b, nil })
	d.Change(far, func(c *host.DriverCard) { c.UUID = a })
	w.open()
	w.wants(far, nodewire.GPUQuarantined)
	w.wish(nodewire.Card{PCIAddress: far, Recover: 1})
	w.wants(far, nodewire.GPUQuarantined, "left")
	w.wish(nodewire.Card{PCIAddress: far, Recover: 2})
	w.wants(far, nodewire.GPUReady)

	// Nor in a slot that was empty meanwhile.
	d.Change(far, func(c *host.DriverCard) { c.Processes = []host.Process{{PID: 7, Command: "left"}} })
	w.prepare(vm("inst-b", 1, w.wholes(far)...))
	w.release("inst-b", 1)
	w.wants(far, nodewire.GPUQuarantined)
	d.Change(far, func(c *host.DriverCard) { c.UUID, c.Processes = "GPU-third", nil })
	w.open()
	d.Change(far, func(c *host.DriverCard) { c.UUID = a })
	w.open()
	w.wish(nodewire.Card{PCIAddress: far, Recover: 2})
	w.wants(far, nodewire.GPUQuarantined, "left")
}
