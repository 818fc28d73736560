package billing

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tenon-cloud/tenon/internal/cloud"
)

// held marks an event after which the place is kept.
func held(e Event) Event {
	e.Held = true
	return e
}

func meterVM(t *testing.T, events ...Event) []Usage {
	t.Helper()
	segments, corrections, err := Segments(inst, cloud.KindVM, events...)
	if err != nil {
		t.Fatal(err)
	}
	return Intervals(segments, corrections, func(Segment) time.Time { return clock("23:00") })
}

func TestHoldIsChargedAsIfItRan(t *testing.T) {
	t.Parallel()
	shape := h100(1)
	again := held(event(4, "12:00", cloud.StateStarting, shape))
	running := event(5, "12:01", cloud.StateRunning, shape)
	again.Epoch, running.Epoch = 2, 2
	released := event(8, "14:00", cloud.StateStopped, shape)
	stopping, stopped := held(event(6, "13:00", cloud.StateStopping, shape)), held(event(7, "13:01", cloud.StateStopped, shape))
	for _, e := range []*Event{&stopping, &stopped, &released} {
		e.Epoch = 2
	}
	events := []Event{
		event(1, "10:00", cloud.StateRunning, shape), held(event(2, "11:00", cloud.StateStopping, shape)), held(event(3, "11:01", cloud.StateStopped, shape)),
		again, running, stopping, stopped, released,
	}
	if got := GPUHours(meterVM(t, events...)).RatString(); got != "4" {
		t.Errorf("10:00 to 14:00 held throughout: %s GPU-hours, want 4", got)
	}
	// The same by a container, which can't hold: only while it runs.
	segments, _, err := Segments(inst, cloud.KindContainer, events...)
	if err != nil || len(segments) != 2 {
		t.Errorf("a container was charged for %+v, %v", segments, err)
	}
}

func TestStoppedSegmentsSayWhatTheyAreOf(t *testing.T) {
	t.Parallel()
	shape := h100(1)
	segments, _, err := Segments(inst, cloud.KindVM, event(1, "10:00", cloud.StateRunning, shape), held(event(2, "10:30", cloud.StateStopped, shape)), event(3, "10:45", cloud.StateDeleted, shape))
	if err != nil || len(segments) != 2 || segments[0].State != cloud.StateRunning || segments[1].State != cloud.StateStopped || segments[1].EndedAt == nil {
		t.Fatalf("%+v, %v", segments, err)
	}
}

func TestAFailedStartOfAHeldOneEndsTheCharge(t *testing.T) {
	t.Parallel()
	shape := h100(1)
	start, fail := held(event(3, "11:00", cloud.StateStarting, shape)), event(4, "11:10", cloud.StateFailed, shape)
	start.Epoch, fail.Epoch = 2, 2
	got := meterVM(t, event(1, "10:00", cloud.StateRunning, shape), held(event(2, "10:30", cloud.StateStopped, shape)), start, fail)
	if hours := GPUHours(got).FloatString(4); hours != "1.1667" {
		t.Errorf("%s GPU-hours, want 10:00 to 11:10", hours)
	}
}

// life is a model of a VM: what happens to it, and in which seconds it is
// charged, kept without looking at what billing does.
type life struct {
	t       *rapid.T
	at      time.Time
	seq     int
	epoch   int64
	state   cloud.InstanceState
	held    bool
	charges bool
	seconds int
	events  []Event
}

func (l *life) say(state cloud.InstanceState, held, charges bool) {
	wait := rapid.IntRange(0, 5000).Draw(l.t, "seconds")
	if l.charges {
		l.seconds += wait
	}
	l.at = l.at.Add(time.Duration(wait) * time.Second)
	l.seq++
	l.state, l.held, l.charges = state, held, charges
	l.events = append(l.events, Event{ID: derive(cloud.EventID{}, "life", fmt.Sprint(l.seq)), Seq: int64(l.seq), Epoch: l.epoch, State: state, Held: held, Shape: h100(1), At: l.at})
}

