package billing

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tenon-cloud/tenon/internal/cloud"
)

var (
	day  = time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)
	inst = cloud.InstanceID{9}
)

// clock reads 10:20 or 10:20:30 on the day of the tests.
func clock(s string) time.Time {
	for _, layout := range []string{"15:04", "15:04:05"} {
		if t, err := time.Parse(layout, s); err == nil {
			return day.Add(time.Duration(t.Hour())*time.Hour + time.Duration(t.Minute())*time.Minute + time.Duration(t.Second())*time.Second)
		}
	}
	panic("no time: " + s)
}

func h100(count int) cloud.Shape {
	return cloud.Shape{GPUCount: count, GPUModel: "h100-80gb", GPUMode: cloud.ModeWhole, GPUProfile: "whole"}
}

// event is the seq-th of an instance, in its first placement.
func event(seq int, at string, state cloud.InstanceState, shape cloud.Shape) Event {
	return Event{ID: derive(cloud.EventID{}, "event", fmt.Sprint(seq)), Seq: int64(seq), Epoch: 1, State: state, Shape: shape, At: clock(at)}
}

// meter replays events and gives what they come to.
func meter(t *testing.T, events ...Event) []Usage {
	t.Helper()
	segments, corrections, err := Segments(inst, cloud.KindContainer, events...)
	if err != nil {
		t.Fatal(err)
	}
	return Intervals(segments, corrections, func(Segment) time.Time { return clock("23:00") })
}

// spans writes usage as 10:00-10:30 x4.
func spans(usage []Usage) []string {
	var out []string
	for _, u := range usage {
		if !u.empty() {
			out = append(out, fmt.Sprintf("%s-%s x%d", u.From.Format("15:04"), u.To.Format("15:04"), u.Shape.GPUCount))
		}
	}
	slices.Sort(out)
	return out
}

func wantSpans(t *testing.T, usage []Usage, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, spans(usage)); diff != "" {
		t.Errorf("charged:\n%s", diff)
	}
}

func TestC17ResizeUnderARun(t *testing.T) {
	t.Parallel()
	down := meter(t, event(1, "10:00", cloud.StateRunning, h100(4)), event(2, "10:30", cloud.StateRunning, h100(1)), event(3, "10:50", cloud.StateStopped, h100(1)))
	wantSpans(t, down, "10:00-10:30 x4", "10:30-10:50 x1")
	if got := GPUHours(down).FloatString(4); got != "2.3333" {
		t.Errorf("4 for 30 min, then 1 for 20: %s GPU-hours", got)
	}
	up := meter(t, event(1, "10:00", cloud.StateRunning, h100(1)), event(2, "10:30", cloud.StateRunning, h100(4)), event(3, "10:50", cloud.StateStopped, h100(4)))
	if got := GPUHours(up).RatString(); got != "11/6" {
		t.Errorf("1 for 30 min, then 4 for 20: %s GPU-hours, want 1.8333", got)
	}
}

func TestC19NothingAfterDeletion(t *testing.T) {
	t.Parallel()
	run := event(1, "10:00", cloud.StateRunning, h100(1))
	wantSpans(t, meter(t, run, event(2, "10:30", cloud.StateDeleting, h100(1)), event(3, "10:40", cloud.StateDeleted, h100(1))), "10:00-10:30 x1")
	// The news comes late: after a stop was recorded, and against a late claim to have run on.
	late := event(3, "10:30", cloud.StateDeleted, h100(1))
	claim := event(4, "11:30", cloud.StateFailed, h100(1))
	claim.RanUntil = clock("11:30")
	again := event(5, "12:00", cloud.StateRunning, h100(1))
	again.Epoch = 2
	wantSpans(t, meter(t, run, event(2, "11:00", cloud.StateFailed, h100(1)), late, claim, again), "10:00-10:30 x1")
}

