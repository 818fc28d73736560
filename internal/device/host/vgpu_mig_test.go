package host_test

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tenon-cloud/tenon/internal/device/host"
	"github.com/tenon-cloud/tenon/internal/device/nvml/simnvml"
	"github.com/tenon-cloud/tenon/internal/device/pci"
	"github.com/tenon-cloud/tenon/internal/device/pci/recorded"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

// The vGPU types of an A100 80 GB that MIG slices back, one of them for desktops.
var onSlices = []host.VGPUType{
	{ID: "692", Name: "GRID A100D-4C", ProfileID: -1, MemoryMiB: 4096, Compute: true},
	{ID: "699", Name: "GRID A100D-1-10Q", ProfileID: 19, MemoryMiB: 10240},
	{ID: "700", Name: "GRID A100D-1-10C", ProfileID: 19, MemoryMiB: 10240, Compute: true},
	{ID: "691", Name: "GRID A100D-1-5C", ProfileID: 19, MemoryMiB: 5120, Compute: true},
	{ID: "702", Name: "GRID A100D-2-20C", ProfileID: 14, MemoryMiB: 20480, Compute: true},
	{ID: "703", Name: "GRID A100D-3-40C", ProfileID: 9, MemoryMiB: 40960, Compute: true},
}

// vgpuHost has a vGPU driver on both cards of host a100-vgpu; the kernel's side of
// it offers a slice's type only while a slice of its profile is free.
func vgpuHost() func(*world) {
	return func(w *world) {
		w.m.Change(address(w.tb, other), func(d *recorded.Device) {
			for _, t := range onSlices[1:] {
				d.Types = append(d.Types, recorded.Type{ID: t.ID, Name: t.Name, Max: 7, MiB: t.MemoryMiB})
			}
		})
		inUse := func(profile int) (n int) {
			for _, f := range w.virtual(other) {
				d, _ := w.m.Device(f)
				for _, t := range onSlices {
					if t.ProfileID == profile && t.ID == strconv.Itoa(d.Current) {
						n++
					}
				}
			}
			return n
		}
		withDriver(simnvml.Card{Model: "a100-80gb", PCIAddress: parted, Resets: true}, simnvml.Card{Model: "a100-80gb", PCIAddress: other, VGPUs: onSlices, InUse: inUse, Functions: func() int { return len(w.virtual(other)) }})(w)
		w.m.BackedBy(func(card pci.Address, id string) (bool, int) {
			return w.cfg.Driver.(boundDriver).Backing(card.String(), id)
		})
	}
}

// virtual lists a card's virtual functions.
func (w *world) virtual(card string) []pci.Address {
	w.tb.Helper()
	f, err := pci.ReadFunction(w.m, address(w.tb, card))
	if err != nil {
		w.tb.Fatal(err)
	}
	return f.Virtual
}

func (w *world) backed(card, profile string, start, end int) nodewire.Device {
	return nodewire.Device{GPUUUID: w.mustGPU(card).UUID, Mode: "vgpu", Profile: profile, SlotStart: start, SlotEnd: end}
}

