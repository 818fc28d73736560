package queue

import (
	"math"
	"slices"
	"time"

	"github.com/tenon-cloud/tenon/internal/fairshare"
)

// forever is the end of what may run for any time.
const forever time.Duration = math.MaxInt64

// decision is one Decide.
type decision struct {
	*Queue
	now      time.Duration
	plan     Plan
	holds    []*hold
	reserved int             // so many starts
	behind   map[int]refusal // by class, with the holds in the way
	denied   bool            // somebody had no claim in this round
	unfair   bool            // and then something changed: another round is due
	skipped  []*line
	game     *game
	ended    []end // of what runs, in order; see ends
	known    bool
	nevers   map[[2]int]bool // by class and members
	stopped  map[int]*job    // leaves that are held back, and by whom
}

// refusal is that so many members up to an end found no place.
type refusal struct {
	least int
	end   time.Duration
}

// Decide plans what to do now, and takes it for done.
func (q *Queue) Decide(now time.Duration) Plan {
	q.decides++
	if q.policy.Strength > 0 {
		asks := q.asking()
		q.tree.Weigh(q.policy.Strength, q.policy.Since, now, func(n int) bool { return asks[n] })
	}
	if v := q.fleet.Version(); v != q.seen {
		clear(q.refused)
		q.seen = v
	}
	d := &decision{Queue: q, now: now, behind: map[int]refusal{}, stopped: map[int]*job{}, nevers: map[[2]int]bool{}}
	for {
		d.denied, d.unfair = false, false
		d.keepPromises()
		d.keepReservations()
		for tier := range q.policy.Tiers {
			d.pass(false, func(l *line) bool { return !l.spot && l.tier == tier && l.dead != q.decides })
		}
		if !d.unfair { // spot work comes once nobody else has a word to say
			for tier := range q.policy.Tiers {
				d.pass(true, func(l *line) bool { return l.spot && l.tier == tier && l.dead != q.decides })
			}
		}
		if !d.unfair {
			break
		}
		d.retry()
	}
	d.unskip()
	for _, h := range d.holds {
		q.fleet.Release(h.booking)
	}
	q.seen = q.fleet.Version()
	return d.plan
}

// asking are the nodes below which something waits or runs.
func (q *Queue) asking() []bool {
	asks := make([]bool, len(q.leaves))
	for n := len(q.leaves) - 1; n >= 0; n-- {
		l := &q.leaves[n]
		asks[n] = asks[n] || len(l.running) > 0 || slices.ContainsFunc(l.lines, func(l *line) bool { return len(l.jobs) > 0 })
		if asks[n] && n > 0 {
			asks[q.tree.Node(n).Parent] = true
		}
	}
	return asks
}

// retry forgets what a round concluded: somebody made room, perhaps more than was
// taken, or started, and perhaps others can claim that place.
func (d *decision) retry() {
	d.unskip()
	for _, h := range d.holds {
		d.fleet.Release(h.booking)
	}
	d.holds, d.plan.Reserve, d.plan.Short = nil, nil, nil
	d.reserved = 0
	for n := range d.leaves {
		for _, l := range d.leaves[n].lines {
			l.dead = 0
		}
	}
	clear(d.behind)
	clear(d.refused)
	clear(d.stopped)
	d.known = false
}

func (d *decision) unskip() {
	for _, l := range d.skipped {
		l.skip = 0
	}
	d.skipped = d.skipped[:0]
}

// pass tries what waits of some lines, in the order that is fair.
func (d *decision) pass(spot bool, takes func(*line) bool) {
	c := d.newContest(d.now, spot, takes)
	for l := c.next(); l != nil; l = c.next() {
		j := l.first()
		if d.stopped[l.leaf] != nil {
			for _, held := range c.tops[l.leaf] {
				held.why = Reason{Code: Behind, Blocker: d.stopped[l.leaf].ID}
			}
			c.stop(l.leaf)
			continue
		}
		ahead := l.skip
		why := d.try(j)
		switch {
		case why.Code == "":
			l.why = Reason{}
			c.done(l, false)
			continue
		case why.Code == Never:
			l.dead = d.decides
		case l.skip > ahead:
			c.done(l, false) // the next of the line may have a start reserved as well
			continue
		default:
			l.dead = d.decides
			if d.policy.Strict {
				d.stopped[l.leaf] = j
			}
		}
		l.why = why
		c.done(l, true)
	}
}

