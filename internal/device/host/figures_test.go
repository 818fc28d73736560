package host_test

import (
	"testing"

	"github.com/tenon-cloud/tenon/internal/device"
	"github.com/tenon-cloud/tenon/internal/device/nvml/simnvml"
	"github.com/tenon-cloud/tenon/internal/device/pci/recorded"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

// TestSliceMemoryIsTheDrivers: an H200's "1g.18gb" has 16 GiB, which no arithmetic
// on its name or its slots gives.
func TestSliceMemoryIsTheDrivers(t *testing.T) {
	t.Parallel()
	d, s := simulated(t, simnvml.Card{Model: "h200-141gb"}), &shelf{}
	res := apply(t, d, s, "boot-1", layout(at("3g", 0, 4), at("1g2", 4, 6), at("1g", 6, 7)))
	for i, want := range []int64{71168, 33024, 16384} {
		if res.Slices[i].MemoryMiB != want {
			t.Errorf("%s has %d MiB, want %d", res.Slices[i].Profile, res.Slices[i].MemoryMiB, want)
		}
	}
}

// TestARebootGivesASliceAnotherNameAtItsPlace: its instance gets it under that.
func TestARebootGivesASliceAnotherNameAtItsPlace(t *testing.T) {
	t.Parallel()
	card := "0000:65:00.0"
	w := newWorld(t, "a100", twoA100())
	w.wish(nodewire.Card{PCIAddress: card, Mode: "mig"})
	want := container("inst-a", 1, w.slice(card, "3g", 4, 8))
	before := w.prepare(want)[0].CDI
	w.cfg.Driver.(boundDriver).Reboot()
	w.cfg.BootID = "boot-2"
	w.open()
	after := w.prepare(want)[0].CDI
	g := w.mustGPU(card)
	if before == after || len(g.Slices) != 1 || after != "tenon.test/gpu="+g.Slices[0].UUID || g.Slices[0].SlotStart != 4 || g.Slices[0].Owner != "inst-a" {
		t.Errorf("it was %s and is %s of %+v", before, after, g.Slices)
	}
}

// TestAGrantTellsItsNUMANode, and of a card that says -1 nothing: unknown is not
// node 0.
func TestAGrantTellsItsNUMANode(t *testing.T) {
	t.Parallel()
	near := func(g device.Grant) int {
		if g.Near == nil {
			return -1
		}
		return *g.Near
	}
	one, two := "0000:17:00.0", "0000:65:00.0"
	w := newWorld(t, "a100", twoA100())
	w.wish(nodewire.Card{PCIAddress: two, Mode: "mig"})
	whole, sliced := w.prepare(container("inst-a", 1, w.wholes(one)...)), w.prepare(container("inst-b", 1, w.slice(two, "3g", 4, 8)))
	if near(whole[0]) != 0 || near(sliced[0]) != 1 {
		t.Errorf("a card on node 0 says %d, a slice of one on node 1 says %d", near(whole[0]), near(sliced[0]))
	}
	w = newWorld(t, "a100", twoA100())
	w.m.Change(address(t, one), func(d *recorded.Device) { d.NUMA = -1 })
	unknown := w.prepare(container("inst-a", 1, w.wholes(one)...))
	if g := w.mustGPU(one); near(unknown[0]) != -1 || g.NUMANode != -1 {
		t.Errorf("a card on no known node says %d, and is reported on %d", near(unknown[0]), g.NUMANode)
	}
	w = newWorld(t, "a100-mdev")
	w.wish(nodewire.Card{PCIAddress: parted, Mode: "vgpu", VGPUType: "GRID A100D-20C"}, nodewire.Card{PCIAddress: mtty, Mode: "vgpu", VGPUType: "mtty-2"})
	if g := w.prepare(vm("inst-a", 1, w.vgpu(parted, 0))); near(g[0]) != 0 {
		t.Errorf("a mediated device on node 0 says %d", near(g[0]))
	}
	w = newWorld(t, "lab")
	w.wish(nodewire.Card{PCIAddress: mtty, Mode: "vgpu", VGPUType: "mtty-2"})
	if g := w.prepare(vm("inst-a", 1, w.vgpu(mtty, 0))); near(g[0]) != -1 {
		t.Errorf("a parent that is no PCI function says %d", near(g[0]))
	}
}

// TestACardTellsWhatItsSlicesHave while it is in MIG mode, and it stays told after.
func TestACardTellsWhatItsSlicesHave(t *testing.T) {
	t.Parallel()
	card := "0000:65:00.0"
	w := newWorld(t, "a100", twoA100())
	told := func() map[string]nodewire.Profile {
		out := map[string]nodewire.Profile{}
		for _, p := range w.mustGPU(card).Profiles {
			out[p.Profile] = p
		}
		return out
	}
	if got := told(); len(got) > 0 {
		t.Errorf("before MIG was ever on: %v", got)
	}
	w.wish(nodewire.Card{PCIAddress: card, Mode: "mig"})
	driver, err := w.cfg.Driver.Profiles(t.Context(), card)
	if got := told(); err != nil || len(got) != len(driver) || got["1g2"] != (nodewire.Profile{Profile: "1g2", MemoryMiB: 20480, SMs: 14}) {
		t.Errorf("%v of %v (%v)", got, driver, err)
	}
	w.wish(nodewire.Card{PCIAddress: card, Mode: "whole"})
	w.open()
	if g := w.mustGPU(card); g.Mode != "whole" || len(told()) != len(driver) {
		t.Errorf("whole again: %+v", g)
	}
}
