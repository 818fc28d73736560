package host_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tenon-cloud/tenon/internal/device/host"
	"github.com/tenon-cloud/tenon/internal/device/nvml/simnvml"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

// blindDriver tells nothing of how cards are cut so many times, or of one card at
// all.
type blindDriver struct {
	boundDriver
	times *atomic.Int32
	ill   string
}

func (d blindDriver) blind() bool { return d.times.Add(-1) >= 0 }

func (d blindDriver) Profiles(ctx context.Context, card string) ([]host.MIGProfile, error) {
	if d.blind() {
		return nil, nil
	}
	return d.boundDriver.Profiles(ctx, card)
}

func (d blindDriver) Instances(ctx context.Context, card string) ([]host.GPUInstance, error) {
	if d.blind() {
		return nil, nil
	}
	return d.boundDriver.Instances(ctx, card)
}

func (d blindDriver) Cards(ctx context.Context) ([]host.DriverCard, error) {
	list, err := d.boundDriver.Cards(ctx)
	before := len(list)
	if list = slices.DeleteFunc(list, func(c host.DriverCard) bool { return c.PCIAddress == d.ill }); len(list) < before {
		err = errors.Join(err, errors.New("read a card: unknown error"))
	}
	return list, err
}

// A driver that tells nothing for a moment has taken no slice away: the tenant's
// stays its own, and is released only when it is seen to be gone.
func TestAMomentWithoutAnAnswerDisownsNoSlice(t *testing.T) {
	t.Parallel()
	var times atomic.Int32
	w := newWorld(t, "a100", twoA100(), func(w *world) {
		w.cfg.Driver = blindDriver{boundDriver: w.cfg.Driver.(boundDriver), times: &times}
	})
	wish := nodewire.Card{PCIAddress: far, Mode: "mig"}
	w.wish(wish)
	w.prepare(container("inst-a", 1, w.slice(far, "1g", 0, 1)))
	mine := func() {
		t.Helper()
		if g := w.mustGPU(far); len(g.Slices) != 1 || g.Slices[0].Foreign || g.Slices[0].Owner != "inst-a" {
			t.Errorf("%+v", g.Slices)
		}
	}
	for n := range int32(6) {
		times.Store(n)
		w.wish(wish)
		times.Store(0)
		mine()
	}
	for n := int32(1); ; n++ {
		times.Store(n)
		err := w.b.Release(context.Background(), "inst-a", 1)
		times.Store(0)
		if err == nil {
			t.Fatal("it was released unseen")
		}
		if n == 6 {
			break
		}
		mine()
	}
	w.release("inst-a", 1)
	if g := w.mustGPU(far); len(g.Slices) != 0 || g.State != nodewire.GPUReady {
		t.Errorf("%+v", g)
	}
}

// A card that its driver can't tell of keeps no other from being cut.
func TestAnIllCardKeepsNoOtherFromBeingCut(t *testing.T) {
	t.Parallel()
	var times atomic.Int32
	w := newWorld(t, "a100", twoA100(), func(w *world) {
		w.cfg.Driver = blindDriver{boundDriver: w.cfg.Driver.(boundDriver), times: &times, ill: near}
	})
	w.wish(nodewire.Card{PCIAddress: far, Mode: "mig"})
	w.wants(near, nodewire.GPUUnknown)
	w.prepare(container("inst-a", 1, w.slice(far, "1g", 0, 1)))
	w.release("inst-a", 1)
	if g := w.mustGPU(far); len(g.Slices) != 0 || g.State != nodewire.GPUReady || g.Mode != "mig" {
		t.Errorf("%+v", g)
	}
}

// A slice that the driver does not destroy holds up its release, and nobody else's
// vGPU gets it as it was.
func TestAVGPUWhoseSliceStaysIsNotReleased(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "a100-vgpu", vgpuHost())
	w.wish(nodewire.Card{PCIAddress: other, Mode: "vgpu"})
	w.prepare(vm("inst-a", 1, w.backed(other, "1g", 6, 7)))
	d := w.cfg.Driver.(boundDriver)
	d.Fail(simnvml.Destroy, 100, errors.New("insufficient permissions"))
	if err := w.b.Release(context.Background(), "inst-a", 1); err == nil || errors.Is(err, host.ErrBusy) || !strings.Contains(err.Error(), "insufficient permissions") {
		t.Error(err)
	}
	w.refused(vm("inst-b", 1, w.backed(other, "1g", 6, 7)), false)
	d.Fail(simnvml.Destroy, 0, nil)
	w.release("inst-a", 1)
	if g := w.mustGPU(other); len(g.Slices) != 0 {
		t.Errorf("%+v", g.Slices)
	}
	w.prepare(vm("inst-b", 1, w.backed(other, "1g", 6, 7)))
}

// An agent may start before its vendor's driver can be asked: until then a card
// that the driver has is neither whole nor clean.
func TestUntilTheDriverAnswersItsCardsAreUnknown(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "a100", twoA100())
	d := w.cfg.Driver.(boundDriver)
	w.wish(nodewire.Card{PCIAddress: far, Mode: "mig"})
	w.prepare(vm("inst-a", 1, w.wholes(near)...))
	d.Change(near, func(c *host.DriverCard) {
		c.MIG.Current, c.MIG.Pending, c.ECC.Current, c.ECC.Pending = true, true, false, false
	})
	cut := w.slice(far, "1g", 0, 1)
	for _, driver := range []host.Driver{host.NoDriver{}, w.cfg.Driver} { // none for good, and one that comes later
		d.Down(true)
		w.cfg.Driver = driver
		w.open()
		w.wants(far, nodewire.GPUUnknown, "no driver")
		w.refused(vm("inst-b", 1, nodewire.Device{GPUUUID: cut.GPUUUID, Mode: "whole", Profile: "whole", SlotStart: 0, SlotEnd: 8}), false, "unknown")
		w.release("inst-a", 1)
		if g := w.mustGPU(near); g.State == nodewire.GPUReady {
			t.Errorf("what its tenant left is handed on: %+v", g)
		}
	}
	d.Down(false)
	if g := w.mustGPU(far); g.State != nodewire.GPUReady || g.Mode != "mig" {
		t.Errorf("%+v", g)
	}
	w.prepare(container("inst-b", 1, cut))
	w.wish(nodewire.Card{PCIAddress: far, Mode: "mig"}, nodewire.Card{PCIAddress: near, Recover: 1})
	w.wants(near, nodewire.GPUReady)
	list, err := d.Cards(t.Context())
	if err != nil || len(list) != 2 || list[0].MIG.Current || !list[0].ECC.Current {
		t.Errorf("%+v (%v)", list, err)
	}
}
