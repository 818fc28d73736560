package simulate

import (
	"container/heap"
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand"
	"slices"

	"github.com/tenon-cloud/tenon/internal/gpu"
	"github.com/tenon-cloud/tenon/internal/packing"
)

// MIGPolicies that a MIG experiment knows, the first being Tenon's own. The last
// isn't one: it is a single pool of slots in which everything fits together, which
// no policy that takes whatever fits gets much beyond.
var MIGPolicies = []string{"tenon", "frag-gradient", "best-fit", "first-fit", "random", "pool"}

// migClasses are the profiles that are asked for.
var migClasses = []string{"1g", "1g2", "2g", "3g", "4g", "7g"}

// Mixes say how often each of migClasses comes.
var Mixes = map[string][]float64{
	"uniform":     {1, 1, 1, 1, 1, 1},
	"large-heavy": {0.10, 0.05, 0.05, 0.20, 0.20, 0.40},
	"bimodal":     {0.35, 0.10, 0.05, 0.05, 0.10, 0.35},
	"small-heavy": {0.35, 0.25, 0.20, 0.10, 0.05, 0.05},
}

// MixNames are the names of Mixes in order.
func MixNames() []string { return slices.Sorted(maps.Keys(Mixes)) }

// MIG is a time-driven experiment on cards of eight memory slots: slices are asked
// for at random moments and stay for exponential times. What has no place is gone:
// nothing waits, and nothing moves.
type MIG struct {
	GPUs     int
	Mix      string
	Load     float64 // slots asked for in the mean, beside those that there are
	Seeds    []int64
	Requests int // of each seed
	Policy   string
	// Moves is how many slices of those that are there may be moved for each request,
	// in the mean, to make room for one that has none. Only Tenon's policy moves.
	Moves    float64
	Progress func(done, all int) // told after each seed; may be nil
}

// MIGReport is what came of it: means over the seeds.
type MIGReport struct {
	Policy         string          `json:"policy"`
	GPUs           int             `json:"gpus"`
	Mix            string          `json:"mix"`
	Load           float64         `json:"load"`
	Accepted       float64         `json:"accepted_percent"`
	AcceptedMemory float64         `json:"accepted_memory_percent"`
	Moves          float64         `json:"moves_per_request,omitempty"`
	PerSeed        []MIGSeedReport `json:"per_seed"`
	Speed
}

// MIGSeedReport is one seed.
type MIGSeedReport struct {
	Seed           int64   `json:"seed"`
	Requests       int     `json:"requests"`
	Accepted       float64 `json:"accepted_percent"`
	AcceptedMemory float64 `json:"accepted_memory_percent"`
	Moves          int     `json:"moves,omitempty"`
}

// Run plays every seed.
func (x *MIG) Run(ctx context.Context) (*MIGReport, error) {
	if err := x.check(); err != nil {
		return nil, err
	}
	out := &MIGReport{Policy: x.Policy, GPUs: x.GPUs, Mix: x.Mix, Load: x.Load}
	var watch stopwatch
	for i, seed := range x.Seeds {
		s, err := x.seed(ctx, seed, &watch)
		if err != nil {
			return nil, err
		}
		out.Accepted += s.Accepted / float64(len(x.Seeds))
		out.AcceptedMemory += s.AcceptedMemory / float64(len(x.Seeds))
		out.Moves += float64(s.Moves) / float64(s.Requests) / float64(len(x.Seeds))
		s.Accepted, s.AcceptedMemory = rounded(s.Accepted), rounded(s.AcceptedMemory)
		out.PerSeed = append(out.PerSeed, s)
		if x.Progress != nil {
			x.Progress(i+1, len(x.Seeds))
		}
	}
	out.Accepted, out.AcceptedMemory = rounded(out.Accepted), rounded(out.AcceptedMemory)
	out.Moves = rounded(out.Moves)
	out.Speed = watch.speed()
	return out, nil
}

