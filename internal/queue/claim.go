package queue

import (
	"cmp"
	"slices"
	"time"

	"github.com/tenon-cloud/tenon/internal/fairshare"
)

// victim is one that may make room: all of it, or the members above the fewest.
type victim struct {
	j       *job
	members int // that it gives up
	keep    int
	cause   Cause
	taken   bool
}

// prey is a leaf whose work may be claimed.
type prey struct {
	leaf, sibling int
	victims       []victim
	next          int
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
		fresh := v.j.decided == d.decides
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
		} else {
			v.j.Restarts++
			v.j.LostAt, v.j.lost = d.now, true
			d.drop(v.j, d.now)
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

// mostCancels ends what could go on for ever: a start that is taken back so often
// in one Decide stays.
const mostCancels = 3

// unstart takes a start of this very Decide back: what it made possible is better.
func (d *decision) unstart(j *job) {
	i := d.started(j)
	d.plan.Start = slices.Delete(d.plan.Start, i, i+1)
	d.drop(j, d.now)
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
		if fits || !more {
			break
		}
	}
	for i := len(taken) - 1; fits && i >= 0; i-- {
		v := taken[i]
		if v.keep > 0 && slices.ContainsFunc(taken[i+1:], func(o victim) bool { return o.j == v.j }) {
			continue // the rest of it goes as well
		}
		d.fleet.Rollback(mark)
		mark = d.fleet.Mark()
		for k := range taken {
			if k != i {
				d.vacate(&taken[k])
			}
		}
		d.count(v.j, int64(v.members))
		if d.wouldFit(j) {
			taken = slices.Delete(taken, i, i+1)
		} else {
			d.count(v.j, -int64(v.members))
		}
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

// hunt gives those who may make room for a job, one by one: spot work, then what
// others borrow, from the one with the largest share on, then less urgent work of
// its own queue.
type hunt struct {
	d     *decision
	j     *job
	spots []victim
	preys []*prey
	own   []victim
	need  fairshare.Claim
}

// newHunt is nil if nobody has to make room.
func (d *decision) newHunt(j *job) *hunt {
	h := &hunt{d: d, j: j, need: fairshare.ByFinal}
	limit := fairshare.None // on whose account it is short; only those below can help
	if ok, short := d.tree.Fits(j.Queue, j.Resources, int64(j.least)); ok {
		h.spots = h.listed(d.spots, CauseSpot, func(v *job) bool { return d.now-v.started >= v.MinRuntime })
	} else if short.Node > 0 {
		limit = short.Node
	}
	if d.calm(j) {
		h.need = fairshare.ByRight
	}
	age := d.tree.PreemptAfter(j.Queue)
	h.own = h.listed(d.leaves[j.Queue].running, CausePriority, func(v *job) bool {
		return d.now-v.started >= max(age, v.MinRuntime)
	})
	if d.tree.MayClaim(j.Queue, j.Resources, int64(j.least)) {
		h.findPreys(limit)
	}
	if len(h.spots)+len(h.preys)+len(h.own) == 0 {
		return nil
	}
	return h
}

// listed are those of some that may be taken, the least urgent first, then the
// most recently started; cut before ended.
func (h *hunt) listed(jobs []*job, cause Cause, old func(*job) bool) []victim {
	var out []victim
	for _, v := range jobs {
		fresh := v.decided == h.d.decides
		if fresh && v.cancels >= mostCancels || !v.Preemptible && !v.Spot || !wants(h.j.Resources, v.Resources) {
			continue
		}
		if cause == CausePriority && !h.j.outranks(v) {
			continue
		}
		left := v.members
		if v.members > v.least {
			out = append(out, victim{j: v, members: v.members - v.least, keep: v.least, cause: cause})
			left = v.least
		}
		if fresh || old(v) {
			out = append(out, victim{j: v, members: left, cause: cause})
		}
	}
	slices.SortFunc(out, func(a, b victim) int {
		return cmp.Or(cmp.Compare(b.j.Tier, a.j.Tier), cmp.Compare(a.j.Priority, b.j.Priority), cmp.Compare(min(b.keep, 1), min(a.keep, 1)),
			cmp.Compare(b.j.started, a.j.started), cmp.Compare(b.j.QueuedAt, a.j.QueuedAt), cmp.Compare(b.j.ID, a.j.ID))
	})
	return out
}

// outranks reports whether a job may have the place of another of its queue: it is
// of an earlier tier, or has a higher priority than the other had, age included,
// when it was started. What a deadline put first stays.
func (j *job) outranks(v *job) bool {
	return j.Tier < v.Tier || j.Tier == v.Tier && !v.ranAs.urgent && float64(j.Priority) > v.ranAs.priority
}

// wants reports whether somebody has something of what is wanted.
func wants(wanted, theirs []int64) bool {
	for r, a := range wanted {
		if a > 0 && r < len(theirs) && theirs[r] > 0 {
			return true
		}
	}
	return false
}

// findPreys looks for leaves that have more than is theirs.
func (h *hunt) findPreys(limit int) {
	t := h.d.tree
	for n := h.j.Queue; n != 0 && n != limit; n = t.Node(n).Parent {
		for _, s := range t.Children(t.Node(n).Parent) {
			if s != n {
				h.descend(s, s)
			}
		}
	}
}

func (h *hunt) descend(n, sibling int) {
	t := h.d.tree
	if !t.Exceeds(n, h.j.Resources) {
		return
	}
	for _, c := range t.Children(n) {
		h.descend(c, sibling)
	}
	if !t.Leaf(n) || len(h.d.leaves[n].running) == 0 {
		return
	}
	age := t.ReclaimAfter(h.j.Queue, n)
	if v := h.listed(h.d.leaves[n].running, CauseReclaim, func(v *job) bool { return h.d.now-v.started >= max(age, v.MinRuntime) }); len(v) > 0 {
		h.preys = append(h.preys, &prey{leaf: n, sibling: sibling, victims: v})
	}
}

// next is the next that has to make room.
func (h *hunt) next() (victim, bool) {
	if len(h.spots) > 0 {
		v := h.spots[0]
		h.spots = h.spots[1:]
		return v, true
	}
	for {
		if v, ok := h.nextPrey(); ok {
			return v, true
		}
		if h.need != fairshare.ByFinal {
			break
		}
		h.need = fairshare.ByInitial
		for _, p := range h.preys {
			p.next = 0
		}
	}
	if len(h.own) > 0 && h.need != fairshare.ByRight {
		v := h.own[0]
		h.own = h.own[1:]
		return v, true
	}
	return victim{}, false
}

// nextPrey takes from the leaf that has most above its share, among those from
// whom it may take at all.
func (h *hunt) nextPrey() (victim, bool) {
	t, d := h.d.tree, h.d
	var from *prey
	var share [2]float64
	var right fairshare.Claim
	for _, p := range h.preys {
		for ; p.next < len(p.victims); p.next++ {
			v := &p.victims[p.next]
			if v.taken {
				continue
			}
			c := t.Claim(h.j.Queue, h.j.Resources, int64(h.j.least), p.leaf, v.j.Resources, int64(v.members), d.policy.Margin)
			if c < h.need {
				continue
			}
			s := [2]float64{t.Share(p.sibling, nil, 0), t.Share(p.leaf, nil, 0)}
			if from == nil || s[0] > share[0] || s[0] == share[0] && s[1] > share[1] {
				from, share, right = p, s, c
			}
			break
		}
	}
	if from == nil {
		return victim{}, false
	}
	v := &from.victims[from.next]
	v.taken = true
	if right != fairshare.ByRight {
		v.cause = CauseShare
	}
	from.next++
	return *v, true
}
