package fairshare

import (
	"fmt"
	"math"
	"time"
)

// Unlimited is a limit that isn't there, or a guarantee of everything.
const Unlimited int64 = -1

// None is no node.
const None = -1

// Node is one that shares. Amounts are by resource, in the order that the tree's
// capacity has; a missing one is 0 of a guarantee and Unlimited of the others.
type Node struct {
	Name       string
	Parent     int     // its index, lower than the node's own; None: the root, which is the first
	Guaranteed []int64 // of its parent's; the root's is the capacity
	Limit      []int64 // never passed by what is used below
	Lend       []int64 // so much of its guarantee others may use while it is idle
	Weight     float64 // by which it shares what nobody has of right; 0: only what is idle
	Rank       int     // siblings of a higher rank borrow first
	Created    int64   // among equals, the older goes first

	// How long work of this subtree runs before others take its place: more urgent
	// work of the same leaf, and another leaf. 0: the parent says; negative: no time.
	PreemptAfter, ReclaimAfter time.Duration
}

// Tree holds who has how much. It is not safe for concurrent use.
type Tree struct {
	nodes    []Node
	children [][]int
	depth    []int
	capacity []int64
	used     [][]int64 // by node: all that runs below
	charged  [][]int64 // by node: used, or what a child keeps to itself, whichever is more
	firm     [][]int64 // by node: the part of used that is never taken back
	weight   []float64 // by node: as corrected by usage
	usage    []usage
	billing  Billing
	halfLife time.Duration
}

// New makes a tree with nothing in use.
func New(nodes []Node, capacity []int64) (*Tree, error) {
	t := &Tree{nodes: nodes, children: make([][]int, len(nodes)), depth: make([]int, len(nodes)), weight: make([]float64, len(nodes)), usage: make([]usage, len(nodes))}
	if len(nodes) == 0 {
		return nil, fmt.Errorf("a tree has a root")
	}
	for i := range nodes {
		n := &nodes[i]
		if (n.Parent == None) != (i == 0) || n.Parent >= i || n.Parent < None {
			return nil, fmt.Errorf("node %d %q: its parent is %d; the first node is the only root, and a parent comes before its children", i, n.Name, n.Parent)
		}
		for what, amounts := range map[string][]int64{"guarantee": n.Guaranteed, "limit": n.Limit, "lend": n.Lend} {
			if len(amounts) > len(capacity) {
				return nil, fmt.Errorf("node %q: a %s of %d resources, where the cloud has %d", n.Name, what, len(amounts), len(capacity))
			}
			for _, a := range amounts {
				if a < Unlimited {
					return nil, fmt.Errorf("node %q: a %s of %d", n.Name, what, a)
				}
			}
		}
		if !(n.Weight >= 0) || math.IsInf(n.Weight, 0) {
			return nil, fmt.Errorf("node %q: a weight of %g", n.Name, n.Weight)
		}
		t.weight[i] = n.Weight
		if i > 0 {
			t.children[n.Parent] = append(t.children[n.Parent], i)
			t.depth[i] = t.depth[n.Parent] + 1
		}
	}
	t.used, t.charged, t.firm = grid(len(nodes), len(capacity)), grid(len(nodes), len(capacity)), grid(len(nodes), len(capacity))
	t.SetCapacity(capacity)
	return t, nil
}

func grid(rows, columns int) [][]int64 {
	all, out := make([]int64, rows*columns), make([][]int64, rows)
	for i := range out {
		out[i] = all[i*columns : (i+1)*columns : (i+1)*columns]
	}
	return out
}

// SetCapacity says what there is now. What is in use stays.
func (t *Tree) SetCapacity(capacity []int64) {
	t.capacity = append([]int64(nil), capacity...)
	for i := len(t.nodes) - 1; i >= 0; i-- {
		for r := range capacity {
			if len(t.children[i]) == 0 {
				t.charged[i][r] = t.used[i][r]
				continue
			}
			t.charged[i][r] = 0
			for _, c := range t.children[i] {
				t.charged[i][r] += max(t.charged[c][r], t.kept(c, r))
			}
		}
	}
}

// Nodes, Node, Capacity, Children, Used: what the tree is made of. The slices are
// the tree's own.
func (t *Tree) Nodes() int                { return len(t.nodes) }
func (t *Tree) Node(n int) *Node          { return &t.nodes[n] }
func (t *Tree) Capacity() []int64         { return t.capacity }
func (t *Tree) Children(n int) []int      { return t.children[n] }
func (t *Tree) Leaf(n int) bool           { return len(t.children[n]) == 0 }
func (t *Tree) Used(n int) []int64        { return t.used[n] }
func (t *Tree) Guaranteed(n, r int) int64 { return t.guaranteed(n, r) }

