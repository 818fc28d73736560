package agent

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/tenon-cloud/tenon/internal/hypervisor"
	"github.com/tenon-cloud/tenon/internal/hypervisor/fake"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

// scenario is a life that a crash may interrupt anywhere: what is assigned, and
// what must be true in the end.
type scenario struct {
	name  string
	drive func(w *world, assign func(nodewire.Assignment)) // may run twice: assignments are idempotent
	state string                                           // of inst_1 in the end; empty: not reported
	why   string
	runs  bool
}

func scenarios() []scenario {
	inst := func(w *world, epoch, gen int64, want string) nodewire.Instance {
		i := withDevice(w, container("inst_1", epoch))
		i.Generation, i.Desired = gen, want
		return i
	}
	return []scenario{
		{"start", func(w *world, assign func(nodewire.Assignment)) {
			assign(assignment("e", 1, inst(w, 1, 1, nodewire.DesiredRunning)))
		}, nodewire.GuestRunning, "", true},
		{"start and stop", func(w *world, assign func(nodewire.Assignment)) {
			assign(assignment("e", 1, inst(w, 1, 1, nodewire.DesiredRunning)))
			assign(assignment("e", 2, inst(w, 1, 2, nodewire.DesiredStopped)))
		}, nodewire.GuestStopped, nodewire.ReasonAsked, false},
		{"start and delete", func(w *world, assign func(nodewire.Assignment)) {
			assign(assignment("e", 1, inst(w, 1, 1, nodewire.DesiredRunning)))
			assign(assignment("e", 2, inst(w, 1, 2, nodewire.DesiredGone)))
			assign(assignment("e", 3))
		}, "", "", false},
		{"restart", func(w *world, assign func(nodewire.Assignment)) {
			assign(assignment("e", 1, inst(w, 1, 1, nodewire.DesiredRunning)))
			assign(assignment("e", 2, inst(w, 1, 2, nodewire.DesiredRunning)))
		}, nodewire.GuestRunning, "", true},
		{"replaced by a newer epoch", func(w *world, assign func(nodewire.Assignment)) {
			assign(assignment("e", 1, inst(w, 1, 1, nodewire.DesiredRunning)))
			assign(assignment("e", 2, inst(w, 2, 2, nodewire.DesiredRunning)))
		}, nodewire.GuestRunning, "", true},
		{"exit by itself", func(w *world, assign func(nodewire.Assignment)) {
			assign(assignment("e", 1, inst(w, 1, 1, nodewire.DesiredRunning)))
			w.engine.Exit("inst_1", 7)
			pass(2 * time.Second)
		}, nodewire.GuestFailed, nodewire.ReasonExited, false},
		{"a notebook with a home, to the end", func(w *world, assign func(nodewire.Assignment)) {
			nb := inst(w, 1, 1, nodewire.DesiredRunning)
			nb.Kind, nb.Mounts = "notebook", []nodewire.Mount{{VolumeID: "vol_1", Role: "home", Path: "/home/tenon"}}
			assign(withVolume(assignment("e", 1, nb), nodewire.VolumePresent))
			nb.Desired, nb.Generation = nodewire.DesiredGone, 2
			assign(withVolume(assignment("e", 2, nb), nodewire.VolumeGone))
			assign(withVolume(assignment("e", 3), nodewire.VolumeGone))
		}, "", "", false},
		{"known at another epoch after a restore of the database", func(w *world, assign func(nodewire.Assignment)) {
			assign(assignment("0191", 9, inst(w, 7, 9, nodewire.DesiredRunning)))
			assign(assignment("0192", 2, inst(w, 5, 4, nodewire.DesiredRunning)))
		}, nodewire.GuestFailed, nodewire.ReasonStray, true},
	}
}

// TestKilledAtEveryStep kills the agent before and after each of its effects on
// engine, board and disk in turn; a new one must bring the node to the same end.
func TestKilledAtEveryStep(t *testing.T) {
	t.Parallel()
	for _, sc := range scenarios() {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/after=%v", sc.name, after), func(t *testing.T) {
				t.Parallel()
				kills := 0
				for n := 1; ; n++ {
					if !killAt(t, sc, n, after) {
						break
					}
					kills++
				}
				if kills < 5 {
					t.Errorf("only %d steps were interrupted", kills)
				}
			})
		}
	}
}

