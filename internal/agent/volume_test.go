package agent

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tenon-cloud/tenon/internal/hypervisor"
	"github.com/tenon-cloud/tenon/internal/hypervisor/fake"
	"github.com/tenon-cloud/tenon/internal/nodewire"
	"github.com/tenon-cloud/tenon/internal/volume"
)

func withVolume(as nodewire.Assignment, desired string) nodewire.Assignment {
	as.Volumes = append(as.Volumes, nodewire.Volume{ID: "vol_1", OrgID: "org-1", Role: "home", SizeMiB: 64, Desired: desired})
	return as
}

func specOf(inst nodewire.Instance) hypervisor.Spec { return hypervisor.Spec{Instance: inst} }

func withHome(inst nodewire.Instance) nodewire.Instance {
	inst.Kind, inst.Mounts = "notebook", []nodewire.Mount{{VolumeID: "vol_1", Role: "home", Path: "/home/tenon"}}
	return inst
}

func (n *node) volume(id string) nodewire.VolumeReport {
	for _, v := range n.door.last().Volumes {
		if v.ID == id {
			return v
		}
	}
	return nodewire.VolumeReport{}
}

func has(t *testing.T, w *world, id string) bool {
	t.Helper()
	ok, err := w.store.Has(context.Background(), id)
	if err != nil {
		t.Fatal(err)
	}
	return ok
}

func TestAVolumeOutlivesItsRunsAndGoesLast(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Options{StopDelay: 4 * time.Second}, func(t *testing.T, w *world, n *node) {
		nb := withHome(container("inst_1", 1))
		mustAssign(t, n, withVolume(assignment("e", 1, nb), nodewire.VolumePresent))
		pass(time.Second)
		expect(t, n, "inst_1", nodewire.GuestRunning, "")
		if v := n.volume("vol_1"); v.State != nodewire.VolumePresent {
			t.Errorf("%+v", v)
		}
		mustAssign(t, n, withVolume(assignment("e", 2, desired(nb, nodewire.DesiredStopped)), nodewire.VolumePresent))
		pass(6 * time.Second)
		mustAssign(t, n, withVolume(assignment("e", 3), nodewire.VolumePresent)) // stopped: not placed
		pass(12 * time.Second)
		if !has(t, w, "vol_1") || n.volume("vol_1").State != nodewire.VolumePresent {
			t.Fatalf("after a stop: %+v", n.volume("vol_1"))
		}
		// A longer list later enlarges it, while nothing runs.
		big := withVolume(assignment("e", 4), nodewire.VolumePresent)
		big.Volumes[0].SizeMiB = 128
		mustAssign(t, n, big)
		pass(time.Second)
		if list, _ := w.store.List(context.Background()); list[0].SizeMiB != 128 {
			t.Errorf("%+v", list)
		}
		// Deleted while it runs again: guest first, volume last.
		nb.Epoch, nb.Generation = 2, 5
		mustAssign(t, n, withVolume(assignment("e", 5, nb), nodewire.VolumePresent))
		pass(time.Second)
		expect(t, n, "inst_1", nodewire.GuestRunning, "")
		mustAssign(t, n, withVolume(assignment("e", 6, desired(nb, nodewire.DesiredGone)), nodewire.VolumeGone))
		pass(2 * time.Second)
		if !has(t, w, "vol_1") || n.volume("vol_1").State != nodewire.VolumePresent {
			t.Errorf("it was removed under its guest: %+v", n.volume("vol_1"))
		}
		pass(15 * time.Second)
		if has(t, w, "vol_1") || n.volume("vol_1").State != nodewire.VolumeGone {
			t.Errorf("after the end of its guest: %+v", n.volume("vol_1"))
		}
		mustAssign(t, n, assignment("e", 7))
		pass(time.Second)
		if v := n.volume("vol_1"); v.ID != "" || len(n.door.last().Orphans) != 0 {
			t.Errorf("%+v, %+v", v, n.door.last().Orphans)
		}
	})
}

