package host_test

import (
	"context"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tenon-cloud/tenon/internal/device/host"
	"github.com/tenon-cloud/tenon/internal/device/nvml/simnvml"
	"github.com/tenon-cloud/tenon/internal/device/pci"
	"github.com/tenon-cloud/tenon/internal/device/pci/recorded"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

const (
	instinct     = "0000:03:00.0"
	instinctHost = "00:1c.5 class=060400 id=8086:a33d driver=pcieport group=5\n" +
		instinct + " under=00:1c.5 class=038000 id=1002:740f driver=amdgpu group=9 bars=0:64Gp reset=flr"
)

func (w *world) resets(card string) int {
	w.tb.Helper()
	d, _ := w.m.Device(address(w.tb, card))
	return d.Resets
}

// A card whose reset failed after a tenant is reset before it is offered again,
// also when its own driver has it meanwhile and an operator says that it is well.
func TestARecoveryResetsWhatNoResetHasCleaned(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		tree, card string
		with       []func(*world)
	}{
		"amdgpu":              {tree: instinctHost, card: instinct},
		"nvidia":              {tree: "a100", card: near},
		"nvidia, its library": {tree: "a100", card: near, with: []func(*world){twoA100()}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, c.tree, c.with...)
			before := w.drivers(c.card)
			file := pci.DeviceFile(address(t, c.card), "reset")
			w.prepare(vm("inst-a", 1, w.wholes(c.card)...))
			w.fails = map[string]error{file: syscall.EIO}
			w.release("inst-a", 1)
			w.same(before, c.card)
			w.wants(c.card, nodewire.GPUQuarantined, "its reset failed")
			d, library := w.cfg.Driver.(boundDriver)
			if library {
				d.Fail(simnvml.Reset, 1, host.ErrRefused)
			}
			w.wish(nodewire.Card{PCIAddress: c.card, Mode: "whole", Recover: 1})
			w.wants(c.card, nodewire.GPUQuarantined, "its reset failed")
			w.open()
			w.fails = nil
			was := w.resets(c.card)
			asked := 0
			if library {
				asked = d.asked("reset " + c.card)
			}
			w.wish(nodewire.Card{PCIAddress: c.card, Mode: "whole", Recover: 2})
			w.wants(c.card, nodewire.GPUReady)
			w.same(before, c.card)
			if w.resets(c.card) == was && !(library && d.asked("reset "+c.card) > asked) {
				t.Error("it is offered, and was not reset since its tenant")
			}
		})
	}
}

// Its own driver has a card again though the host did not boot: somebody took it
// off the bus and looked again. That cleans nothing.
func TestACardThatCameBackByItselfIsReset(t *testing.T) {
	t.Parallel()
	w := newWorld(t, instinctHost)
	before := w.drivers(instinct)
	w.prepare(vm("inst-a", 1, w.wholes(instinct)...))
	again := func(d *recorded.Device) { d.Driver, d.Override = "amdgpu", "" }
	w.m.Change(address(t, instinct), again)
	w.release("inst-a", 1)
	w.same(before, instinct)
	w.wants(instinct, nodewire.GPUReady)
	if w.resets(instinct) != 1 {
		t.Errorf("it was reset %d times", w.resets(instinct))
	}
	w.prepare(vm("inst-a", 2, w.wholes(instinct)...))
	w.m.Change(address(t, instinct), again)
	w.cfg.BootID = "boot-2"
	w.open()
	w.release("inst-a", 2)
	w.wants(instinct, nodewire.GPUReady)
	if w.resets(instinct) != 1 {
		t.Errorf("a boot made it anew, and it was reset %d times", w.resets(instinct))
	}
}

// A fault that waits for a reset is over with a reset, not with a release that did
// none: of a card that its VM never got.
func TestOnlyAResetEndsWhatWaitsForOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "a100", twoA100())
	d := w.cfg.Driver.(boundDriver)
	w.holders["/dev/nvidia0"] = []host.Process{{PID: 12, Command: "dcgm"}}
	w.refused(vm("inst-a", 1, w.wholes(near)...), false, "dcgm")
	w.b.Tell(host.Signal{Card: near, XID: 48, GI: -1})
	d.Fail(simnvml.Reset, 1, host.ErrBusy)
	w.release("inst-a", 1)
	w.wants(near, nodewire.GPUNeedsReset, "XID 48")
	w.holders = nil
	w.b.ResetIdle(context.Background())
	w.wants(near, nodewire.GPUReady)
	if n := d.asked("reset " + near); n != 2 {
		t.Errorf("it was to be reset %d times", n)
	}
}

