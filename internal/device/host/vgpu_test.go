package host_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tenon-cloud/tenon/internal/device/pci/recorded"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

const (
	mtty   = "ffff:00:00.0" // where the lab's parent is shown
	parted = "0000:17:00.0" // has 20 virtual functions, two with a type that Tenon did not set
)

// TestAMediatedDeviceIsMadeAndTaken on a parent that is no PCI function.
func TestAMediatedDeviceIsMadeAndTaken(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "lab")
	w.wants(mtty, nodewire.GPUQuarantined, "no vGPU type")
	w.wish(nodewire.Card{PCIAddress: mtty, Mode: "vgpu", VGPUType: "mtty-2", Recover: 1})
	g := w.mustGPU(mtty)
	if g.State != nodewire.GPUReady || g.Mode != "vgpu" || g.Geometry != "vgpu12" || !g.Simulated {
		t.Fatalf("%+v", g)
	}
	grants := w.prepare(vm("inst-a", 1, w.vgpu(mtty, 0), w.vgpu(mtty, 11)))
	if grants[0].Mediated == grants[1].Mediated || w.m.AttachMediated("inst-a", grants[0].Mediated) != nil {
		t.Fatalf("%+v", grants)
	}
	again := w.prepare(vm("inst-a", 1, w.vgpu(mtty, 0), w.vgpu(mtty, 11)))
	if diff := cmp.Diff(grants, again); diff != "" {
		t.Error(diff)
	}
	if g := w.mustGPU(mtty); g.Geometry != "vgpu12" || len(g.Slices) != 2 || g.Slices[1].SlotStart != 11 || g.Slices[0].Owner != "inst-a" {
		t.Errorf("%+v", g)
	}
	w.refused(vm("inst-b", 1, w.vgpu(mtty, 11)), false, "held by inst-a")
	w.refused(vm("inst-b", 1, w.vgpu(mtty, 12)), true, "no vGPU")
	w.refused(container("inst-b", 1, w.vgpu(mtty, 3)), true, "virtual machine")
	w.m.Detach("inst-a")
	w.release("inst-a", 1)
	if strings.Contains(w.m.Dump(), grants[0].Mediated) {
		t.Error("it is still there")
	}
	if g := w.mustGPU(mtty); len(g.Slices) != 0 || g.State != nodewire.GPUReady {
		t.Errorf("%+v", g)
	}
}

// TestAVirtualFunctionKeepsItsDriver (C12), and a stale release changes nothing.
func TestAVirtualFunctionKeepsItsDriver(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "a100-vgpu")
	w.wish(nodewire.Card{PCIAddress: parted, Mode: "vgpu", VGPUType: "GRID A100D-20C"})
	g := w.mustGPU(parted)
	if g.State != nodewire.GPUReady || g.Geometry != "vgpu4" || len(g.Slices) != 2 || !g.Slices[0].Foreign || g.Slices[0].SlotStart != 2 {
		t.Fatalf("%+v", g)
	}
	grants := w.prepare(vm("inst-a", 2, w.vgpu(parted, 0)))
	vf := grants[0].Virtual
	if vf == nil || vf.Address == "0000:17:00.4" || vf.Address == "0000:17:00.5" || vf.NUMANode != 0 {
		t.Fatalf("%+v", grants[0])
	}
	d, _ := w.m.Device(address(t, vf.Address))
	if d.Driver != "nvidia" || d.Override != "" || d.Current != 696 {
		t.Errorf("the function is %+v", d)
	}
	if err := w.m.Attach("inst-a", address(t, vf.Address)); err != nil {
		t.Fatal(err)
	}
	w.release("inst-a", 1)
	if d, _ := w.m.Device(address(t, vf.Address)); d.Current != 696 {
		t.Error("a stale release took the type")
	}
	w.m.Detach("inst-a")
	w.release("inst-a", 2)
	for f, want := range map[string]int{vf.Address: 0, "0000:17:00.4": 696, "0000:17:00.5": 696} {
		if d, _ := w.m.Device(address(t, f)); d.Current != want || d.Driver != "nvidia" {
			t.Errorf("%s has type %d", f, d.Current)
		}
	}
}