// killAt reports whether the fuse blew at all.
func killAt(t *testing.T, sc scenario, n int, after bool) (blew bool) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, dir, fake.Options{PrepareDelay: 40 * time.Millisecond, StartDelay: 20 * time.Millisecond, StopDelay: 30 * time.Millisecond})
		f := &fuse{left: n, after: after}
		life := w.start(t, f)
		// The control plane sends again what was not acknowledged.
		sc.drive(w, func(as nodewire.Assignment) {
			if _, err := life.Assign(as); err != nil && f.dead() {
				life.end()
				life = w.start(t, &fuse{})
				if _, err := life.Assign(as); err != nil {
					t.Errorf("kill at %d: %v", n, err)
				}
			}
			pass(5 * time.Second)
			if life.fuse.dead() {
				life.end()
				life = w.start(t, &fuse{})
				pass(5 * time.Second)
			}
		})
		if life.fuse.dead() {
			life.end()
			life = w.start(t, &fuse{})
		}
		blew = f.dead()
		pass(30 * time.Second)
		r := life.door.state("inst_1")
		if sc.why == nodewire.ReasonExited && (r.ExitCode == nil || *r.ExitCode != 7 || r.LastLines == "") {
			t.Errorf("kill at %d: what the run ended with is lost: %+v", n, r)
		}
		if r.State != sc.state || r.Reason != sc.why {
			t.Errorf("kill at %d: %q (%s: %s), want %q", n, r.State, r.Reason, r.Message, sc.state)
		}
		if got := len(guests(t, w)); (got == 1) != sc.runs || got > 1 {
			t.Errorf("kill at %d: %d guests", n, got)
		}
		if sc.state == nodewire.GuestRunning { // it is charged from its start, whoever lived then
			life.end()
			life = w.start(t, &fuse{})
			pass(15 * time.Second)
			if again := life.door.state("inst_1"); again.State != nodewire.GuestRunning || r.RanForSeconds < 20 || again.RanForSeconds < r.RanForSeconds {
				t.Errorf("kill at %d: it had run for %v s, and after a restart %s for %v s", n, r.RanForSeconds, again.State, again.RanForSeconds)
			}
		}
		if got := held(t, w); (got == 1) != sc.runs {
			t.Errorf("kill at %d: devices held by %d", n, got)
		}
		life.end()
		if left, _ := w.store.List(context.Background()); len(left) != 0 {
			t.Errorf("kill at %d: volumes left: %+v", n, left)
		}
		for _, fault := range w.allFaults() {
			t.Errorf("kill at %d: %s", n, fault)
		}
	})
	return blew
}

// op is one thing that happens in the property test.
type op struct {
	kind  string // assign, exit, kill, wait
	which int
	value int
}

var desires = []string{nodewire.DesiredRunning, nodewire.DesiredStopped, nodewire.DesiredGone, "absent", "epoch", "restart"}

func drawOps(rt *rapid.T) []op {
	return rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) op {
		return op{
			kind:  rapid.SampledFrom([]string{"assign", "assign", "assign", "exit", "kill", "wait"}).Draw(rt, "kind"),
			which: rapid.IntRange(0, 3).Draw(rt, "which"),
			value: rapid.IntRange(0, 40).Draw(rt, "value"),
		}
	}), 1, 25).Draw(rt, "ops")
}

// TestWhatIsAssignedIsWhatRuns: random assignments, exits and kills at random
// effects. In the end exactly what is assigned runs, each once and in its own
// epoch, and no device was ever freed under a guest or given to two.
func TestWhatIsAssignedIsWhatRuns(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	run := 0
	rapid.Check(t, func(rt *rapid.T) {
		ops := drawOps(rt)
		run++
		var faults []string
		synctest.Test(t, func(t *testing.T) { faults = play(t, filepath.Join(root, fmt.Sprint(run)), ops) })
		if len(faults) > 0 {
			rt.Fatalf("%v", faults)
		}
	})
}

// model is the control plane's side: it gives a place to another instance only
// when the node has reported the end of the one that had it.
type model struct {
	gen   int64
	insts map[string]*nodewire.Instance
	next  map[string]int64 // epochs
}

