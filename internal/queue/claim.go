package queue

import (
	"slices"
	"time"
)

// victim is one that may make room: all of it, or the members above the fewest.
type victim struct {
	j       *job
	members int // that it gives up
	keep    int
	cause   Cause
}

// claim makes room for a job, if it has the right to what others have and that is
// enough, and starts it or has its place promised.
func (d *decision) claim(j *job) bool {
	if d.policy.NoPreemption || j.Spot {
		return false
	}
	if d.policy.FirmWithinGuarantee && !j.Preemptible && !d.tree.Firm(j.Queue, j.Resources, int64(j.least)) {
		return false
	}
	taken, ok := d.choose(j)
	if !ok {
		return false
	}
	until := d.now
	names := make([]string, 0, len(taken))
	for _, v := range taken {
		fresh := d.fresh(v.j)
		if v.keep > 0 {
			if fresh {
				d.plan.Start[d.started(v.j)].Members = v.keep
			} else {
				d.plan.Cut = append(d.plan.Cut, Cut{v.j.ID, j.ID, v.cause, v.keep})
				names = append(names, v.j.ID)
			}
			d.fleet.Cut(v.j.booking, v.keep)
			d.leave(v.j, d.now)
			v.j.members = v.keep
			d.enter(v.j, d.now)
			d.changed(v.j)
			continue
		}
		if fresh {
			d.unstart(v.j)
			continue
		}
		names = append(names, v.j.ID)
		v.j.ending = d.now + v.j.Grace
		until = max(until, v.j.ending)
		d.plan.Preempt = append(d.plan.Preempt, Preempt{v.j.ID, j.ID, v.cause, v.j.ending})
		if v.j.Grace > 0 {
			d.giveWay(v.j, v.j.ending, j.ID, d.now)
			d.changed(v.j)
		} else {
			v.j.Restarts++
			v.j.LostAt, v.j.lost = d.now, true
			d.drop(v.j, d.now)
			d.changed(v.j)
			d.again(v.j)
		}
	}
	d.unfair, d.known = true, false
	clear(d.refused) // what is left over may do for others
	clear(d.behind)
	if until == d.now {
		b, members := d.fleet.Place(j.Class, j.least, j.least)
		d.start(j, b, members, names)
		return true
	}
	d.promise(j, d.now)
	d.promised(j, d.promisedPlace(j, func(e *job) bool { return e.forWhom == j.ID }))
	return true
}

// started is where in the plan the start of a job is.
func (d *decision) started(j *job) int {
	return slices.IndexFunc(d.plan.Start, func(s Start) bool { return s.ID == j.ID })
}

// mostVictims is after how many a claim is given up: a fleet in which so many must
// go for one is in need of moves.
const mostVictims = 1000

// mostCancels ends what could go on for ever: a start that is taken back so often
// in one Decide stays.
const mostCancels = 3

// unstart takes a start of this very Decide back: what it made possible is better.
func (d *decision) unstart(j *job) {
	i := d.started(j)
	d.plan.Start = slices.Delete(d.plan.Start, i, i+1)
	d.drop(j, d.now)
	d.changed(j)
	if d.policy.Ahead > 0 {
		d.books(j).Burden(j.Queue, j.Resources, -int64(j.members), d.policy.Ahead, d.now)
	}
	cancels := j.cancels + 1
	d.again(j)
	j.cancels, j.cancelled = cancels, d.decides
	j.LostAt, j.lost = d.now, true
	d.plan.Passed = append(d.plan.Passed, j.ID)
}

// calm reports that a job has lost a place lately. It claims nothing then but by
// right. In any cycle of claims, everybody who claims has lost its place first, so
// that there is none: whatever the tree, the same work is not driven round by
// shares and priorities in less than the time that calm lasts.
func (d *decision) calm(j *job) bool {
	calm := d.policy.Calm
	if calm == 0 {
		calm = 5 * time.Minute
	}
	return j.lost && d.now-j.LostAt < calm
}

// choose finds the fewest that must make room: it takes one after the other until
// the job fits, and then gives back, the last first, each without whom it still
// does.
func (d *decision) choose(j *job) ([]victim, bool) {
	h := d.newHunt(j)
	if h == nil {
		return nil, false
	}
	mark := d.fleet.Mark()
	var taken []victim
	fits, tried := false, 0
	for {
		v, more := h.next()
		if more {
			d.vacate(&v)
			d.count(v.j, -int64(v.members))
			taken = append(taken, v)
		}
		// The more there are, the more are taken at once.
		if n := len(taken); n > tried && (!more || n-tried > tried/8) {
			tried = n
			fits = d.wouldFit(j)
		}
		if fits || !more || tried >= mostVictims {
			break
		}
	}
	// Giving back more at once, where that is possible, comes to the same.
	for i, step := len(taken)-1, 1; fits && i >= 0; {
		back := taken[i+1-step : i+1]
		if slices.ContainsFunc(back, func(v victim) bool { return v.keep > 0 }) {
			if back = taken[i : i+1]; back[0].keep > 0 && slices.ContainsFunc(taken[i+1:], func(o victim) bool { return o.j == back[0].j }) {
				i, step = i-1, 1 // the rest of it goes as well
				continue
			}
			step = 1
		}
		d.fleet.Rollback(mark)
		mark = d.fleet.Mark()
		for k := range taken {
			if k <= i-step || k > i {
				d.vacate(&taken[k])
			}
		}
		for _, v := range back {
			d.count(v.j, int64(v.members))
		}
		switch {
		case d.wouldFit(j):
			taken = slices.Delete(taken, i+1-step, i+1)
			i -= step
			step = min(2*step, i+1)
			continue
		case step == 1:
			i--
		}
		for _, v := range back {
			d.count(v.j, -int64(v.members))
		}
		step = max(1, min(step/2, i+1))
	}
	d.fleet.Rollback(mark)
	for _, v := range taken {
		d.count(v.j, int64(v.members))
	}
	taken = slices.DeleteFunc(taken, func(v victim) bool {
		return v.keep > 0 && slices.ContainsFunc(taken, func(o victim) bool { return o.j == v.j && o.keep == 0 })
	})
	return taken, fits && len(taken) > 0
}

// vacate tries what it would be without a victim.
func (d *decision) vacate(v *victim) {
	if v.keep > 0 {
		d.fleet.Cut(v.j.booking, v.keep)
	} else {
		d.fleet.Release(v.j.booking)
	}
}

func (d *decision) wouldFit(j *job) bool {
	if most, _ := d.quota(j); most < j.least {
		return false
	}
	mark := d.fleet.Mark()
	b, _ := d.fleet.Place(j.Class, j.least, j.least)
	d.fleet.Rollback(mark)
	return b != 0
}
