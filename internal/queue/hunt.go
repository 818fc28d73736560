package queue

import (
	"cmp"
	"slices"
	"time"

	"github.com/tenon-cloud/tenon/internal/fairshare"
)

// game is what may make room at all, by leaf and below every node. It is found once
// in a Decide and kept up to date.
type game struct {
	listed [][]*job // by leaf, the least urgent first; nil: to be made
	sorted []bool
	below  []int // by node: how many that may be taken there are
	spots  []*job
	spotty bool // spots are listed
}

// newGame looks at all that runs.
func (d *decision) newGame() *game {
	g := &game{listed: make([][]*job, len(d.leaves)), sorted: make([]bool, len(d.leaves)), below: make([]int, len(d.leaves))}
	for n := len(d.leaves) - 1; n >= 0; n-- {
		for _, j := range d.leaves[n].running {
			if d.mayTake(j) {
				g.below[n]++
			}
		}
		if n > 0 {
			g.below[d.tree.Node(n).Parent] += g.below[n]
		}
	}
	return g
}

// mayTake reports whether a job may make room for anybody.
func (d *decision) mayTake(j *job) bool {
	switch {
	case !j.Preemptible && !j.Spot:
		return false
	case d.fresh(j):
		return j.cancels < mostCancels
	}
	return j.members > j.least || d.now-j.started >= j.MinRuntime
}

// fresh reports that a job was started by this very Decide.
func (d *decision) fresh(j *job) bool { return j.decided == d.decides }

// changed says that a leaf's running jobs are others now.
func (d *decision) changed(j *job) {
	g := d.game
	switch {
	case g == nil:
		return
	case j.Spot:
		g.spotty = false
		return
	}
	count := 0
	for _, r := range d.leaves[j.Queue].running {
		if d.mayTake(r) {
			count++
		}
	}
	g.sorted[j.Queue] = false
	for n, more := j.Queue, count-g.below[j.Queue]; n != fairshare.None; n = d.tree.Node(n).Parent {
		g.below[n] += more
	}
}

// victims are those of a leaf that may be taken, the least urgent first, then the
// most recently started.
func (d *decision) victims(leaf int) []*job {
	g := d.game
	if !g.sorted[leaf] {
		g.sorted[leaf], g.listed[leaf] = true, d.inOrder(g.listed[leaf][:0], d.leaves[leaf].running)
	}
	return g.listed[leaf]
}

func (d *decision) spotVictims() []*job {
	if g := d.game; !g.spotty {
		g.spotty, g.spots = true, d.inOrder(g.spots[:0], d.spots)
	}
	return d.game.spots
}

func (d *decision) inOrder(out, running []*job) []*job {
	for _, j := range running {
		if d.mayTake(j) {
			out = append(out, j)
		}
	}
	slices.SortFunc(out, func(a, b *job) int {
		return cmp.Or(cmp.Compare(b.Tier, a.Tier), cmp.Compare(a.Priority, b.Priority), cmp.Compare(b.started, a.started),
			cmp.Compare(b.QueuedAt, a.QueuedAt), cmp.Compare(b.ID, a.ID))
	})
	return out
}

// source gives victims of one kind: first what elastic gangs have above their
// fewest members, then whole ones.
type source struct {
	jobs    []*job
	taken   []bool // by step
	step    int
	age     time.Duration // that they must have at least
	cause   Cause
	leaf    int // and the sibling above it that is compared
	sibling int
}

// peek is the next victim that suits; ok is false when there is none.
func (h *hunt) peek(s *source, suits func(*victim) bool) (v victim, ok bool) {
	for ; s.step < 2*len(s.jobs); s.step++ {
		j := s.jobs[s.step%len(s.jobs)]
		if !wants(h.j.Resources, j.Resources) || s.taken != nil && s.taken[s.step] {
			continue
		}
		v = victim{j: j, cause: s.cause}
		if s.step < len(s.jobs) {
			if j.members == j.least {
				continue
			}
			v.members, v.keep = j.members-j.least, j.least
		} else {
			if !h.d.fresh(j) && h.d.now-j.started < max(s.age, j.MinRuntime) {
				continue
			}
			v.members = j.members
			if s.taken != nil && s.taken[s.step-len(s.jobs)] {
				v.members = j.least
			}
		}
		if suits == nil || suits(&v) {
			return v, true
		}
	}
	return victim{}, false
}

