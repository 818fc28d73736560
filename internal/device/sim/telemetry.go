package sim

import (
	"context"
	"hash/fnv"
	"math"
	"time"

	"github.com/tenon-cloud/tenon/internal/nodewire"
)

// restShare is of a busy card's figures what one at rest shows.
const restShare = 0.01

// Rest says whose cards are at rest from now on: a notebook without a busy kernel
// would otherwise never be idle, since its card is always busy here.
func (b *Board) Rest(owners map[string]bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rest = owners
}

// Telemetry invents figures that move like a busy card's: a function of the
// seed, the time and what is held, so that two readings of one moment agree.
func (b *Board) Telemetry(context.Context) ([]nodewire.GPUSample, map[string]nodewire.Sample, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.cfg.Now()
	type load struct{ busy, memory float64 }
	loads := make([]load, len(b.cards))
	byInstance := map[string]nodewire.Sample{}
	for owner, h := range b.state.Held {
		for _, d := range h.Devices {
			c := b.card(d.GPUUUID)
			share := float64(d.SlotEnd-d.SlotStart) / float64(c.geo.Slots)
			if d.Mode == "whole" {
				share = 1
			}
			busy := b.wave(now, owner, c.index, d.SlotStart)
			memory := share * float64(c.MemoryMiB) * (0.35 + 0.55*b.wave(now.Truncate(time.Minute), owner, "memory"))
			if b.rest[owner] {
				busy *= restShare
				memory *= restShare
			}
			loads[c.index].busy += share * busy
			loads[c.index].memory += memory

			s := byInstance[owner]
			s.At = now
			s.GPUPercent = add(s.GPUPercent, 100*busy/float64(len(h.Devices)))
			s.GPUMemoryMiB = add(s.GPUMemoryMiB, memory)
			s.GPUPowerWatts = add(s.GPUPowerWatts, share*(c.IdleWatts+(c.MaxWatts-c.IdleWatts)*busy))
			byInstance[owner] = s
		}
	}
	cards := make([]nodewire.GPUSample, len(b.cards))
	for i, c := range b.cards {
		idle := 0.02 * b.wave(now, "idle", i)
		busy := math.Min(1, loads[i].busy+idle)
		cards[i] = nodewire.GPUSample{
			UUID: c.uuid, At: now, Simulated: true,
			Percent:      round(100*busy, 1),
			MemoryMiB:    round(loads[i].memory+450, 0),
			PowerWatts:   round(c.IdleWatts+(c.MaxWatts-c.IdleWatts)*busy, 1),
			TemperatureC: round(31+44*busy+2*b.wave(now, "fan", i), 1),
		}
	}
	for owner, h := range b.state.Held {
		s := byInstance[owner]
		hottest := 0.0
		for _, d := range h.Devices {
			hottest = math.Max(hottest, cards[b.card(d.GPUUUID).index].TemperatureC)
		}
		s.GPUTemperatureC = &hottest
		for _, p := range []*float64{s.GPUPercent, s.GPUMemoryMiB, s.GPUPowerWatts} {
			*p = round(*p, 1)
		}
		byInstance[owner] = s
	}
	return cards, byInstance, nil
}

// wave moves between 0.35 and 1 in slow and quick swings that differ by words.
func (b *Board) wave(at time.Time, words ...any) float64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(b.uuid(words...)))
	phase := float64(h.Sum64()%1000) / 1000 * 2 * math.Pi
	t := float64(at.UnixMilli()%86_400_000) / 1000
	v := 0.5*math.Sin(2*math.Pi*t/97+phase) + 0.3*math.Sin(2*math.Pi*t/31+2*phase) + 0.2*math.Sin(2*math.Pi*t/11+3*phase)
	return 0.675 + 0.325*v
}

func add(p *float64, v float64) *float64 {
	if p != nil {
		v += *p
	}
	return &v
}

func round(v float64, digits int) float64 {
	k := math.Pow10(digits)
	return math.Round(v*k) / k
}
