package fairshare

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func one(a int64) []int64 { return []int64{a} }

func TestK4ReclaimOnlyAboveTheGuarantee(t *testing.T) {
	t.Parallel()
	tree := cohort(t)
	tree.Add(2, one(12), 1, false)
	if got := tree.Claim(1, one(10), 1, 2, one(4), 1, 1); got != ByRight {
		t.Errorf("within its guarantee a queue takes from one that is 2 above: %v", got)
	}
	if got := tree.Claim(1, one(11), 1, 2, one(2), 1, 1); got != ByInitial && got != ByFinal {
		t.Errorf("11 of 20 against 12: %v", got)
	}
	if got := tree.Claim(1, one(11), 1, 2, one(4), 1, 1); got != NoClaim {
		t.Errorf("for one that it borrows, the other would fall 2 below its guarantee: %v", got)
	}
	tree.Add(2, one(2), -1, false)
	if got := tree.Claim(1, one(1), 1, 2, one(1), 1, 1); got != NoClaim {
		t.Errorf("a queue within its guarantee is nobody's victim: %v", got)
	}
}

// The siblings under the lowest common ancestor are compared, and everybody on the
// victim's side below it must be above what it is guaranteed.
func TestK4ComparesSiblings(t *testing.T) {
	t.Parallel()
	tree := must(t, one(40), []Node{
		{Parent: None}, {Name: "a", Guaranteed: one(20), Weight: 1}, {Name: "b", Guaranteed: one(20), Weight: 1},
		{Name: "a/1", Parent: 1, Guaranteed: one(10), Weight: 1}, {Name: "b/1", Parent: 2, Guaranteed: one(10), Weight: 1}, {Name: "b/2", Parent: 2, Weight: 1},
	})
	tree.Add(4, one(10), 1, false)
	tree.Add(5, one(20), 1, false)
	if got := tree.Claim(3, one(15), 1, 4, one(5), 1, 1); got != NoClaim {
		t.Errorf("b is above its guarantee, but not its project 1: %v", got)
	}
	if got := tree.Claim(3, one(15), 1, 5, one(5), 1, 1); got != ByRight {
		t.Errorf("a stays within its own 20, though a/1 is above its 10: %v", got)
	}
}

func TestK5NoPingPong(t *testing.T) {
	t.Parallel()
	tree := must(t, one(20), []Node{{Parent: None}, {Name: "a", Weight: 1}, {Name: "b", Weight: 1}})
	tree.Add(1, one(8), 1, false)
	tree.Add(2, one(12), 1, false)
	if got := tree.Claim(1, one(2), 1, 2, one(2), 1, 1); got != ByFinal {
		t.Errorf("10 and 10 is better than 8 and 12: %v", got)
	}
	if got := tree.Claim(1, one(4), 1, 2, one(4), 1, 1); got != NoClaim {
		t.Errorf("12 and 8 is no better than 8 and 12: %v", got)
	}
	if got := tree.Claim(1, one(3), 1, 2, one(3), 1, 1); got != ByInitial {
		t.Errorf("11 is below the 12 that the other has: %v", got)
	}
	if got := tree.Claim(1, one(3), 1, 2, one(3), 1, 1.2); got != NoClaim {
		t.Errorf("11 times the margin of 1.2 is above 12: %v", got)
	}
}

func TestHigherRankBorrowsFirst(t *testing.T) {
	t.Parallel()
	tree := must(t, one(20), []Node{{Parent: None}, {Name: "a", Weight: 1, Rank: 1}, {Name: "b", Weight: 9}})
	tree.Add(1, one(15), 1, false)
	tree.Add(2, one(5), 1, false)
	if got := tree.Claim(1, one(5), 1, 2, one(5), 1, 1); got != ByRight {
		t.Errorf("rank 1 from rank 0: %v", got)
	}
	if got := tree.Claim(2, one(1), 1, 1, one(5), 1, 1); got != NoClaim {
		t.Errorf("rank 0 from rank 1: %v", got)
	}
}

func TestQ5ShareIsTheDominantPartThatIsBorrowed(t *testing.T) {
	t.Parallel()
	tree := must(t, []int64{10, 100}, []Node{{Parent: None}, {Name: "a", Weight: 2, Guaranteed: []int64{3, 50}}, {Name: "b", Weight: 1}})
	if got := tree.Share(1, []int64{3, 50}, 1); got != 0 {
		t.Errorf("nothing is borrowed: %g", got)
	}
	if got := tree.Share(1, []int64{5, 60}, 1); got != 0.1 { // 2 of 10 beside 10 of 100, weight 2
		t.Errorf("%g, not 0.1", got)
	}
	if got := tree.Share(2, []int64{1, 40}, 1); got != 0.4 {
		t.Errorf("%g, not 0.4", got)
	}
}

