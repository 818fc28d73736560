package billing

import (
	"fmt"
	"time"

	"github.com/tenon-cloud/tenon/internal/cloud"
)

// Meter keeps one instance's segments true to its events. It says what to
// store; what was stored is never taken back.
type Meter struct {
	instance cloud.InstanceID
	kind     cloud.InstanceKind
	events   []Event
	rows     []*row
	byID     map[cloud.SegmentID]*row
	fixes    []Correction
}

// row is a stored segment with the sum of its corrections.
type row struct {
	Segment
	moved time.Duration
}

// NewMeter begins with an instance of which nothing is stored.
func NewMeter(instance cloud.InstanceID, kind cloud.InstanceKind) *Meter {
	return &Meter{instance: instance, kind: kind, byID: map[cloud.SegmentID]*row{}}
}

// Resume goes on from what is stored: the events that were metered, and all
// segments and corrections of the instance.
func Resume(instance cloud.InstanceID, kind cloud.InstanceKind, events []Event, segments []Segment, corrections []Correction) *Meter {
	m := NewMeter(instance, kind)
	m.events = append(m.events, events...)
	for _, s := range segments {
		m.keep(s)
	}
	for _, c := range corrections {
		if r := m.byID[c.SegmentID]; r != nil {
			r.moved += c.By
		}
		m.fixes = append(m.fixes, c)
	}
	return m
}

// Segments replays a whole history.
func Segments(instance cloud.InstanceID, kind cloud.InstanceKind, events ...Event) ([]Segment, []Correction, error) {
	m := NewMeter(instance, kind)
	for _, e := range events {
		if _, err := m.Add(e); err != nil {
			return nil, nil, err
		}
	}
	segments, corrections := m.Stored()
	return segments, corrections, nil
}

// Stored is everything so far.
func (m *Meter) Stored() ([]Segment, []Correction) {
	var out []Segment
	for _, r := range m.rows {
		out = append(out, r.Segment)
	}
	return out, append([]Correction(nil), m.fixes...)
}

// Add takes one event and says what to store for it. An event that is known
// changes nothing; one that contradicts a known one is a conflict.
func (m *Meter) Add(e Event) (Change, error) {
	for _, known := range m.events {
		if known.ID != e.ID && known.Seq != e.Seq {
			continue
		}
		if known.same(e) {
			return Change{}, nil
		}
		return Change{}, cloud.E(cloud.KindConflict, "event_conflict", "event %d of instance %s is known with another content", e.Seq, m.instance)
	}
	m.events = append(m.events, e)
	pieces := truth(m.kind, m.events)
	var c Change
	cause := fmt.Sprintf("event %d: %s", e.Seq, e.State)
	for _, p := range pieces {
		m.settle(p, cause, &c)
	}
	// After the closes, so that what is opened overlaps nothing that is stored.
	for _, p := range pieces {
		if m.byID[m.segmentID(p)] == nil {
			m.open(p, cause, &c)
		}
	}
	return c, nil
}

func (m *Meter) segmentID(p piece, more ...string) cloud.SegmentID {
	return derive(cloud.SegmentID{}, append([]string{"segment", m.instance.String(), fmt.Sprint(p.from.Seq)}, more...)...)
}

// rest is the second segment of a piece that began under a stored one.
const rest = "rest"

// settle closes or corrects what is stored of a piece.
func (m *Meter) settle(p piece, cause string, c *Change) {
	head, tail := m.byID[m.segmentID(p)], m.byID[m.segmentID(p, rest)]
	if head == nil {
		return
	}
	end := p.end
	if tail != nil {
		if !end.IsZero() {
			m.end(tail, latest(end, tail.StartedAt), cause, c)
		}
		end = earlier(end, tail.StartedAt)
	}
	m.end(head, end, cause, c)
}

// end makes a stored segment end at a time; zero: not yet. What ended once does
// not open again: truth only ever ends a piece sooner or, by proof, later.
func (m *Meter) end(r *row, at time.Time, cause string, c *Change) {
	switch {
	case at.IsZero():
	case r.EndedAt == nil:
		r.EndedAt = &at
		c.Closes = append(c.Closes, Close{r.ID, at})
	default:
		m.correct(r, at.Sub(r.EndedAt.Add(r.moved)), cause, c)
	}
}

func (m *Meter) correct(r *row, by time.Duration, cause string, c *Change) {
	if by == 0 {
		return
	}
	fix := Correction{ID: derive(CorrectionID{}, "correction", r.ID.String(), cause), SegmentID: r.ID, By: by, Cause: cause}
	r.moved += by
	m.fixes = append(m.fixes, fix)
	c.Corrections = append(c.Corrections, fix)
}

// open stores a new piece. Stored segments of an instance may not overlap, also
// where a correction has since shortened one: a piece under such a one is stored
// as an empty segment that a correction lengthens.
func (m *Meter) open(p piece, cause string, c *Change) {
	s := Segment{ID: m.segmentID(p), InstanceID: m.instance, Kind: m.kind, State: p.from.segmentState(), Shape: p.from.Shape, StartedAt: p.from.At}
	at := p.from.At
	covered := m.coveredUntil(at, p.end)
	switch {
	case covered.IsZero():
		if !p.end.IsZero() {
			s.EndedAt = &p.end
		}
		m.add(s, c)
	case !p.end.IsZero():
		s.EndedAt = &at
		m.correct(m.add(s, c), p.end.Sub(at), cause, c)
	default:
		s.EndedAt = &at
		m.correct(m.add(s, c), covered.Sub(at), cause, c)
		s.ID, s.StartedAt, s.EndedAt = m.segmentID(p, rest), covered, nil
		m.add(s, c)
	}
}

// coveredUntil is the latest end of a stored segment that overlaps [from, to);
// to is zero for no end.
func (m *Meter) coveredUntil(from, to time.Time) time.Time {
	var out time.Time
	if from.Equal(to) {
		return out
	}
	for _, r := range m.rows {
		if r.EndedAt == nil || !r.EndedAt.After(from) || !r.EndedAt.After(r.StartedAt) || !to.IsZero() && !r.StartedAt.Before(to) {
			continue
		}
		out = latest(out, *r.EndedAt)
	}
	return out
}

func (m *Meter) add(s Segment, c *Change) *row {
	c.Opens = append(c.Opens, s)
	return m.keep(s)
}

func (m *Meter) keep(s Segment) *row {
	r := &row{Segment: s}
	m.rows = append(m.rows, r)
	m.byID[s.ID] = r
	return r
}

func latest(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}