// try starts a job, or says why not.
func (d *decision) try(j *job) Reason {
	if j.line.never != nil {
		return Reason{Code: Never, Node: j.line.never.Node, Resource: j.line.never.Resource, Short: j.line.never.Short}
	}
	if d.never(j) {
		return Reason{Code: Never, Node: fairshare.None, Members: j.least}
	}
	if longest := d.policy.Tiers[j.Tier].Longest; longest > 0 && (j.runtime() == 0 || j.runtime() > longest) {
		return Reason{Code: TooLong, At: longest}
	}
	if j.Reservation != "" {
		if r := d.reservation(j.Reservation); r == nil || r.From > d.now {
			why := Reason{Code: NotYet, Blocker: j.Reservation}
			if r != nil {
				why.At = r.From
			}
			return why
		}
	}
	most, why := d.quota(j)
	if most >= j.least {
		if d.refusedBefore(j) {
			why = Reason{Code: NoPlace, Members: j.least}
		} else if b, members := d.place(j, j.least, most); b != 0 {
			d.start(j, b, members, nil)
			return Reason{}
		} else {
			why = Reason{Code: NoPlace, Members: j.least}
		}
	}
	if d.claim(j) {
		return Reason{}
	}
	d.denied = true
	if full := why.Code == Quota && why.Node == 0; full || why.Code == NoPlace {
		if h := d.blocking(j); h != nil && !full {
			why.Blocker, why.At, why.Code = h.owner, h.from, Reserved
		}
		if at, ok := d.reserve(j); ok {
			return Reason{Code: Reserved, At: at, Members: j.least}
		}
	}
	return why
}

// never asks the fleet once in a Decide.
func (d *decision) never(j *job) bool {
	ask := [2]int{j.Class, j.least}
	never, known := d.nevers[ask]
	if !known {
		never = d.fleet.Never(j.Class, j.least)
		d.nevers[ask] = never
	}
	return never
}

// quota is how many members shares, guarantees and tiers allow, and if that is too
// few, why.
func (d *decision) quota(j *job) (most int, why Reason) {
	if j.Spot {
		return j.most, Reason{}
	}
	if d.policy.FirmWithinGuarantee && !j.Preemptible && !d.tree.Firm(j.Queue, j.Resources, int64(j.least)) {
		return 0, Reason{Code: Guarantee}
	}
	most = int(d.tree.Most(j.Queue, j.Resources, int64(j.most)))
	if most < j.least {
		_, short := d.tree.Fits(j.Queue, j.Resources, int64(j.least))
		return most, Reason{Code: Quota, Node: short.Node, Resource: short.Resource, Short: short.Short}
	}
	for r, a := range j.Resources {
		if a == 0 {
			continue
		}
		room := d.tierRoom(j.Tier, r)
		if n := int(max(0, room) / a); n < most {
			if most = n; most < j.least {
				return most, Reason{Code: Express, Resource: r, Short: a*int64(j.least) - room}
			}
		}
	}
	return most, Reason{}
}

// tierRoom is what is left of a resource beside what is kept for earlier tiers.
func (d *decision) tierRoom(tier, r int) int64 {
	var kept int64
	for t := range tier {
		if reserve := d.policy.Tiers[t].Reserve; r < len(reserve) {
			kept += max(0, reserve[r]-d.tiers[t][r])
		}
	}
	if kept == 0 {
		return math.MaxInt64
	}
	return d.tree.Capacity()[r] - d.tree.Used(0)[r] - kept
}

// end is when a job would end if it started now.
func (d *decision) end(j *job) time.Duration {
	if t := j.runtime(); t > 0 {
		return d.now + t
	}
	return forever
}

func (d *decision) refusedBefore(j *job) bool {
	if j.Reservation != "" {
		return false
	}
	if r, ok := d.refused[j.Class]; ok && j.least >= r.least {
		return true
	}
	r, ok := d.behind[j.Class]
	return ok && j.least >= r.least && d.end(j) >= r.end
}

// place books a place that no start in the future is delayed by.
func (d *decision) place(j *job, least, most int) (Booking, int) {
	b, members := d.fleet.Place(j.Class, least, most)
	lifted := 0
	if b == 0 {
		end := d.end(j)
		for _, h := range d.holds {
			if h.lifted = h.from >= end && h.from > d.now || h.reservation != "" && h.reservation == j.Reservation; h.lifted {
				d.fleet.Release(h.booking)
				lifted++
			}
		}
		if lifted > 0 {
			b, members = d.fleet.Place(j.Class, least, most)
			for _, h := range d.holds {
				if h.lifted {
					d.fleet.Block(h.booking)
				}
			}
		}
	}
	if b == 0 && j.Reservation == "" {
		if len(d.holds) == 0 || lifted == len(d.holds) {
			d.refused[j.Class] = refusal{least: least}
		} else {
			d.behind[j.Class] = refusal{least, d.end(j)}
		}
	}
	return b, members
}

// start moves a job to its place.
func (d *decision) start(j *job, b Booking, members int, after []string) {
	if j.state == promised {
		d.leave(j, d.now)
		d.promises = slices.DeleteFunc(d.promises, func(p *job) bool { return p == j })
	} else {
		j.line.remove(j)
	}
	if j.cancelled != d.decides {
		j.cancels = 0
	}
	j.booking, j.members, j.started, j.decided = b, members, d.now, d.decides
	d.run(j, d.now)
	d.changed(j)
	if d.policy.Ahead > 0 {
		d.books(j).Burden(j.Queue, j.Resources, int64(members), d.policy.Ahead, d.now)
	}
	d.endsToo(end{j.ends(d.now), j.ID, b})
	d.unfair = d.unfair || d.denied || len(d.holds) > 0
	if j.Reservation != "" {
		d.keepRest(j.Reservation)
	}
	d.plan.Start = append(d.plan.Start, Start{j.ID, members, b, after})
}
