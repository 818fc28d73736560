package queue

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tenon-cloud/tenon/internal/fairshare"
)

// world is a cloud that lives: work comes, runs, ends, and is told to make room.
type world struct {
	t      testing.TB
	rng    *rand.Rand
	q      *Queue
	pool   *Pool
	shelf  *shelf // instead, where not nil
	tree   *fairshare.Tree
	nodes  []fairshare.Node
	leaves []int
	now    time.Duration
	known  map[string]*Workload
	lasts  map[string]time.Duration // how long a run takes
	made   int
	drove  map[string]driver
	log    strings.Builder
	counts struct{ starts, preempts, cuts, reserves, moved int }
}

// driver is who took somebody's place, and when.
type driver struct {
	id string
	at time.Duration
}

// newWorld makes one of several organisations with projects and users.
func newWorld(t testing.TB, seed uint64, policy Policy) *world {
	rng := rand.New(rand.NewPCG(seed, 7))
	nodes := []fairshare.Node{{Name: "cloud", Parent: fairshare.None}}
	var leaves []int
	left := int64(64)
	for o := range 2 + rng.IntN(3) {
		org := len(nodes)
		g := min(left, rng.Int64N(24))
		left -= g
		nodes = append(nodes, fairshare.Node{Name: fmt.Sprint("org", o), Parent: 0, Guaranteed: []int64{g}, Weight: float64(1 + rng.IntN(3)), Rank: rng.IntN(2) * rng.IntN(2)})
		for p := range 1 + rng.IntN(3) {
			own := int64(0)
			if g > 0 {
				own = rng.Int64N(g + 1)
				g -= own
			}
			limit := []int64{fairshare.Unlimited}
			if rng.IntN(3) == 0 {
				limit[0] = own + 8 + rng.Int64N(40)
			}
			project := len(nodes)
			nodes = append(nodes, fairshare.Node{Name: fmt.Sprint("org", o, "/p", p), Parent: org, Guaranteed: []int64{own}, Limit: limit, Weight: float64(1 + rng.IntN(2))})
			if rng.IntN(2) == 0 {
				leaves = append(leaves, project)
				continue
			}
			for u := range 2 {
				leaves = append(leaves, len(nodes))
				nodes = append(nodes, fairshare.Node{Name: fmt.Sprint("org", o, "/p", p, "/u", u), Parent: project, Weight: 1})
			}
		}
	}
	tree, err := fairshare.New(nodes, []int64{64, 512})
	if err != nil {
		t.Fatal(err)
	}
	classes := make([][]int64, 9)
	for i := range classes {
		classes[i] = []int64{int64(i), int64(4 * i)}
	}
	pool := NewPool([]int64{64, 512}, classes)
	w := &world{t: t, rng: rng, pool: pool, tree: tree, nodes: nodes, leaves: leaves, known: map[string]*Workload{}, lasts: map[string]time.Duration{}, drove: map[string]driver{}}
	w.q, err = New(tree, pool, policy)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// onShelf gives the world a fleet with places.
func (w *world) onShelf() {
	w.shelf = newShelf(8)
	w.q.fleet = w.shelf
}

// arrive adds a workload of any sort.
func (w *world) arrive() {
	w.made++
	class := 1 + w.rng.IntN(8)
	x := Workload{ID: idOf(w.made), Queue: w.leaves[w.rng.IntN(len(w.leaves))], Class: class, Resources: w.pool.Classes[class],
		Min: 1, Priority: w.rng.IntN(3), QueuedAt: w.now, Preemptible: w.rng.IntN(4) > 0, Spot: w.rng.IntN(10) == 0}
	switch w.rng.IntN(4) {
	case 0:
		x.Min = 1 + w.rng.IntN(3)
	case 1:
		x.Max = 1 + w.rng.IntN(4)
	}
	if w.rng.IntN(2) == 0 {
		x.Tier = w.rng.IntN(len(w.q.policy.Tiers))
	}
	run := time.Duration(1+w.rng.IntN(60)) * time.Second
	if w.rng.IntN(2) == 0 {
		x.Expected = run
	}
	if w.rng.IntN(4) == 0 {
		x.Grace = time.Duration(w.rng.IntN(3)) * time.Second
	}
	w.lasts[x.ID] = run
	w.known[x.ID] = &x
	if err := w.q.Add(x); err != nil {
		w.t.Fatal(err)
	}
}

// decide decides, and checks what must hold of any plan.
func (w *world) decide() Plan {
	before := make([][]int64, w.tree.Nodes())
	for n := range before {
		before[n] = slices.Clone(w.tree.Used(n))
	}
	run := map[string]job{}
	for id, j := range w.q.jobs {
		run[id] = *j
	}
	p := w.q.Decide(w.now)
	for _, s := range p.Start {
		x := w.known[s.ID]
		if s.Members < max(x.Min, 1) || s.Members > max(x.Max, x.Min, 1) || s.Booking == 0 {
			w.t.Fatalf("%s starts with %d of %d to %d members", s.ID, s.Members, x.Min, x.Max)
		}
		moved := slices.ContainsFunc(p.Preempt, func(v Preempt) bool { return v.ID == s.ID })
		if moved {
			w.counts.moved++
		}
		if run[s.ID].state == running && !moved {
			w.t.Fatalf("%s starts, and runs already", s.ID)
		}
	}
	for _, v := range p.Preempt {
		j := run[v.ID]
		switch {
		case j.state != running:
			w.t.Fatalf("%s makes room, and doesn't run", v.ID)
		case !j.Preemptible && !j.Spot:
			w.t.Fatalf("%s makes room, and is never to", v.ID)
		case w.now-j.started < j.MinRuntime:
			w.t.Fatalf("%s makes room after %s", v.ID, w.now-j.started)
		case v.Why == CauseReclaim || v.Why == CauseShare:
			for n := j.Queue; n != 0; n = w.tree.Node(n).Parent {
				if left, _ := w.tree.Apart(w.q.jobs[v.For].Queue, j.Queue); left == fairshare.None {
					w.t.Fatalf("%s is claimed by its own queue", v.ID)
				}
				_, side := w.tree.Apart(w.q.jobs[v.For].Queue, j.Queue)
				if over := before[n][0] > w.tree.Guaranteed(n, 0) || before[n][1] > w.tree.Guaranteed(n, 1); !over && w.q.jobs[v.For].Queue != j.Queue {
					w.t.Fatalf("%s makes room, but %s had no more than it is guaranteed", v.ID, w.tree.Node(n).Name)
				}
				if n == side {
					break
				}
			}
		case v.Why == CausePriority && !w.q.jobs[v.For].outranks(&j):
			w.t.Fatalf("%s makes room for %s, which is no more urgent", v.ID, v.For)
		}
	}
	// Nobody takes the place of one that took its own just now, but by right.
	for _, v := range p.Preempt {
		if by := w.drove[v.For]; by.id == v.ID && w.now-by.at < 5*time.Minute && (v.Why == CauseShare || v.Why == CausePriority) {
			w.t.Fatalf("%s drives %s out, by which it was driven out at %s", v.For, v.ID, by.at)
		}
	}
	for _, v := range p.Preempt {
		w.drove[v.ID] = driver{v.For, w.now}
	}
	w.check()
	w.counts.starts += len(p.Start)
	w.counts.preempts += len(p.Preempt)
	w.counts.cuts += len(p.Cut)
	w.counts.reserves += len(p.Reserve)
	fmt.Fprintln(&w.log, w.now, p)
	return p
}

// check sees that limits, capacity and counts hold.
func (w *world) check() {
	sum := make([]int64, 2)
	used := make([][]int64, w.tree.Nodes())
	for n := range used {
		used[n] = make([]int64, 2)
	}
	for _, j := range w.q.jobs {
		if (j.state == running || j.state == ending) && (j.members < j.least || j.members > j.most) {
			w.t.Fatalf("%s has %d of %d to %d members", j.ID, j.members, j.least, j.most)
		}
		for r, a := range j.Resources {
			if j.state == running || j.state == ending {
				sum[r] += a * int64(j.members)
			}
			if (j.state == running || j.state == promised) && !j.Spot {
				for n := j.Queue; n != fairshare.None; n = w.tree.Node(n).Parent {
					used[n][r] += a * int64(j.holds())
				}
			}
		}
	}
	if w.shelf != nil {
		if used, err := w.shelf.inUse(); err != nil || used != sum[0] {
			w.t.Fatalf("%d cards are used of %d (%v)", used, sum[0], err)
		}
	}
	for r := range sum {
		if w.shelf == nil && (sum[r] > w.pool.capacity[r] || sum[r] != w.pool.used[r] || w.pool.blocked[r] != 0) {
			w.t.Fatalf("%d of %d are used, the pool says %d and that %d are blocked", sum[r], w.pool.capacity[r], w.pool.used[r], w.pool.blocked[r])
		}
	}
	for n := range used {
		if !slices.Equal(used[n], w.tree.Used(n)) {
			w.t.Fatalf("%s uses %v, the tree says %v", w.tree.Node(n).Name, used[n], w.tree.Used(n))
		}
		for r, l := range w.tree.Node(n).Limit {
			if l != fairshare.Unlimited && used[n][r] > l {
				w.t.Fatalf("%s uses %d of %d", w.tree.Node(n).Name, used[n][r], l)
			}
		}
	}
}

// pass lets time go by: what has run its time ends, what was told to makes room.
func (w *world) pass(by time.Duration) {
	w.now += by
	for _, id := range w.ids() {
		switch j := w.q.jobs[id]; {
		case j.state == running && w.now >= j.started+w.lasts[id]:
			w.q.Remove(id, w.now)
		case j.state == ending && w.now >= j.ending:
			w.q.Requeue(id, w.now)
		}
	}
}

func (w *world) ids() []string {
	ids := make([]string, 0, len(w.q.jobs))
	for id := range w.q.jobs {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// still reports that a second Decide changes nothing.
func (w *world) still() {
	p := w.q.Decide(w.now)
	if len(p.Start)+len(p.Preempt)+len(p.Cut) > 0 {
		w.t.Fatalf("a second Decide changes what the first left: %+v\nafter\n%s", p, tail(w.log.String(), 3))
	}
}

func tail(s string, lines int) string {
	all := strings.Split(strings.TrimSpace(s), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

func (w *world) hash() uint64 {
	h := fnv.New64a()
	h.Write([]byte(w.log.String()))
	return h.Sum64()
}

// policies are what random worlds are run with.
var policies = []Policy{
	{},
	{Reservations: 4, Patience: 30 * time.Second},
	{Strict: true},
	{Aging: 20 * time.Second, AgeAtMost: time.Minute, Tiers: []Tier{{Name: "express", Reserve: []int64{8, 32}}, {Name: "batch"}}, Reservations: 2},
	{ByUsage: true, Ahead: 10 * time.Second},
}

// TestRandomSteps lives through 100,000 random steps: over any tree and policy, a
// second Decide changes nothing, gangs are whole, no limit is passed, nobody makes
// room who needn't, nobody
// drives out who drove it out, and everything ends at last; on a bare pool, and a
// fifth as long on nodes with cards.
func TestRandomSteps(t *testing.T) {
	t.Parallel()
	steps, seeds := 100_000, 200
	if testing.Short() {
		steps, seeds = 10_000, 20
	}
	for i, policy := range policies {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			randomSteps(t, policy, steps/len(policies), i, seeds/len(policies), false)
		})
		t.Run(fmt.Sprint("places ", i), func(t *testing.T) {
			t.Parallel()
			randomSteps(t, policy, steps/len(policies)/5, i, seeds/len(policies)/5, true)
		})
	}
}

func randomSteps(t *testing.T, policy Policy, steps, from, seeds int, places bool) {
	var starts, preempts, cuts, reserves, moved int
	for seed := range seeds {
		w := newWorld(t, uint64(seed*len(policies)+from), policy)
		if places {
			w.onShelf()
		}
		for range steps / seeds {
			switch w.rng.IntN(4) {
			case 0, 1:
				if len(w.q.jobs) < 80 {
					w.arrive()
				}
			case 2:
				w.pass(time.Duration(w.rng.IntN(8)) * time.Second)
			case 3:
				if ids := w.ids(); len(ids) > 0 && w.rng.IntN(4) == 0 {
					w.q.Remove(ids[w.rng.IntN(len(ids))], w.now)
				}
			}
			w.decide()
			w.still()
		}
		// No starvation: once nothing more comes, all that can run ends in about the
		// time that the work takes.
		var work time.Duration
		for _, id := range w.ids() {
			work += w.lasts[id]
		}
		for end := w.now + 3*work + time.Hour; len(w.q.jobs) > 0 && w.now < end; {
			w.pass(time.Second)
			w.decide()
		}
		for _, wait := range w.q.Waiting(w.now) {
			if wait.Reason.Code != Never {
				t.Fatalf("seed %d: %+v has starved", seed, wait)
			}
		}
		starts, preempts, cuts, reserves, moved = starts+w.counts.starts, preempts+w.counts.preempts, cuts+w.counts.cuts, reserves+w.counts.reserves, moved+w.counts.moved
	}
	t.Logf("%d steps: %d starts, %d preempted, %d cut, %d preempted and placed anew at once, %d starts reserved", steps, starts, preempts, cuts, moved, reserves)
	if !testing.Short() && min(preempts, cuts) < 20 {
		t.Error("hardly anything happened")
	}
}

func idOf(n int) string { return fmt.Sprintf("w%05d", n) }
