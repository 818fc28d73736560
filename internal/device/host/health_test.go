package host_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tenon-cloud/tenon/internal/device/host"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

const second = time.Second

func xid(n int, at time.Duration) host.Signal {
	return host.Signal{Card: card, XID: n, At: at, GI: -1}
}

func one(t *testing.T, h *host.Health, now time.Duration) nodewire.Incident {
	t.Helper()
	list := h.Incidents(now)
	if len(list) != 1 {
		t.Fatalf("%d incidents, want one: %+v", len(list), list)
	}
	return list[0]
}

// The table of the design, and what NVIDIA's catalogue says of some others.
func TestWhatEachXIDDoesToItsCard(t *testing.T) {
	t.Parallel()
	for action, want := range map[string]struct {
		state string
		xids  []int
	}{
		nodewire.ActionNone:       {nodewire.GPUReady, []int{13, 31, 43, 45, 68, 109, 8, 32, 69, 92, 141}},
		nodewire.ActionNeedsReset: {nodewire.GPUNeedsReset, []int{48, 63, 64, 94, 95, 46, 62, 74, 136, 140, 143, 149, 155, 156, 158, 171, 999}},
		nodewire.ActionOut:        {nodewire.GPUUnhealthy, []int{79, 119, 120, 54}},
	} {
		for _, n := range want.xids {
			h := host.NewHealth("boot-1", nil)
			h.Hear(xid(n, 5*second))
			got := one(t, h, 7*second)
			if got.Action != action || got.XID != n || got.AgeSeconds != 2 || got.PCIAddress != card || !strings.Contains(got.Message, fmt.Sprintf("XID %d: ", n)) {
				t.Errorf("XID %d: %+v, want %s", n, got, action)
			}
			if state, reason := h.State(card); state != want.state || (reason == "") != (state == nodewire.GPUReady) {
				t.Errorf("XID %d: card %s (%q), want %s", n, state, reason, want.state)
			}
		}
	}
}

func TestC23APageFaultIsTheProgramsOwn(t *testing.T) {
	t.Parallel()
	h := host.NewHealth("boot-1", nil)
	h.Hear(host.Signal{Card: card, XID: 31, At: 5 * second, GI: 3})
	h.Hear(host.Signal{Card: card, XID: 31, At: 6 * second, GI: 3, PID: 4711, Command: "python", Owner: "inst_1"})
	got := one(t, h, 6*second)
	if got.InstanceID != "inst_1" || got.Action != nodewire.ActionNone {
		t.Errorf("%+v", got)
	}
	if state, _ := h.State(card); state != nodewire.GPUReady {
		t.Errorf("the card is %s", state)
	}
	h.Hear(host.Signal{Card: card, XID: 31, At: 7 * second, GI: 4, Owner: "inst_2"})
	if list := h.Incidents(8 * second); len(list) != 2 {
		t.Errorf("two tenants' faults are %d incidents", len(list))
	}
}

func TestC23FallingOffTheBusIsOneIncidentHoweverItIsTold(t *testing.T) {
	t.Parallel()
	line := func(n uint64, at time.Duration, text string) host.Signal {
		s, ok := host.KernelSignal(host.KernelLine{Number: n, SinceBoot: at, Text: text})
		if !ok {
			t.Fatalf("not read: %s", text)
		}
		return s
	}
	signals := []func(*host.Health){
		func(h *host.Health) { h.Hear(xid(79, 100*second)) },
		func(h *host.Health) {
			h.Hear(line(1, 101*second, "NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."))
		},
		func(h *host.Health) {
			h.Hear(line(2, 101*second, "NVRM: GPU 0000:3b:00.0: GPU has fallen off the bus."))
		},
		func(h *host.Health) {
			h.Hear(line(3, 102*second, "NVRM: Xid (PCI:0000:3b:00): 154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)"))
		},
		func(h *host.Health) { h.Hear(xid(45, 104*second)) },
		func(h *host.Health) { h.Present(card, "GPU-1", false, 400*second) }, // found by the next scan, much later
	}
	h := host.NewHealth("boot-1", nil)
	for _, tell := range signals {
		tell(h)
	}
	got := one(t, h, 500*second)
	if got.Kind != "fell_off_bus" || got.XID != 79 || got.Action != nodewire.ActionOut || got.GPUUUID != "GPU-1" || got.AgeSeconds != 400 {
		t.Errorf("%+v", got)
	}
	if state, _ := h.State(card); state != nodewire.GPUMissing {
		t.Errorf("a card that is not there is %s", state)
	}
	if state, _ := h.State("0000:5b:00.0"); state != nodewire.GPUReady {
		t.Errorf("another card is %s", state)
	}
	silent := host.NewHealth("boot-1", nil)
	silent.Present(card, "GPU-1", false, 400*second)
	if got := one(t, silent, 400*second); got.Kind != "fell_off_bus" || got.Action != nodewire.ActionOut || got.XID != 0 {
		t.Errorf("without an XID: %+v", got)
	}
	silent.Present(card, "GPU-1", true, 500*second)
	if state, _ := silent.State(card); state != nodewire.GPUUnhealthy {
		t.Errorf("it is back and untested, and %s", state)
	}
}

