package agent

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/tenon-cloud/tenon/internal/agent/watchdog"
	"github.com/tenon-cloud/tenon/internal/hypervisor/fake"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

// told is a watchdog that remembers what it was told.
type told struct {
	mu     sync.Mutex
	guests []watchdog.Guest
	deaf   bool
}

func (d *told) Renew(guests []watchdog.Guest) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.guests = guests
	return nil
}

func (d *told) Acknowledged() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return !d.deaf
}

func (d *told) last() []watchdog.Guest {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.guests
}

func fenced(inst nodewire.Instance) nodewire.Instance {
	inst.StopAfterSeconds = 90
	return inst
}

func TestWithoutContactWhatMayRunElsewhereEnds(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Options{StopDelay: time.Second}, func(t *testing.T, w *world, n *node) {
		mustAssign(t, n, assignment("e", 1, fenced(withDevice(w, container("inst_moves", 1))), container("inst_waits", 1)))
		pass(2 * time.Second)
		expect(t, n, "inst_moves", nodewire.GuestRunning, "")
		pass(10 * time.Minute) // reports are contact
		expect(t, n, "inst_moves", nodewire.GuestRunning, "")

		n.door.setCut(true)
		pass(80 * time.Second)
		if len(guests(t, w)) != 2 {
			t.Fatalf("ended too early: %+v", guests(t, w))
		}
		n.door.setCut(false) // a short cut changes nothing
		pass(10 * time.Second)
		n.door.setCut(true)
		pass(99 * time.Second)
		if g := guests(t, w); len(g) != 1 || g[0].ID != "inst_waits" || held(t, w) != 0 {
			t.Fatalf("after 99 s without contact: %+v, held by %d", g, held(t, w))
		}
		pass(time.Hour)
		n.door.setCut(false)
		pass(20 * time.Second)
		if r := expect(t, n, "inst_moves", nodewire.GuestFailed, nodewire.ReasonFenced); r.RanForSeconds < 600 || r.RanForSeconds > 900 {
			t.Errorf("it ran for %v s", r.RanForSeconds)
		}
		expect(t, n, "inst_waits", nodewire.GuestRunning, "")
		// Placed here again, it runs.
		mustAssign(t, n, assignment("e", 2, fenced(withDevice(w, container("inst_moves", 2))), container("inst_waits", 1)))
		pass(2 * time.Second)
		expect(t, n, "inst_moves", nodewire.GuestRunning, "")
	})
}

// TestAPushedAssignmentIsContact, and what it brings after a long silence is not
// over before it began.
func TestAPushedAssignmentIsContact(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Options{}, func(t *testing.T, w *world, n *node) {
		n.door.setCut(true) // reports don't get through; pushes do
		inst := fenced(container("inst_1", 1))
		pass(10 * time.Minute)
		for gen := int64(1); gen < 8; gen++ {
			if code, _ := put(n.Handler(), assignment("e", gen, inst)); code != 200 {
				t.Fatal(code)
			}
			pass(time.Minute)
			if g := guests(t, w); len(g) != 1 || g[0].Epoch != 1 {
				t.Fatalf("after push %d: %+v", gen, g)
			}
		}
		if code, _ := put(n.Handler(), assignment("d", 99, inst)); code != 409 {
			t.Fatal(code)
		}
		pass(45 * time.Second) // what was refused is none
		if g := guests(t, w); len(g) != 0 {
			t.Errorf("a refused assignment counted: %+v", g)
		}
	})
}

// TestContactThatComesTooLate: the agent was stopped, the time ran out, and the
// control plane may have given the instance elsewhere. The first answer after
// that does not bring it back.
func TestContactThatComesTooLate(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Options{}, func(t *testing.T, w *world, n *node) {
		inst := fenced(container("inst_1", 1))
		mustAssign(t, n, assignment("e", 1, inst))
		pass(2 * time.Second)
		w.mu.Lock()
		w.base = w.base.Add(-100 * time.Second) // the agent's own timers did not run
		w.mu.Unlock()
		n.dirty()
		pass(10 * time.Second)
		expect(t, n, "inst_1", nodewire.GuestFailed, nodewire.ReasonFenced)
		if len(guests(t, w)) != 0 {
			t.Errorf("%+v", guests(t, w))
		}
	})
}

