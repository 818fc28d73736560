package queue

import (
	"cmp"
	"slices"
	"time"
)

// hold keeps a place for something that starts later. Only what is gone by then may
// lie there.
type hold struct {
	from, until time.Duration // until 0: nobody knows
	booking     Booking
	owner       string // who waits for it
	reservation string // or whose it is
	lifted      bool
}

// end is when something gives its place back.
type end struct {
	at      time.Duration
	id      string
	booking Booking
}

// ends is when what runs is thought to end. What is overdue takes an eighth longer
// than it has been.
func (j *job) ends(now time.Duration) time.Duration {
	run := j.runtime()
	if run == 0 {
		return forever
	}
	at := j.started + run
	if at <= now && j.Maximum > run {
		at = j.started + j.Maximum
	}
	if at <= now {
		at = now + (now-j.started)/8 + 1
	}
	return at
}

// ends are all that will end, in order: what runs, what makes room, and what has a
// start reserved. What nobody knows the end of comes last.
func (d *decision) ends() []end {
	if d.known {
		return d.ended
	}
	d.known, d.ended = true, d.ended[:0]
	one := func(j *job) {
		d.ended = append(d.ended, end{j.ends(d.now), j.ID, j.booking})
	}
	for n := range d.leaves {
		for _, j := range d.leaves[n].running {
			one(j)
		}
	}
	for _, j := range d.spots {
		one(j)
	}
	for _, j := range d.endings {
		d.ended = append(d.ended, end{max(j.ending, d.now), j.ID, j.booking})
	}
	for _, h := range d.holds {
		d.ended = append(d.ended, h.end())
	}
	slices.SortFunc(d.ended, end.before)
	return d.ended
}

func (e end) before(o end) int { return cmp.Or(cmp.Compare(e.at, o.at), cmp.Compare(e.id, o.id)) }

// end is when the hold's owner would be gone in turn.
func (h *hold) end() end {
	if h.until == 0 {
		return end{forever, h.owner, h.booking}
	}
	return end{h.until, h.owner, h.booking}
}

// endsToo keeps ends as they are found, with one more.
func (d *decision) endsToo(e end) {
	if d.known {
		i, _ := slices.BinarySearchFunc(d.ended, e, end.before)
		d.ended = slices.Insert(d.ended, i, e)
	}
}

// foresee finds after how many ends so many members would find a place, and the
// place; least is what must have ended anyway. 0: not after that many.
func (d *decision) foresee(class, least, most int, ends []end) (after int, b Booking) {
	probe := func(n int) Booking {
		mark := d.fleet.Mark()
		for _, e := range ends[:n] {
			d.fleet.Release(e.booking)
		}
		got, _ := d.fleet.Place(class, least, most)
		d.fleet.Rollback(mark)
		return got
	}
	low, high := 0, 1
	for ; ; high = min(2*high, len(ends)) {
		if high > len(ends) {
			return 0, 0
		}
		if probe(high) != 0 {
			break
		}
		if low = high; high == len(ends) {
			return 0, 0
		}
	}
	for low+1 < high {
		if mid := (low + high) / 2; probe(mid) != 0 {
			high = mid
		} else {
			low = mid
		}
	}
	return high, probe(high)
}

// hold keeps a place that was found.
func (d *decision) hold(h *hold) {
	d.fleet.Block(h.booking)
	i, _ := slices.BinarySearchFunc(d.holds, h, func(a, b *hold) int { return cmp.Or(cmp.Compare(a.from, b.from), -1) })
	d.holds = slices.Insert(d.holds, i, h)
	d.endsToo(h.end())
}

// reserve finds when a job that has no place now can start, and keeps that place
// for it.
func (d *decision) reserve(j *job) (at time.Duration, ok bool) {
	if d.reserved >= d.policy.Reservations || j.Spot {
		return 0, false
	}
	ends := d.ends()
	known, _ := slices.BinarySearchFunc(ends, forever, func(e end, at time.Duration) int { return cmp.Compare(e.at, at) })
	after, b := d.foresee(j.Class, j.least, j.least, ends[:known])
	h := &hold{booking: b, owner: j.ID}
	switch {
	case b != 0:
		h.from = ends[after-1].at
		if run := j.runtime(); run > 0 {
			h.until = h.from + run
		}
	case d.policy.Patience > 0 && d.now-j.QueuedAt >= d.policy.Patience:
		if _, h.booking = d.foresee(j.Class, j.least, j.least, ends); h.booking == 0 {
			return 0, false
		}
	default:
		return 0, false
	}
	d.hold(h)
	d.reserved++
	d.plan.Reserve = append(d.plan.Reserve, Reserve{j.ID, h.from})
	j.reserved, j.reservedAt = d.decides, h.from
	j.line.skip++
	d.skipped = append(d.skipped, j.line)
	return h.from, true
}