func (x *MIG) check() error {
	switch {
	case !slices.Contains(MIGPolicies, x.Policy):
		return fmt.Errorf("policy %q is not one of %v", x.Policy, MIGPolicies)
	case Mixes[x.Mix] == nil:
		return fmt.Errorf("mix %q is not one of %v", x.Mix, MixNames())
	case x.GPUs < 1 || x.GPUs > 1_000_000:
		return fmt.Errorf("there are 1 to 1,000,000 GPUs, not %d", x.GPUs)
	case !(x.Load > 0 && x.Load <= 100):
		return fmt.Errorf("the load is above 0 and at most 100 times what the GPUs have, not %g", x.Load)
	case x.Requests < 1 || x.Requests > 10_000_000:
		return fmt.Errorf("there are 1 to 10,000,000 requests, not %d", x.Requests)
	case !(x.Moves >= 0 && x.Moves <= 1) || x.Moves > 0 && x.Policy != "tenon":
		return fmt.Errorf("moves are 0 to 1 for each request, of policy tenon alone, not %g of %s", x.Moves, x.Policy)
	case len(x.Seeds) == 0:
		return fmt.Errorf("no seeds")
	}
	return nil
}

// sliced is what an experiment drives. Profiles are those of the geometry, by
// their number.
type sliced interface {
	Place(profile int) (card, start int)
	Release(card, start int) bool
}

func (x *MIG) seed(ctx context.Context, seed int64, watch *stopwatch) (MIGSeedReport, error) {
	g, err := gpu.GeometryByName(gpu.MIG8)
	if err != nil {
		return MIGSeedReport{}, err
	}
	mix := make([]float64, len(g.Profiles))
	total, mean := 0.0, 0.0
	for i, class := range migClasses {
		p := slices.IndexFunc(g.Profiles, func(p gpu.Profile) bool { return p.Class == class })
		mix[p] = Mixes[x.Mix][i]
		total += mix[p]
	}
	for p := range mix {
		mix[p] /= total
		mean += mix[p] * float64(g.Profiles[p].Slots)
	}
	rng := rand.New(rand.NewSource(seed))
	cards := x.placer(g, mix, rand.New(rand.NewSource(-seed)))
	work := x.requests(g, mix, mean, rng)
	var stay departures
	now, asked, askedSlots, got, gotSlots, moves := 0.0, 0, 0, 0, 0, 0
	watch.start()
	for _, r := range work {
		if asked%1000 == 0 && ctx.Err() != nil {
			return MIGSeedReport{}, ctx.Err()
		}
		now += r.gap
		profile := r.profile
		for len(stay) > 0 && stay[0].at <= now {
			d := heap.Pop(&stay).(departure)
			if !cards.Release(d.card, d.start) {
				return MIGSeedReport{}, fmt.Errorf("seed %d: no slice at %d of card %d to give back", seed, d.start, d.card)
			}
		}
		watch.lap()
		asked++
		card, start := cards.Place(profile)
		if mover, can := cards.(*packing.Slices); can && card < 0 && float64(moves+1) <= x.Moves*float64(asked) {
			var m packing.Moved
			var ok bool
			if card, start, m, ok = mover.PlaceMoving(profile); ok {
				moves++
				stay.moved(m)
			}
		}
		watch.decided()
		askedSlots += g.Profiles[profile].Slots
		if card >= 0 {
			got++
			gotSlots += g.Profiles[profile].Slots
			heap.Push(&stay, departure{now + r.life, card, start})
		}
	}
	watch.stop(got)
	return MIGSeedReport{Seed: seed, Requests: asked, Accepted: 100 * float64(got) / float64(asked), AcceptedMemory: 100 * float64(gotSlots) / float64(askedSlots), Moves: moves}, nil
}

// request is a slice that is asked for so long after the one before, to stay so
// long.
type request struct {
	gap, life float64
	profile   int
}

// requests draws what is asked for. The lifetimes are scaled so that the load is
// just what was asked for: chance would make it a hundredth more or less, which is
// worth more than what policies differ by.
func (x *MIG) requests(g *gpu.Geometry, mix []float64, mean float64, rng *rand.Rand) []request {
	slots := float64(g.Slots * x.GPUs)
	rate := x.Load * slots / mean // in lifetimes
	out := make([]request, x.Requests)
	took, held := 0.0, 0.0
	for i := range out {
		out[i] = request{rng.ExpFloat64() / rate, rng.ExpFloat64(), draw(mix, rng.Float64())}
		took += out[i].gap
		held += out[i].life * float64(g.Profiles[out[i].profile].Slots)
	}
	for i := range out {
		out[i].life *= x.Load * slots * took / held
	}
	return out
}