func TestC19TheSameEventTwice(t *testing.T) {
	t.Parallel()
	m := NewMeter(inst, cloud.KindContainer)
	run, stop := event(1, "10:00", cloud.StateRunning, h100(1)), event(2, "10:30", cloud.StateStopped, h100(1))
	for _, e := range []Event{run, stop} {
		if c, err := m.Add(e); err != nil || c.Empty() {
			t.Fatalf("%+v %v", c, err)
		}
	}
	for _, e := range []Event{run, stop, run} {
		if c, err := m.Add(e); err != nil || !c.Empty() {
			t.Errorf("the same event again: %+v, %v", c, err)
		}
	}
	other := stop
	other.At = clock("10:31")
	reused := event(3, "10:40", cloud.StateDeleted, h100(1))
	reused.Seq = 2
	for _, e := range []Event{other, reused} {
		if c, err := m.Add(e); cloud.KindOf(err) != cloud.KindConflict || !c.Empty() {
			t.Errorf("another payload: %+v, %v", c, err)
		}
	}
	segments, corrections := m.Stored()
	if len(segments) != 1 || len(corrections) != 0 || segments[0].ID.IsZero() {
		t.Errorf("%+v %+v", segments, corrections)
	}
}

func TestC21GuestStopsByItself(t *testing.T) {
	t.Parallel()
	shape := h100(1)
	events := []Event{
		event(1, "09:50", cloud.StateQueued, shape), event(2, "09:55", cloud.StateStarting, shape), event(3, "10:00", cloud.StateRunning, shape),
		event(4, "10:30", cloud.StateStopped, shape),
	}
	wantSpans(t, meter(t, events...), "10:00-10:30 x1")
	again := []Event{event(5, "10:40", cloud.StateQueued, shape), event(6, "10:41", cloud.StateStarting, shape), event(7, "10:42", cloud.StateRunning, shape)}
	again[1].Epoch, again[2].Epoch = 2, 2
	wantSpans(t, meter(t, append(events, again...)...), "10:00-10:30 x1", "10:42-23:00 x1")
}

func TestStoppingIsNotCharged(t *testing.T) {
	t.Parallel()
	wantSpans(t, meter(t, event(1, "10:00", cloud.StateRunning, h100(1)), event(2, "10:30", cloud.StateStopping, h100(1)), event(3, "10:31", cloud.StateStopped, h100(1))),
		"10:00-10:30 x1")
}

func TestNothingAfterTheLastProofOfLife(t *testing.T) {
	t.Parallel()
	run, lost := event(1, "10:00", cloud.StateRunning, h100(1)), event(2, "10:30", cloud.StateFailed, h100(1))
	lost.ProvenUntil = clock("10:20")
	wantSpans(t, meter(t, run, lost), "10:00-10:20 x1")

	// The node comes back and tells how long it really ran: a correction, not an edit.
	late := event(3, "11:00", cloud.StateFailed, h100(1))
	late.RanUntil = clock("10:25")
	wantSpans(t, meter(t, run, lost, late), "10:00-10:25 x1")
	segments, corrections, err := Segments(inst, cloud.KindContainer, run, lost, late)
	if err != nil || len(segments) != 1 || !segments[0].EndedAt.Equal(clock("10:20")) {
		t.Fatalf("%+v %v", segments, err)
	}
	if len(corrections) != 1 || corrections[0].By != 5*time.Minute || corrections[0].SegmentID != segments[0].ID || corrections[0].Cause != "event 3: failed" {
		t.Errorf("%+v", corrections)
	}
	// It was restarted elsewhere meanwhile: a tenant never pays twice for one instance.
	next := event(3, "10:22", cloud.StateRunning, h100(1))
	next.Epoch = 2
	late.Seq, late.ID = 4, cloud.EventID{4}
	wantSpans(t, meter(t, run, lost, next, late), "10:00-10:22 x1", "10:22-23:00 x1")
}

func TestOfTwoProofsTheLaterCounts(t *testing.T) {
	t.Parallel()
	run, lost := event(1, "10:00", cloud.StateRunning, h100(1)), event(2, "10:20", cloud.StateFailed, h100(1))
	a, b := event(3, "11:00", cloud.StateFailed, h100(1)), event(4, "11:10", cloud.StateFailed, h100(1))
	a.RanUntil, b.RanUntil = clock("10:40"), clock("10:35")
	wantSpans(t, meter(t, run, lost, a, b), "10:00-10:40 x1")
	wantSpans(t, meter(t, run, lost, b, a), "10:00-10:40 x1")
}