// blocking is the first reserved start that a job would be in the way of, if it
// would find a place without any.
func (d *decision) blocking(j *job) *hold {
	if len(d.holds) == 0 {
		return nil
	}
	if r, refused := d.refused[j.Class]; refused && j.least >= r.least {
		return nil
	}
	mark := d.fleet.Mark()
	for _, h := range d.holds {
		d.fleet.Release(h.booking)
	}
	b, _ := d.fleet.Place(j.Class, j.least, j.least)
	d.fleet.Rollback(mark)
	if b == 0 {
		return nil
	}
	return d.holds[0]
}

// keepPromises starts those for whom others made room, and keeps their places
// until all of it is there.
func (d *decision) keepPromises() {
	for _, j := range slices.Clone(d.promises) {
		if b, members := d.fleet.Place(j.Class, j.least, j.least); b != 0 {
			d.start(j, b, members, nil)
			continue
		}
		h := d.promisedPlace(j, func(e *job) bool { return e.forWhom == j.ID })
		if h.booking == 0 { // another took of its place, and others make room for that one
			h = d.promisedPlace(j, func(*job) bool { return true })
		}
		if h.booking == 0 { // something else went wrong: it waits like the others
			d.leave(j, d.now)
			d.promises = slices.DeleteFunc(d.promises, func(p *job) bool { return p == j })
			d.again(j)
			continue
		}
		d.promised(j, h)
	}
}

// promisedPlace is what is free once some of those that make room are gone, and
// what ends before them.
func (d *decision) promisedPlace(j *job, gone func(*job) bool) *hold {
	h := &hold{owner: j.ID, from: d.now}
	for _, e := range d.endings {
		if gone(e) {
			h.from = max(h.from, e.ending)
		}
	}
	mark := d.fleet.Mark()
	for _, e := range d.ends() {
		if e.at <= h.from {
			d.fleet.Release(e.booking)
		}
	}
	h.booking, _ = d.fleet.Place(j.Class, j.least, j.least)
	d.fleet.Rollback(mark)
	return h
}

func (d *decision) promised(j *job, h *hold) {
	if run := j.runtime(); run > 0 {
		h.until = h.from + run
	}
	d.hold(h)
	j.reserved, j.reservedAt = d.decides, h.from
	d.plan.Reserve = append(d.plan.Reserve, Reserve{j.ID, h.from})
}

func (d *decision) reservation(id string) *Reservation {
	for i := range d.reservations {
		if r := &d.reservations[i]; r.ID == id && r.Until > d.now {
			return r
		}
	}
	return nil
}

// keepReservations keeps what is reserved for a time, now or soon.
func (d *decision) keepReservations() {
	for i := range d.reservations {
		if d.reservations[i].Until > d.now {
			d.keep(&d.reservations[i])
		}
	}
}

// keepRest keeps what is left of a reservation after somebody started in it.
func (d *decision) keepRest(id string) {
	if i := slices.IndexFunc(d.holds, func(h *hold) bool { return h.reservation == id }); i >= 0 {
		d.fleet.Release(d.holds[i].booking)
		d.holds, d.known = slices.Delete(d.holds, i, i+1), false
		d.keep(d.reservation(id))
	}
}

func (d *decision) keep(r *Reservation) {
	left := r.Members
	for n := range d.leaves {
		for _, j := range d.leaves[n].running {
			if j.Reservation == r.ID {
				left -= j.members
			}
		}
	}
	if left <= 0 {
		return
	}
	mark := d.fleet.Mark()
	if r.From > d.now {
		for _, e := range d.ends() {
			if e.at > r.From {
				break
			}
			d.fleet.Release(e.booking)
		}
	}
	b, members := d.fleet.Place(r.Class, 1, left)
	d.fleet.Rollback(mark)
	if members < left {
		d.plan.Short = slices.DeleteFunc(d.plan.Short, func(s Short) bool { return s.Reservation == r.ID }) // before somebody started in it
		d.plan.Short = append(d.plan.Short, Short{r.ID, left - members})
	}
	if b != 0 {
		d.hold(&hold{from: max(r.From, d.now), until: r.Until, booking: b, owner: r.ID, reservation: r.ID})
	}
}
