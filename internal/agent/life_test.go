package agent

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenon-cloud/tenon/internal/device"
	"github.com/tenon-cloud/tenon/internal/hypervisor"
	"github.com/tenon-cloud/tenon/internal/hypervisor/fake"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

// pass lets the bubble's clock run.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// bubble runs a test of one node on a clock of its own.
func bubble(t *testing.T, opts fake.Options, test func(t *testing.T, w *world, n *node)) {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, dir, opts)
		n := w.start(t, &fuse{})
		pass(time.Second)
		test(t, w, n)
		n.end()
		for _, f := range w.allFaults() {
			t.Error(f)
		}
	})
}

func mustAssign(t *testing.T, n *node, as nodewire.Assignment) {
	t.Helper()
	if _, err := n.Assign(as); err != nil {
		t.Fatal(err)
	}
}

func withDevice(w *world, inst nodewire.Instance) nodewire.Instance {
	inv, _ := w.board.Inventory(context.Background())
	inst.Devices = []nodewire.Device{{GPUUUID: inv.GPUs[1].UUID, Mode: "mig", Profile: "2g", SlotStart: 0, SlotEnd: 2}}
	return inst
}

func desired(inst nodewire.Instance, d string) nodewire.Instance {
	inst.Desired = d
	inst.Generation++
	return inst
}

func expect(t *testing.T, n *node, id, state, reason string) nodewire.InstanceReport {
	t.Helper()
	r := n.door.state(id)
	if r.State != state || r.Reason != reason {
		t.Fatalf("%s is %q (%s: %s), want %q (%s)", id, r.State, r.Reason, r.Message, state, reason)
	}
	return r
}

