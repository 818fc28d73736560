package host_test

import (
	"context"
	"errors"
	"testing"

	"github.com/tenon-cloud/tenon/internal/device"
	"github.com/tenon-cloud/tenon/internal/device/nvml/simnvml"
	"github.com/tenon-cloud/tenon/internal/device/pci/recorded"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

// reboot is the host as its kernel makes it: functions with their own drivers, no
// virtual ones, no mediated devices, no slices. What is on disk stays.
func (w *world) reboot(tree, boot string, change ...func(*recorded.Model)) {
	w.tb.Helper()
	m, err := recorded.Tree(tree)
	if err != nil {
		w.tb.Fatal(err)
	}
	for _, c := range change {
		c(m)
	}
	w.m = m
	w.cfg.Sys, w.cfg.BootID = killable{m, w}, boot
	if d, ok := w.cfg.Driver.(boundDriver); ok {
		d.Reboot()
	}
	w.open()
}

// TestAfterARebootEveryModeIsThereAgain: what a guest had is given back and made
// again for its next run, with the same places of the same cards.
func TestAfterARebootEveryModeIsThereAgain(t *testing.T) {
	t.Parallel()
	const one, two, vf = "0000:17:00.0", "0000:65:00.0", "0000:65:00.0"
	halves := []nodewire.Place{{Profile: "3g", SlotStart: 0, SlotEnd: 4}, {Profile: "3g", SlotStart: 4, SlotEnd: 8}}
	hopper := withDriver(
		simnvml.Card{Model: "h100-80gb", PCIAddress: one, Resets: true, Keeps: false},
		simnvml.Card{Model: "h100-80gb", PCIAddress: two, Keeps: false})
	for name, c := range map[string]struct {
		tree   string
		driver func(*world)
		wish   []nodewire.Card
		card   string
		kind   string
		of     func(*world) []nodewire.Device
		beside func(*world) []nodewire.Device // another guest's, whose run is not ended yet
	}{
		"whole":              {tree: "a100", driver: twoA100(), card: one, kind: "vm", of: func(w *world) []nodewire.Device { return w.wholes(one) }},
		"whole, a container": {tree: "a100", driver: twoA100(), card: one, kind: "container", of: func(w *world) []nodewire.Device { return w.wholes(one) }},
		"a slice of a layout": {
			tree: "a100", driver: hopper, card: two, kind: "container", wish: []nodewire.Card{{PCIAddress: two, Mode: "mig", Layout: halves}},
			of:     func(w *world) []nodewire.Device { return []nodewire.Device{w.slice(two, "3g", 4, 8)} },
			beside: func(w *world) []nodewire.Device { return []nodewire.Device{w.slice(two, "3g", 0, 4)} },
		},
		"a slice without a layout": {
			tree: "a100", driver: hopper, card: two, kind: "container", wish: []nodewire.Card{{PCIAddress: two, Mode: "mig"}},
			of:     func(w *world) []nodewire.Device { return []nodewire.Device{w.slice(two, "2g", 2, 4)} },
			beside: func(w *world) []nodewire.Device { return []nodewire.Device{w.slice(two, "3g", 4, 8)} },
		},
		"a slice of a card that keeps its mode": {
			tree: "a100", driver: twoA100(), card: two, kind: "container", wish: []nodewire.Card{{PCIAddress: two, Mode: "mig", Layout: halves}},
			of: func(w *world) []nodewire.Device { return []nodewire.Device{w.slice(two, "3g", 0, 4)} },
		},
		"a share": {
			tree: "a100", driver: twoA100(), card: two, kind: "container", wish: []nodewire.Card{{PCIAddress: two, Mode: "shared", Shares: 4}},
			of: func(w *world) []nodewire.Device {
				return []nodewire.Device{{GPUUUID: w.mustGPU(two).UUID, Mode: "shared", Profile: "share", SlotStart: 1, SlotEnd: 2}}
			},
		},
		"a virtual function": {
			tree: "a100-vgpu", card: vf, kind: "vm", wish: []nodewire.Card{{PCIAddress: vf, Mode: "vgpu", VGPUType: "GRID A100D-10C"}},
			of:     func(w *world) []nodewire.Device { return []nodewire.Device{w.vgpu(vf, 5)} },
			beside: func(w *world) []nodewire.Device { return []nodewire.Device{w.vgpu(vf, 0)} },
		},
		"a mediated device": {
			tree: "lab", card: mtty, kind: "vm", wish: []nodewire.Card{{PCIAddress: mtty, Mode: "vgpu", VGPUType: "mtty-2", Recover: 1}},
			of:     func(w *world) []nodewire.Device { return []nodewire.Device{w.vgpu(mtty, 3)} },
			beside: func(w *world) []nodewire.Device { return []nodewire.Device{w.vgpu(mtty, 7)} },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var with []func(*world)
			if c.driver != nil {
				with = append(with, c.driver)
			}
			w := newWorld(t, c.tree, with...)
			w.wish(c.wish...)
			before := w.mustGPU(c.card)
			want := device.Request{InstanceID: "inst-a", Epoch: 1, Kind: c.kind, Devices: c.of(w)}
			w.prepare(want)
			if c.beside != nil {
				w.prepare(device.Request{InstanceID: "inst-b", Epoch: 1, Kind: c.kind, Devices: c.beside(w)})
			}
			w.reboot(c.tree, "boot-2")
			w.wish(c.wish...)
			if held, err := w.b.Held(context.Background()); err != nil || len(held["inst-a"]) != 1 {
				t.Errorf("held %v, %v", held, err)
			}
			w.release("inst-a", 1)
			after := w.mustGPU(c.card)
			if after.UUID != before.UUID || after.Mode != before.Mode || after.Geometry != before.Geometry || after.State != nodewire.GPUReady || after.Wish != "" || len(after.Missing) > 0 {
				t.Errorf("before %+v\nafter  %+v", before, after)
			}
			want.Epoch = 2
			if g := w.prepare(want); len(g) != 1 {
				t.Errorf("%+v", g)
			}
			w.release("inst-a", 2)
			w.release("inst-b", 1)
			w.wants(c.card, nodewire.GPUReady)
		})
	}
}

// TestACardThatIsGoneAfterAReboot is named by its address, and nobody gets it.
func TestACardThatIsGoneAfterAReboot(t *testing.T) {
	t.Parallel()
	const card = "0000:17:00.0"
	w := newWorld(t, "a100", twoA100())
	want := vm("inst-a", 1, w.wholes(card)...)
	w.prepare(want)
	w.reboot("a100", "boot-2", func(m *recorded.Model) { m.Vanish(address(t, card)) })
	w.release("inst-a", 1)
	want.Epoch = 2
	w.refused(want, false, card+" is gone")
	_, err := w.b.Prepare(context.Background(), want)
	var gone *device.GoneError
	if !errors.As(err, &gone) || gone.Address != card {
		t.Errorf("%v", err)
	}
	if g := w.mustGPU(card); g.State == nodewire.GPUReady {
		t.Errorf("%+v", g)
	}
}