// The next run begins, by a clock that was set back, under a stored segment.
func TestARunThatBeginsUnderAStoredSegment(t *testing.T) {
	t.Parallel()
	run, stop, next := event(1, "10:00", cloud.StateRunning, h100(1)), event(2, "10:30", cloud.StateStopped, h100(1)), event(3, "10:20", cloud.StateRunning, h100(2))
	next.Epoch = 2
	wantSpans(t, meter(t, run, stop, next), "10:00-10:20 x1", "10:20-10:30 x2", "10:30-23:00 x2")
	for at, want := range map[string][]string{
		"10:25": {"10:00-10:20 x1", "10:20-10:25 x2"},
		"10:40": {"10:00-10:20 x1", "10:20-10:30 x2", "10:30-10:40 x2"},
	} {
		end := event(4, at, cloud.StateStopped, h100(2))
		end.Epoch = 2
		wantSpans(t, meter(t, run, stop, next, end), want...)
	}
}

func TestLateNewsOfAResize(t *testing.T) {
	t.Parallel()
	run, stop := event(1, "10:00", cloud.StateRunning, h100(4)), event(3, "10:30", cloud.StateStopped, h100(1))
	usage := meter(t, run, stop, event(2, "10:10", cloud.StateRunning, h100(1)))
	wantSpans(t, usage, "10:00-10:10 x4", "10:10-10:30 x1")
}

func TestResumeGoesOn(t *testing.T) {
	t.Parallel()
	events := []Event{event(1, "10:00", cloud.StateRunning, h100(1)), event(2, "10:30", cloud.StateFailed, h100(1)), event(3, "10:40", cloud.StateFailed, h100(1))}
	events[2].RanUntil = clock("10:35")
	m := NewMeter(inst, cloud.KindContainer)
	for i, e := range events {
		segments, corrections := m.Stored()
		m = Resume(inst, cloud.KindContainer, events[:i], segments, corrections)
		if c, err := m.Add(e); err != nil || c.Empty() {
			t.Fatalf("%d: %+v %v", i, c, err)
		}
	}
	got, gotFix := m.Stored()
	want, wantFix, _ := Segments(inst, cloud.KindContainer, events...)
	if diff := cmp.Diff(want, got) + cmp.Diff(wantFix, gotFix); diff != "" {
		t.Error(diff)
	}
}

// genHistory draws a life of several runs with resizes, and late news about it.
func genHistory(t *rapid.T) []Event {
	var out []Event
	at, epoch := clock("02:00"), int64(0)
	// A clock may be set back.
	step := func() { at = at.Add(time.Duration(rapid.IntRange(-10, 30).Draw(t, "minutes")) * time.Minute) }
	add := func(state cloud.InstanceState, gpus int) *Event {
		out = append(out, Event{ID: derive(cloud.EventID{}, fmt.Sprint(len(out)+1)), Seq: int64(len(out) + 1), Epoch: epoch, State: state, Shape: h100(gpus), At: at})
		return &out[len(out)-1]
	}
	for range rapid.IntRange(1, 3).Draw(t, "runs") {
		epoch++
		gpus := rapid.IntRange(1, 4).Draw(t, "gpus")
		add(cloud.StateStarting, gpus)
		step()
		add(cloud.StateRunning, gpus)
		for range rapid.IntRange(0, 2).Draw(t, "resizes") {
			step()
			gpus = rapid.IntRange(1, 4).Draw(t, "gpus")
			add(cloud.StateRunning, gpus)
		}
		step()
		if rapid.IntRange(0, 4).Draw(t, "ends") > 0 {
			e := add(rapid.SampledFrom([]cloud.InstanceState{cloud.StateStopping, cloud.StateStopped, cloud.StateFailed}).Draw(t, "end"), gpus)
			if rapid.Bool().Draw(t, "unproven") {
				e.ProvenUntil = at.Add(-time.Duration(rapid.IntRange(0, 40).Draw(t, "silence")) * time.Minute)
			}
			step()
		}
	}
	last := epoch
	for range rapid.IntRange(0, 3).Draw(t, "late news") {
		epoch = int64(rapid.IntRange(1, int(last)).Draw(t, "about"))
		e := add(rapid.SampledFrom([]cloud.InstanceState{cloud.StateStopped, cloud.StateFailed, cloud.StateDeleted}).Draw(t, "news"), 1)
		e.At = clock("01:00").Add(time.Duration(rapid.IntRange(0, 240).Draw(t, "true end")) * time.Minute)
		if e.State != cloud.StateDeleted && rapid.Bool().Draw(t, "proof") {
			e.RanUntil = e.At
			e.At = at
		}
	}
	return out
}

