package placement

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"
)

// topology is how a node's cards are joined.
type topology struct {
	links []uint64 // by card: the cards joined to it; only the first 64 can be
	numa  []int
	plain bool // no links, and all on one NUMA node or on none that is known
	known map[ask]chosen
}

// ask is so many of these cards; chosen is the answer, which is kept.
type ask struct {
	free  uint64
	count int
}

type chosen struct {
	set  []int
	cost cost
}

// cost of a set of cards, each field more important than the next.
type cost struct {
	unlinked int // pairs inside the set without NVLink
	numa     int // NUMA nodes it spans; a card whose node is unknown counts as one of its own
	broken   int // links from the set to cards that stay free
}

func (c cost) less(o cost) bool {
	if c.unlinked != o.unlinked {
		return c.unlinked < o.unlinked
	}
	if c.numa != o.numa {
		return c.numa < o.numa
	}
	return c.broken < o.broken
}

func newTopology(cards []card) *topology {
	t := &topology{links: make([]uint64, len(cards)), numa: make([]int, len(cards)), plain: true, known: map[ask]chosen{}}
	at := make(map[string]int, len(cards))
	for i, c := range cards {
		at[c.src.PCIAddress] = i
		t.numa[i] = c.src.NUMANode
	}
	for i, c := range cards {
		for _, address := range c.src.NVLink {
			if j, ok := at[address]; ok && j != i && i < 64 && j < 64 {
				t.links[i] |= 1 << j // either side's word is enough
				t.links[j] |= 1 << i
				t.plain = false
			}
		}
		t.plain = t.plain && t.numa[i] == t.numa[0]
	}
	return t
}

// choose picks count of the free cards (sorted) at the least cost; among equals
// the first in order.
func (t *topology) choose(free []int, count int) ([]int, cost) {
	if t.plain {
		numa := min(1, count)
		if t.numa[0] < 0 {
			numa = count
		}
		return free[:count], cost{unlinked: count * (count - 1) / 2, numa: numa}
	}
	if len(t.links) > 64 {
		return t.search(free, count)
	}
	key := ask{mask(free), count}
	got, ok := t.known[key]
	if !ok {
		got.set, got.cost = t.search(free, count)
		got.set = slices.Clone(got.set)
		t.known[key] = got
	}
	return got.set, got.cost
}

// search tries all sets where they are few; else one is grown from each card.
func (t *topology) search(free []int, count int) ([]int, cost) {
	if count == len(free) {
		return free, t.cost(free, free)
	}
	var best []int
	var least cost
	offer := func(set []int) {
		if c := t.cost(set, free); best == nil || c.less(least) {
			best, least = slices.Clone(set), c
		}
	}
	if combinations(len(free), count) <= 256 {
		set := make([]int, count)
		var walk func(from, have int)
		walk = func(from, have int) {
			if have == count {
				offer(set)
				return
			}
			for i := from; i <= len(free)-(count-have); i++ {
				set[have] = free[i]
				walk(i+1, have+1)
			}
		}
		walk(0, 0)
		return best, least
	}
	for _, seed := range free {
		offer(t.grow(seed, free, count))
	}
	return best, least
}

// grow adds the card that costs least, one at a time.
func (t *topology) grow(seed int, free []int, count int) []int {
	set := []int{seed}
	for len(set) < count {
		next, found := -1, cost{}
		for _, i := range free {
			if slices.Contains(set, i) {
				continue
			}
			if c := t.cost(append(set, i), free); next < 0 || c.less(found) {
				next, found = i, c
			}
		}
		set = append(set, next)
	}
	slices.Sort(set)
	return set
}

func (t *topology) cost(set, free []int) cost {
	var c cost
	inside, outside := mask(set), mask(free)
	outside &^= inside
	linked := 0
	for k, i := range set {
		linked += bits.OnesCount64(t.links[i] & inside)
		c.broken += bits.OnesCount64(t.links[i] & outside)
		if t.numa[i] < 0 || !slices.ContainsFunc(set[:k], func(j int) bool { return t.numa[j] == t.numa[i] }) {
			c.numa++
		}
	}
	c.unlinked = len(set)*(len(set)-1)/2 - linked/2
	return c
}

// words says how the chosen whole cards lie to each other.
func (n *node) words(picks []pick) string {
	if n.topology == nil || len(picks) == 0 || picks[0].start >= 0 {
		return ""
	}
	var set, nodes []int
	for _, p := range picks {
		set = append(set, p.card)
		if at := n.topology.numa[p.card]; at >= 0 && !slices.Contains(nodes, at) {
			nodes = append(nodes, at)
		}
	}
	slices.Sort(nodes)
	var out []string
	links := n.topology.links
	switch {
	case len(set) == 1 && links[set[0]] != 0 && !n.anyFree(links[set[0]]):
		out = append(out, "the GPUs that it has NVLink to are in use")
	case len(set) == 1:
	case n.topology.cost(set, set).unlinked == 0:
		out = append(out, "joined by NVLink")
	case slices.ContainsFunc(links, func(l uint64) bool { return l != 0 }):
		out = append(out, "not all joined by NVLink")
	}
	switch len(nodes) {
	case 0:
	case 1:
		out = append(out, fmt.Sprintf("on NUMA node %d", nodes[0]))
	default:
		out = append(out, fmt.Sprintf("on NUMA nodes %s", strings.Trim(fmt.Sprint(nodes), "[]")))
	}
	return strings.Join(out, ", ")
}

// anyFree reports whether one of some cards is free.
func (n *node) anyFree(of uint64) bool {
	for i := range n.gpus {
		if i < 64 && of&(1<<i) != 0 && n.gpus[i].ready && n.gpus[i].used.Mask == 0 {
			return true
		}
	}
	return false
}

func mask(set []int) uint64 {
	var m uint64
	for _, i := range set {
		if i < 64 {
			m |= 1 << i
		}
	}
	return m
}

// combinations is n over k, cut off at 1,000.
func combinations(n, k int) int {
	k = min(k, n-k)
	out := 1
	for i := 1; i <= k; i++ {
		if out = out * (n - k + i) / i; out > 1000 {
			return 1000
		}
	}
	return out
}
