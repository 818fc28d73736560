package fairshare

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// cohort is two queues of one cohort, with 10 each.
func cohort(t *testing.T, more ...Node) *Tree {
	return must(t, []int64{20}, append([]Node{
		{Name: "cohort", Parent: None},
		{Name: "left", Guaranteed: []int64{10}, Weight: 1},
		{Name: "right", Guaranteed: []int64{10}, Weight: 1},
	}, more...))
}

func TestQ1NominalBorrowingAndLending(t *testing.T) {
	t.Parallel()
	tree := cohort(t)
	fits := func(leaf int, amount int64, want bool) {
		t.Helper()
		if got, short := tree.Fits(leaf, []int64{amount}, 1); got != want {
			t.Errorf("%d for %s fits: %v (%+v), not %v", amount, tree.nodes[leaf].Name, got, short, want)
		}
	}
	fits(1, 10, true)
	fits(1, 20, true) // borrows what the other doesn't use
	fits(1, 21, false)
	tree.Add(2, []int64{4}, 1, false)
	fits(1, 16, true)
	fits(1, 17, false)

	tree.nodes[1].Limit = []int64{13} // borrows 3 at most
	fits(1, 13, true)
	fits(1, 14, false)
	if _, short := tree.Fits(1, []int64{14}, 1); short != (Shortage{1, 0, 1}) {
		t.Errorf("14 are short of %+v", short)
	}

	tree = cohort(t)
	tree.nodes[2].Lend = []int64{3} // 7 are never lent
	tree.SetCapacity(tree.capacity)
	fits(1, 13, true)
	fits(1, 14, false)
	tree.Add(1, []int64{13}, 1, false)
	fits(2, 7, true)
	fits(2, 8, false)
	tree.Add(2, []int64{7}, 1, false)
	fits(1, 1, false)
	fits(2, 1, false)
	tree.Add(1, []int64{13}, -1, false)
	fits(2, 13, true)

	// A queue whose guarantee is 0 may borrow; cohorts have quota of their own and
	// make trees.
	deep := must(t, []int64{30}, []Node{
		{Name: "root", Parent: None},
		{Name: "a", Guaranteed: []int64{20}, Limit: []int64{25}, Weight: 1},
		{Name: "b", Guaranteed: []int64{10}, Weight: 1},
		{Name: "a/1", Parent: 1, Guaranteed: []int64{5}, Weight: 1},
		{Name: "a/2", Parent: 1, Weight: 1},
		{Name: "b/1", Parent: 2, Guaranteed: []int64{10}, Weight: 1},
	})
	if room, by := deep.Room(4, 0); room != 25 || by != 1 {
		t.Errorf("a/2 has room for %d by %d, not for 25 by a's limit", room, by)
	}
	if ok, short := deep.Ever(4, []int64{26}, 1); ok || short.Node != 1 {
		t.Errorf("26 would fit a/2: %v, short of %+v", ok, short)
	}
}

func TestEverCountsWhatOthersNeverLend(t *testing.T) {
	t.Parallel()
	tree := cohort(t)
	tree.nodes[2].Lend = []int64{3}
	tree.SetCapacity(tree.capacity)
	if ok, _ := tree.Ever(1, []int64{13}, 1); !ok {
		t.Error("13 would never fit, though 3 are lent")
	}
	if ok, short := tree.Ever(1, []int64{14}, 1); ok || short.Short != 1 {
		t.Errorf("14 would fit (%+v), though 7 of 20 are never lent", short)
	}
	if ok, _ := tree.Ever(2, []int64{20}, 1); !ok {
		t.Error("what a queue keeps to itself is its own")
	}
}

func TestRoomIsWhatFitsInAnyOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		amount := func(what string) []int64 { return []int64{rapid.Int64Range(-1, 20).Draw(t, what)} }
		nodes := []Node{{Parent: None}}
		for i := 1; i < rapid.IntRange(3, 9).Draw(t, "nodes"); i++ {
			nodes = append(nodes, Node{Parent: rapid.IntRange(0, i-1).Draw(t, "parent"), Guaranteed: amount("guarantee"), Limit: amount("limit"), Lend: amount("lend"), Weight: 1})
		}
		tree := must(t, []int64{40}, nodes)
		before := rapidState(tree)
		var undo []func()
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			leaf := rapid.IntRange(1, len(nodes)-1).Draw(t, "leaf")
			if !tree.Leaf(leaf) {
				continue
			}
			room, by := tree.Room(leaf, 0)
			if ok, _ := tree.Fits(leaf, []int64{1}, max(room, 0)+1); ok {
				t.Fatalf("%d more than the room of %d fit", max(room, 0)+1, room)
			}
			if room <= 0 {
				continue
			}
			take := rapid.Int64Range(1, room).Draw(t, "take")
			tree.Add(leaf, []int64{take}, 1, false)
			undo = append(undo, func() { tree.Add(leaf, []int64{take}, -1, false) })
			if after, _ := tree.Room(leaf, 0); tree.keptBelow(0, 0) <= 40 && after != room-take {
				t.Fatalf("%d of a room of %d by %d left %d", take, room, by, after)
			}
			for n := range nodes {
				if l := at(nodes[n].Limit, 0, Unlimited); l != Unlimited && tree.used[n][0] > l {
					t.Fatalf("node %d uses %d, above its limit of %d", n, tree.used[n][0], l)
				}
			}
			if tree.keptBelow(0, 0) <= 40 && tree.charged[0][0] > 40 {
				t.Fatalf("%d of 40 are promised", tree.charged[0][0])
			}
		}
		for _, u := range undo {
			u()
		}
		if after := rapidState(tree); after != before {
			t.Fatalf("all given back in another order leaves\n%s, not\n%s", after, before)
		}
	})
}

func rapidState(t *Tree) string {
	var b strings.Builder
	for n := range t.nodes {
		b.WriteString(strings.TrimSpace(strings.Join([]string{string(rune('a' + n)), num(t.used[n][0]), num(t.charged[n][0])}, " ")) + "\n")
	}
	return b.String()
}

func num(v int64) string { return time.Duration(v).String() }

func TestBadTreesAreRefused(t *testing.T) {
	t.Parallel()
	for want, nodes := range map[string][]Node{
		"a tree has a root":                     nil,
		"the first node is the only root":       {{Parent: 0}},
		"a parent comes before its children":    {{Parent: None}, {Parent: 2}, {Parent: 0}},
		"a limit of -2":                         {{Parent: None, Limit: []int64{-2}}},
		"a weight of -1":                        {{Parent: None, Weight: -1}},
		"of 2 resources, where the cloud has 1": {{Parent: None, Guaranteed: []int64{1, 2}}},
	} {
		if _, err := New(nodes, []int64{1}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, not %q", nodes, err, want)
		}
	}
}
