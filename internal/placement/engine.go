package placement

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/tenon-cloud/tenon/internal/cloud"
)

// Decide makes the plan of one moment. The input is not changed.
func Decide(s Snapshot, requests []Request, policy Policy) Plan {
	return NewBoard(s, policy).Decide(requests)
}

// maxClasses is how many kinds of request a board remembers from one plan to the
// next.
const maxClasses = 1024

// Decide makes a plan, and books what it places. Bookings of the plan before are
// forgotten, but not what they took.
func (b *Board) Decide(requests []Request) Plan { return b.decideOn(requests, false) }

// Try makes a plan and leaves the board as it was.
func (b *Board) Try(requests []Request) Plan {
	p := b.decideOn(requests, true)
	b.Rollback(0)
	b.grown++ // what was refused beside all that was tried is asked again
	return p
}

func (b *Board) decideOn(requests []Request, undo bool) Plan {
	b.bookings, b.journal, b.marks = b.bookings[:0], b.journal[:0], 0
	if len(b.classes) > maxClasses {
		b.forget()
	}
	b.weigh()
	if undo {
		b.Mark()
	}
	queue := make([]*Request, len(requests))
	for i := range requests {
		queue[i] = &requests[i]
	}
	slices.SortStableFunc(queue, func(a, b *Request) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.Order, b.Order), bytes.Compare(a.InstanceID[:], b.InstanceID[:]))
	})
	d := decider{Board: b, waiting: map[string]int{}, blocked: map[string]int{}}
	seen := make(map[cloud.InstanceID]bool, len(queue))
	plan := Plan{Decisions: make([]Decision, 0, len(queue))}
	for _, r := range queue {
		if seen[r.InstanceID] {
			continue
		}
		seen[r.InstanceID] = true
		plan.Decisions = append(plan.Decisions, d.decide(r))
	}
	return plan
}

// decider goes through one queue.
type decider struct {
	*Board
	waiting map[string]int // by pool: how many wait
	blocked map[string]int // by pool: how many wait that could fit one day
}

func (d *decider) decide(r *Request) Decision {
	out := Decision{InstanceID: r.InstanceID}
	id := d.Class(*r)
	c := &d.classes[id]
	most := max(r.Count, 1)
	members := most
	if r.Min > 0 {
		members = min(r.Min, most)
	}
	var why Refusal
	known, ok := c.refused[members]
	switch {
	case d.policy.Discipline == Strict && d.blocked[r.Pool] > 0 && !d.neverFits(c.want, members):
		why = Refusal{Reasons: []Reason{{Code: Behind, Count: d.blocked[r.Pool]}}}
	case ok && known.grown == d.grown:
		why = known.why
	default:
		if booked, _ := d.Place(id, members, most); booked > 0 {
			out.Members = d.Members(booked)
			return out
		}
		why = d.refuse(c.want, members)
		c.refused[members] = refused{d.grown, why}
	}
	d.waiting[r.Pool]++
	if !why.NeverFits {
		d.blocked[r.Pool]++
	}
	why.Position = d.waiting[r.Pool]
	out.Refusal = &why
	return out
}
