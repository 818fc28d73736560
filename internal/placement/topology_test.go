package placement

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/tenon-cloud/tenon/internal/cloud"
)

// joined is a node of whole cards: the index of the card that each is linked to
// (-1: none), and which are in use.
func joined(id int, peers []int, used ...int) Node {
	var g []GPU
	for i, peer := range peers {
		c := h100(cloud.ModeWhole)
		if peer >= 0 {
			c.NVLink = []string{address(peer)}
		}
		if slices.Contains(used, i) {
			c.Used.Mask = 0xff
		}
		g = append(g, c)
	}
	return newNode(id, g...)
}

func TestC22AcrossNodes(t *testing.T) {
	t.Parallel()
	pairs, single := []int{1, 0, 3, 2}, []int{-1, -1, -1, -1}
	for _, c := range []struct {
		name  string
		nodes []Node
		count int
		node  int
	}{
		{"one fills the half-used pair of another node", []Node{joined(1, pairs), joined(2, pairs, 0)}, 1, 2},
		{"one goes where no pair is at all", []Node{joined(1, pairs), joined(2, single)}, 1, 2},
		{"two go where there is a pair", []Node{joined(1, single), joined(2, pairs)}, 2, 2},
		{"two go to the whole pair, not to two halves", []Node{joined(1, pairs, 0, 2), joined(2, pairs, 0)}, 2, 2},
		{"four halves are not two pairs", []Node{joined(1, []int{1, 0, 3, 2, 5, 4, 7, 6}, 0, 2, 4, 6), joined(2, pairs)}, 4, 2},
		{"among equals the node that is left with least", []Node{joined(1, pairs), joined(2, pairs, 0, 1)}, 2, 2},
	} {
		for range 2 { // also the other way round
			d := one(t, c.nodes, whole(1, c.count))
			if d.Refusal != nil || d.Members[0].NodeID != nodeID(c.node) {
				t.Errorf("%s: %+v", c.name, d)
			}
			slices.Reverse(c.nodes)
		}
	}
	across, within := joined(1, single), joined(2, single)
	for i := range 4 {
		across.GPUs[i].NUMANode, within.GPUs[i].NUMANode = i, i/2
	}
	if d := one(t, []Node{across, within}, whole(1, 2)); d.Members[0].NodeID != nodeID(2) {
		t.Errorf("two go where they are on one NUMA node: %+v", d)
	}
}

// An island is a set of cards that are all joined to each other.
func TestIslandsAreFilledBeforeFreshOnesAreBroken(t *testing.T) {
	t.Parallel()
	board := func(used ...int) []Node {
		n := joined(1, []int{-1, -1, -1, -1, -1, -1, -1, -1}, used...)
		for i := range n.GPUs {
			for j := range n.GPUs {
				if i != j && i/4 == j/4 {
					n.GPUs[i].NVLink = append(n.GPUs[i].NVLink, address(j))
				}
			}
		}
		return []Node{n}
	}
	for _, c := range []struct {
		used  []int
		count int
		want  []int
	}{
		{nil, 4, []int{0, 1, 2, 3}}, {[]int{0}, 1, []int{1}}, {[]int{5}, 1, []int{4}}, {[]int{5}, 3, []int{4, 6, 7}},
		{[]int{0, 5, 6}, 2, []int{4, 7}}, {[]int{0, 5}, 4, []int{1, 2, 3, 4}},
	} {
		if got := cards(t, one(t, board(c.used...), whole(1, c.count))); !slices.Equal(got, c.want) {
			t.Errorf("%v in use, asked for %d: %v, want %v", c.used, c.count, got, c.want)
		}
	}
}

// What one card of a pair says of the link is enough, whichever it is.
func TestALinkIsToldByEitherSide(t *testing.T) {
	t.Parallel()
	for says, peer := range map[int]int{1: 3, 3: 1} {
		peers := []int{2, -1, 0, -1}
		peers[says] = peer
		if got := cards(t, one(t, []Node{joined(1, peers, 0)}, whole(1, 2))); !slices.Equal(got, []int{1, 3}) {
			t.Errorf("only %d says so: %v", says, got)
		}
		if got := cards(t, one(t, []Node{joined(1, peers, 1)}, whole(1, 1))); !slices.Equal(got, []int{3}) {
			t.Errorf("only %d says so, 1 in use: %v", says, got)
		}
	}
	stranger := joined(1, []int{-1, -1, -1})
	stranger.GPUs[0].NVLink = []string{address(0), "0001:99:00.0"} // itself, and a card that isn't here
	if got := cards(t, one(t, []Node{stranger}, whole(1, 2))); !slices.Equal(got, []int{0, 1}) {
		t.Errorf("links to nobody: %v", got)
	}
}