// Whatever the tree: if A may take from B, B may not take that back. With one
// resource, the largest shares of the siblings where a claim happens fall as well,
// so that no sequence of claims comes back to where it began.
func TestQ5NeverMutual(t *testing.T) {
	t.Parallel()
	claims := 0
	rapid.Check(t, func(t *rapid.T) {
		nodes := []Node{{Parent: None}}
		for i := 1; i < rapid.IntRange(3, 12).Draw(t, "nodes"); i++ {
			nodes = append(nodes, Node{Parent: rapid.IntRange(0, (i-1)/2).Draw(t, "parent"), Guaranteed: []int64{rapid.Int64Range(0, 10).Draw(t, "guarantee"), 5},
				Weight: float64(rapid.IntRange(0, 3).Draw(t, "weight")), Rank: rapid.IntRange(0, 1).Draw(t, "rank")})
		}
		kinds := rapid.IntRange(1, 2).Draw(t, "resources")
		for n := range nodes {
			nodes[n].Guaranteed = nodes[n].Guaranteed[:min(kinds, len(nodes[n].Guaranteed))]
		}
		tree := must(t, []int64{40, 60}[:kinds], nodes)
		var leaves []int
		work := map[int][][]int64{}
		for n := range nodes {
			if tree.Leaf(n) {
				leaves = append(leaves, n)
			}
		}
		for range rapid.IntRange(1, 15).Draw(t, "work") {
			leaf := rapid.SampledFrom(leaves).Draw(t, "leaf")
			w := []int64{rapid.Int64Range(1, 8).Draw(t, "gpus"), rapid.Int64Range(0, 9).Draw(t, "cpus")}[:kinds]
			work[leaf] = append(work[leaf], w)
			tree.Add(leaf, w, 1, false)
		}
		a, b := rapid.SampledFrom(leaves).Draw(t, "a"), rapid.SampledFrom(leaves).Draw(t, "b")
		if len(work[b]) == 0 {
			return
		}
		theirs := rapid.SampledFrom(work[b]).Draw(t, "theirs")
		mine := []int64{rapid.Int64Range(1, 8).Draw(t, "mine"), rapid.Int64Range(0, 9).Draw(t, "mine too")}[:kinds]
		claim := tree.Claim(a, mine, 1, b, theirs, 1, 1)
		if claim == NoClaim {
			return
		}
		claims++
		if a == b {
			t.Fatal("a queue claims from itself")
		}
		left, right := tree.Apart(a, b)
		if !tree.MayClaimFrom(left, right, mine, 1) {
			t.Fatalf("the cheap look says that nothing can be claimed, but: %v", claim)
		}
		siblings := slices.Clone(tree.children[tree.nodes[left].Parent])
		shares := func() []float64 {
			var out []float64
			for _, s := range siblings {
				if tree.nodes[s].Rank == tree.nodes[left].Rank {
					out = append(out, tree.Share(s, nil, 0))
				}
			}
			slices.Sort(out)
			slices.Reverse(out)
			return out
		}
		before := shares()
		borrows := !tree.Within(left, mine, 1)
		tree.Add(b, theirs, -1, false)
		tree.Add(a, mine, 1, false)
		if borrows && tree.nodes[left].Rank == tree.nodes[right].Rank && kinds == 1 && !math.IsInf(before[0], 0) && slices.Compare(shares(), before) >= 0 {
			t.Fatalf("by %v, shares went from %v to %v", claim, before, shares())
		}
		if back := tree.Claim(b, theirs, 1, a, mine, 1, 1); back != NoClaim {
			t.Fatalf("%v may be taken back by %v", claim, back)
		}
	})
	if claims < 5 {
		t.Errorf("only %d claims came up", claims)
	}
}

// The example of KAI's documents: 600 s above C and 60 s above the other side.
func TestK8MinimumRuntime(t *testing.T) {
	t.Parallel()
	tree := must(t, one(8), []Node{
		{Name: "A", Parent: None},
		{Name: "B", Parent: 0, ReclaimAfter: 600 * time.Second, PreemptAfter: 30 * time.Second},
		{Name: "D", Parent: 0, ReclaimAfter: 60 * time.Second},
		{Name: "C", Parent: 1},
		{Name: "leaf1", Parent: 3, PreemptAfter: 10 * time.Second},
		{Name: "leaf2", Parent: 3},
		{Name: "leaf3", Parent: 2, ReclaimAfter: 5 * time.Second},
	})
	for _, c := range []struct {
		name string
		got  time.Duration
		want time.Duration
	}{
		{"leaf1 from leaf3", tree.ReclaimAfter(4, 6), 60 * time.Second},
		{"leaf3 from leaf1", tree.ReclaimAfter(6, 4), 600 * time.Second},
		{"leaf1 from leaf2, whose way parts below C", tree.ReclaimAfter(4, 5), 600 * time.Second},
		{"within leaf1", tree.PreemptAfter(4), 10 * time.Second},
		{"within leaf2, which B decides", tree.PreemptAfter(5), 30 * time.Second},
		{"within leaf3, where nobody does", tree.PreemptAfter(6), 0},
	} {
		if c.got != c.want {
			t.Errorf("%s: %s, not %s", c.name, c.got, c.want)
		}
	}
}

func TestK6FirmWorkStaysWithinTheGuaranteeAtEveryLevel(t *testing.T) {
	t.Parallel()
	tree := must(t, one(20), []Node{{Parent: None}, {Name: "org", Guaranteed: one(8), Weight: 1}, {Name: "org/p", Parent: 1, Guaranteed: one(10), Weight: 1}})
	if !tree.Firm(2, one(8), 1) || tree.Firm(2, one(9), 1) {
		t.Error("of the project's 10, the organisation guarantees 8")
	}
	tree.Add(2, one(9), 1, false) // what may be taken back doesn't count
	if !tree.Firm(2, one(8), 1) {
		t.Error("work that may be taken back keeps firm work out")
	}
	tree.Add(2, one(4), 1, true)
	if tree.Firm(2, one(5), 1) || !tree.Firm(2, one(4), 1) {
		t.Error("4 of 8 are firm: 4 more may be")
	}
}