func (t *Tree) guaranteed(n, r int) int64 {
	if n == 0 {
		return t.capacity[r]
	}
	g := at(t.nodes[n].Guaranteed, r, 0)
	if g == Unlimited {
		return math.MaxInt64
	}
	return g
}

func (t *Tree) limit(n, r int) int64 {
	l := at(t.nodes[n].Limit, r, Unlimited)
	if l == Unlimited {
		return math.MaxInt64
	}
	return l
}

// kept is what of its guarantee a node lends to nobody.
func (t *Tree) kept(n, r int) int64 {
	lend := at(t.nodes[n].Lend, r, Unlimited)
	g := t.guaranteed(n, r)
	if lend == Unlimited || n == 0 || g == math.MaxInt64 {
		return 0
	}
	return max(0, g-lend)
}

func at(amounts []int64, r int, missing int64) int64 {
	if r < len(amounts) {
		return amounts[r]
	}
	return missing
}

// Add books amounts for a leaf, times so many; a negative number gives them back.
// firm: they are never taken back.
func (t *Tree) Add(leaf int, amounts []int64, times int64, firm bool) {
	for r, a := range amounts {
		if a == 0 {
			continue
		}
		a *= times
		charge := a
		for n := leaf; n != None; n = t.nodes[n].Parent {
			t.used[n][r] += a
			if firm {
				t.firm[n][r] += a
			}
			kept := t.kept(n, r)
			before := max(t.charged[n][r], kept)
			t.charged[n][r] += charge
			charge = max(t.charged[n][r], kept) - before
		}
	}
}

// Room is how much more of a resource a node may use, and the node on whose
// account it isn't more: its own limit, an ancestor's, or the root for what there
// is. It can be negative after a capacity or a limit has shrunk.
func (t *Tree) Room(n, r int) (room int64, by int) {
	room = t.unclaimed(n, r)
	for ; n != None; n = t.nodes[n].Parent {
		if l := t.limit(n, r); l != math.MaxInt64 && l-t.used[n][r] < room {
			room, by = l-t.used[n][r], n
		}
	}
	return room, by
}

// unclaimed is what nobody uses or keeps to itself, but the node.
func (t *Tree) unclaimed(n, r int) int64 {
	if n == 0 {
		return t.capacity[r] - t.charged[0][r]
	}
	room := t.unclaimed(t.nodes[n].Parent, r)
	if own := t.kept(n, r) - t.charged[n][r]; own > 0 {
		room = max(room, 0) + own
	}
	return room
}

// Shortage says why something doesn't fit.
type Shortage struct {
	Node, Resource int // whose account is short of what
	Short          int64
}

// Fits reports whether so many times the amounts may be used by the leaf beside
// what is in use, and if not what is short most.
func (t *Tree) Fits(leaf int, amounts []int64, times int64) (bool, Shortage) {
	worst := Shortage{Node: None}
	for r, a := range amounts {
		if a == 0 {
			continue
		}
		if room, by := t.Room(leaf, r); a*times > room && a*times-room > worst.Short {
			worst = Shortage{by, r, a*times - room}
		}
	}
	return worst.Node == None, worst
}

// Most is how many times the amounts fit, at most so many.
func (t *Tree) Most(leaf int, amounts []int64, times int64) int64 {
	for r, a := range amounts {
		if a > 0 {
			room, _ := t.Room(leaf, r)
			times = min(times, max(room, 0)/a)
		}
	}
	return times
}

// Ever reports whether the amounts would fit if nothing ran, and if not on whose
// account.
func (t *Tree) Ever(leaf int, amounts []int64, times int64) (bool, Shortage) {
	for r, a := range amounts {
		if a == 0 {
			continue
		}
		if most, by := t.most(leaf, r); a*times > most {
			return false, Shortage{by, r, a*times - most}
		}
	}
	return true, Shortage{Node: None}
}

// most is the room of a node of an idle tree.
func (t *Tree) most(n, r int) (most int64, by int) {
	most = t.unkept(n, r)
	for ; n != None; n = t.nodes[n].Parent {
		if l := t.limit(n, r); l < most {
			most, by = l, n
		}
	}
	return most, by
}

func (t *Tree) unkept(n, r int) int64 {
	if n == 0 {
		return t.capacity[r] - t.keptBelow(0, r)
	}
	room := t.unkept(t.nodes[n].Parent, r)
	if own := t.kept(n, r) - t.keptBelow(n, r); own > 0 {
		room = max(room, 0) + own
	}
	return room
}

// keptBelow is what a node's children keep to themselves.
func (t *Tree) keptBelow(n, r int) int64 {
	sum := int64(0)
	for _, c := range t.children[n] {
		sum += max(t.keptBelow(c, r), t.kept(c, r))
	}
	return sum
}