func held(t *testing.T, w *world) int {
	t.Helper()
	h, err := w.board.Held(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return len(h)
}

func guests(t *testing.T, w *world) []hypervisor.Guest {
	t.Helper()
	g, err := w.engine.List(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestWholeLife(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Options{PrepareDelay: 400 * time.Millisecond, StartDelay: 100 * time.Millisecond, StopDelay: time.Second}, func(t *testing.T, w *world, n *node) {
		inst := withDevice(w, container("inst_1", 1))
		mustAssign(t, n, assignment("e", 1, inst))
		pass(250 * time.Millisecond)
		if r := expect(t, n, "inst_1", nodewire.GuestPulling, ""); r.Progress == nil || *r.Progress != 50 {
			t.Errorf("progress: %+v", r)
		}
		pass(20 * time.Second)
		r := expect(t, n, "inst_1", nodewire.GuestRunning, "")
		if r.RanForSeconds < 15 || r.RanForSeconds > 20 || r.StateForSeconds < 15 {
			t.Errorf("ran for %v s, in this state for %v s", r.RanForSeconds, r.StateForSeconds)
		}
		if n.door.last().GPUs[1].Slices[0].Owner != "inst_1" {
			t.Error("the slice is not in the inventory")
		}

		asked := time.Now()
		mustAssign(t, n, assignment("e", 2, desired(inst, nodewire.DesiredStopped)))
		pass(500 * time.Millisecond)
		expect(t, n, "inst_1", nodewire.GuestStopping, "")
		if held(t, w) != 1 {
			t.Error("devices were freed before the guest ended")
		}
		pass(2 * time.Second)
		r = expect(t, n, "inst_1", nodewire.GuestStopped, nodewire.ReasonAsked)
		if r.ExitCode == nil || *r.ExitCode != 143 || !strings.Contains(r.LastLines, "started") || r.RanForSeconds < 19 {
			t.Errorf("after the stop: %+v", r)
		}
		if at := n.ledger.snapshot().Records["inst_1"].End.At; at.Sub(asked) < time.Second {
			t.Errorf("it took a second to end, and its end is dated %s after the wish", at.Sub(asked))
		}
		if held(t, w) != 0 || len(guests(t, w)) != 0 {
			t.Error("a stopped container holds something")
		}

		mustAssign(t, n, assignment("e", 3, desired(inst, nodewire.DesiredGone)))
		pass(time.Second)
		expect(t, n, "inst_1", nodewire.GuestGone, nodewire.ReasonAsked)
		mustAssign(t, n, assignment("e", 4))
		pass(time.Second)
		if len(n.door.last().Instances) != 0 || len(n.ledger.snapshot().Records) != 0 {
			t.Errorf("a trace is left: %+v", n.door.last().Instances)
		}
	})
}

// TestAMachineThatWillNotShutDown is switched off when its time is over, and its
// end says so.
func TestAMachineThatWillNotShutDown(t *testing.T) {
	t.Parallel()
	for delay, says := range map[time.Duration]string{
		time.Hour:        "it did not shut down within 120 s and was switched off by force",
		90 * time.Second: "",
	} {
		bubble(t, fake.Options{StopDelay: delay}, func(t *testing.T, _ *world, n *node) {
			inst := container("inst_1", 1)
			inst.Kind, inst.StopGraceSeconds = "vm", 120
			mustAssign(t, n, assignment("e", 1, inst))
			pass(20 * time.Second)
			mustAssign(t, n, assignment("e", 2, desired(inst, nodewire.DesiredStopped)))
			pass(85 * time.Second)
			expect(t, n, "inst_1", nodewire.GuestStopping, "")
			pass(40 * time.Second)
			if r := expect(t, n, "inst_1", nodewire.GuestStopped, nodewire.ReasonAsked); r.Message != says {
				t.Errorf("when it takes %s it says %q, want %q", delay, r.Message, says)
			}
		})
	}
}

func TestOwnEnd(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Options{}, func(t *testing.T, w *world, n *node) {
		a, b, c := withDevice(w, container("inst_a", 1)), container("inst_b", 1), container("inst_c", 1)
		mustAssign(t, n, assignment("e", 1, a, b, c))
		pass(10 * time.Second)
		w.engine.Say("inst_b", "last words")
		w.engine.Exit("inst_a", 0)
		w.engine.Exit("inst_b", 3)
		w.engine.ExitOOM("inst_c")
		pass(100 * time.Millisecond) // by the engine's hint, not by the resync
		ra := expect(t, n, "inst_a", nodewire.GuestStopped, nodewire.ReasonExited)
		rb := expect(t, n, "inst_b", nodewire.GuestFailed, nodewire.ReasonExited)
		expect(t, n, "inst_c", nodewire.GuestFailed, nodewire.ReasonOOM)
		if *ra.ExitCode != 0 || *rb.ExitCode != 3 || !strings.Contains(rb.LastLines, "last words") || rb.RanForSeconds < 9 {
			t.Errorf("%+v\n%+v", ra, rb)
		}
		if held(t, w) != 0 || len(guests(t, w)) != 0 {
			t.Error("an ended container holds something")
		}
		// The control plane has not taken the news yet: it is not started again,
		// not even by a new agent.
		n.end()
		n2 := w.start(t, &fuse{})
		pass(30 * time.Second)
		r := n2.door.state("inst_b")
		if r.State != nodewire.GuestFailed || *r.ExitCode != 3 || r.StateForSeconds < 25 || len(guests(t, w)) != 0 {
			t.Errorf("after a restart of the agent: %+v", r)
		}
		// A newer epoch is a new run.
		again := withDevice(w, container("inst_a", 2))
		mustAssign(t, n2, assignment("e", 2, again))
		pass(time.Second)
		if r := n2.door.state("inst_a"); r.State != nodewire.GuestRunning || r.Epoch != 2 || r.ExitCode != nil {
			t.Errorf("a new epoch: %+v", r)
		}
		n2.end()
	})
}

func TestNewerGenerationRestartsAndNewerEpochReplaces(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Options{StopDelay: time.Second}, func(t *testing.T, w *world, n *node) {
		inst := withDevice(w, container("inst_1", 1))
		mustAssign(t, n, assignment("e", 1, inst))
		pass(time.Second)
		inst.Generation = 2
		mustAssign(t, n, assignment("e", 2, inst))
		pass(5 * time.Second)
		if r := expect(t, n, "inst_1", nodewire.GuestRunning, ""); r.Generation != 2 || r.RanForSeconds > 4 {
			t.Errorf("after a restart: %+v", r)
		}
		if g := guests(t, w); len(g) != 1 || g[0].Generation != 2 {
			t.Errorf("guests: %+v", g)
		}
		inst.Epoch = 2
		mustAssign(t, n, assignment("e", 3, inst))
		pass(500 * time.Millisecond)
		if g := guests(t, w); len(g) != 1 || g[0].Epoch != 1 {
			t.Errorf("the older epoch must end first: %+v", g)
		}
		pass(5 * time.Second)
		if r := expect(t, n, "inst_1", nodewire.GuestRunning, ""); r.Epoch != 2 {
			t.Errorf("the new epoch: %+v", r)
		}
	})
}