func TestRowRemaps(t *testing.T) {
	t.Parallel()
	h := host.NewHealth("boot-1", nil)
	reading := host.DriverCard{PCIAddress: card, UUID: "GPU-1", Remap: host.RowRemap{Known: true, Pending: true}}
	h.Hear(xid(63, 10*second))
	h.Read(reading, 90*second)
	if got := one(t, h, 90*second); got.Kind != "row_remap_pending" || got.XID != 63 || got.Action != nodewire.ActionNeedsReset {
		t.Errorf("%+v", got)
	}
	h.Hear(xid(64, 95*second))
	reading.Remap.Pending, reading.Remap.Failure = false, true
	h.Read(reading, 100*second)
	list := h.Incidents(100 * second)
	if len(list) != 2 || list[1].Kind != "row_remap_failure" || list[1].Action != nodewire.ActionOut || list[1].XID != 64 {
		t.Errorf("%+v", list)
	}
	h.Reset(card, 110*second)
	if state, _ := h.State(card); state != nodewire.GPUUnhealthy {
		t.Errorf("a reset has mended a failed remap: %s", state)
	}
}

func TestThereIsAlwaysAWayBack(t *testing.T) {
	t.Parallel()
	for _, n := range []int{48, 63, 94, 95, 46, 999} {
		h := host.NewHealth("boot-1", nil)
		h.Hear(xid(n, 10*second))
		h.Reset(card, 20*second)
		if state, _ := h.State(card); state != nodewire.GPUReady {
			t.Errorf("XID %d: after a reset and its check the card is %s", n, state)
		}
	}
	for _, s := range []host.Signal{xid(79, second), xid(119, second), xid(54, second), {Card: card, Fault: host.ResetFailed, At: second, Text: "no reset method"}, {Card: card, Fault: host.RemapFailure, At: second}} {
		h := host.NewHealth("boot-1", nil)
		h.Hear(s)
		h.Reset(card, 10*second)
		if state, _ := h.State(card); state == nodewire.GPUReady {
			t.Errorf("%+v: a reset alone brought it back", s)
		}
		h.Recover(card, 20*second)
		if state, _ := h.State(card); state != nodewire.GPUReady {
			t.Errorf("%+v: recovered, and %s", s, state)
		}
		late := s
		late.At = 15 * second // on its way when the operator said so
		if h.Hear(late); len(h.Incidents(30*second)) != 0 {
			t.Errorf("%+v: an old signal undid the recovery", s)
		}
		s.At = 40 * second
		if h.Hear(s); len(h.Incidents(50*second)) != 1 {
			t.Errorf("%+v: a new fault after the recovery is not told", s)
		}
	}
	h := host.NewHealth("boot-1", nil)
	h.Hear(host.Signal{Card: card, Fault: host.ResetFailed, At: second, Text: "no reset method"})
	if state, reason := h.State(card); state != nodewire.GPUQuarantined || !strings.Contains(reason, "no reset method") {
		t.Errorf("%s, %q", state, reason)
	}
}

func TestAfterARebootTheCardIsStillOut(t *testing.T) {
	t.Parallel()
	h := host.NewHealth("boot-1", nil)
	h.Hear(xid(79, 100*second))
	h.Hear(xid(31, 200*second))
	id := h.Incidents(200 * second)[0].ID
	saved := h.Save(300 * second)
	h = host.NewHealth("boot-2", &saved)
	got := one(t, h, 5*second)
	if got.ID != id || got.AgeSeconds != 205 {
		t.Errorf("%+v, want %s of at least 205 s", got, id)
	}
	if h.Hear(host.Signal{Card: card, XID: 79, At: 3 * second, GI: -1, Line: 7}); len(h.Incidents(5*second)) != 1 {
		t.Error("the same fault after a reboot is another incident")
	}
	h.Recover(card, 10*second)
	if len(h.Incidents(10*second)) != 0 {
		t.Error("not recovered")
	}
}