// TestAMIGSliceBacksAVGPU: the slice at its place first, then its type on a virtual
// function, and both are gone after.
func TestAMIGSliceBacksAVGPU(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "a100-vgpu", vgpuHost())
	w.wish(nodewire.Card{PCIAddress: other, Mode: "vgpu"})
	g := w.mustGPU(other)
	if g.Mode != "vgpu" || g.Geometry != "mig8" || g.State != nodewire.GPUReady || g.Wish != "" || len(w.virtual(other)) != 20 {
		t.Fatalf("%+v", g)
	}
	one, half := w.prepare(vm("inst-a", 1, w.backed(other, "1g", 6, 7))), w.prepare(vm("inst-b", 1, w.backed(other, "3g", 0, 4)))
	for name, c := range map[string]struct {
		f    string
		want int
	}{"1g": {one[0].Virtual.Address, 700}, "3g": {half[0].Virtual.Address, 703}} {
		d, _ := w.m.Device(address(t, c.f))
		if d.Current != c.want || d.Driver != "nvidia" || d.Override != "" {
			t.Errorf("%s: function %s is %+v", name, c.f, d)
		}
		if err := w.m.Attach("guest-"+name, address(t, c.f)); err != nil {
			t.Error(err)
		}
	}
	g = w.mustGPU(other)
	if len(g.Slices) != 2 || g.Slices[0].Owner != "inst-b" || g.Slices[1].Owner != "inst-a" || g.Slices[1].SlotStart != 6 || g.State != nodewire.GPUReady {
		t.Errorf("%+v", g)
	}
	if diff := cmp.Diff(one, w.prepare(vm("inst-a", 1, w.backed(other, "1g", 6, 7)))); diff != "" {
		t.Error(diff)
	}
	w.refused(vm("inst-c", 1, w.backed(other, "2g", 2, 4)), false, "held by inst-b")
	w.refused(vm("inst-c", 1, w.backed(other, "2g", 3, 5)), false, "held by inst-b")
	w.refused(vm("inst-c", 1, w.backed(other, "2g", 5, 7)), false, "held by inst-a")
	w.refused(vm("inst-c", 1, w.backed(other, "1g+me", 5, 6)), true, "no vGPU type on a slice")
	w.refused(vm("inst-c", 1, w.backed(other, "vgpu", 4, 5)), true, "no slice")
	w.refused(container("inst-c", 1, w.backed(other, "1g", 5, 6)), true, "virtual machine")
	w.refused(vm("inst-c", 1, w.wholes(other)...), true, "mode vgpu, not whole")
	w.m.Detach("guest-1g")
	w.release("inst-a", 1)
	if g := w.mustGPU(other); len(g.Slices) != 1 || g.Slices[0].Profile != "3g" {
		t.Errorf("%+v", g.Slices)
	}
	if d, _ := w.m.Device(address(t, one[0].Virtual.Address)); d.Current != 0 {
		t.Errorf("its function still has type %d", d.Current)
	}
	w.wish(nodewire.Card{PCIAddress: other, Mode: "whole"})
	if g := w.mustGPU(other); g.Mode != "vgpu" || !strings.Contains(g.Wish, "held by inst-b") {
		t.Errorf("%+v", g)
	}
	w.m.Detach("guest-3g")
	w.release("inst-b", 1)
	if g := w.mustGPU(other); g.Mode != "whole" || g.Wish != "" || len(g.Slices) != 0 || len(w.virtual(other)) != 0 {
		t.Errorf("whole again: %+v, %d functions", g, len(w.virtual(other)))
	}
}

// TestOneKindOfVGPUsBecomesTheOther: MIG is switched while there are no functions.
func TestOneKindOfVGPUsBecomesTheOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "a100-vgpu", vgpuHost())
	for _, c := range []struct{ typ, geometry string }{{"", "mig8"}, {"GRID A100D-10C", "vgpu8"}, {"", "mig8"}} {
		w.wish(nodewire.Card{PCIAddress: other, Mode: "vgpu", VGPUType: c.typ})
		if g := w.mustGPU(other); g.Mode != "vgpu" || g.Geometry != c.geometry || g.Wish != "" || g.State != nodewire.GPUReady {
			t.Fatalf("type %q: %+v", c.typ, g)
		}
	}
	w.wish(nodewire.Card{PCIAddress: other, Mode: "mig"})
	if g := w.mustGPU(other); g.Mode != "mig" || g.Wish != "" || len(w.virtual(other)) != 0 {
		t.Errorf("for containers: %+v", g)
	}
}

