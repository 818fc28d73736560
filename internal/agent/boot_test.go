package agent

import (
	"strings"
	"testing"
	"time"

	"github.com/tenon-cloud/tenon/internal/hypervisor"
	"github.com/tenon-cloud/tenon/internal/hypervisor/fake"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

// TestARebootEndsRunsAndTheNextEpochStartsAnew: with the same devices, which are
// given back in between.
func TestARebootEndsRunsAndTheNextEpochStartsAnew(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Options{}, func(t *testing.T, w *world, n *node) {
		inst := withDevice(w, container("inst_1", 1))
		mustAssign(t, n, assignment("e", 1, inst, container("inst_2", 1)))
		pass(10 * time.Second)
		n.end()
		for _, id := range []string{"inst_1", "inst_2"} {
			w.engine.Exit(id, 0) // no process outlives a reboot, whatever it says of itself
		}
		w.boot = "boot-2"
		pass(time.Hour) // the host was off
		n2 := w.start(t, &fuse{})
		pass(time.Second)
		r := expect(t, n2, "inst_1", nodewire.GuestFailed, nodewire.ReasonRebooted)
		if away := r.StateForSeconds; away < 3590 {
			t.Errorf("it ended %v s ago, and the host was off for an hour", away)
		}
		if held(t, w) != 0 {
			t.Error("its device is still held")
		}
		inst.Epoch = 2
		mustAssign(t, n2, assignment("e", 2, inst, container("inst_2", 1)))
		pass(time.Second)
		if r := expect(t, n2, "inst_1", nodewire.GuestRunning, ""); r.Epoch != 2 || held(t, w) != 1 {
			t.Errorf("%+v, %d devices held", r, held(t, w))
		}
		expect(t, n2, "inst_2", nodewire.GuestFailed, nodewire.ReasonRebooted) // its epoch has ended once
		n2.end()
	})
}

// TestAGuestWhoseCardIsGoneDoesNotStart, and says at which address it was.
func TestAGuestWhoseCardIsGoneDoesNotStart(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Options{}, func(t *testing.T, w *world, n *node) {
		inst := withDevice(w, container("inst_1", 1))
		mustAssign(t, n, assignment("e", 1, inst, container("inst_2", 1)))
		pass(10 * time.Second)
		n.end()
		w.engine.Exit("inst_1", 255)
		w.boot, w.gone = "boot-2", "0000:41:00.0"
		n2 := w.start(t, &fuse{})
		pass(time.Second)
		inst.Epoch = 2
		mustAssign(t, n2, assignment("e", 2, inst))
		pass(2 * time.Minute)
		r := expect(t, n2, "inst_1", nodewire.GuestFailed, nodewire.ReasonDevice)
		if !strings.Contains(r.Message, "0000:41:00.0 is gone") {
			t.Errorf("it says %q", r.Message)
		}
		if held(t, w) != 0 || len(guests(t, w)) != 0 {
			t.Error("something of it is there")
		}
		n2.end()
	})
}

// TestGuestsAreShutDownBeforeTheirHost: in order, which is no end of their own: they
// come back, whether the kernel was started anew or not.
func TestGuestsAreShutDownBeforeTheirHost(t *testing.T) {
	t.Parallel()
	for name, boot := range map[string]string{"a boot": "boot-2", "a soft reboot": "boot-1"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, fake.Options{StopDelay: 3 * time.Second}, func(t *testing.T, w *world, n *node) {
				mustAssign(t, n, assignment("e", 1, withDevice(w, container("inst_1", 1)), desired(container("inst_2", 1), nodewire.DesiredStopped)))
				pass(10 * time.Second)
				stray := container("inst_stray", 1)
				if err := w.engine.Prepare(t.Context(), hypervisor.Spec{Instance: stray}, func(string, string, int) {}); err != nil {
					t.Fatal(err)
				}
				if _, err := w.engine.Start(t.Context(), hypervisor.Spec{Instance: stray}); err != nil {
					t.Fatal(err)
				}
				reports := len(n.door.reports)
				w.leaves = true
				n.end()
				for _, g := range guests(t, w) {
					if (g.State == hypervisor.Running) != (g.ID == "inst_stray") {
						t.Errorf("%s is %s", g.ID, g.State)
					}
				}
				if len(n.door.reports) != reports {
					t.Error("it was told, before it is known what becomes of it")
				}
				w.boot, w.leaves = boot, false
				n2 := w.start(t, &fuse{})
				pass(time.Second)
				expect(t, n2, "inst_1", nodewire.GuestFailed, nodewire.ReasonRebooted)
				expect(t, n2, "inst_2", nodewire.GuestStopped, nodewire.ReasonAsked)
				if held(t, w) != 0 {
					t.Error("its device is still held")
				}
				n2.end()
			})
		})
	}
}

// TestAnUpgradeOfTheAgentLeavesGuestsRunning: another agent in the same boot takes
// over what runs, and nothing of it is begun, ended or told anew.
func TestAnUpgradeOfTheAgentLeavesGuestsRunning(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Options{}, func(t *testing.T, w *world, n *node) {
		inst := withDevice(w, container("inst_1", 1))
		mustAssign(t, n, assignment("e", 1, inst))
		pass(10 * time.Second)
		before := guests(t, w)[0]
		n.end()
		pass(30 * time.Second)
		n2 := w.start(t, &fuse{})
		pass(time.Second)
		r := expect(t, n2, "inst_1", nodewire.GuestRunning, "")
		after := guests(t, w)[0]
		if !after.StartedAt.Equal(before.StartedAt) || after.Epoch != 1 || held(t, w) != 1 {
			t.Errorf("before %+v, after %+v, %d devices held", before, after, held(t, w))
		}
		if r.RanForSeconds < 39 {
			t.Errorf("it has run for %v s, and should for 40", r.RanForSeconds)
		}
		n2.end()
	})
}
