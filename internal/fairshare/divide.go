package fairshare

import (
	"cmp"
	"math"
	"slices"
)

// Ask is what one of several siblings should have of a resource, as the division
// sees it. Amounts are in the units that are handed out whole.
type Ask struct {
	Deserved  int64 // Unlimited: all that it requests
	Requested int64
	Limit     int64 // Unlimited: none
	Weight    float64
	Rank      int
}

// Divide says who should have how much of a total (K1). First everybody gets what
// it deserves and requests; if that is too much, in proportion to what they
// deserve. What is left goes rank by rank, the highest first, in proportion to the
// weights of those who still want some, in rounds of whole units; the units that
// are left over at last go to the largest remainders, then to the first.
//
// Nobody gets more than it requests, or than its limit.
func Divide(total int64, asks []Ask) []int64 {
	out, want := make([]int64, len(asks)), make([]int64, len(asks))
	weight := make([]float64, len(asks))
	var right int64
	for i, a := range asks {
		want[i] = max(0, a.Requested)
		if a.Limit != Unlimited {
			want[i] = min(want[i], a.Limit)
		}
		if a.Deserved != Unlimited {
			out[i] = min(want[i], a.Deserved)
		} else {
			out[i] = want[i]
		}
		right += out[i]
		weight[i] = float64(out[i])
	}
	if total = max(0, total); right > total {
		rights := slices.Clone(out)
		clear(out)
		rounds(total, rights, weight, out)
		return out
	}
	total -= right
	ranks := make([]int, 0, len(asks))
	for i, a := range asks {
		ranks = append(ranks, a.Rank)
		weight[i] = a.Weight
	}
	slices.SortFunc(ranks, func(a, b int) int { return cmp.Compare(b, a) })
	for _, rank := range slices.Compact(ranks) {
		in := make([]int64, len(asks))
		for i, a := range asks {
			if in[i] = out[i]; a.Rank == rank {
				in[i] = want[i]
			}
		}
		total = rounds(total, in, weight, out)
	}
	return out
}

// rounds hands out a total until everybody with a weight has what it wants, and
// gives back what is left.
func rounds(total int64, want []int64, weight []float64, out []int64) int64 {
	part := make([]float64, len(want))
	for total > 0 {
		sum := 0.0
		for i := range want {
			if out[i] < want[i] {
				sum += weight[i]
			}
		}
		if sum == 0 {
			return total
		}
		var given int64
		var open []int
		full := false
		for i := range want {
			if out[i] >= want[i] || weight[i] == 0 {
				continue
			}
			part[i] = float64(total) * weight[i] / sum
			whole := min(int64(math.Floor(part[i])), want[i]-out[i], total-given)
			out[i] += whole
			given += whole
			part[i] -= math.Floor(part[i])
			if out[i] < want[i] {
				open = append(open, i)
			} else {
				full = true
			}
		}
		if total -= given; full {
			continue
		}
		slices.SortStableFunc(open, func(a, b int) int { return cmp.Compare(part[b], part[a]) })
		for _, i := range open {
			if total > 0 {
				out[i]++
				total--
			}
		}
	}
	return total
}

// Divide says what every node should have of a resource when each leaf requests
// so much (K2): children divide what their parent has. What the division gives to
// an inner node is what its leaves can use. Units are so many of the resource's
// amounts; what doesn't make a whole unit is not given.
func (t *Tree) Divide(r int, requested []int64, unit int64) []int64 {
	want, out := make([]int64, len(t.nodes)), make([]int64, len(t.nodes))
	for n := len(t.nodes) - 1; n >= 0; n-- {
		if t.Leaf(n) {
			want[n] = requested[n] / unit
		}
		if l := t.limit(n, r); l != math.MaxInt64 {
			want[n] = min(want[n], l/unit)
		}
		if n > 0 {
			want[t.nodes[n].Parent] += want[n]
		}
	}
	out[0] = min(want[0], t.capacity[r]/unit)
	for n := range t.nodes {
		asks := make([]Ask, 0, len(t.children[n]))
		for _, c := range t.children[n] {
			deserved := Unlimited
			if g := t.guaranteed(c, r); g != math.MaxInt64 {
				deserved = g / unit
			}
			asks = append(asks, Ask{Deserved: deserved, Requested: want[c], Limit: Unlimited, Weight: t.weight[c], Rank: t.nodes[c].Rank})
		}
		for i, share := range Divide(out[n], asks) {
			out[t.children[n][i]] = share
		}
	}
	for n := range out {
		out[n] *= unit
	}
	return out
}