// take takes the victim that was peeked at.
func (s *source) take() {
	if s.taken == nil {
		s.taken = make([]bool, 2*len(s.jobs))
	}
	s.taken[s.step] = true
	s.step++
}

// hunt gives those who may make room for a job, one by one: spot work, then what
// others borrow, from the one with the largest share on, then less urgent work of
// its own queue.
type hunt struct {
	d     *decision
	j     *job
	spots source
	preys []*source
	own   source
	need  fairshare.Claim
}

// newHunt is nil if nobody has to make room.
func (d *decision) newHunt(j *job) *hunt {
	if d.game == nil {
		d.game = d.newGame()
	}
	h := &hunt{d: d, j: j, need: fairshare.ByFinal}
	limit := fairshare.None // on whose account it is short; only those below can help
	if ok, short := d.tree.Fits(j.Queue, j.Resources, int64(j.least)); !ok && short.Node > 0 {
		limit = short.Node
	} else if len(d.spots) > 0 {
		h.spots = source{jobs: d.spotVictims(), cause: CauseSpot}
	}
	if d.calm(j) {
		h.need = fairshare.ByRight
	} else if d.game.below[j.Queue] > 0 {
		h.own = source{jobs: d.victims(j.Queue), age: d.tree.PreemptAfter(j.Queue), cause: CausePriority}
	}
	h.findPreys(limit)
	if len(h.spots.jobs)+len(h.preys)+len(h.own.jobs) == 0 {
		return nil
	}
	return h
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
	t, below := h.d.tree, h.d.game.below
	for n := h.j.Queue; n != 0 && n != limit; n = t.Node(n).Parent {
		parent := t.Node(n).Parent
		if below[parent] == below[n] {
			continue
		}
		for _, s := range t.Children(parent) {
			if s != n && below[s] > 0 && t.MayClaimFrom(n, s, h.j.Resources, int64(h.j.least)) {
				h.descend(s, s)
			}
		}
	}
}

func (h *hunt) descend(n, sibling int) {
	t := h.d.tree
	if h.d.game.below[n] == 0 || !t.Exceeds(n, h.j.Resources) {
		return
	}
	if t.Leaf(n) {
		h.preys = append(h.preys, &source{jobs: h.d.victims(n), age: t.ReclaimAfter(h.j.Queue, n), cause: CauseReclaim, leaf: n, sibling: sibling})
	}
	for _, c := range t.Children(n) {
		h.descend(c, sibling)
	}
}

// next is the next that has to make room.
func (h *hunt) next() (victim, bool) {
	if v, ok := h.peek(&h.spots, nil); ok {
		h.spots.take()
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
			p.step = 0
		}
	}
	v, ok := h.peek(&h.own, func(v *victim) bool { return h.j.outranks(v.j) })
	if ok {
		h.own.take()
	}
	return v, ok
}

// nextPrey takes from the leaf that has most above its share, among those from
// whom it may take at all.
func (h *hunt) nextPrey() (victim, bool) {
	t := h.d.tree
	var from *source
	var best victim
	var share [2]float64
	for _, p := range h.preys {
		var right fairshare.Claim
		v, ok := h.peek(p, func(v *victim) bool {
			right = t.Claim(h.j.Queue, h.j.Resources, int64(h.j.least), p.leaf, v.j.Resources, int64(v.members), h.d.policy.Margin)
			return right >= h.need
		})
		if !ok {
			continue
		}
		if s := [2]float64{t.Share(p.sibling, nil, 0), t.Share(p.leaf, nil, 0)}; from == nil || s[0] > share[0] || s[0] == share[0] && s[1] > share[1] {
			if from, best, share = p, v, s; right != fairshare.ByRight {
				best.cause = CauseShare
			}
		}
	}
	if from != nil {
		from.take()
	}
	return best, from != nil
}
