package billing

import (
	"cmp"
	"slices"
	"time"

	"github.com/tenon-cloud/tenon/internal/cloud"
)

// piece is a charged stretch as it truly was, by all that is known.
type piece struct {
	from Event
	end  time.Time // zero: not ended
}

// run is one charged stay on a node.
type run struct {
	epoch  int64
	points []Event // its beginning and its resizes
	ended  bool
	end    time.Time // earliest of what ended it
	ran    time.Time // late proof of life
}

// truth depends on the set of events alone. A run ends with the earliest event
// that ended it, or by late proof; it never reaches into the next one, and
// nothing reaches past a deletion.
func truth(kind cloud.InstanceKind, events []Event) []piece {
	sorted := slices.Clone(events)
	slices.SortFunc(sorted, func(a, b Event) int {
		return cmp.Or(cmp.Compare(a.Epoch, b.Epoch), cmp.Compare(a.Seq, b.Seq))
	})
	var runs []*run
	var deleted time.Time
	for _, e := range sorted {
		var last *run
		if len(runs) > 0 && runs[len(runs)-1].epoch == e.Epoch {
			last = runs[len(runs)-1]
		}
		if e.charged(kind) {
			if last == nil || last.ended {
				last = &run{epoch: e.Epoch}
				runs = append(runs, last)
			}
			last.points = append(last.points, e)
			continue
		}
		if e.State == cloud.StateDeleted {
			deleted = earlier(deleted, e.At)
		}
		if last != nil {
			last.ended, last.end = true, earlier(last.end, e.ends())
			if e.RanUntil.After(last.ran) {
				last.ran = e.RanUntil
			}
		}
	}
	var out []piece
	for i, r := range runs {
		slices.SortStableFunc(r.points, func(a, b Event) int { return a.At.Compare(b.At) })
		end := r.end
		if !r.ran.IsZero() {
			end = r.ran
		}
		for _, later := range runs[i+1:] { // all of them: a clock may have been set back
			end = earlier(end, later.start())
		}
		end = earlier(end, deleted)
		for k, p := range r.points {
			stop := end
			if k+1 < len(r.points) {
				stop = earlier(end, r.points[k+1].At)
			}
			if !stop.IsZero() && stop.Before(p.At) {
				stop = p.At
			}
			out = append(out, piece{p, stop})
		}
	}
	return out
}

func (r *run) start() time.Time {
	at := r.points[0].At
	for _, p := range r.points {
		at = earlier(at, p.At)
	}
	return at
}

// earlier is the earlier of two times; the zero time is none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
