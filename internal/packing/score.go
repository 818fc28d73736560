package packing

import "slices"

// Weights say what a place costs beside the work that it leaves room for.
type Weights struct {
	Count    float64 // of room counted in whole requests, against room by the card
	Pack     float64 // of what is left free on the node
	PackCPU  float64 // the part of that which is vCPU; the rest is cards
	Scarcity float64 // of a whole card of a model that twice as much is asked for as of the average
	Cover    float64 // the most frequent requests that make up so much of the mix are looked at
}

// Default weights, chosen on seeds that no check uses.
var Default = Weights{Count: 0.3, Pack: 90, PackCPU: 0.4, Scarcity: 200, Cover: 0.95}

// Fit is Tenon's scorer.
type Fit struct {
	weights  Weights
	groups   []group
	wants    []want
	room     []room // of each group, scratch
	scarcity [64]float64
	cpu      float64 // of a thousandth of a vCPU left free
	card     float64 // of a thousandth of a card left free
}

// group is the wants that differ by vCPU and memory only.
type group struct {
	milli  int16
	cards  uint8
	models uint64
	per    float64 // thousandths of one of them
	inv    float64 // 1/cards
	wants  []want  // by vCPU
}

type want struct {
	weight      float64
	cpu, memory int32
	perCPU      float64 // 1/cpu
	perMemory   float64
}

// room is what a node's cards have for a group.
type room struct {
	free  int32 // thousandths, on cards that take one
	count int32 // so many fit, cards alone
	fit   uint8 // cards that take one
}

// NewFit makes the scorer for a cluster, its nodes as they are when empty, and
// the mix that it sees.
func NewFit(nodes []Node, mix []Share, w Weights) *Fit {
	f := &Fit{weights: w}
	cpu, cards := 1.0, 1.0
	for i := range nodes {
		cpu, cards = max(cpu, float64(nodes[i].CPUMilli)), max(cards, float64(nodes[i].Cards)*Milli)
	}
	f.cpu, f.card = w.Pack*w.PackCPU/cpu, w.Pack*(1-w.PackCPU)/cards
	f.price(nodes, mix)
	f.group(frequent(mix, w.Cover))
	return f
}

// price gives each model its scarcity: how much is asked for that its cards could
// serve, beside what the whole cluster could. A request for one of several models
// weighs on all of them.
func (f *Fit) price(nodes []Node, mix []Share) {
	var capacity [64]float64
	var all, asked float64
	for i := range nodes {
		capacity[nodes[i].Model] += float64(nodes[i].Cards) * Milli
		all += float64(nodes[i].Cards) * Milli
	}
	for i := range mix {
		r := &mix[i].Request
		demand := float64(r.Demand()) * mix[i].Weight
		asked += demand
		able := 0.0
		for m, c := range capacity {
			if r.Takes(uint8(m)) {
				able += c
			}
		}
		if able == 0 {
			continue
		}
		for m := range capacity {
			if r.Takes(uint8(m)) {
				f.scarcity[m] += demand / able
			}
		}
	}
	for m := range f.scarcity {
		if asked > 0 {
			f.scarcity[m] *= f.weights.Scarcity * all / asked / Milli
		}
	}
}

func (f *Fit) group(mix []Share) {
	for _, s := range mix {
		r := s.Request
		if r.Cards == 0 {
			continue
		}
		i := slices.IndexFunc(f.groups, func(g group) bool { return g.milli == r.Milli && g.cards == r.Cards && g.models == r.Models })
		if i < 0 {
			i = len(f.groups)
			f.groups = append(f.groups, group{milli: r.Milli, cards: r.Cards, models: r.Models, per: float64(r.Demand()), inv: 1 / float64(r.Cards)})
		}
		f.groups[i].wants = append(f.groups[i].wants, want{weight: s.Weight, cpu: r.CPUMilli, memory: r.MemoryMiB,
			perCPU: 1 / float64(max(r.CPUMilli, 1)), perMemory: 1 / float64(max(r.MemoryMiB, 1))})
	}
	for i := range f.groups {
		slices.SortFunc(f.groups[i].wants, func(a, b want) int { return int(a.cpu) - int(b.cpu) })
	}
	f.room = make([]room, len(f.groups))
}

// measure finds the room that the cards have for each group.
func (f *Fit) measure(n *Node) {
	for i := range f.groups {
		g := &f.groups[i]
		r := room{}
		if g.models == 0 || g.models>>n.Model&1 != 0 {
			for _, free := range n.Free[:n.Cards] {
				if free >= g.milli {
					r.free += int32(free)
					r.fit++
					r.count += int32(free / g.milli)
				}
			}
		}
		f.room[i] = r
	}
}

// worth is what the wants of a group could have of its room.
func (f *Fit) worth(g *group, r room, cpu, memory int32) float64 {
	if r.fit < g.cards {
		return 0
	}
	count := float64(r.count)
	if g.cards > 1 {
		count = float64(r.count / int32(g.cards))
	}
	byCard, byCount := (1-f.weights.Count)*float64(r.free), f.weights.Count*g.per
	sum := 0.0
	for i := range g.wants {
		w := &g.wants[i]
		if w.cpu > cpu {
			break
		}
		if w.memory > memory {
			continue
		}
		sum += w.weight * (byCard + byCount*min(count, float64(cpu)*w.perCPU, float64(memory)*w.perMemory))
	}
	return sum
}

// Value is what the requests of the mix could have of the node, in thousandths of
// cards, by how often they come.
func (f *Fit) Value(n *Node) float64 {
	f.measure(n)
	sum := 0.0
	for i := range f.groups {
		sum += f.worth(&f.groups[i], f.room[i], n.CPUMilli, n.MemoryMiB)
	}
	return sum
}

// Score is what the place leaves, less what it leaves unused and its scarcity.
func (f *Fit) Score(n *Node, value float64, r *Request) (float32, int, bool) {
	cpu, memory := n.CPUMilli-r.CPUMilli, n.MemoryMiB-r.MemoryMiB
	cost := f.cpu*float64(cpu) + f.card*float64(n.Idle()-r.Demand()) + f.scarcity[n.Model]*float64(r.Demand())
	if !r.Shared() {
		after := *n
		after.Take(r, -1)
		return float32(f.Value(&after) - value - cost), -1, true
	}
	f.measure(n)
	best, score := -1, 0.0
	for c, free := range n.Free[:n.Cards] {
		if free < r.Milli || slices.Contains(n.Free[:c], free) {
			continue
		}
		left := free - r.Milli
		s := 0.0
		for i := range f.groups {
			g, room := &f.groups[i], f.room[i]
			if room.fit > 0 {
				if free >= g.milli {
					room.free -= int32(free)
					room.fit--
					room.count -= int32(free / g.milli)
				}
				if left >= g.milli {
					room.free += int32(left)
					room.fit++
					room.count += int32(left / g.milli)
				}
				s += f.worth(g, room, cpu, memory)
			}
		}
		if best < 0 || s > score {
			best, score = c, s
		}
	}
	return float32(score - value - cost), best, true
}