func TestSlowPullDelaysNobodyAndCanBeGivenUp(t *testing.T) {
	t.Parallel()
	opts := fake.Options{Hook: func(ctx context.Context, step, id string) error {
		if step == "prepare" && id == "inst_slow" {
			<-ctx.Done()
		}
		return ctx.Err()
	}}
	bubble(t, opts, func(t *testing.T, w *world, n *node) {
		slow := container("inst_slow", 1)
		mustAssign(t, n, assignment("e", 1, slow, container("inst_quick", 1)))
		pass(100 * time.Millisecond)
		expect(t, n, "inst_quick", nodewire.GuestRunning, "")
		if s := n.door.state("inst_slow").State; s == nodewire.GuestRunning {
			t.Errorf("slow is %s", s)
		}
		mustAssign(t, n, assignment("e", 2, desired(slow, nodewire.DesiredGone), container("inst_quick", 1)))
		pass(100 * time.Millisecond)
		expect(t, n, "inst_slow", nodewire.GuestGone, nodewire.ReasonAsked)
	})
}

func TestFailures(t *testing.T) {
	t.Parallel()
	starts := 0
	opts := fake.Options{Hook: func(_ context.Context, step, id string) error {
		switch {
		case step == "prepare" && id == "inst_bad":
			return &hypervisor.Failure{Reason: nodewire.ReasonImagePull, Message: "the registry says: manifest unknown", Final: true}
		case step == "prepare" && id == "inst_unreachable":
			return &hypervisor.Failure{Reason: nodewire.ReasonImagePull, Message: "the registry can't be reached"}
		case step == "start" && id == "inst_flaky":
			if starts++; starts < 4 {
				return errors.New("busy")
			}
		}
		return nil
	}}
	bubble(t, opts, func(t *testing.T, w *world, n *node) {
		none := container("inst_nogpu", 1)
		none.Devices = []nodewire.Device{{GPUUUID: "GPU-none", Mode: "whole", Profile: "whole", SlotEnd: 8}}
		vm := container("inst_vm", 1)
		vm.Kind = "vm"
		n.cfg.Log.Info("start")
		mustAssign(t, n, assignment("e", 1, container("inst_bad", 1), container("inst_unreachable", 1), container("inst_flaky", 1), none))
		pass(200 * time.Millisecond)
		if r := expect(t, n, "inst_bad", nodewire.GuestFailed, nodewire.ReasonImagePull); r.Message != "the registry says: manifest unknown" {
			t.Errorf("message: %q", r.Message)
		}
		expect(t, n, "inst_nogpu", nodewire.GuestFailed, nodewire.ReasonDevice)
		pass(20 * time.Second)
		expect(t, n, "inst_flaky", nodewire.GuestRunning, "")
		if r := n.door.state("inst_unreachable"); r.State == nodewire.GuestFailed || !strings.Contains(r.Message, "trying again") {
			t.Errorf("a failure that may pass: %+v", r)
		}
		pass(38 * time.Second) // within the minute that the tenant is promised
		expect(t, n, "inst_unreachable", nodewire.GuestFailed, nodewire.ReasonImagePull)
	})
}

// TestUnprovenEndIsNotReported: a guest that can't be removed keeps its devices
// and is not reported ended.
func TestUnprovenEndIsNotReported(t *testing.T) {
	t.Parallel()
	var stuck atomic.Bool
	stuck.Store(true)
	opts := fake.Options{Hook: func(_ context.Context, step, _ string) error {
		if step == "remove" && stuck.Load() {
			return errors.New("a process is left")
		}
		return nil
	}}
	bubble(t, opts, func(t *testing.T, w *world, n *node) {
		inst := withDevice(w, container("inst_1", 1))
		mustAssign(t, n, assignment("e", 1, inst))
		pass(time.Second)
		w.engine.Exit("inst_1", 1)
		pass(5 * time.Minute)
		expect(t, n, "inst_1", nodewire.GuestStopping, "")
		if held(t, w) != 1 {
			t.Error("devices were freed with the guest still there")
		}
		stuck.Store(false)
		pass(20 * time.Second)
		expect(t, n, "inst_1", nodewire.GuestFailed, nodewire.ReasonExited)
	})
}

