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
	c := &contest{q: q, tree: q.tree, now: now, tops: make([][]*line, len(q.leaves)), best: make([]int, len(q.leaves)), claim: make([]standing, len(q.leaves))}
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
	c.tops[leaf] = nil
	c.judgeUp(leaf)
}

func (c *contest) judgeUp(leaf int) {
	for n := leaf; n != fairshare.None; n = c.tree.Node(n).Parent {
		c.judge(n)
	}
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
		first := fairshare.None
		for _, child := range c.tree.Children(n) {
			if c.best[child] != fairshare.None && (first == fairshare.None || c.goesBefore(&c.claim[child], &c.claim[first])) {
				first = child
			}
		}
		if first == fairshare.None {
			return
		}
		c.best[n] = c.best[first]
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
