package packing

import (
	"cmp"
	"math"
	"slices"
)

// Share is a kind of request and how often it comes.
type Share struct {
	Request Request
	Weight  float64 // those of a mix sum to 1
}

// frequent are the most frequent requests that make up so much of a mix, their
// weights summing to 1. Those that differ only by memory are one, with the mean
// of it.
func frequent(mix []Share, cover float64) []Share {
	index := map[Request]int{}
	var out []Share
	var memory []float64
	total := 0.0
	for _, s := range mix {
		key := s.Request
		key.MemoryMiB = 0
		i, ok := index[key]
		if !ok {
			i = len(out)
			index[key] = i
			out, memory = append(out, Share{Request: key}), append(memory, 0)
		}
		out[i].Weight += s.Weight
		memory[i] += s.Weight * float64(s.Request.MemoryMiB)
		total += s.Weight
	}
	for i := range out {
		if out[i].Weight > 0 {
			out[i].Request.MemoryMiB = int32(memory[i] / out[i].Weight)
		}
	}
	slices.SortFunc(out, byWeight)
	sum, n := 0.0, 0
	for n < len(out) && sum < cover*total {
		sum += out[n].Weight
		n++
	}
	out = out[:n]
	for i := range out {
		out[i].Weight /= sum
	}
	return out
}

// byWeight orders the most frequent first, so that no map's order matters.
func byWeight(a, b Share) int {
	return cmp.Or(cmp.Compare(b.Weight, a.Weight), cmp.Compare(a.Request.CPUMilli, b.Request.CPUMilli), cmp.Compare(a.Request.Cards, b.Request.Cards),
		cmp.Compare(a.Request.Milli, b.Request.Milli), cmp.Compare(a.Request.Models, b.Request.Models), cmp.Compare(a.Request.MemoryMiB, b.Request.MemoryMiB))
}

// MixOf counts requests.
func MixOf(requests []Request) []Share {
	var m Mix
	for _, r := range requests {
		m.Add(r)
	}
	return m.Shares()
}

// Mix counts requests as they come, old ones ever less.
type Mix struct {
	// HalfLife is after how many others a request counts half; 0: it always counts.
	HalfLife float64
	counts   Decayed[Request]
}

// Add counts a request.
func (m *Mix) Add(r Request) { m.counts.Add(r, m.HalfLife) }

// Shares is the mix now, the most frequent first. What is all but forgotten is
// left out.
func (m *Mix) Shares() []Share {
	out := []Share{}
	m.counts.Each(func(r Request, w float64) { out = append(out, Share{r, w}) })
	slices.SortFunc(out, byWeight)
	return out
}

// Decayed counts kinds of things as they come.
type Decayed[K comparable] struct {
	index  map[K]int
	kinds  []K
	counts []float64
	next   float64 // what the next one counts; counts grow instead of shrinking
}

// Add counts one. After so many others as the half-life it counts half; 0: it
// always counts.
func (d *Decayed[K]) Add(k K, halfLife float64) {
	if d.index == nil {
		d.index, d.next = map[K]int{}, 1
	}
	i, ok := d.index[k]
	if !ok {
		i = len(d.kinds)
		d.index[k] = i
		d.kinds, d.counts = append(d.kinds, k), append(d.counts, 0)
	}
	d.counts[i] += d.next
	if halfLife > 0 {
		if d.next *= math.Exp2(1 / halfLife); d.next > 1e100 {
			for i := range d.counts {
				d.counts[i] /= d.next
			}
			d.next = 1
		}
	}
}

// Each gives every kind that isn't all but forgotten its part of all, in the order
// in which kinds came first.
func (d *Decayed[K]) Each(fn func(k K, weight float64)) {
	total := 0.0
	for _, c := range d.counts {
		total += c
	}
	for i, k := range d.kinds {
		if w := d.counts[i] / total; w > 1e-9 {
			fn(k, w)
		}
	}
}
