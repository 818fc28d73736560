package host_test

import (
	"context"
	"syscall"
	"testing"

	"github.com/tenon-cloud/tenon/internal/device/pci"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

// TestARestartEndsARelease that was killed anywhere, by itself, and nothing of the
// card is offered before its check has passed.
func TestARestartEndsARelease(t *testing.T) {
	t.Parallel()
	for at := 1; ; at++ {
		f := newFleet(t, scenes[0])
		f.start("inst-a", scenes[0].places[0], 0)
		f.m.Detach("inst-a")
		f.wrote = func() { f.wants(quadro[0], nodewire.GPUCleaning) }
		killed := f.dies(at, func() { f.release("inst-a", 1) })
		f.wrote = nil
		if !killed {
			if at < 10 {
				t.Errorf("a release has only %d changes", at)
			}
			return
		}
		f.open()
		if at == 1 { // before the ledger had it: the agent asks again
			f.release("inst-a", 1)
		}
		f.wants(quadro[0], nodewire.GPUReady)
		if held, err := f.b.Held(context.Background()); err != nil || len(held) > 0 {
			t.Errorf("killed at %d: held %v, %v", at, held, err)
		}
		if now := f.look(); now != f.first {
			t.Errorf("killed at %d: the host is\n%s\nand was\n%s", at, now, f.first)
		}
	}
}

// TestAModeThatWaitedComesWithTheRestart: the agent is killed anywhere in the end
// of the guest that stood in the way of it, and the next life does not go back to
// the mode that was.
func TestAModeThatWaitedComesWithTheRestart(t *testing.T) {
	t.Parallel()
	for at := 1; ; at++ {
		f := newFleet(t, scene{tree: "a100-vgpu"})
		f.turn(turns[0], 0)
		f.start("inst-a", cuts[1], 0)
		f.turn(turns[1], 0)
		f.m.Detach("inst-a")
		if !f.dies(at, func() { f.release("inst-a", 1) }) {
			if at < 8 {
				t.Errorf("a release has only %d changes", at)
			}
			return
		}
		f.open()
		if at == 1 { // before the ledger had it: the agent asks again
			f.release("inst-a", 1)
		}
		if g := f.mustGPU(other); g.Mode != "whole" || g.Wish != "" || f.look() != f.first {
			t.Errorf("killed at %d: the card is %s (%s), and the host is\n%s\nand was\n%s", at, g.Mode, g.Wish, f.look(), f.first)
		}
	}
}

// TestAFailedResetIsNotForgotten when the agent is killed as the functions go back:
// then nothing on the card tells any more that a tenant's work is still in it.
func TestAFailedResetIsNotForgotten(t *testing.T) {
	t.Parallel()
	late := 0
	for at := 1; ; at++ {
		f := newFleet(t, scene{tree: "a100"})
		f.start("inst-a", place{cards: []string{other}, mode: "whole", kind: "vm"}, 0)
		f.m.Detach("inst-a")
		f.fails = map[string]error{pci.DeviceFile(address(t, other), "reset"): syscall.EIO}
		killed := f.dies(at, func() { f.release("inst-a", 1) })
		d, _ := f.m.Device(address(t, other))
		if !killed {
			f.wants(other, nodewire.GPUQuarantined, "its reset failed")
			break
		}
		f.fails = nil
		f.open()
		f.release("inst-a", 1)
		if d.Driver == "nvidia" {
			late++
			f.wants(other, nodewire.GPUQuarantined, "its reset failed")
		}
	}
	if late == 0 {
		t.Error("it was never killed after the card was back with its driver")
	}
}
