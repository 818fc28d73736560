package host_test

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/tenon-cloud/tenon/internal/device/host"
	"github.com/tenon-cloud/tenon/internal/device/nvml/simnvml"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

// A card says what its reset waits for, and is reset by itself once that is over.
func TestACardSaysWhatItsResetWaitsFor(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "a100", twoA100())
	d := w.cfg.Driver.(boundDriver)
	w.wish(nodewire.Card{PCIAddress: near, Mode: "mig"})
	w.prepare(container("inst-a", 1, w.slice(near, "1g", 0, 1)))
	w.prepare(container("inst-b", 1, w.slice(near, "2g", 2, 4)))
	theirs, err := d.Foreign(near, 19, 4, false)
	if err != nil {
		t.Fatal(err)
	}
	was := d.asked("reset " + near)
	w.b.Tell(host.Signal{Card: near, XID: 94, GI: -1})
	w.wants(near, nodewire.GPUNeedsReset, "XID 94", "it is reset once inst-a, inst-b have given it back")
	w.release("inst-a", 1)
	w.wants(near, nodewire.GPUNeedsReset, "XID 94", "it is reset once inst-b has given it back")
	w.release("inst-b", 1)
	w.wants(near, nodewire.GPUNeedsReset, "XID 94", "once that is over: a slice that Tenon did not make is on it, at 4 to 5")
	if n := d.asked("reset "+near) - was; n != 0 {
		t.Fatalf("it was reset %d times under another's slice", n)
	}
	if err := d.Driver.DestroyInstance(t.Context(), near, theirs.ID); err != nil {
		t.Fatal(err)
	}
	d.Fail(simnvml.Reset, 1, errors.New("the driver said no"))
	w.b.ResetIdle(context.Background())
	w.wants(near, nodewire.GPUNeedsReset, "XID 94", "again soon: the driver said no")
	w.b.ResetIdle(context.Background())
	w.wants(near, nodewire.GPUReady)
}

// The last guest's end alone has the card reset: nobody has to ask.
func TestALastSlicesReleaseResetsItsCard(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "a100", twoA100())
	w.wish(nodewire.Card{PCIAddress: near, Mode: "mig"})
	w.prepare(container("inst-a", 1, w.slice(near, "1g", 0, 1)))
	w.prepare(container("inst-b", 1, w.slice(near, "2g", 2, 4)))
	w.b.Tell(host.Signal{Card: near, XID: 94, GI: -1})
	w.release("inst-a", 1)
	w.wants(near, nodewire.GPUNeedsReset)
	w.release("inst-b", 1)
	w.wants(near, nodewire.GPUReady)
}

// A share is offered again once no program of its guest is left on the card, also
// while others use theirs.
func TestAShareIsGivenBackWithoutItsPrograms(t *testing.T) {
	t.Parallel()
	cgroups := map[int]string{7: "0::/tenon-c/inst-a\n", 8: "9:pids:/tenon-c/inst-b/child\n0::/\n", 9: "0::/system.slice/dcgm.service\n"}
	w := newWorld(t, "a100", twoA100(), func(w *world) {
		w.cfg.CgroupOf = func(pid int) (string, error) {
			text, there := cgroups[pid]
			if !there {
				return "", fs.ErrNotExist
			}
			return text, nil
		}
	})
	d := w.cfg.Driver.(boundDriver)
	w.wish(nodewire.Card{PCIAddress: near, Mode: "shared", Shares: 4})
	share := func(i int) nodewire.Device {
		return nodewire.Device{GPUUUID: w.mustGPU(near).UUID, Mode: "shared", Profile: "share", SlotStart: i, SlotEnd: i + 1}
	}
	w.prepare(container("inst-a", 1, share(0)))
	w.prepare(container("inst-b", 1, share(1)))
	d.Change(near, func(c *host.DriverCard) {
		c.Processes = []host.Process{{PID: 9, Command: "dcgm"}, {PID: 8, Command: "jupyter"}, {PID: 7, Command: "python"}}
	})
	err := w.b.Release(t.Context(), "inst-a", 1)
	if !errors.Is(err, host.ErrBusy) || !strings.Contains(err.Error(), "python (process 7)") {
		t.Fatalf("its program is left, and it was given back: %v", err)
	}
	w.wants(near, nodewire.GPUCleaning, "inst-a", "python (process 7) still uses it")
	w.refused(container("inst-c", 1, share(0)), false, "cleaning")
	if held, err := w.b.Held(t.Context()); err != nil || len(held["inst-a"]) != 1 {
		t.Errorf("it holds %v, %v", held["inst-a"], err)
	}
	delete(cgroups, 7) // it has ended, and the driver's list is late
	w.release("inst-a", 1)
	w.wants(near, nodewire.GPUReady)
	w.prepare(container("inst-c", 1, share(0)))

	cgroupsFail := errors.New("no permission")
	w.cfg.CgroupOf = func(int) (string, error) { return "", cgroupsFail }
	w.open()
	if err := w.b.Release(t.Context(), "inst-c", 1); !errors.Is(err, host.ErrBusy) || !errors.Is(err, cgroupsFail) {
		t.Errorf("whose programs are there is unknown, and it was given back: %v", err)
	}
}