// A half whose other half is out of service, or cut, is as good as used.
func TestAPairWithAnUnusableHalfIsNotFresh(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*GPU){
		"quarantined": func(g *GPU) { g.State = cloud.GPUQuarantined }, "cut": func(g *GPU) { g.Mode = cloud.ModeMIG }, "changing": func(g *GPU) { g.Changing = true },
	} {
		n := joined(1, []int{1, 0, 3, 2})
		spoil(&n.GPUs[3])
		if got := cards(t, one(t, []Node{n}, whole(1, 1))); !slices.Equal(got, []int{2}) {
			t.Errorf("%s: %v, want 2", name, got)
		}
	}
}

func TestFromNodeKeepsTheTopology(t *testing.T) {
	t.Parallel()
	n := FromNode(cloud.Node{GPUs: []cloud.GPU{{PCIAddress: address(1), NUMANode: 1, NVLink: []string{address(2)}}, {PCIAddress: address(2), NUMANode: -1}}})
	if g := n.GPUs; g[0].PCIAddress != address(1) || g[0].NUMANode != 1 || !slices.Equal(g[0].NVLink, []string{address(2)}) || g[1].NUMANode != -1 {
		t.Errorf("%+v", n.GPUs)
	}
}

// Whatever the pairs and what is in use: as long as a whole pair is free two get
// one, and as long as half of one is free one breaks no fresh pair.
func TestC22WhateverTheBoard(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		order := rapid.Permutation([]int{0, 1, 2, 3, 4, 5, 6, 7}).Draw(rt, "pairs")
		peers, peer := make([]int, 8), map[int]int{}
		for i := 0; i < 8; i += 2 {
			a, b := order[i], order[i+1]
			peers[a], peers[b], peer[a], peer[b] = b, a, b, a
		}
		var used []int
		for i := range 8 {
			if rapid.IntRange(0, 2).Draw(rt, "used") == 0 {
				used = append(used, i)
			}
		}
		n := joined(1, peers, used...)
		for i := range n.GPUs {
			n.GPUs[i].NUMANode = rapid.IntRange(-1, 1).Draw(rt, "numa")
		}
		free := func(i int) bool { return !slices.Contains(used, i) }
		half, fresh := false, false
		for i := range 8 {
			half = half || free(i) && !free(peer[i])
			fresh = fresh || free(i) && free(peer[i])
		}
		pick := func(count int) (out []int) {
			for _, d := range Decide(Snapshot{Nodes: []Node{n}}, []Request{whole(1, count)}, Policy{}).Decisions[0].Members {
				for _, x := range d.Devices {
					out = append(out, int(x.GPUID[3]))
				}
			}
			return out
		}
		if got := pick(2); fresh && peer[got[0]] != got[1] {
			rt.Fatalf("pairs %v, %v in use: two get %v", peers, used, got)
		}
		if got := pick(1); half && free(peer[got[0]]) {
			rt.Fatalf("pairs %v, %v in use: one gets %v of a fresh pair", peers, used, got)
		}
	})
}

func TestAPlaceSaysHowItsCardsLie(t *testing.T) {
	t.Parallel()
	numa := func(n Node, nodes ...int) Node {
		for i := range nodes {
			n.GPUs[i].NUMANode = nodes[i]
		}
		return n
	}
	pairs, single := []int{1, 0, 3, 2}, []int{-1, -1, -1, -1}
	for _, c := range []struct {
		node  Node
		count int
		want  string
	}{
		{numa(joined(1, pairs), 0, 0, 1, 1), 2, "joined by NVLink, on NUMA node 0"},
		{numa(joined(1, pairs, 0), 0, 0, 1, 1), 1, "the GPUs that it has NVLink to are in use, on NUMA node 0"},
		{numa(joined(1, pairs), 0, 0, 1, 1), 1, "on NUMA node 0"},
		{numa(joined(1, pairs), 0, 0, 1, 1), 4, "not all joined by NVLink, on NUMA nodes 0 1"},
		{numa(joined(1, single), 1, -1, -1, -1), 2, "on NUMA node 1"},
		{joined(1, single), 2, ""}, // nothing is known
	} {
		if d := one(t, []Node{c.node}, whole(1, c.count)); d.Refusal != nil || d.Members[0].Topology != c.want {
			t.Errorf("asked for %d: %+v, want %q", c.count, d, c.want)
		}
	}
	if d := one(t, []Node{numa(newNode(1, holding()), 0)}, slice(1, "1g")); d.Members[0].Topology != "" {
		t.Errorf("a slice: %q", d.Members[0].Topology)
	}
}
