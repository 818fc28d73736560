package queue

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/tenon-cloud/tenon/internal/fairshare"
)

// Queue knows what waits and what runs, and is told what changes. It is not safe
// for concurrent use. A Queue that was told of changes decides as one that was
// told everything at once.
type Queue struct {
	tree   *fairshare.Tree
	spot   *fairshare.Tree // what spot work uses, outside of all shares
	fleet  Fleet
	policy Policy

	jobs         map[string]*job
	lines        map[lineKey]*line
	leaves       []leaf
	tiers        [][]int64 // by tier: what it uses
	spots        []*job    // that run
	promises     []*job    // that start once others have made room
	endings      []*job    // that make room
	reservations []Reservation
	decides      uint64
	refused      map[int]refusal // by class, without reservations in the way
	seen         uint64          // the fleet's version of that
}

type lineKey struct {
	leaf int
	kind
}

// leaf is a queue of the tree.
type leaf struct {
	lines   []*line
	running []*job // without spot work
}

// New makes an empty queue. The tree's and the fleet's amounts in use are nothing.
func New(tree *fairshare.Tree, fleet Fleet, policy Policy) (*Queue, error) {
	nodes := make([]fairshare.Node, tree.Nodes())
	for n := range nodes {
		nodes[n] = *tree.Node(n)
		nodes[n].Guaranteed, nodes[n].Limit, nodes[n].Lend = nil, nil, nil
	}
	spot, err := fairshare.New(nodes, tree.Capacity())
	if err != nil {
		return nil, err
	}
	if len(policy.Tiers) == 0 {
		policy.Tiers = []Tier{{}}
	}
	q := &Queue{tree: tree, spot: spot, fleet: fleet, policy: policy, jobs: map[string]*job{}, refused: map[int]refusal{}, lines: map[lineKey]*line{}, leaves: make([]leaf, tree.Nodes())}
	for range policy.Tiers {
		q.tiers = append(q.tiers, make([]int64, len(tree.Capacity())))
	}
	return q, nil
}

// Tree is who shares, and what each has.
func (q *Queue) Tree() *fairshare.Tree { return q.tree }

func (q *Queue) check(w *Workload) error {
	switch {
	case q.jobs[w.ID] != nil:
		return fmt.Errorf("workload %q is there already", w.ID)
	case w.Queue <= 0 && q.tree.Nodes() > 1, w.Queue >= q.tree.Nodes(), w.Queue < 0, !q.tree.Leaf(w.Queue):
		return fmt.Errorf("workload %q: queue %d is no leaf of the tree", w.ID, w.Queue)
	case w.Tier < 0 || w.Tier >= len(q.policy.Tiers):
		return fmt.Errorf("workload %q: tier %d of %d", w.ID, w.Tier, len(q.policy.Tiers))
	case w.Deadline < 0 || w.Deadline > len(q.policy.Deadlines):
		return fmt.Errorf("workload %q: deadline class %d of %d", w.ID, w.Deadline, len(q.policy.Deadlines))
	case w.Min < 0 || w.Max < 0 || w.Max > 0 && w.Max < w.Min:
		return fmt.Errorf("workload %q: %d to %d members", w.ID, w.Min, w.Max)
	case len(w.Resources) > len(q.tree.Capacity()) || slices.ContainsFunc(w.Resources, func(a int64) bool { return a < 0 }):
		return fmt.Errorf("workload %q: resources %v", w.ID, w.Resources)
	}
	return nil
}

func newJob(w Workload) *job {
	j := &job{Workload: w, least: max(w.Min, 1), lost: w.LostAt > 0}
	j.most = max(w.Max, j.least)
	return j
}

// Add says that a workload waits.
func (q *Queue) Add(w Workload) error {
	if err := q.check(&w); err != nil {
		return err
	}
	j := newJob(w)
	q.jobs[w.ID] = j
	q.wait(j)
	return nil
}

func (q *Queue) wait(j *job) {
	key := lineKey{j.Queue, j.kind()}
	l := q.lines[key]
	if l == nil {
		l = &line{kind: key.kind, leaf: j.Queue}
		if ok, short := q.tree.Ever(j.Queue, j.Resources, int64(j.least)); !ok && !j.Spot {
			l.never = &short
		}
		q.lines[key] = l
		q.leaves[j.Queue].lines = append(q.leaves[j.Queue].lines, l)
	}
	l.add(j)
}

// AddRunning says that a workload has a place, which the fleet knows.
func (q *Queue) AddRunning(r Running, now time.Duration) error {
	if err := q.check(&r.Workload); err != nil {
		return err
	}
	j := newJob(r.Workload)
	j.members, j.started, j.booking = r.Members, r.StartedAt, r.Booking
	q.jobs[j.ID] = j
	q.run(j, now)
	if r.Ending > 0 {
		q.giveWay(j, r.Ending, r.For, now)
	}
	return nil
}

// run counts a job that has its booking.
func (q *Queue) run(j *job, now time.Duration) {
	j.state, j.ranAs = running, q.level(j, j.started)
	q.enter(j, now)
	if j.Spot {
		q.spots = append(q.spots, j)
	} else {
		l := &q.leaves[j.Queue]
		l.running = append(l.running, j)
	}
}