// TestATypeThatAnotherSetIsNotTaken back: the release knows what it set.
func TestATypeThatAnotherSetIsNotTaken(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "a100-vgpu")
	w.wish(nodewire.Card{PCIAddress: parted, Mode: "vgpu", VGPUType: "GRID A100D-20C"})
	vf := w.prepare(vm("inst-a", 1, w.vgpu(parted, 0)))[0].Virtual
	w.m.Change(address(t, vf.Address), func(d *recorded.Device) { d.Current = 692 })
	w.release("inst-a", 1)
	if d, _ := w.m.Device(address(t, vf.Address)); d.Current != 692 {
		t.Errorf("type %d", d.Current)
	}
}

// TestOneCardIsWholeOrParted (C4), by virtual functions that we make and take.
func TestOneCardIsWholeOrParted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "a100-vgpu")
	card := "0000:65:00.0"
	if g := w.mustGPU(card); g.Mode != "whole" || g.State != nodewire.GPUReady {
		t.Fatalf("%+v", g)
	}
	w.wish(nodewire.Card{PCIAddress: card, Mode: "vgpu", VGPUType: "GRID A100D-10C"})
	g := w.mustGPU(card)
	if g.Mode != "vgpu" || g.Geometry != "vgpu8" || g.State != nodewire.GPUReady || g.Wish != "" {
		t.Fatalf("%+v", g)
	}
	w.refused(vm("inst-a", 1, w.wholes(card)...), true, "mode vgpu, not whole")
	w.prepare(vm("inst-a", 1, w.vgpu(card, 5)))
	w.wish(nodewire.Card{PCIAddress: card, Mode: "whole"})
	if g := w.mustGPU(card); g.Mode != "vgpu" || !strings.Contains(g.Wish, "held by inst-a") {
		t.Errorf("%+v", g)
	}
	w.release("inst-a", 1) // the wish waits for that
	if g := w.mustGPU(card); g.Mode != "whole" || g.Wish != "" || g.Geometry != "mig8" {
		t.Errorf("%+v", g)
	}
	if d, _ := w.m.Device(address(t, card)); d.VFs != 0 {
		t.Errorf("%d virtual functions", d.VFs)
	}
	w.prepare(vm("inst-b", 1, w.wholes(card)...))
	w.release("inst-b", 1)
	w.wish(nodewire.Card{PCIAddress: parted, Mode: "whole"})
	if g := w.mustGPU(parted); g.Mode != "vgpu" || !strings.Contains(g.Wish, "did not make") {
		t.Errorf("others' vGPUs are no obstacle: %+v", g)
	}
}

// TestMediatedOnVirtualFunctions: the other back end, told apart by sysfs alone.
func TestMediatedOnVirtualFunctions(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "a100-mdev")
	w.wish(nodewire.Card{PCIAddress: parted, Mode: "vgpu", VGPUType: "GRID A100D-20C"})
	if g := w.mustGPU(parted); g.Geometry != "vgpu4" || g.State != nodewire.GPUReady {
		t.Fatalf("%+v", g)
	}
	a := w.prepare(vm("inst-a", 1, w.vgpu(parted, 0)))
	b := w.prepare(vm("inst-b", 1, w.vgpu(parted, 3)))
	if a[0].Mediated == "" || a[0].Virtual != nil || w.m.AttachMediated("inst-a", a[0].Mediated) != nil || w.m.AttachMediated("inst-b", b[0].Mediated) != nil {
		t.Fatalf("%+v %+v", a, b)
	}
	w.m.Detach("inst-a")
	w.release("inst-a", 1)
	held, err := w.b.Held(context.Background())
	if err != nil || len(held) != 1 || !strings.Contains(w.m.Dump(), b[0].Mediated) || strings.Contains(w.m.Dump(), a[0].Mediated) {
		t.Errorf("held %v, %v", held, err)
	}
}