func play(t *testing.T, dir string, ops []op) []string {
	w := newWorld(t, dir, fake.Options{PrepareDelay: 30 * time.Millisecond, StartDelay: 10 * time.Millisecond, StopDelay: 40 * time.Millisecond})
	inv, _ := w.board.Inventory(context.Background())
	m := &model{insts: map[string]*nodewire.Instance{}, next: map[string]int64{}}
	life := w.start(t, &fuse{})
	revive := func() {
		if life.fuse.dead() {
			life.end()
			life = w.start(t, &fuse{})
		}
	}
	push := func() {
		m.gen++
		var list []nodewire.Instance
		for _, i := range m.insts {
			list = append(list, *i)
		}
		slices.SortFunc(list, func(a, b nodewire.Instance) int { return int(a.ID[5]) - int(b.ID[5]) })
		for range 3 {
			if _, err := life.Assign(assignment("e", m.gen, list...)); err == nil {
				return
			}
			revive()
		}
		w.fault("the assignment was not taken")
	}
	for _, o := range ops {
		id := fmt.Sprintf("inst_%d", o.which)
		switch o.kind {
		case "assign":
			revive()
			m.edit(inv.GPUs[1].UUID, id, o.which, desires[o.value%len(desires)])
			push()
		case "exit":
			w.engine.Exit(id, o.value%3)
		case "kill": // at an effect still to come
			life.fuse.mu.Lock()
			life.fuse.left, life.fuse.after = 1+o.value%7, o.value%2 == 0
			life.fuse.mu.Unlock()
		case "wait":
			pass(time.Duration(o.value) * 5 * time.Millisecond)
		}
	}
	pass(3 * time.Second)
	revive()
	push()
	life.fuse.mu.Lock()
	life.fuse.left = 0
	life.fuse.mu.Unlock()
	pass(2 * time.Minute)
	m.compare(w, life)
	life.end()
	return w.allFaults()
}

func (m *model) edit(gpu, id string, which int, what string) {
	i := m.insts[id]
	if i == nil {
		m.next[id]++
		n := container(id, m.next[id])
		n.Devices = []nodewire.Device{{GPUUUID: gpu, Mode: "mig", Profile: "1g", SlotStart: which, SlotEnd: which + 1}}
		m.insts[id] = &n
		return
	}
	switch what {
	case "absent":
		delete(m.insts, id)
	case "epoch":
		m.next[id]++
		i.Epoch, i.Desired = m.next[id], nodewire.DesiredRunning
		i.Generation++
	case "restart":
		i.Generation++
	default:
		i.Desired = what
		i.Generation++
	}
}

// compare looks at the world when it has come to rest.
func (m *model) compare(w *world, life *node) {
	list, _ := w.engine.List(context.Background())
	held, _ := w.board.Held(context.Background())
	got := map[string]hypervisor.Guest{}
	for _, g := range list {
		got[g.ID] = g
	}
	for id, i := range m.insts {
		g, there := got[id]
		delete(got, id)
		r := life.door.state(id)
		switch {
		case r.Epoch != i.Epoch:
			w.fault("%s: reported in epoch %d, assigned in %d", id, r.Epoch, i.Epoch)
		case r.State == nodewire.GuestRunning:
			if i.Desired != nodewire.DesiredRunning || !there || g.State != hypervisor.Running || g.Epoch != i.Epoch || g.Generation != i.Generation || len(held[id]) != 1 {
				w.fault("%s: reported running; assigned %+v, guest %+v, holds %d", id, *i, g, len(held[id]))
			}
		case r.State == nodewire.GuestStopped || r.State == nodewire.GuestFailed || r.State == nodewire.GuestGone:
			// An end is final for its epoch, so a wish to run may come too late.
			if there || len(held[id]) != 0 {
				w.fault("%s: reported %s, but guest %v, holds %d", id, r.State, there, len(held[id]))
			}
			if i.Desired == nodewire.DesiredGone && r.State != nodewire.GuestGone {
				w.fault("%s: assigned gone, reported %s", id, r.State)
			}
		default:
			w.fault("%s: still %s (%s: %s) after two minutes", id, r.State, r.Reason, r.Message)
		}
	}
	for id := range got {
		w.fault("%s runs and is not assigned", id)
	}
	for id := range held {
		if m.insts[id] == nil {
			w.fault("%s holds devices and is not assigned", id)
		}
	}
	if o := life.door.last().Orphans; len(o) > 0 {
		w.fault("orphans: %+v", o)
	}
}
