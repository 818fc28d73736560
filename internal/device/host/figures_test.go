package host_test

import (
	"testing"

	"github.com/tenon-cloud/tenon/internal/device/nvml/simnvml"
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