func TestNewsInAnyOrderComesToTheSame(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		events := genHistory(t)
		want := charged(t, events)
		shuffled := slices.Clone(events)
		rnd := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 7))
		rnd.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		if diff := cmp.Diff(want, charged(t, shuffled)); diff != "" {
			t.Fatalf("the order of the news changes the bill:\n%s", diff)
		}
		if diff := cmp.Diff(want, charged(t, append(shuffled, events...))); diff != "" {
			t.Fatalf("hearing it twice changes the bill:\n%s", diff)
		}
	})
}

// charged replays events, checks what the database would refuse on the way, and
// gives the charged minutes with their number of GPUs.
func charged(t *rapid.T, events []Event) map[string]int {
	m := NewMeter(inst, cloud.KindContainer)
	stored := map[cloud.SegmentID]Segment{}
	fixes := map[CorrectionID]bool{}
	var deleted time.Time
	for _, e := range events {
		if e.State == cloud.StateDeleted {
			deleted = earlier(deleted, e.At)
		}
		c, err := m.Add(e)
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range c.Closes {
			s, ok := stored[x.SegmentID]
			if !ok || s.EndedAt != nil || x.EndedAt.Before(s.StartedAt) {
				t.Fatalf("%s is closed twice, backwards or unseen", x.SegmentID)
			}
			s.EndedAt = &x.EndedAt
			stored[s.ID] = s
		}
		for _, s := range c.Opens {
			if _, ok := stored[s.ID]; ok || s.EndedAt != nil && s.EndedAt.Before(s.StartedAt) {
				t.Fatalf("%+v is opened twice or backwards", s)
			}
			for _, o := range stored {
				if overlap(s, o) {
					t.Fatalf("stored segments overlap: %+v and %+v", s, o)
				}
			}
			stored[s.ID] = s
		}
		for _, f := range c.Corrections {
			if s, ok := stored[f.SegmentID]; !ok || s.EndedAt == nil || fixes[f.ID] || f.By == 0 {
				t.Fatalf("a correction of an open or unseen segment, or twice: %+v", f)
			}
			fixes[f.ID] = true
		}
	}
	segments, corrections := m.Stored()
	out := map[string]int{}
	for _, u := range Intervals(segments, corrections, func(Segment) time.Time { return clock("09:00") }) {
		for at := u.From; at.Before(u.To); at = at.Add(time.Minute) {
			if !deleted.IsZero() && !at.Before(deleted) {
				t.Fatalf("charged at %s, deleted at %s", at, deleted)
			}
			if out[at.Format("15:04")] != 0 {
				t.Fatalf("charged twice at %s", at)
			}
			out[at.Format("15:04")] = u.Shape.GPUCount
		}
	}
	return out
}

func overlap(a, b Segment) bool {
	far := clock("23:59")
	end := func(s Segment) time.Time {
		if s.EndedAt == nil {
			return far
		}
		return *s.EndedAt
	}
	from, to := latest(a.StartedAt, b.StartedAt), earlier(end(a), end(b))
	return from.Before(to) && a.StartedAt.Before(end(a)) && b.StartedAt.Before(end(b))
}
