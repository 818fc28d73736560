package fairshare

import (
	"math"
	"time"
)

// Within reports whether the node stays within its guarantee with the amounts on
// top, in every resource of them.
func (t *Tree) Within(n int, amounts []int64, times int64) bool {
	for r, a := range amounts {
		if a > 0 && t.used[n][r]+a*times > t.guaranteed(n, r) {
			return false
		}
	}
	return true
}

// Firm reports whether the leaf may use so much that is never taken back: what is
// firm stays within the guarantee at every level (K6).
func (t *Tree) Firm(leaf int, amounts []int64, times int64) bool {
	for n := leaf; n != 0; n = t.nodes[n].Parent {
		for r, a := range amounts {
			if a > 0 && t.firm[n][r]+a*times > t.guaranteed(n, r) {
				return false
			}
		}
	}
	return true
}

// over reports whether a node has more than its guarantee of something that both
// want. sure: and would still have no less than it without theirs.
func (t *Tree) over(n int, wanted, theirs []int64, times int64) (over, sure bool) {
	sure = true
	for r, w := range wanted {
		if w == 0 || r >= len(theirs) || theirs[r] == 0 {
			continue
		}
		g := t.guaranteed(n, r)
		if t.used[n][r] > g {
			over = true
			sure = sure && t.used[n][r]-theirs[r]*times >= g
		}
	}
	return over, sure
}

// Share is how far a node is above its guarantee with so many times the amounts
// on top: the largest part of the capacity that it borrows of any resource, by
// its weight. 0: it borrows nothing.
func (t *Tree) Share(n int, amounts []int64, times int64) float64 {
	most := 0.0
	for r, u := range t.used[n] {
		if t.capacity[r] <= 0 {
			continue
		}
		g := t.guaranteed(n, r)
		if g == math.MaxInt64 {
			continue
		}
		if u += at(amounts, r, 0) * times; u > g {
			most = max(most, float64(u-g)/float64(t.capacity[r]))
		}
	}
	if most == 0 {
		return 0
	}
	return most / t.weight[n]
}

// Part is the largest part of the capacity that a node uses, guaranteed or not, by
// its weight.
func (t *Tree) Part(n int) float64 {
	most := 0.0
	for r, u := range t.used[n] {
		if t.capacity[r] > 0 {
			most = max(most, float64(u)/float64(t.capacity[r]))
		}
	}
	if most == 0 {
		return 0
	}
	return most / t.weight[n]
}

// Apart finds where the ways from two leaves to the root part: the two siblings
// under their lowest common ancestor. The same leaf twice has none.
func (t *Tree) Apart(a, b int) (left, right int) {
	left, right = a, b
	for left != right && t.nodes[left].Parent != t.nodes[right].Parent {
		if t.depth[left] >= t.depth[right] {
			left = t.nodes[left].Parent
		} else {
			right = t.nodes[right].Parent
		}
	}
	if left == right {
		return None, None
	}
	return left, right
}

// Claim is by which right one takes from another.
type Claim int

const (
	NoClaim   Claim = iota
	ByInitial       // its share stays below what the other's was
	ByFinal         // its share stays at most what the other's becomes
	ByRight         // it is within its guarantee, or of higher rank
)

// Claim is the right by which a leaf may have what another's work holds, to use
// times the wanted amounts. margin, at least 1, is how much lower its own share
// must stay (K5).
//
// At every level below the common ancestor the other must have more than its
// guarantee. Who claims what it has no guarantee of never takes them below it.
func (t *Tree) Claim(leaf int, wanted []int64, times int64, other int, theirs []int64, theirTimes int64, margin float64) Claim {
	mine, yours := t.Apart(leaf, other)
	if mine == None {
		return NoClaim
	}
	sure := true
	for n := other; ; n = t.nodes[n].Parent {
		over, stays := t.over(n, wanted, theirs, theirTimes)
		if !over {
			return NoClaim
		}
		sure = sure && stays
		if n == yours {
			break
		}
	}
	if t.Within(mine, wanted, times) {
		return ByRight
	}
	if !sure || t.nodes[mine].Rank < t.nodes[yours].Rank {
		return NoClaim
	}
	if t.nodes[mine].Rank > t.nodes[yours].Rank {
		return ByRight
	}
	share := t.Share(mine, wanted, times) * max(margin, 1)
	if math.IsInf(share, 0) {
		return NoClaim
	}
	was, becomes := t.Share(yours, nil, 0), t.Share(yours, theirs, -theirTimes)
	if share < becomes || share == becomes && becomes < was {
		return ByFinal
	}
	if share < was {
		return ByInitial
	}
	return NoClaim
}

// MayClaimFrom reports whether any work of a sibling may have to give way to a
// node's. It is cheap, and true too often.
func (t *Tree) MayClaimFrom(n, sibling int, wanted []int64, times int64) bool {
	if !t.Exceeds(sibling, wanted) {
		return false
	}
	switch rank := t.nodes[n].Rank - t.nodes[sibling].Rank; {
	case rank > 0, t.Within(n, wanted, times):
		return true
	case rank < 0:
		return false
	}
	return t.Share(n, wanted, times) < t.Share(sibling, nil, 0)
}

// Exceeds reports whether a node has more than its guarantee of something that is
// wanted.
func (t *Tree) Exceeds(n int, wanted []int64) bool {
	for r, w := range wanted {
		if w > 0 && t.used[n][r] > t.guaranteed(n, r) {
			return true
		}
	}
	return false
}

// PreemptAfter is how long the leaf's work runs before more urgent work of the
// same leaf takes its place: the leaf says, or the first above that does (K8).
func (t *Tree) PreemptAfter(leaf int) time.Duration {
	for n := leaf; n != None; n = t.nodes[n].Parent {
		if d := t.nodes[n].PreemptAfter; d != 0 {
			return max(d, 0)
		}
	}
	return 0
}

// ReclaimAfter is how long work of the other leaf runs before the leaf may claim
// its place: the other's side says where the two ways part, or the first above
// (K8).
func (t *Tree) ReclaimAfter(leaf, other int) time.Duration {
	_, n := t.Apart(leaf, other)
	for ; n != None; n = t.nodes[n].Parent {
		if d := t.nodes[n].ReclaimAfter; d != 0 {
			return max(d, 0)
		}
	}
	return 0
}