func TestOrphansAreShownAndLeftAlone(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Options{}, func(t *testing.T, w *world, n *node) {
		ctx := context.Background()
		stray := container("inst_stray", 1)
		if _, err := w.engine.Start(ctx, hypervisor.Spec{Instance: stray}); err != nil {
			t.Fatal(err)
		}
		d := withDevice(w, stray)
		if _, err := w.board.Prepare(ctx, device.Request{InstanceID: "inst_held", Epoch: 1, Kind: "container", Devices: d.Devices}); err != nil {
			t.Fatal(err)
		}
		mustAssign(t, n, assignment("e", 1, container("inst_1", 1)))
		pass(30 * time.Second)
		o := n.door.last().Orphans
		if len(o) != 2 || o[0].ID != "inst_held" || o[1].ID != "inst_stray" {
			t.Errorf("orphans: %+v", o)
		}
		if len(guests(t, w)) != 2 || held(t, w) != 1 {
			t.Error("an orphan was touched")
		}
	})
}

func TestReports(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Options{}, func(t *testing.T, w *world, n *node) {
		pass(60 * time.Second)
		idle := len(n.door.reports)
		if idle < 12 || idle > 15 {
			t.Errorf("%d reports in a quiet minute", idle)
		}
		var many []nodewire.Instance
		for i := range 50 {
			many = append(many, container("inst_"+string(rune('a'+i%26))+string(rune('a'+i/26)), 1))
		}
		asked := time.Now()
		mustAssign(t, n, assignment("e", 1, many...))
		pass(100 * time.Millisecond)
		news := n.door.reports[idle:]
		if len(news) > 6 {
			t.Errorf("%d reports within 100 ms", len(news))
		}
		if first := n.door.at[idle].Sub(asked); first > 20*time.Millisecond {
			t.Errorf("the first news came after %v", first)
		}
		last := n.door.last()
		if len(last.Instances) != 50 || last.Instances[0].State != nodewire.GuestRunning || last.Generation != 1 || last.BootID != "boot-1" {
			t.Errorf("last report: %+v", last)
		}
		for i := 1; i < len(n.door.reports); i++ {
			if n.door.reports[i].Sequence <= n.door.reports[i-1].Sequence {
				t.Fatal("the sequence does not grow")
			}
		}
	})
}

func TestAssignmentOverHTTP(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Options{}, func(t *testing.T, w *world, n *node) {
		h := n.Handler()
		if code, heldNow := put(h, assignment("e", 5)); code != http.StatusOK || heldNow.Generation != 5 {
			t.Errorf("%d %+v", code, heldNow)
		}
		if code, heldNow := put(h, assignment("e", 4)); code != http.StatusConflict || heldNow.Generation != 5 {
			t.Errorf("%d %+v", code, heldNow)
		}
		bad := assignment("e", 6)
		bad.CloudID = "c2"
		if code, _ := put(h, bad); code != http.StatusUnprocessableEntity {
			t.Errorf("another cloud's assignment: %d", code)
		}
	})
}

func TestMetricsRing(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Options{}, func(t *testing.T, w *world, n *node) {
		mustAssign(t, n, assignment("e", 1, withDevice(w, container("inst_1", 1))))
		pass(2 * time.Minute)
		few := n.metrics.list("inst_1")
		last := few[len(few)-1]
		if len(few) < 23 || last.CPUPercent < 24 || last.CPUPercent > 26 || last.GPUPercent == nil || last.MemoryMiB < 64 {
			t.Errorf("%d samples, last %+v", len(few), last)
		}
		pass(2 * time.Hour)
		all := n.metrics.list("inst_1")
		if len(all) != 720 {
			t.Fatalf("%d samples, want 720", len(all))
		}
		for i := 1; i < len(all); i++ {
			if !all[i].At.After(all[i-1].At) {
				t.Fatal("samples are out of order")
			}
		}
	})
}
