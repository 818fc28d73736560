package queue

import (
	"slices"
	"time"

	"github.com/tenon-cloud/tenon/internal/fairshare"
)

// contest finds, at every node of the tree, whose turn it is: inside a leaf by
// urgency, priority and age, between siblings by what they are owed.
type contest struct {
	q     *Queue
	tree  *fairshare.Tree
	now   time.Duration
	tops  [][]*line // by leaf: those with somebody to try, the best first
	best  []int     // by node: the leaf that goes first; fairshare.None: nobody is left
	claim []standing
	turns [][]int // by node: its children that have somebody, a heap by whose turn it is
	at    []int   // by node: where it is in its parent's heap
}

// standing is what a node has to say for itself beside its siblings.
type standing struct {
	within bool // it stays within its guarantee
	rank   int
	share  float64
	part   float64
	had    float64
	first  *job
}

// newContest takes the lines that are asked for.
func (q *Queue) newContest(now time.Duration, spot bool, takes func(*line) bool) *contest {
	c := &contest{q: q, tree: q.tree, now: now, tops: make([][]*line, len(q.leaves)), best: make([]int, len(q.leaves)), claim: make([]standing, len(q.leaves)),
		turns: make([][]int, len(q.leaves)), at: make([]int, len(q.leaves))}
	if spot {
		c.tree = q.spot
	}
	for n := len(q.leaves) - 1; n >= 0; n-- {
		for _, l := range q.leaves[n].lines {
			if l.first() != nil && takes(l) {
				c.tops[n] = append(c.tops[n], l)
			}
		}
		if len(c.tops[n]) > 1 {
			slices.SortFunc(c.tops[n], c.order)
		}
		c.judge(n)
		if c.best[n] != fairshare.None && n > 0 {
			parent := c.tree.Node(n).Parent
			c.turns[parent] = append(c.turns[parent], n)
			c.at[n] = len(c.turns[parent]) - 1
			c.up(c.turns[parent], c.at[n])
		}
	}
	return c
}

func (c *contest) order(a, b *line) int {
	if c.q.earlier(a.first(), b.first(), c.now) {
		return -1
	}
	return 1
}

// next is the line whose first is to be tried; nil: nobody is left.
func (c *contest) next() *line {
	if leaf := c.best[0]; leaf != fairshare.None {
		return c.tops[leaf][0]
	}
	return nil
}

// done says what came of the best line of a leaf: it goes on with its next, or is
// out. After a change elsewhere in the tree too, the leaf's ancestors are judged.
func (c *contest) done(l *line, out bool) {
	tops := c.tops[l.leaf]
	if i := slices.Index(tops, l); i >= 0 {
		tops = slices.Delete(tops, i, i+1)
	}
	if !out && l.first() != nil {
		i, _ := slices.BinarySearchFunc(tops, l, c.order)
		tops = slices.Insert(tops, i, l)
	}
	c.tops[l.leaf] = tops
	c.judgeUp(l.leaf)
}

// stop takes a whole leaf out.
func (c *contest) stop(leaf int) {
	if c.best[leaf] != fairshare.None {
		c.tops[leaf] = nil
		c.judgeUp(leaf)
	}
}

// judgeUp settles a leaf and all above it anew.
func (c *contest) judgeUp(leaf int) {
	for n := leaf; ; n = c.tree.Node(n).Parent {
		c.judge(n)
		if n == 0 {
			return
		}
		heap := c.turns[c.tree.Node(n).Parent]
		if c.best[n] != fairshare.None {
			c.down(heap, c.up(heap, c.at[n]))
			continue
		}
		// It was there, or nothing would have changed: the last takes its place.
		i, last := c.at[n], len(heap)-1
		heap[i] = heap[last]
		c.at[heap[i]] = i
		heap = heap[:last]
		c.turns[c.tree.Node(n).Parent] = heap
		if i < last {
			c.down(heap, c.up(heap, i))
		}
	}
}

// up and down restore the order of a heap around one place.
func (c *contest) up(heap []int, i int) int {
	for i > 0 && c.goesBefore(&c.claim[heap[i]], &c.claim[heap[(i-1)/2]]) {
		c.swap(heap, i, (i-1)/2)
		i = (i - 1) / 2
	}
	return i
}

func (c *contest) down(heap []int, i int) {
	for {
		first := i
		for k := 2*i + 1; k <= 2*i+2 && k < len(heap); k++ {
			if c.goesBefore(&c.claim[heap[k]], &c.claim[heap[first]]) {
				first = k
			}
		}
		if first == i {
			return
		}
		c.swap(heap, i, first)
		i = first
	}
}

func (c *contest) swap(heap []int, i, k int) {
	heap[i], heap[k] = heap[k], heap[i]
	c.at[heap[i]], c.at[heap[k]] = i, k
}

// judge settles who goes first at a node, from its children.
func (c *contest) judge(n int) {
	c.best[n] = fairshare.None
	if c.tree.Leaf(n) {
		if len(c.tops[n]) == 0 {
			return
		}
		c.best[n] = n
	} else {
		if len(c.turns[n]) == 0 {
			return
		}
		c.best[n] = c.best[c.turns[n][0]]
	}
	j := c.tops[c.best[n]][0].first()
	times := int64(j.least)
	c.claim[n] = standing{c.tree.Within(n, j.Resources, times), c.tree.Node(n).Rank, c.tree.Share(n, j.Resources, times), c.tree.Part(n), 0, j}
	if c.q.policy.ByUsage || c.q.policy.Ahead > 0 {
		c.claim[n].had = c.tree.Had(n, c.now)
	}
}

func (c *contest) goesBefore(a, b *standing) bool {
	switch {
	case a.within != b.within:
		return a.within
	case a.rank != b.rank:
		return a.rank > b.rank
	case c.q.policy.ByUsage && a.had != b.had:
		return a.had < b.had
	case a.share != b.share:
		return a.share < b.share
	case a.part != b.part:
		return a.part < b.part
	case a.had != b.had:
		return a.had < b.had
	}
	return before(a.first, b.first) < 0
}