// A card that is reset between a look's reading and what is told of it does not
// wait for a reset again.
func TestAReadingFromBeforeAResetIsOld(t *testing.T) {
	t.Parallel()
	var late lateDriver
	w := newWorld(t, "a100", twoA100(), func(w *world) {
		late.boundDriver = w.cfg.Driver.(boundDriver)
		w.cfg.Driver = &late
		began := time.Now()
		w.cfg.SinceBoot = func() time.Duration { return time.Minute + time.Since(began) }
	})
	w.prepare(container("inst-a", 1, w.wholes(near)...))
	late.Change(near, func(c *host.DriverCard) { c.Remap.Pending = true })
	w.wants(near, nodewire.GPUNeedsReset, "row of its memory")
	late.then = func() { w.release("inst-a", 1) }
	w.mustGPU(near)
	w.wants(near, nodewire.GPUReady)
}

// lateDriver has something happen once between a list of cards and its use.
type lateDriver struct {
	boundDriver
	then func()
}

func (d *lateDriver) Cards(ctx context.Context) ([]host.DriverCard, error) {
	list, err := d.boundDriver.Cards(ctx)
	if then := d.then; then != nil {
		d.then = nil
		then()
	}
	return list, err
}

// asked counts the driver's calls, also those that failed.
func (d boundDriver) asked(call string) (n int) {
	for _, c := range d.Log() {
		if c == call {
			n++
		}
	}
	return n
}

// Slices that others made are on the card when it is to be reset: they stay, and
// it waits, also right after our own last slice of it.
func TestNoResetEndsOthersSlices(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "a100", twoA100())
	d := w.cfg.Driver.(boundDriver)
	w.wish(nodewire.Card{PCIAddress: far, Mode: "mig"})
	w.prepare(container("inst-a", 1, w.slice(far, "1g", 0, 1)))
	theirs, err := d.Foreign(far, 19, 6, false)
	if err != nil {
		t.Fatal(err)
	}
	w.b.Tell(host.Signal{Card: far, XID: 94, GI: -1})
	w.release("inst-a", 1)
	w.b.ResetIdle(context.Background())
	w.wants(far, nodewire.GPUNeedsReset, "XID 94")
	if g := w.mustGPU(far); len(g.Slices) != 1 || g.Slices[0].UUID != theirs.UUID || !g.Slices[0].Foreign {
		t.Errorf("theirs was %s, and there is %+v", theirs.UUID, g.Slices)
	}
	if err := d.Driver.DestroyInstance(context.Background(), far, theirs.ID); err != nil {
		t.Fatal(err)
	}
	w.b.ResetIdle(context.Background())
	w.wants(far, nodewire.GPUReady)
}

// A recovery that meets somebody on the card is ended once nobody is, with the
// same wish or by itself, and not only with the agent's next start.
func TestARecoveryThatMetABusyCardIsEnded(t *testing.T) {
	t.Parallel()
	file := pci.DeviceFile(address(t, instinct), "reset")
	for name, end := range map[string]func(*world, nodewire.Card){
		"with the same wish": func(w *world, c nodewire.Card) { w.wish(c) },
		"by itself":          func(w *world, _ nodewire.Card) { w.b.ResetIdle(context.Background()) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, instinctHost)
			w.prepare(vm("inst-a", 1, w.wholes(instinct)...))
			w.fails = map[string]error{file: syscall.EIO}
			w.release("inst-a", 1)
			word := nodewire.Card{PCIAddress: instinct, Mode: "whole", Recover: 1}
			w.fails = map[string]error{file: host.ErrBusy}
			w.wish(word)
			w.wants(instinct, nodewire.GPUCleaning)
			if g := w.mustGPU(instinct); !strings.Contains(g.Wish, "could not be ended") {
				t.Errorf("%+v", g)
			}
			w.fails = nil
			end(w, word)
			w.wants(instinct, nodewire.GPUReady)
			if g := w.mustGPU(instinct); g.Recovered != 1 || g.Driver != "amdgpu" {
				t.Errorf("%+v", g)
			}
		})
	}
}

// A reset of any kind comes when no driver has the card, which would run on.
func TestNoDriverRunsOnUnderAReset(t *testing.T) {
	t.Parallel()
	for _, way := range []string{" reset=flr", ""} { // its own way, else that of its bridge
		w := newWorld(t, "kernel reset_subordinate\n"+strings.Replace(instinctHost, " reset=flr", way, 1))
		w.prepare(vm("inst-a", 1, w.wholes(instinct)...))
		w.m.Change(address(t, instinct), func(d *recorded.Device) { d.Driver, d.Override = "amdgpu", "" })
		seen := 0
		w.wrote = func() {
			if d, _ := w.m.Device(address(t, instinct)); d.Resets > seen {
				if seen = d.Resets; d.Driver != "" {
					t.Errorf("way %q: it was reset under %s", way, d.Driver)
				}
			}
		}
		w.release("inst-a", 1)
		w.wants(instinct, nodewire.GPUReady)
		if seen != 1 {
			t.Errorf("way %q: it was reset %d times", way, seen)
		}
	}
}