// enter and leave count what a job holds, or is promised.
func (q *Queue) enter(j *job, now time.Duration) {
	q.count(j, int64(j.holds()))
	q.books(j).Run(j.Queue, j.Resources, int64(j.holds()), now)
}

func (q *Queue) leave(j *job, now time.Duration) {
	q.count(j, -int64(j.holds()))
	q.books(j).Run(j.Queue, j.Resources, -int64(j.holds()), now)
}

func (q *Queue) books(j *job) *fairshare.Tree {
	if j.Spot {
		return q.spot
	}
	return q.tree
}

func (q *Queue) count(j *job, members int64) {
	q.books(j).Add(j.Queue, j.Resources, members, !j.Preemptible && !j.Spot)
	if !j.Spot {
		for r, a := range j.Resources {
			q.tiers[j.Tier][r] += a * members
		}
	}
}

// giveWay says that a job ends by then, for another. It counts as gone already.
func (q *Queue) giveWay(j *job, until time.Duration, forWhom string, now time.Duration) {
	q.leave(j, now)
	q.unlist(j)
	j.state, j.ending, j.forWhom = ending, until, forWhom
	q.endings = append(q.endings, j)
}

func (q *Queue) unlist(j *job) {
	list := &q.spots
	if !j.Spot {
		list = &q.leaves[j.Queue].running
	}
	if i := slices.Index(*list, j); i >= 0 {
		*list = slices.Delete(*list, i, i+1)
	}
}

// promise says that a waiting job gets the place of those that make room for it.
// It counts as if it had it.
func (q *Queue) promise(j *job, now time.Duration) {
	j.line.remove(j)
	j.state = promised
	q.enter(j, now)
	q.promises = append(q.promises, j)
	slices.SortFunc(q.promises, before)
}

// Remove says that a workload is gone for good: it has ended, or nobody wants it
// any more. Its place is given back to the fleet.
func (q *Queue) Remove(id string, now time.Duration) {
	j := q.jobs[id]
	if j == nil {
		return
	}
	q.drop(j, now)
	delete(q.jobs, id)
}

// drop takes a job out of where it is.
func (q *Queue) drop(j *job, now time.Duration) {
	switch j.state {
	case waiting:
		j.line.remove(j)
	case promised:
		q.leave(j, now)
		q.promises = slices.DeleteFunc(q.promises, func(p *job) bool { return p == j })
	case running:
		q.fleet.Release(j.booking)
		q.leave(j, now)
		q.unlist(j)
	case ending:
		q.fleet.Release(j.booking)
		q.endings = slices.DeleteFunc(q.endings, func(e *job) bool { return e == j })
	}
}

// Requeue says that a workload has made room, or could not be started, and waits
// again, with the age that it had.
func (q *Queue) Requeue(id string, now time.Duration) {
	j := q.jobs[id]
	if j == nil || j.state == waiting {
		return
	}
	if j.state == ending {
		j.Restarts++
		j.LostAt, j.lost = now, true
	}
	q.drop(j, now)
	q.again(j)
}

func (q *Queue) again(j *job) {
	j.members, j.booking, j.started, j.ending, j.forWhom = 0, 0, 0, 0, ""
	q.wait(j)
}

// Reserve says which reservations there are.
func (q *Queue) Reserve(all []Reservation) {
	q.reservations = slices.Clone(all)
	slices.SortFunc(q.reservations, func(a, b Reservation) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.ID, b.ID))
	})
}

// Recount is to be called when the tree's capacity, limits or guarantees have
// changed: what could never fit may fit now.
func (q *Queue) Recount() {
	for _, l := range q.lines {
		l.never = nil
		if len(l.jobs) == 0 {
			continue
		}
		if ok, short := q.tree.Ever(l.leaf, l.jobs[0].Resources, int64(l.least)); !ok && !l.spot {
			l.never = &short
		}
	}
}

// State is everything at once.
type State struct {
	Now          time.Duration
	Waiting      []Workload
	Promised     []string // of those that wait: for whom others made room, or are making it
	Running      []Running
	Reservations []Reservation
}

// Decide makes a plan from everything at once. The fleet has the bookings of what
// runs, and those of the plan afterwards.
func Decide(s State, tree *fairshare.Tree, fleet Fleet, policy Policy) (Plan, *Queue, error) {
	q, err := New(tree, fleet, policy)
	if err != nil {
		return Plan{}, nil, err
	}
	for _, r := range s.Running {
		if err := q.AddRunning(r, s.Now); err != nil {
			return Plan{}, nil, err
		}
	}
	for _, w := range s.Waiting {
		if err := q.Add(w); err != nil {
			return Plan{}, nil, err
		}
	}
	for _, id := range s.Promised {
		if j := q.jobs[id]; j != nil && j.state == waiting {
			q.promise(j, s.Now)
		}
	}
	q.Reserve(s.Reservations)
	return q.Decide(s.Now), q, nil
}
