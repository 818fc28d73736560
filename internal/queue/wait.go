package queue

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/tenon-cloud/tenon/internal/fairshare"
)

// Code is why something waits, for machines.
type Code string

const (
	Never     Code = "never"     // it can't fit even if nothing else ran
	Quota     Code = "quota"     // a limit, or what there is, is used up by its own or by others
	Guarantee Code = "guarantee" // it is never taken back, and would be above a guarantee
	Express   Code = "express"   // what is left is kept for earlier tiers
	TooLong   Code = "too_long"  // its tier takes only shorter work, of known length
	NoPlace   Code = "no_place"  // no place that is free is large enough
	Reserved  Code = "reserved"  // it has a start of its own reserved, or would delay another's
	NotYet    Code = "not_yet"   // its reservation hasn't begun, or is over
	Behind    Code = "behind"    // another of its kind, or of a strict queue, goes first
	Making    Code = "making_room"
	Unasked   Code = "unasked" // nobody has decided on it yet
)

// Reason says why something waits, with numbers.
type Reason struct {
	Code     Code
	Node     int // on whose account; fairshare.None: nobody's
	Resource int
	Short    int64
	Members  int
	Blocker  string        // before whom it can't go
	Ahead    int           // so many of its kind go first
	At       time.Duration // from when on that is over; 0: unknown
}

// Words name what a Reason counts.
type Words struct {
	Resource func(r int) string
	Amount   func(r int, amount int64) string
	At       func(time.Duration) string
}

// Say puts a reason into words.
func (r Reason) Say(tree *fairshare.Tree, w Words) string {
	whose := "the cloud"
	if r.Node > 0 && r.Node < tree.Nodes() {
		whose = tree.Node(r.Node).Name
	}
	switch r.Code {
	case Never:
		if r.Short > 0 {
			return fmt.Sprintf("never fits: %s of %s more than %s may ever have", w.Amount(r.Resource, r.Short), w.Resource(r.Resource), whose)
		}
		return fmt.Sprintf("never fits: no nodes could take %d of it together, even if nothing else ran", r.Members)
	case Quota:
		if r.Node <= 0 {
			return fmt.Sprintf("%s of %s short: what else there is is in use", w.Amount(r.Resource, r.Short), w.Resource(r.Resource))
		}
		return fmt.Sprintf("quota: %s of %s short of the limit of %s", w.Amount(r.Resource, r.Short), w.Resource(r.Resource), whose)
	case Guarantee:
		return "it can't be preempted, so that it must stay within a guarantee, and that is used up"
	case Express:
		return fmt.Sprintf("%s of %s short: the rest is kept for shorter work", w.Amount(r.Resource, r.Short), w.Resource(r.Resource))
	case TooLong:
		return "its tier takes work of at most " + r.At.String() + " alone"
	case NoPlace:
		if r.Members > 1 {
			return fmt.Sprintf("no room for %d members at once", r.Members)
		}
		return "no room"
	case Reserved:
		if r.Blocker != "" {
			return "reserved for " + r.Blocker + until(r.At, w)
		}
		if r.At > 0 {
			return "starts at " + w.At(r.At)
		}
		return "it gets what comes free; when that is enough, nobody can tell"
	case NotYet:
		if r.At > 0 {
			return "its reservation " + r.Blocker + " begins at " + w.At(r.At)
		}
		return "its reservation " + r.Blocker + " is over"
	case Behind:
		if r.Ahead > 1 {
			return fmt.Sprintf("behind %d of its kind, the first of which is %s", r.Ahead, r.Blocker)
		}
		return "behind " + r.Blocker
	case Making:
		return "others make room for it" + until(r.At, w)
	}
	return "it has just come"
}

func until(at time.Duration, w Words) string {
	if at <= 0 {
		return ""
	}
	return " until " + w.At(at)
}

// Wait is one that waits.
type Wait struct {
	ID       string
	Reason   Reason
	Position int // in its queue, from 1
	Ahead    int // of its own kind
	Start    time.Duration
	Promised bool // the start is reserved for it; else it is only reckoned; Start 0: unknown
}

