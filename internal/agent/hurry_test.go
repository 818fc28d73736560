package agent

import (
	"testing"
	"time"

	"github.com/tenon-cloud/tenon/internal/hypervisor/fake"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

// TestADeletionDoesNotWaitForAStop: what is deleted while it shuts down, or
// restarts, is waited for no longer than what is deleted while it runs.
func TestADeletionDoesNotWaitForAStop(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"stop", "restart"} {
		bubble(t, fake.Options{StopDelay: time.Hour}, func(t *testing.T, w *world, n *node) {
			inst := withDevice(w, container("inst_1", 1))
			inst.Kind, inst.StopGraceSeconds = "vm", 120
			mustAssign(t, n, assignment("e", 1, inst))
			pass(20 * time.Second)
			ends := nodewire.DesiredStopped
			if how == "restart" {
				ends = nodewire.DesiredRunning
			}
			inst = desired(inst, ends)
			mustAssign(t, n, assignment("e", 2, inst))
			pass(20 * time.Second)
			mustAssign(t, n, assignment("e", 3, inst, container("inst_2", 1))) // anything else hurries nobody
			pass(20 * time.Second)
			if len(guests(t, w)) != 2 || held(t, w) != 1 {
				t.Fatalf("%s: it was not given its time: %+v", how, guests(t, w))
			}
			inst = desired(inst, nodewire.DesiredGone)
			mustAssign(t, n, assignment("e", 4, inst, container("inst_2", 1)))
			pass(deleteGrace - time.Second)
			if len(guests(t, w)) != 2 || held(t, w) != 1 {
				t.Errorf("%s: it was given no time for its deletion: %+v", how, guests(t, w))
			}
			pass(3 * time.Second)
			expect(t, n, "inst_1", nodewire.GuestGone, nodewire.ReasonAsked)
			if len(guests(t, w)) != 1 || held(t, w) != 0 {
				t.Errorf("%s: something of it is left: %+v, %d devices", how, guests(t, w), held(t, w))
			}
		})
	}
}