func (l *life) step() {
	pick := func(words ...string) string { return rapid.SampledFrom(words).Draw(l.t, "what") }
	switch l.state {
	case cloud.StateQueued:
		l.epoch++
		l.say(cloud.StateStarting, false, false)
	case cloud.StateStarting:
		if pick("runs", "runs", "fails") == "fails" {
			l.say(cloud.StateFailed, false, false)
			return
		}
		l.say(cloud.StateRunning, false, true)
	case cloud.StateRunning:
		switch pick("restart", "hold", "release", "off", "off and hold", "fails", "delete") {
		case "restart":
			l.say(cloud.StateRunning, false, true)
		case "hold":
			l.say(cloud.StateStopping, true, true)
			l.say(cloud.StateStopped, true, true)
		case "release":
			l.say(cloud.StateStopping, false, false)
			l.say(cloud.StateStopped, false, false)
		case "off":
			l.say(cloud.StateStopped, false, false)
		case "off and hold":
			l.say(cloud.StateStopped, true, true)
		case "fails":
			l.say(cloud.StateFailed, false, false)
		case "delete":
			l.say(cloud.StateDeleting, false, false)
			l.say(cloud.StateDeleted, false, false)
		}
	case cloud.StateStopped, cloud.StateFailed:
		switch what := pick("start", "release", "delete"); {
		case what == "delete":
			l.say(cloud.StateDeleted, false, false)
		case l.held && what == "start":
			l.epoch++
			l.say(cloud.StateStarting, true, true)
		case l.held:
			l.say(cloud.StateStopped, false, false)
		default:
			l.say(cloud.StateQueued, false, false)
		}
	}
}

// Whatever happens to a VM, no two segments overlap and their seconds are those
// that an independent sum gives, also when the news comes in any order.
func TestAnyLifeOfAVMComesToItsSeconds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		l := &life{t: t, at: day, state: cloud.StateQueued}
		for range rapid.IntRange(1, 25).Draw(t, "steps") {
			if l.state == cloud.StateDeleted {
				break
			}
			l.step()
		}
		end := l.at.Add(time.Hour)
		if l.charges {
			l.seconds += 3600
		}
		events := l.events
		if rapid.Bool().Draw(t, "any order") {
			events = rapid.Permutation(events).Draw(t, "order")
		}
		segments, corrections, err := Segments(inst, cloud.KindVM, events...)
		if err != nil {
			t.Fatal(err)
		}
		for i, a := range segments {
			for _, b := range segments[i+1:] {
				if overlap(a, b) {
					t.Fatalf("%+v and %+v overlap", a, b)
				}
			}
		}
		var sum time.Duration
		for _, u := range Intervals(segments, corrections, func(Segment) time.Time { return end }) {
			sum += u.To.Sub(u.From)
		}
		if want := time.Duration(l.seconds) * time.Second; sum != want {
			t.Fatalf("charged %s, want %s for %+v", sum, want, l.events)
		}
	})
}

func TestVolumesAreBilledBesideWhatRuns(t *testing.T) {
	t.Parallel()
	prices := []Price{{SKUVolumeGiB, 130, day}, {SKUVCPU, 10_000, day}}
	usage := []Usage{
		{InstanceID: inst, VolumeMiB: 1000 << 10, From: clock("10:00"), To: clock("10:30")},
		{InstanceID: inst, VolumeMiB: 8 << 10, From: clock("11:00"), To: clock("12:00"), Open: true},
		{InstanceID: inst, Shape: cloud.Shape{VCPU: 1}, From: clock("11:00"), To: clock("12:00"), Open: true},
	}
	bill := Make(usage, prices, time.Time{}, time.Time{}, ByInstance)
	// 1000 GiB at 0.00013 for half an hour is 0.065, and 8 GiB for one are 0.00104.
	if len(bill.Lines) != 2 || bill.Lines[1].SKU != SKUVolumeGiB || bill.Lines[1].CostMicros != 65_000+1_040 || bill.Lines[1].InstanceID != inst {
		t.Errorf("%+v", bill.Lines)
	}
	if bill.Running != 1 || bill.RateMicros != 10_000+1_040 {
		t.Errorf("%d run at %d an hour, want one at 11040", bill.Running, bill.RateMicros)
	}
	if len(bill.Unpriced) != 0 {
		t.Errorf("unpriced: %v", bill.Unpriced)
	}
}