func TestTheListStaysShort(t *testing.T) {
	t.Parallel()
	h := host.NewHealth("boot-1", nil)
	h.Hear(xid(79, second))
	for i := range 5000 {
		h.Hear(host.Signal{Card: card, XID: 31, At: time.Duration(i) * 20 * second / 100, GI: i % 100, Owner: fmt.Sprint("inst_", i%100)})
	}
	list := h.Incidents(1000 * second)
	if len(list) > 64 || !slices.ContainsFunc(list, func(i nodewire.Incident) bool { return i.XID == 79 }) {
		t.Errorf("%d incidents", len(list))
	}
	if list = h.Incidents(100 * time.Hour); len(list) != 1 || list[0].XID != 79 {
		t.Errorf("after hours: %+v", list)
	}
	crash := host.NewHealth("boot-1", nil) // a program that crashes on and on
	for i := range 1000 {
		crash.Hear(xid(13, time.Duration(i)*5*second))
	}
	if got := one(t, crash, 5000*second); got.AgeSeconds != 5000 {
		t.Errorf("%+v", got)
	}
}

// Whatever is heard, in whatever order the driver and the kernel tell it, and
// wherever the agent is killed: the incidents and their ids are the same.
func TestIncidentsAreTheSameAfterARestart(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		type event struct {
			s      host.Signal
			kernel bool
		}
		var kernel, all []event
		now := 100 * second
		for i := range rapid.IntRange(1, 12).Draw(t, "faults") {
			now += time.Duration(rapid.IntRange(31, 300).Draw(t, "gap")) * second
			s := host.Signal{Card: rapid.SampledFrom([]string{card, "0000:5b:00.0"}).Draw(t, "card"), GI: -1, At: now,
				XID: rapid.SampledFrom([]int{13, 31, 48, 63, 79, 94, 119, 46, 999}).Draw(t, "xid"), Line: uint64(i + 1)}
			driver := s
			driver.Line, driver.At = 0, now+time.Duration(rapid.IntRange(-2000, 2000).Draw(t, "skew"))*time.Millisecond
			kernel = append(kernel, event{s, true})
			pair := []event{{s, true}, {driver, false}}
			if rapid.Bool().Draw(t, "driver first") {
				slices.Reverse(pair)
			}
			all = append(all, pair...)
		}
		ids := func(h *host.Health) map[string]string {
			out := map[string]string{}
			for _, i := range h.Incidents(now) {
				out[i.ID] = fmt.Sprint(i.PCIAddress, " ", i.XID, " ", i.Kind, " ", i.Action)
			}
			return out
		}
		first := host.NewHealth("boot-1", nil)
		for _, e := range all {
			first.Hear(e.s)
		}
		want := ids(first)

		// Killed after some of them; the state was saved, the kernel's log is read again.
		part := host.NewHealth("boot-1", nil)
		cut := rapid.IntRange(0, len(all)).Draw(t, "killed")
		for _, e := range all[:cut] {
			part.Hear(e.s)
		}
		saved := part.Save(now)
		again := host.NewHealth("boot-1", &saved)
		for _, e := range kernel {
			again.Hear(e.s)
		}
		if diff := cmp.Diff(want, ids(again)); diff != "" {
			t.Fatalf("with its state: %s", diff)
		}
		lost := host.NewHealth("boot-1", nil) // and without it
		for _, e := range kernel {
			lost.Hear(e.s)
		}
		if diff := cmp.Diff(want, ids(lost)); diff != "" {
			t.Fatalf("without its state: %s", diff)
		}
	})
}

func TestOldLinesDontUndoARecovery(t *testing.T) {
	t.Parallel()
	h := host.NewHealth("boot-1", nil)
	s := xid(79, 100*second)
	s.Line = 7
	h.Hear(s)
	h.Recover(card, 200*second)
	saved := h.Save(200 * second)
	h = host.NewHealth("boot-1", &saved)
	h.Hear(s)
	if state, _ := h.State(card); state != nodewire.GPUReady {
		t.Errorf("after a restart the card is %s again", state)
	}
}

func TestOldLinesAreNotToldAnew(t *testing.T) {
	t.Parallel()
	h := host.NewHealth("boot-1", nil)
	s := xid(31, 100*second)
	s.Line = 7
	h.Hear(s)
	if len(h.Incidents(2*time.Hour)) != 0 {
		t.Fatal("a program's fault is told for ever")
	}
	saved := h.Save(2 * time.Hour)
	h = host.NewHealth("boot-1", &saved)
	if h.Hear(s); len(h.Faults) != 0 {
		t.Error("after a restart an old line is an incident again")
	}
}

// TestFaultsOfOneMomentAreAllKept: what is on disk is what was told, in whichever
// order it came.
func TestFaultsOfOneMomentAreAllKept(t *testing.T) {
	t.Parallel()
	for range 20 {
		w := newWorld(t, "a100")
		w.inventory()
		var all sync.WaitGroup
		for i := range 24 {
			all.Go(func() { w.b.Tell(host.Signal{Card: "0000:65:00.0", XID: 200 + i, GI: -1}) })
		}
		all.Wait()
		told := len(w.b.Incidents())
		w.open()
		if kept := len(w.b.Incidents()); kept != told || told == 0 {
			t.Fatalf("%d are kept of %d", kept, told)
		}
	}
}