// Waiting tells of all that waits, as of the last Decide: by queue, in order.
func (q *Queue) Waiting(now time.Duration) []Wait {
	var out []Wait
	var guess []guessed
	for n := range q.leaves {
		var lines []*line
		for _, l := range q.leaves[n].lines {
			if len(l.jobs) > 0 {
				lines = append(lines, l)
			}
		}
		type place struct {
			j     *job
			ahead int
		}
		var all []place
		for _, l := range lines {
			for i, j := range l.jobs {
				all = append(all, place{j, i})
			}
		}
		slices.SortStableFunc(all, func(a, b place) int {
			if c := cmp.Or(order(a.j.Spot, b.j.Spot), cmp.Compare(a.j.Tier, b.j.Tier)); c != 0 {
				return c
			}
			if q.earlier(a.j, b.j, now) {
				return -1
			}
			return 1
		})
		at := 0
		for _, p := range q.promises {
			if p.Queue == n {
				at++
				out = append(out, Wait{ID: p.ID, Position: at, Reason: Reason{Code: Making, At: p.reservedAt}, Start: p.reservedAt, Promised: true})
			}
		}
		for _, p := range all {
			at++
			w := Wait{ID: p.j.ID, Position: at, Ahead: p.ahead, Reason: p.j.line.why}
			first := p.j.line.jobs[0]
			switch {
			case p.j.reserved == q.decides && q.decides > 0:
				w.Start, w.Promised = p.j.reservedAt, p.j.reservedAt > 0
				w.Reason = Reason{Code: Reserved, At: p.j.reservedAt, Members: p.j.least}
			case p.ahead > 0 && w.Reason.Code == NoPlace:
				w.Reason.Code, w.Reason.Blocker, w.Reason.Ahead = Behind, first.ID, p.ahead
			case w.Reason.Code == "":
				w.Reason.Code = Unasked
			}
			if w.Reason.Code != Never && w.Reason.Code != TooLong {
				guess = append(guess, guessed{p.j, len(out)})
			}
			out = append(out, w)
		}
	}
	// Everybody's first before anybody's second.
	slices.SortStableFunc(guess, func(a, b guessed) int {
		return cmp.Or(order(a.j.Spot, b.j.Spot), cmp.Compare(a.j.Tier, b.j.Tier), cmp.Compare(out[a.at].Position, out[b.at].Position), before(a.j, b.j))
	})
	rough := q.newReckoning(now)
	for _, g := range guess {
		if start := rough.start(g.j); !out[g.at].Promised {
			out[g.at].Start = start
		}
	}
	return out
}

// guessed is one whose start is reckoned, and where it is in the answer.
type guessed struct {
	j  *job
	at int
}

func order(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// reckoning guesses starts: as much must have ended as is asked for before.
type reckoning struct {
	frees []freed // in order of time
	asked []int64 // by resource, by those before
	next  int
	sum   []int64
}

type freed struct {
	at      time.Duration
	amounts []int64
	times   int64
}

func (q *Queue) newReckoning(now time.Duration) *reckoning {
	n := len(q.tree.Capacity())
	r := &reckoning{asked: make([]int64, n), sum: make([]int64, n)}
	for k, c := range q.tree.Capacity() {
		r.sum[k] = max(0, c-q.tree.Used(0)[k])
	}
	for i := range q.leaves {
		for _, j := range q.leaves[i].running {
			if j.runtime() > 0 {
				r.frees = append(r.frees, freed{j.ends(now), j.Resources, int64(j.members)})
			}
		}
	}
	slices.SortStableFunc(r.frees, func(a, b freed) int { return cmp.Compare(a.at, b.at) })
	return r
}

// start is when as much is free as this one and those before ask for; 0: unknown.
func (r *reckoning) start(j *job) time.Duration {
	for k, a := range j.Resources {
		r.asked[k] += a * int64(j.least)
	}
	for {
		enough := true
		for k, a := range r.asked {
			enough = enough && (a <= r.sum[k] || k >= len(j.Resources) || j.Resources[k] == 0)
		}
		if enough && r.next > 0 {
			return r.frees[r.next-1].at
		}
		if r.next == len(r.frees) {
			return 0
		}
		for k, a := range r.frees[r.next].amounts {
			r.sum[k] += a * r.frees[r.next].times
		}
		r.next++
	}
}