// TestALayoutBacksVGPUs: its slices are there before and after.
func TestALayoutBacksVGPUs(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "a100-vgpu", vgpuHost())
	halves := []nodewire.Place{{Profile: "3g", SlotStart: 0, SlotEnd: 4}, {Profile: "3g", SlotStart: 4, SlotEnd: 8}}
	w.wish(nodewire.Card{PCIAddress: other, Mode: "vgpu", Layout: halves})
	a, b := w.prepare(vm("inst-a", 1, w.backed(other, "3g", 4, 8))), w.prepare(vm("inst-b", 1, w.backed(other, "3g", 0, 4)))
	if a[0].Virtual.Address == b[0].Virtual.Address {
		t.Error("two guests have one function")
	}
	calls := len(w.cfg.Driver.(boundDriver).Log())
	w.release("inst-a", 1)
	if after := w.cfg.Driver.(boundDriver).Log()[calls:]; len(after) > 0 {
		t.Errorf("which of two slices a vGPU is on only its driver knows, and it was told to %v", after)
	}
	if g := w.mustGPU(other); len(g.Slices) != 2 || len(g.Missing) != 0 || g.State != nodewire.GPUReady {
		t.Errorf("%+v", g)
	}
	w.prepare(vm("inst-c", 1, w.backed(other, "3g", 4, 8)))
}

// TestTwoVGPUsOfOneGuest are on two functions.
func TestTwoVGPUsOfOneGuest(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "a100-vgpu", vgpuHost())
	w.wish(nodewire.Card{PCIAddress: other, Mode: "vgpu"})
	g := w.prepare(vm("inst-a", 1, w.backed(other, "2g", 0, 2), w.backed(other, "2g", 4, 6)))
	if len(g) != 2 || g[0].Virtual.Address == g[1].Virtual.Address {
		t.Errorf("%+v", g)
	}
	w.release("inst-a", 1)
	w.wants(other, nodewire.GPUReady)
	if g := w.mustGPU(other); len(g.Slices) > 0 {
		t.Errorf("%+v", g.Slices)
	}
}

// TestAfterARebootAVGPUIsOnItsSliceAgain: neither slice nor function outlives it.
func TestAfterARebootAVGPUIsOnItsSliceAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "a100-vgpu", vgpuHost())
	w.wish(nodewire.Card{PCIAddress: other, Mode: "vgpu"})
	want := vm("inst-a", 1, w.backed(other, "3g", 4, 8))
	before := w.prepare(want)
	w.cfg.Driver.(boundDriver).Reboot()
	w.m.Change(address(t, other), func(d *recorded.Device) { d.VFs = 0 })
	w.cfg.BootID = "boot-2"
	w.open()
	after := w.prepare(want)
	d, _ := w.m.Device(address(t, after[0].Virtual.Address))
	if diff := cmp.Diff(before, after); diff != "" || d.Current != 703 {
		t.Errorf("%s, type %d", diff, d.Current)
	}
	if g := w.mustGPU(other); g.Mode != "vgpu" || len(g.Slices) != 1 || g.Slices[0].Owner != "inst-a" {
		t.Errorf("%+v", g)
	}
	w.release("inst-a", 1)
	w.wants(other, nodewire.GPUReady)
}

// TestWhatBacksNoVGPUSaysWhy, and stays as it was.
func TestWhatBacksNoVGPUSaysWhy(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "a100-vgpu", vgpuHost())
	w.wish(nodewire.Card{PCIAddress: parted, Mode: "vgpu"})
	if g := w.mustGPU(parted); !strings.Contains(g.Wish, "no vGPU types on MIG slices") {
		t.Errorf("%+v", g)
	}
	w = newWorld(t, "a100-vgpu")
	w.wish(nodewire.Card{PCIAddress: other, Mode: "vgpu"})
	if g := w.mustGPU(other); g.Mode != "whole" || !strings.Contains(g.Wish, "vGPU driver") {
		t.Errorf("%+v", g)
	}
	w = newWorld(t, "a100-vgpu", vgpuHost())
	w.wish(nodewire.Card{PCIAddress: other, Mode: "vgpu"})
	if _, err := w.cfg.Driver.(boundDriver).Foreign(other, 19, 6, false); err != nil {
		t.Fatal(err)
	}
	w.refused(vm("inst-a", 1, w.backed(other, "1g", 6, 7)), false, "did not make")
}

