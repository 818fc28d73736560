package fairshare

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// Billing turns amounts into one number (S6).
type Billing struct {
	Weights []float64 // by resource; nil: the first resource alone, at 1
	// Most takes the largest weighted resource instead of the sum, beside those that
	// are Global, which are added in any case.
	Most   bool
	Global []bool
}

// Charge is what the amounts count.
func (b *Billing) Charge(amounts []int64) float64 {
	if b.Weights == nil {
		return float64(at(amounts, 0, 0))
	}
	most, sum := 0.0, 0.0
	for r, a := range amounts {
		if r >= len(b.Weights) {
			break
		}
		c := b.Weights[r] * float64(a)
		if b.Most && !(r < len(b.Global) && b.Global[r]) {
			most = max(most, c)
		} else {
			sum += c
		}
	}
	return most + sum
}

// microsPerCharge keeps rates in whole numbers, so that what is added and taken
// away again leaves nothing.
const microsPerCharge = 1e6

// usage is what a node had, old usage counting ever less (S4).
type usage struct {
	sum    float64 // charge times seconds, as of then
	at     time.Duration
	rate   int64   // millionths of a charge that run now
	burden float64 // charged ahead for what has just been started (Q6)
}

// Account says how usage is counted. half: after so long it counts half; 0: always
// all.
func (t *Tree) Account(b Billing, half time.Duration) { t.billing, t.halfLife = b, half }

// faded is what a sum is worth after a while.
func (t *Tree) faded(sum float64, after time.Duration) float64 {
	if t.halfLife <= 0 {
		return sum
	}
	return sum * math.Exp2(-after.Seconds()/t.halfLife.Seconds())
}

// over what time something that runs all along has counted, after a while.
func (t *Tree) window(after time.Duration) float64 {
	if t.halfLife <= 0 {
		return after.Seconds()
	}
	h := t.halfLife.Seconds()
	return h / math.Ln2 * (1 - math.Exp2(-after.Seconds()/h))
}

func (t *Tree) settle(n int, now time.Duration) {
	u := &t.usage[n]
	if after := now - u.at; after > 0 {
		u.sum = t.faded(u.sum, after) + float64(u.rate)/microsPerCharge*t.window(after)
		u.burden = t.faded(u.burden, after)
		u.at = now
	}
}

// Run says that work of so many times the amounts begins to count for a leaf and
// all above, or ends to with a negative number.
func (t *Tree) Run(leaf int, amounts []int64, times int64, now time.Duration) {
	rate := int64(math.Round(t.billing.Charge(amounts)*microsPerCharge)) * times
	for n := leaf; n != None; n = t.nodes[n].Parent {
		t.settle(n, now)
		t.usage[n].rate += rate
	}
}

// Burden charges a leaf and all above for seconds of the amounts ahead of time, so
// that a burst can't win before its usage is there to be seen (Q6). It fades like
// usage, and counts in Had alone.
func (t *Tree) Burden(leaf int, amounts []int64, times int64, ahead, now time.Duration) {
	charge := t.billing.Charge(amounts) * float64(times) * ahead.Seconds()
	for n := leaf; n != None; n = t.nodes[n].Parent {
		t.settle(n, now)
		t.usage[n].burden += charge
	}
}

// Usage is what a node had until now, in charges times seconds. Later usage may
// be asked for; the past may not.
func (t *Tree) Usage(n int, now time.Duration) float64 {
	t.settle(n, now)
	return t.usage[n].sum
}

// SetUsage says what a leaf had until then, on top of what is known of it.
func (t *Tree) SetUsage(leaf int, sum float64, then time.Duration) {
	for n := leaf; n != None; n = t.nodes[n].Parent {
		t.settle(n, then)
		t.usage[n].sum += sum
	}
}

// Had is a node's usage and what it is charged ahead, by its weight (Q6).
func (t *Tree) Had(n int, now time.Duration) float64 {
	t.settle(n, now)
	u := t.usage[n].sum + t.usage[n].burden
	if u == 0 {
		return 0
	}
	return u / t.nodes[n].Weight
}

// Normal is a node's usage as a part of what the whole cloud could have had since:
// 24 GPU-hours of 100 are 0.24.
func (t *Tree) Normal(n int, since, now time.Duration) float64 {
	could := t.billing.Charge(t.capacity) * t.window(now-since)
	if could <= 0 {
		return 0
	}
	return t.Usage(n, now) / could
}

// Weigh corrects the weights by usage (K9): of a node with the part W of its
// siblings' weights and the part U of the cloud lately, the weight becomes
// max(0, W + strength*(W-U)). strength 0, or no usage: the plain proportions. Only
// those that ask count among the siblings. Guarantees and ranks stay as they are.
func (t *Tree) Weigh(strength float64, since, now time.Duration, asks func(n int) bool) {
	for n := range t.nodes {
		sum := 0.0
		for _, c := range t.children[n] {
			if asks == nil || asks(c) {
				sum += t.nodes[c].Weight
			}
		}
		for _, c := range t.children[n] {
			t.weight[c] = t.nodes[c].Weight
			if strength <= 0 || sum == 0 || asks != nil && !asks(c) {
				continue
			}
			part := t.nodes[c].Weight / sum
			t.weight[c] = max(0, part+strength*(part-t.Normal(c, since, now)))
		}
	}
}

// Weight is a node's weight as it was corrected last.
func (t *Tree) Weight(n int) float64 { return t.weight[n] }

// Level is how far a node is behind among its siblings: its part of their weights
// beside its part of their usage (S5). Above 1: it is owed. Without usage, all is.
func (t *Tree) Level(n int, now time.Duration) float64 {
	if n == 0 {
		return 1
	}
	weights, had := 0.0, 0.0
	for _, c := range t.children[t.nodes[n].Parent] {
		weights += t.nodes[c].Weight
		had += t.Usage(c, now)
	}
	mine := t.Usage(n, now)
	if mine == 0 {
		return math.Inf(1)
	}
	return (t.nodes[n].Weight / weights) / (mine / had)
}

// FairTree ranks the leaves (S5): the one that is owed most has 1, the last of n
// 1/n. If a node is owed more than its sibling, so is every leaf of it. Leaves that
// are equal at one level share a rank; inner nodes that are merge their children.
func (t *Tree) FairTree(now time.Duration) map[int]float64 {
	leaves := 0
	for n := range t.nodes {
		if t.Leaf(n) {
			leaves++
		}
	}
	out, ranked := make(map[int]float64, leaves), 0
	var walk func(group []int)
	walk = func(group []int) {
		level := make(map[int]float64, len(group))
		for _, n := range group {
			level[n] = t.Level(n, now)
		}
		group = slices.Clone(group)
		slices.SortStableFunc(group, func(a, b int) int { return cmp.Compare(level[b], level[a]) })
		for len(group) > 0 {
			same := 1
			for same < len(group) && level[group[same]] == level[group[0]] {
				same++
			}
			var below []int
			first := ranked
			for _, n := range group[:same] {
				if t.Leaf(n) {
					out[n] = float64(leaves-first) / float64(leaves)
					ranked++
				} else {
					below = append(below, t.children[n]...)
				}
			}
			if len(below) > 0 {
				walk(below)
			}
			group = group[same:]
		}
	}
	walk([]int{0})
	return out
}
