package billing

import (
	"math/big"
	"time"

	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/gpu"
)

// Usage is a charged stretch with its corrections worked in.
type Usage struct {
	SegmentID  cloud.SegmentID
	InstanceID cloud.InstanceID
	Shape      cloud.Shape
	VolumeMiB  int64     // of a volume, which has no shape
	From, To   time.Time // half-open
	Open       bool      // still growing
	Simulated  bool      // its GPUs, or the whole of it, are
}

// Intervals works corrections into segments. provenUntil says for an open
// segment how far it is proven now: the last proof of life, no later than now.
func Intervals(segments []Segment, corrections []Correction, provenUntil func(Segment) time.Time) []Usage {
	moved := map[cloud.SegmentID]time.Duration{}
	for _, c := range corrections {
		moved[c.SegmentID] += c.By
	}
	out := make([]Usage, 0, len(segments))
	for _, s := range segments {
		u := Usage{SegmentID: s.ID, InstanceID: s.InstanceID, Shape: s.Shape, From: s.StartedAt, Open: s.EndedAt == nil, Simulated: s.Simulated}
		if u.Open {
			u.To = provenUntil(s)
		} else {
			u.To = s.EndedAt.Add(moved[s.ID])
		}
		if u.To.Before(u.From) {
			u.To = u.From
		}
		out = append(out, u)
	}
	return out
}

// clip keeps what lies in [from, to); a zero bound is none.
func (u Usage) clip(from, to time.Time) Usage {
	if !from.IsZero() && u.From.Before(from) {
		u.From = from
	}
	if !to.IsZero() && u.To.After(to) {
		u.To = to
	}
	return u
}

func (u Usage) empty() bool { return !u.From.Before(u.To) }

// split cuts at an instant; the second part may be empty.
func (u Usage) split(at time.Time) (before, after Usage) {
	before, after = u.clip(time.Time{}, at), u.clip(at, time.Time{})
	return before, after
}

// Day is the UTC day of a time: 2026-11-30.
func Day(t time.Time) string { return t.UTC().Format(time.DateOnly) }

// nextDay is the first instant of the following UTC day.
func nextDay(t time.Time) time.Time {
	y, m, d := t.UTC().Date()
	return time.Date(y, m, d+1, 0, 0, 0, 0, time.UTC)
}

// GPUHours sums card-hours as an exact fraction: a slice counts by its share of
// the card's memory slots, so that one of seven slices for an hour is an eighth.
// Work without GPUs counts nothing.
func GPUHours(usage []Usage) *big.Rat {
	sum := new(big.Rat)
	for _, u := range usage {
		if u.Shape.GPUCount == 0 || u.empty() {
			continue
		}
		hours := big.NewRat(int64(u.To.Sub(u.From)), int64(time.Hour))
		hours.Mul(hours, big.NewRat(int64(u.Shape.GPUCount)*milli(u.Shape), 1000))
		sum.Add(sum, hours)
	}
	return sum
}

func milli(s cloud.Shape) int64 {
	m, err := gpu.ModelByKey(s.GPUModel)
	if err != nil {
		return 1000
	}
	profile := s.GPUProfile
	if profile == "" {
		profile = gpu.Whole
	}
	n, err := gpu.Milli(m.Geometry, profile)
	if err != nil {
		return 1000
	}
	return n
}
