package simulate

import (
	"cmp"
	"math"
	"slices"

	"github.com/tenon-cloud/tenon/internal/packing"
)

// typical are the most frequent requests without their memory, as FGD counts
// them: until they cover so much of all.
func typical(pods []packing.Request, cover float64) []packing.Share {
	count := map[packing.Request]int{}
	for _, p := range pods {
		p.MemoryMiB = 0
		count[p]++
	}
	var out []packing.Share
	for r, n := range count {
		out = append(out, packing.Share{Request: r, Weight: float64(n) / float64(len(pods))})
	}
	slices.SortFunc(out, func(a, b packing.Share) int {
		return cmp.Or(cmp.Compare(b.Weight, a.Weight), cmp.Compare(a.Request.CPUMilli, b.Request.CPUMilli), cmp.Compare(a.Request.Cards, b.Request.Cards),
			cmp.Compare(a.Request.Milli, b.Request.Milli), cmp.Compare(a.Request.Models, b.Request.Models))
	})
	sum, n := 0.0, 0
	for n < len(out) && sum < cover {
		sum += out[n].Weight
		n++
	}
	out = out[:n]
	for i := range out {
		out[i].Weight /= sum
	}
	return out
}

// fgd is the published policy: the fall in fragmentation over the typical
// requests, in a hundred steps; ties go to the first node.
type fgd struct{ typical []packing.Share }

func newFGD(pods []packing.Request) packing.Scorer { return &fgd{typical(pods, 0.95)} }

// fragmentation is what is idle and the typical requests can't use.
func (f *fgd) fragmentation(n *packing.Node) float64 {
	idle := float64(n.Idle())
	if idle == 0 {
		return 0
	}
	sum := 0.0
	for i := range f.typical {
		t := &f.typical[i].Request
		lost := idle
		if t.Cards > 0 && n.CPUMilli >= t.CPUMilli && t.Takes(n.Model) {
			var usable int64
			fit := uint8(0)
			for _, free := range n.Free[:n.Cards] {
				if free >= t.Milli {
					usable += int64(free)
					fit++
				}
			}
			if fit >= t.Cards {
				lost -= float64(usable)
			}
		}
		sum += f.typical[i].Weight * lost
	}
	return sum
}

// Value is the fragmentation.
func (f *fgd) Value(n *packing.Node) float64 { return f.fragmentation(n) }

func (f *fgd) Score(n *packing.Node, before float64, r *packing.Request) (float32, int, bool) {
	quantised := func(card int) float32 {
		after := *n
		after.Take(r, card)
		return float32(int(100 / (1 + math.Exp((f.fragmentation(&after)-before)/1000))))
	}
	if !r.Shared() {
		return quantised(-1), -1, true
	}
	best, score := -1, float32(0)
	for c, free := range n.Free[:n.Cards] {
		if free >= r.Milli {
			if s := quantised(c); best < 0 || s > score {
				best, score = c, s
			}
		}
	}
	return score, best, true
}

// bestFit leaves least of vCPU and GPUs, each beside the largest node's.
type bestFit struct{ cpu, cards float64 }

func newBestFit(nodes []packing.Node) packing.Scorer {
	b := &bestFit{1, 1}
	for i := range nodes {
		b.cpu, b.cards = max(b.cpu, float64(nodes[i].CPUMilli)), max(b.cards, float64(nodes[i].Cards)*packing.Milli)
	}
	return b
}

func (b *bestFit) Value(*packing.Node) float64 { return 0 }

func (b *bestFit) Score(n *packing.Node, _ float64, r *packing.Request) (float32, int, bool) {
	left := 0.5*float64(n.CPUMilli-r.CPUMilli)/b.cpu + 0.5*float64(n.Idle()-r.Demand())/b.cards
	return float32(int(100 * (1 - left))), tightest(n, r), true
}

// tightest is the card that has least left of those that the request fits on.
func tightest(n *packing.Node, r *packing.Request) int {
	best := -1
	if r.Shared() {
		for c, free := range n.Free[:n.Cards] {
			if free >= r.Milli && (best < 0 || free < n.Free[best]) {
				best = c
			}
		}
	}
	return best
}
