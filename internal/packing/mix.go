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

	index  map[Request]int
	counts []float64
	kinds  []Request
	next   float64 // what the next one counts; counts grow instead of shrinking
}

// Add counts a request.
func (m *Mix) Add(r Request) {
	if m.index == nil {
		m.index, m.next = map[Request]int{}, 1
	}
	i, ok := m.index[r]
	if !ok {
		i = len(m.kinds)
		m.index[r] = i
		m.kinds, m.counts = append(m.kinds, r), append(m.counts, 0)
	}
	m.counts[i] += m.next
	if m.HalfLife > 0 {
		if m.next *= math.Exp2(1 / m.HalfLife); m.next > 1e100 {
			for i := range m.counts {
				m.counts[i] /= m.next
			}
			m.next = 1
		}
	}
}

// Shares is the mix now, the most frequent first. What is all but forgotten is
// left out.
func (m *Mix) Shares() []Share {
	total := 0.0
	for _, c := range m.counts {
		total += c
	}
	out := make([]Share, 0, len(m.kinds))
	for i, r := range m.kinds {
		if w := m.counts[i] / total; w > 1e-9 {
			out = append(out, Share{r, w})
		}
	}
	slices.SortFunc(out, byWeight)
	return out
}
