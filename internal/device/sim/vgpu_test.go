package sim

import (
	"errors"
	"testing"
	"time"

	"github.com/tenon-cloud/tenon/internal/device"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

// A simulated card gives VMs vGPUs on its slices, at the hardware's places.
func TestSimulatedVGPUsOnSlices(t *testing.T) {
	t.Parallel()
	c, dir := &clock{time.Now()}, t.TempDir()
	b := keeper(t, c, dir)
	g := seenCard(t, b, 0)
	wish(t, b, nodewire.Card{PCIAddress: g.PCIAddress, Mode: "vgpu"})
	c.at = c.at.Add(2 * time.Second)
	if g = seenCard(t, b, 0); g.Mode != "vgpu" || g.Geometry != "mig8" || g.Wish != "" {
		t.Fatalf("%+v", g)
	}
	ask := func(owner, profile string, start, end int) ([]device.Grant, error) {
		return b.Prepare(t.Context(), device.Request{InstanceID: owner, Epoch: 1, Kind: "vm",
			Devices: []nodewire.Device{{GPUUUID: g.UUID, Mode: "vgpu", Profile: profile, SlotStart: start, SlotEnd: end}}})
	}
	if got, err := ask("a", "3g", 4, 8); err != nil || len(got) != 1 || !got[0].Emulated {
		t.Fatal(got, err)
	}
	if g = seenCard(t, b, 0); len(g.Slices) != 1 || g.Slices[0].Owner != "a" || g.Slices[0].SlotStart != 4 {
		t.Errorf("%+v", g.Slices)
	}
	for _, bad := range []struct {
		profile    string
		start, end int
		final      bool
	}{{"1g", 5, 6, false}, {"3g", 1, 5, true}, {"vgpu", 0, 1, true}} {
		if _, err := ask("b", bad.profile, bad.start, bad.end); err == nil || errors.Is(err, device.ErrImpossible) != bad.final {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	if err := b.Release(t.Context(), "a", 1); err != nil {
		t.Fatal(err)
	}
	if g = seenCard(t, b, 0); len(g.Slices) != 0 {
		t.Errorf("%+v", g.Slices)
	}
}
