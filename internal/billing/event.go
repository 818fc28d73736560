package billing

import (
	"time"

	"github.com/tenon-cloud/tenon/internal/cloud"
)

// Event is one transition of an instance, as far as money is concerned.
type Event struct {
	ID    cloud.EventID // the same id with the same content changes nothing; with other content it is a conflict
	Seq   int64         // of the instance, without holes
	Epoch int64         // of the placement that it is about
	State cloud.InstanceState
	Held  bool        // it keeps its place while nothing of it runs
	Shape cloud.Shape // held from At on; a resize is an event with the same state and another shape
	At    time.Time   // the control plane's

	// ProvenUntil is the last proof of life when the run ended without a word
	// from its node; zero: At itself is proven. Nothing accrues after it.
	ProvenUntil time.Time
	// RanUntil is set by late news alone: when the run of this epoch really
	// ended, where an earlier event had to guess. Of several the latest counts,
	// as the last proof of life.
	RanUntil time.Time
}

// ends is when a run stops to be charged by this event.
func (e Event) ends() time.Time {
	if !e.ProvenUntil.IsZero() && e.ProvenUntil.Before(e.At) {
		return e.ProvenUntil
	}
	return e.At
}

func (e Event) same(o Event) bool {
	return e.ID == o.ID && e.Seq == o.Seq && e.Epoch == o.Epoch && e.State == o.State && e.Held == o.Held && e.Shape == o.Shape &&
		e.At.Equal(o.At) && e.ProvenUntil.Equal(o.ProvenUntil) && e.RanUntil.Equal(o.RanUntil)
}

// Charged reports whether an instance of a kind costs money in a state. A VM that
// keeps its place costs as if it ran, also on its way into that state and out of
// it.
func Charged(kind cloud.InstanceKind, state cloud.InstanceState, held bool) bool {
	switch kind {
	case cloud.KindContainer, cloud.KindNotebook, cloud.KindVM:
		if state == cloud.StateRunning {
			return true
		}
		return held && kind == cloud.KindVM &&
			(state == cloud.StateStopping || state == cloud.StateStopped || state == cloud.StateStarting)
	}
	return false
}

// charged is Charged for the time after the event.
func (e Event) charged(kind cloud.InstanceKind) bool { return Charged(kind, e.State, e.Held) }

// segmentState is what a segment that the event opens is of: running, or stopped
// with its place held.
func (e Event) segmentState() cloud.InstanceState {
	if e.State == cloud.StateRunning {
		return cloud.StateRunning
	}
	return cloud.StateStopped
}

// Segment is a charged stretch, as it is stored.
type Segment struct {
	ID         cloud.SegmentID // derived from the instance and the event that opened it
	InstanceID cloud.InstanceID
	Kind       cloud.InstanceKind
	State      cloud.InstanceState
	Shape      cloud.Shape
	StartedAt  time.Time
	EndedAt    *time.Time // nil: open
	Simulated  bool       // as it is stored; no event tells it
}

// Close ends an open segment.
type Close struct {
	SegmentID cloud.SegmentID
	EndedAt   time.Time
}

type correctionRes struct{}

func (correctionRes) IDPrefix() string { return "cor" }

// CorrectionID names a correction.
type CorrectionID = cloud.ID[correctionRes]

// Correction moves the end of a closed segment.
type Correction struct {
	ID        CorrectionID // derived from the segment and the cause
	SegmentID cloud.SegmentID
	By        time.Duration // signed
	Cause     string        // the event that brought the news
}

// Change is what to store after an event, closes first.
type Change struct {
	Closes      []Close
	Opens       []Segment // some are closed at once
	Corrections []Correction
}

// Empty reports that there is nothing to store.
func (c Change) Empty() bool { return len(c.Closes)+len(c.Opens)+len(c.Corrections) == 0 }

// derive spares naming the resource that an id's type already tells.
func derive[R cloud.Resource](_ cloud.ID[R], words ...string) cloud.ID[R] {
	return cloud.DerivedID[R](words...)
}