// TestDataThatIsLostIsSaidAndNotMadeAnew: an empty home would pass for a whole one.
func TestDataThatIsLostIsSaidAndNotMadeAnew(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Options{}, func(t *testing.T, w *world, n *node) {
		nb := withHome(container("inst_1", 1))
		mustAssign(t, n, withVolume(assignment("e", 1, nb), nodewire.VolumePresent))
		pass(time.Second)
		mustAssign(t, n, withVolume(assignment("e", 2, desired(nb, nodewire.DesiredStopped)), nodewire.VolumePresent))
		pass(7 * time.Second)
		if err := w.store.Remove(context.Background(), "vol_1"); err != nil { // behind the agent's back
			t.Fatal(err)
		}
		n.end()
		*n = *w.start(t, &fuse{})
		pass(12 * time.Second)
		nb.Epoch, nb.Generation = 2, 3
		mustAssign(t, n, withVolume(assignment("e", 3, nb), nodewire.VolumePresent))
		pass(12 * time.Second)
		expect(t, n, "inst_1", nodewire.GuestFailed, nodewire.ReasonVolume)
		if v := n.volume("vol_1"); v.State != nodewire.VolumeFailed || !strings.Contains(v.Message, "no longer") || has(t, w, "vol_1") {
			t.Errorf("%+v", v)
		}
	})
}

// TestDataThatTheControlPlaneKnowsOfIsNotMadeAnew: after a restore it knows of a
// volume that was deleted here since, of which nothing is left to tell.
func TestDataThatTheControlPlaneKnowsOfIsNotMadeAnew(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Options{}, func(t *testing.T, w *world, n *node) {
		as := withVolume(assignment("e", 1, withHome(container("inst_1", 1))), nodewire.VolumePresent)
		as.Volumes[0].Made = true
		mustAssign(t, n, as)
		pass(12 * time.Second)
		expect(t, n, "inst_1", nodewire.GuestFailed, nodewire.ReasonVolume)
		if v := n.volume("vol_1"); v.State != nodewire.VolumeFailed || !strings.Contains(v.Message, "no longer") || has(t, w, "vol_1") {
			t.Errorf("%+v", v)
		}
	})
}

func TestAVolumeThatNobodyListsIsShownAndLeftAlone(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Options{}, func(t *testing.T, w *world, n *node) {
		if _, err := w.store.Ensure(context.Background(), nodewire.Volume{ID: "vol_alien", Role: "root", SizeMiB: 64}); err != nil {
			t.Fatal(err)
		}
		pass(12 * time.Second)
		if got := n.orphan("vol_alien"); len(got) != 0 {
			t.Errorf("before anything was assigned: %q", got)
		}
		mustAssign(t, n, assignment("e", 1))
		pass(25 * time.Second)
		if got := n.orphan("vol_alien"); len(got) != 1 || !has(t, w, "vol_alien") {
			t.Fatalf("orphans: %q", got)
		}
		as := assignment("e", 2)
		as.Remove = []string{"vol_alien"}
		mustAssign(t, n, as)
		pass(2 * time.Second)
		if got := n.orphan("vol_alien"); len(got) != 0 || has(t, w, "vol_alien") {
			t.Errorf("after it was let go: %q", got)
		}
	})
}

// full has no room.
type full struct{ *volume.Memory }

func (full) Ensure(_ context.Context, v nodewire.Volume) (string, error) {
	return "", fmt.Errorf("make volume %s: %w: 3 MiB are free", v.ID, volume.ErrFull)
}

func TestANodeWithoutRoomSaysSo(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Options{}, func(t *testing.T, w *world, n *node) {
		n.cfg.Volumes = full{w.store}
		mustAssign(t, n, withVolume(assignment("e", 1, withHome(container("inst_1", 1))), nodewire.VolumePresent))
		pass(time.Minute)
		r := expect(t, n, "inst_1", nodewire.GuestFailed, nodewire.ReasonDiskFull)
		if v := n.volume("vol_1"); v.State != nodewire.VolumeFailed || v.Message != r.Message || !strings.Contains(v.Message, "no room") {
			t.Errorf("%+v; %s", v, r.Message)
		}
	})
}

