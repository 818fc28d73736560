package packing

import "slices"

// Weights say what a place costs beside the work that it leaves room for.
type Weights struct {
	Count    float64 // for parts of cards: of room counted in requests with their vCPU, against room by the card
	Whole    float64 // the same for whole cards
	Pack     float64 // of what is left free on the node
	PackCPU  float64 // the part of that which is vCPU; the rest is cards
	Scarcity float64 // of a whole card of a model that twice as much is asked for as of the average
	Cover    float64 // the most frequent requests that make up so much of the mix are looked at
}

// Default weights, chosen on seeds that no check uses.
var Default = Weights{Count: 0.27, Whole: 0.1, Pack: 70, PackCPU: 0.35, Scarcity: 200, Cover: 0.92}

// Fit is Tenon's scorer.
type Fit struct {
	weights  Weights
	groups   []group
	room     []room // of each group, scratch
	levels   [MaxCards]level
	scarcity [64]float64
	cpu      float64 // of a thousandth of a vCPU left free
	card     float64 // of a thousandth of a card left free
}

// group is the wants that differ by vCPU and memory only.
type group struct {
	milli  int16
	cards  uint8
	models uint64
	least  int32 // vCPU that any of them needs
	wants  []want
}

// want is one kind of request of a group, by vCPU.
type want struct {
	cpu, memory     int32
	perCPU          float64 // 1/cpu
	perMemory       float64
	byCard, byCount float64 // its weight on either kind of room
}

// room is what a node's cards have for a group.
type room struct {
	free  int32 // thousandths, on cards that take one
	count int32 // so many fit, cards alone
	fit   int32 // cards that take one
}

// add counts so many cards that have so much free.
func (r *room) add(g *group, free int16, cards int32) {
	if free >= g.milli {
		r.free += cards * int32(free)
		r.fit += cards
		r.count += cards * int32(free/g.milli)
	}
}

// level is the cards of a node that have equally much free.
type level struct {
	free  int16
	card  int16 // the first of them
	cards int32
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
			f.groups = append(f.groups, group{milli: r.Milli, cards: r.Cards, models: r.Models})
		}
		byCount := f.weights.Whole
		if r.Shared() {
			byCount = f.weights.Count
		}
		f.groups[i].wants = append(f.groups[i].wants, want{cpu: r.CPUMilli, memory: r.MemoryMiB,
			perCPU: 1 / float64(max(r.CPUMilli, 1)), perMemory: 1 / float64(max(r.MemoryMiB, 1)),
			byCard: s.Weight * (1 - byCount), byCount: s.Weight * byCount * float64(r.Demand())})
	}
	for i := range f.groups {
		g := &f.groups[i]
		slices.SortFunc(g.wants, func(a, b want) int { return int(a.cpu) - int(b.cpu) })
		g.least = g.wants[0].cpu
	}
	f.room = make([]room, len(f.groups))
}

// level sorts the node's cards by what they have free; full ones are left out.
func (f *Fit) level(n *Node) []level {
	used := 0
next:
	for c, free := range n.Free[:n.Cards] {
		if free == 0 {
			continue
		}
		for i := range used {
			if f.levels[i].free == free {
				f.levels[i].cards++
				continue next
			}
		}
		f.levels[used] = level{free, int16(c), 1}
		used++
	}
	return f.levels[:used]
}

// measure finds the room that the cards have for each group.
func (f *Fit) measure(levels []level, model uint8, cpu int32) {
	for i := range f.groups {
		g := &f.groups[i]
		r := room{}
		if g.least <= cpu && (g.models == 0 || g.models>>model&1 != 0) {
			for k := range levels {
				r.add(g, levels[k].free, levels[k].cards)
			}
		}
		f.room[i] = r
	}
}

// worth is what the wants of a group could have of its room.
func (g *group) worth(r room, cpu, memory int32) float64 {
	if r.fit < int32(g.cards) {
		return 0
	}
	count, free := float64(r.count), float64(r.free)
	if g.cards > 1 {
		count = float64(r.count / int32(g.cards))
	}
	vcpu, mem := float64(cpu), float64(memory)
	sum := 0.0
	for i := range g.wants {
		w := &g.wants[i]
		if w.cpu > cpu {
			break
		}
		if w.memory > memory {
			continue
		}
		k := count
		if by := vcpu * w.perCPU; by < k {
			k = by
		}
		if by := mem * w.perMemory; by < k {
			k = by
		}
		sum += w.byCard*free + w.byCount*k
	}
	return sum
}

func (f *Fit) value(levels []level, model uint8, cpu, memory int32) float64 {
	f.measure(levels, model, cpu)
	sum := 0.0
	for i := range f.groups {
		if f.room[i].fit > 0 {
			sum += f.groups[i].worth(f.room[i], cpu, memory)
		}
	}
	return sum
}

// Value is what the requests of the mix could have of the node, in thousandths of
// cards, by how often they come.
func (f *Fit) Value(n *Node) float64 {
	return f.value(f.level(n), n.Model, n.CPUMilli, n.MemoryMiB)
}

// Unused is what so much vCPU left free costs.
func (f *Fit) Unused(cpuMilli int32) float64 { return f.cpu * float64(cpuMilli) }

// Score is what the place leaves, less what it leaves unused and its scarcity.
func (f *Fit) Score(n *Node, value float64, r *Request) (float32, int, bool) {
	cpu, memory := n.CPUMilli-r.CPUMilli, n.MemoryMiB-r.MemoryMiB
	cost := value + f.cpu*float64(cpu) + f.card*float64(n.Idle()-r.Demand()) + f.scarcity[n.Model]*float64(r.Demand())
	levels := f.level(n)
	if !r.Shared() {
		for i := range levels {
			if r.Cards > 0 && levels[i].free == Milli {
				levels[i].cards -= int32(r.Cards)
			}
		}
		return float32(f.value(levels, n.Model, cpu, memory) - cost), -1, true
	}
	f.measure(levels, n.Model, cpu)
	best, score := -1, 0.0
	for _, l := range levels {
		if l.free < r.Milli {
			continue
		}
		s := 0.0
		for i := range f.groups {
			g, room := &f.groups[i], f.room[i]
			if room.fit > 0 {
				room.add(g, l.free, -1)
				room.add(g, l.free-r.Milli, 1)
				s += g.worth(room, cpu, memory)
			}
		}
		if best < 0 || s > score {
			best, score = int(l.card), s
		}
	}
	return float32(score - cost), best, true
}