// TestContactIsKeptOverACrash: an agent that dies again and again gives nobody
// more time, and one that was only restarted takes none.
func TestContactIsKeptOverACrash(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Options{}, func(t *testing.T, w *world, n *node) {
		inst := fenced(container("inst_1", 1))
		mustAssign(t, n, assignment("e", 1, inst))
		pass(2 * time.Minute)
		for range 3 {
			n.end()
			pass(20 * time.Second)
			*n = *w.start(t, &fuse{})
			n.door.setCut(true)
			pass(5 * time.Second)
		}
		if g := guests(t, w); len(g) != 1 {
			t.Fatalf("75 s without contact: %+v", g)
		}
		n.end()
		*n = *w.start(t, &fuse{})
		n.door.setCut(true)
		pass(20 * time.Second)
		if g := guests(t, w); len(g) != 0 {
			t.Errorf("95 s without contact: %+v", g)
		}
	})
}

// TestNothingStartsAfterARebootWithoutContact: how long the node was off is not
// known, so what had not begun may run elsewhere by now.
func TestNothingStartsAfterARebootWithoutContact(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Options{}, func(t *testing.T, w *world, n *node) {
		mustAssign(t, n, assignment("e", 1, fenced(container("inst_1", 1))))
		pass(5 * time.Second)
		n.end()
		// As if it had been killed before the start: neither guest nor trace of one.
		if _, err := w.engine.Stop(t.Context(), "inst_1", 0); err != nil {
			t.Fatal(err)
		}
		if err := w.engine.Remove(t.Context(), "inst_1", false); err != nil {
			t.Fatal(err)
		}
		l, err := openLedger(w.disk)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.update(func(s *state) error {
			rec := s.Records["inst_1"]
			rec.RunGeneration, rec.RunBoot, rec.StartBoot = 0, "", ""
			s.Records["inst_1"] = rec
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		w.boot = "boot-2"
		*n = *w.start(t, &fuse{})
		pass(10 * time.Second)
		expect(t, n, "inst_1", nodewire.GuestFailed, nodewire.ReasonFenced)
		if len(guests(t, w)) != 0 {
			t.Errorf("it was started: %+v", guests(t, w))
		}
	})
}

func TestTheWatchdogIsToldOfWhatMustEnd(t *testing.T) {
	t.Parallel()
	bubble(t, fake.Options{}, func(t *testing.T, w *world, n *node) {
		n.end()
		dog := &told{}
		w.dog = dog
		*n = *w.start(t, &fuse{})
		inst := fenced(container("inst_1", 1))
		mustAssign(t, n, assignment("e", 1, inst, container("inst_2", 1)))
		pass(10 * time.Second)
		now := time.Since(w.base)
		if g := dog.last(); len(g) != 1 || g[0].ID != "inst_1" || g[0].Epoch != 1 || g[0].Deadline > now+110*time.Second || g[0].Deadline < now+100*time.Second {
			t.Errorf("at %s it was told %+v", now, g)
		}
		if !n.door.last().Watchdog {
			t.Error("the report hides the watchdog")
		}
		dog.mu.Lock()
		dog.deaf = true
		dog.mu.Unlock()
		pass(6 * time.Second)
		if n.door.last().Watchdog {
			t.Error("a watchdog that does not answer is reported")
		}
		mustAssign(t, n, assignment("e", 2, desired(inst, nodewire.DesiredStopped), container("inst_2", 1)))
		pass(10 * time.Second)
		if g := dog.last(); len(g) != 0 {
			t.Errorf("after the end of all that it concerns: %+v", g)
		}
	})
}

// TestWhatWasNotLookedAtIsNotGone: an agent that starts anew and can't ask its
// engine yet says of what it was told to end that it is ending, for whoever hears
// nothing of it takes its cards to be free.
func TestWhatWasNotLookedAtIsNotGone(t *testing.T) {
	t.Parallel()
	stuck := fake.Options{Hook: func(_ context.Context, step, _ string) error {
		if step == "stop" {
			return errors.New("not now")
		}
		return nil
	}}
	bubble(t, stuck, func(t *testing.T, w *world, n *node) {
		mustAssign(t, n, assignment("e", 1, withDevice(w, container("inst_1", 1))))
		pass(2 * time.Second)
		mustAssign(t, n, assignment("e", 2))
		pass(2 * time.Second)
		expect(t, n, "inst_1", nodewire.GuestStopping, "")
		n.end()
		again := w.start(t, &fuse{blind: true})
		defer again.end()
		pass(10 * time.Second)
		if r := expect(t, again, "inst_1", nodewire.GuestStopping, ""); r.Epoch != 1 || again.door.last().Generation != 2 {
			t.Errorf("epoch %d, assignment %d", r.Epoch, again.door.last().Generation)
		}
	})
}