// draw is the profile that a number from 0 to 1 stands for.
func draw(mix []float64, at float64) int {
	last := 0
	for p, w := range mix {
		if w == 0 {
			continue
		}
		if last = p; at < w {
			return p
		}
		at -= w
	}
	return last
}

func rounded(v float64) float64 { return math.Round(v*1e4) / 1e4 }

type departure struct {
	at          float64
	card, start int
}

type departures []departure

func (d departures) Len() int           { return len(d) }
func (d departures) Less(i, j int) bool { return d[i].at < d[j].at }
func (d departures) Swap(i, j int)      { d[i], d[j] = d[j], d[i] }
func (d *departures) Push(x any)        { *d = append(*d, x.(departure)) }
func (d *departures) Pop() any {
	old := *d
	last := old[len(old)-1]
	*d = old[:len(old)-1]
	return last
}

// moved notes where a slice lies now.
func (d departures) moved(m packing.Moved) {
	for i := range d {
		if d[i].card == m.Card && d[i].start == m.Start {
			d[i].card, d[i].start = m.ToCard, m.ToStart
			return
		}
	}
}

func (x *MIG) placer(g *gpu.Geometry, mix []float64, rng *rand.Rand) sliced {
	if x.Policy == "tenon" && x.Moves == 0 {
		return newMIGBoard(g, x.GPUs, mix)
	}
	if x.Policy == "tenon" { // what moves is not on a host yet
		return packing.NewSlices(g, x.GPUs, mix)
	}
	if x.Policy == "pool" {
		return &pool{geometry: g, free: g.Slots * x.GPUs}
	}
	c := &cards{geometry: g, used: make([]gpu.Used, x.GPUs), held: make([][8]int8, x.GPUs), policy: x.Policy, rng: rng}
	for _, p := range g.Profiles {
		cut, _ := g.Cut(p.Class)
		c.cuts = append(c.cuts, cut)
	}
	for mask := range c.fragments {
		u := gpu.Used{Mask: uint32(mask)}
		for p := range c.cuts {
			c.fragments[mask] += mix[p] * float64(g.Free(u)-c.cuts[p].More(u)*c.cuts[p].Profile.Slots)
		}
	}
	return c
}

// cards are what the other policies place on.
type cards struct {
	geometry  *gpu.Geometry
	cuts      []gpu.Cut
	used      []gpu.Used
	held      [][8]int8 // profile's number from 1, by start
	fragments [256]float64
	policy    string
	rng       *rand.Rand
}

func (c *cards) Place(profile int) (card, start int) {
	cut := &c.cuts[profile]
	card, start = -1, -1
	best, fits := 0.0, 0
	for i, u := range c.used {
		for _, s := range cut.Profile.Starts {
			if !cut.FreeAt(u, s) {
				continue
			}
			cost := 0.0
			switch c.policy {
			case "best-fit":
				cost = float64(c.geometry.Free(u))
			case "frag-gradient":
				cost = c.fragments[uint8(cut.Take(u, s).Mask)] - c.fragments[uint8(u.Mask)] + 1e-6*float64(c.geometry.Free(u))
			case "random": // each start of each card as likely as the others
				if fits++; c.rng.Intn(fits) == 0 {
					card, start = i, s
				}
				continue
			}
			if card < 0 || cost < best {
				card, start, best = i, s, cost
			}
		}
		if c.policy == "first-fit" && card >= 0 {
			break
		}
	}
	if card >= 0 {
		c.used[card] = cut.Take(c.used[card], start)
		c.held[card][start] = int8(profile + 1)
	}
	return card, start
}

func (c *cards) Release(card, start int) bool {
	if c.held[card][start] == 0 {
		return false
	}
	p := &c.cuts[c.held[card][start]-1].Profile
	u := &c.used[card]
	u.Mask &^= gpu.SlotMask(p.At(start))
	u.Compute -= uint8(p.Compute)
	u.Media = u.Media && !p.Media
	c.held[card][start] = 0
	return true
}

// pool is all slots without the cards around them. What it calls a start is the
// size.
type pool struct {
	geometry *gpu.Geometry
	free     int
}

func (p *pool) Place(profile int) (card, start int) {
	size := p.geometry.Profiles[profile].Slots
	if size > p.free {
		return -1, -1
	}
	p.free -= size
	return 0, size
}

func (p *pool) Release(_, size int) bool {
	p.free += size
	return true
}