var slicesScene = scene{
	name: "vGPUs on slices", tree: "a100-vgpu", slices: true, wishes: []nodewire.Card{{PCIAddress: parted, Mode: "vgpu", VGPUType: "GRID A100D-20C"}}, turns: [][]nodewire.Card{
		{{PCIAddress: other, Mode: "vgpu"}}, {{PCIAddress: other, Mode: "whole"}}, {{PCIAddress: other, Mode: "vgpu", VGPUType: "GRID A100D-10C"}}, {{PCIAddress: other, Mode: "vgpu"}},
		{{PCIAddress: other, Mode: "vgpu", Layout: []nodewire.Place{{Profile: "3g", SlotStart: 4, SlotEnd: 8}, {Profile: "1g", SlotStart: 2, SlotEnd: 3}}}}},
	places: []place{{cards: []string{other}, mode: "vgpu", kind: "vm", profile: "3g", start: 4, end: 8}, {cards: []string{other}, mode: "vgpu", kind: "vm", profile: "1g", start: 2, end: 3},
		{cards: []string{other}, mode: "vgpu", kind: "vm", profile: "1g", start: 0, end: 1}, {cards: []string{other}, mode: "whole", kind: "vm"}, {cards: []string{other}, mode: "vgpu", kind: "vm", profile: "vgpu", start: 1, end: 2}},
}

// TestVGPUsOnSlicesAreKilledAnywhere: starts, stops and repartitions, one step after
// another, as in TestTwoHundredKills: no slice and no function without its owner, and
// the host ends as it was.
func TestVGPUsOnSlicesAreKilledAnywhere(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(19, 9))
	f := newFleet(t, slicesScene)
	steps, on := 0, 0
	for f.kills < 40 && steps < 3000 {
		steps++
		f.step(slicesScene, random.IntN(10), random.IntN(60), 1+random.IntN(24))
		for _, g := range f.guests {
			if g.attached && len(g.grants) == 1 && g.grants[0].Virtual != nil && g.want.Devices[0].Profile != "vgpu" {
				on++
			}
		}
	}
	if f.end(); f.kills < 40 || on == 0 {
		t.Errorf("%d kills in %d steps, vGPUs on slices ran in %d", f.kills, steps, on)
	}
	t.Logf("%d kills in %d steps, vGPUs on slices ran in %d of them", f.kills, steps, on)
}

// TestTheDriverSaysHowManyVGPUsFit, and before the card has any function: an L40S takes
// two of 24 GiB though it has 46068 MiB, so that no arithmetic will do.
func TestTheDriverSaysHowManyVGPUsFit(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "a100-vgpu", vgpuHost(), func(w *world) {
		types := []host.VGPUType{{ID: "696", Name: "GRID A100D-20C", ProfileID: -1, MemoryMiB: 20480, Compute: true, Max: 3}}
		withDriver(simnvml.Card{Model: "a100-80gb", PCIAddress: parted}, simnvml.Card{Model: "a100-80gb", PCIAddress: other, VGPUs: types})(w)
		w.m.BackedBy(nil)
	})
	g := w.mustGPU(other)
	if len(g.VGPUTypes) != 1 || g.VGPUTypes[0] != (nodewire.VGPU{Name: "GRID A100D-20C", ID: "696", Available: 3, MemoryMiB: 20480}) {
		t.Fatalf("before it has functions: %+v", g.VGPUTypes)
	}
	w.wish(nodewire.Card{PCIAddress: other, Mode: "vgpu", VGPUType: "GRID A100D-20C"})
	if g := w.mustGPU(other); g.Geometry != "vgpu3" || g.State != nodewire.GPUReady || g.Wish != "" {
		t.Errorf("%+v", g)
	}
	w.prepare(vm("inst-a", 1, w.vgpu(other, 2)))
	w.refused(vm("inst-b", 1, w.vgpu(other, 3)), true, "no vGPU")
}