// TestARefusedImageLeavesNoDisk, and none is said to be there, which would be
// charged.
func TestARefusedImageLeavesNoDisk(t *testing.T) {
	t.Parallel()
	refused := true
	said := map[string]bool{}
	refuse := func(_ context.Context, step, _ string) error {
		if step == "prepare" && refused {
			return &hypervisor.Failure{Reason: nodewire.ReasonImagePull, Message: "it is based on another file", Final: true}
		}
		return nil
	}
	bubble(t, fake.Options{PrepareDelay: 20 * time.Second, Hook: refuse}, func(t *testing.T, w *world, n *node) {
		watch := func(d time.Duration) {
			for range d / time.Second {
				pass(time.Second)
				said[n.volume("vol_1").State] = true
			}
		}
		vm := container("inst_1", 1)
		vm.Kind, vm.Mounts = "vm", []nodewire.Mount{{VolumeID: "vol_1", Role: "root"}}
		mustAssign(t, n, withVolume(assignment("e", 1, vm), nodewire.VolumePresent))
		watch(30 * time.Second)
		expect(t, n, "inst_1", nodewire.GuestFailed, nodewire.ReasonImagePull)
		if has(t, w, "vol_1") || said[nodewire.VolumePresent] {
			t.Errorf("there: %v; said: %v", has(t, w, "vol_1"), said)
		}
		refused = false
		vm.Epoch, vm.Generation = 2, 2
		mustAssign(t, n, withVolume(assignment("e", 2, vm), nodewire.VolumePresent))
		pass(15 * time.Second)
		if v := n.volume("vol_1"); v.State == nodewire.VolumePresent {
			t.Errorf("while its image is still being fetched: %+v", v)
		}
		pass(15 * time.Second)
		expect(t, n, "inst_1", nodewire.GuestRunning, "")
		if v := n.volume("vol_1"); v.State != nodewire.VolumePresent || !has(t, w, "vol_1") {
			t.Errorf("once it runs: %+v", v)
		}
	})
}

// TestAHeldVMStartsAgainInItsNextEpoch: a stop that keeps the place leaves the
// instance assigned; its start is another epoch, and the disk is never touched.
func TestAHeldVMStartsAgainInItsNextEpoch(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Options{}, func(t *testing.T, w *world, n *node) {
		vm := withDevice(w, container("inst_1", 1))
		vm.Kind, vm.Mounts = "vm", []nodewire.Mount{{VolumeID: "vol_1", Role: "root"}}
		mustAssign(t, n, withVolume(assignment("e", 1, vm), nodewire.VolumePresent))
		pass(time.Second)
		expect(t, n, "inst_1", nodewire.GuestRunning, "")
		vm = desired(vm, nodewire.DesiredStopped)
		mustAssign(t, n, withVolume(assignment("e", 2, vm), nodewire.VolumePresent))
		pass(12 * time.Second)
		expect(t, n, "inst_1", nodewire.GuestStopped, nodewire.ReasonAsked)
		if len(guests(t, w)) != 0 || held(t, w) != 0 || !has(t, w, "vol_1") {
			t.Errorf("while held: guests %+v, held by %d", guests(t, w), held(t, w))
		}
		vm.Epoch, vm.Desired = 2, nodewire.DesiredRunning
		vm.Generation++
		mustAssign(t, n, withVolume(assignment("e", 3, vm), nodewire.VolumePresent))
		pass(2 * time.Second)
		if r := expect(t, n, "inst_1", nodewire.GuestRunning, ""); r.Epoch != 2 || held(t, w) != 1 {
			t.Errorf("%+v, held by %d", r, held(t, w))
		}
		// A guest that switches itself off has stopped; it has not failed.
		w.engine.Exit("inst_1", 0)
		pass(2 * time.Second)
		expect(t, n, "inst_1", nodewire.GuestStopped, nodewire.ReasonPowerOff)
		if !has(t, w, "vol_1") {
			t.Error("the disk went")
		}
	})
}

// TestNothingIsOfferedWithoutADisk: where volumes can't be read, no kind can run.
func TestNothingIsOfferedWithoutADisk(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Options{}, func(t *testing.T, w *world, n *node) {
		if r := n.Report(); len(r.Kinds) != 3 {
			t.Fatalf("kinds of a sound node: %v", r.Kinds)
		}
		for _, blind := range []bool{true, false} {
			n.fuse.mu.Lock()
			n.fuse.blind = blind
			n.fuse.mu.Unlock()
			pass(time.Minute)
			r := n.door.last()
			if says := strings.Contains(r.Drivers["storage"], "unusable"); says != blind || (len(r.Kinds) == 0) != blind {
				t.Errorf("blind %v: kinds %v, drivers %v", blind, r.Kinds, r.Drivers)
			}
		}
	})
}
