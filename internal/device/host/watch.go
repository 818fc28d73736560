package host

import (
	"context"
	"reflect"
	"sync"
	"time"

	"github.com/tenon-cloud/tenon/internal/nodewire"
)

// watchAgain is how long after a failed watch the next begins.
const watchAgain = 10 * time.Second

// Watch listens to the kernel's log and the driver's events until ctx ends, once
// the board was resumed: no fault is told of a card that isn't known, nor is one
// mended beside that.
func (b *Board) Watch(ctx context.Context) {
	select {
	case <-b.resumed:
	case <-ctx.Done():
		return
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		b.again(ctx, "read the kernel's log", func() error {
			return WatchKernelLog(ctx, b.cfg.KernelLog, func(line KernelLine) {
				if s, ok := KernelSignal(line); ok {
					b.hear(s)
				}
			})
		})
	})
	if b.cfg.Driver != nil {
		wg.Go(func() {
			b.again(ctx, "watch the driver", func() error {
				return b.cfg.Driver.Watch(ctx, func(e DriverEvent) {
					b.hear(Signal{Card: e.PCIAddress, At: e.SinceBoot, XID: e.XID, PID: e.PID, GI: e.GI})
				})
			})
		})
		wg.Go(func() { b.mend(ctx) })
	}
	wg.Wait()
}

func (b *Board) again(ctx context.Context, what string, watch func() error) {
	said := false
	for ctx.Err() == nil {
		if err := watch(); err != nil && ctx.Err() == nil && !said {
			b.cfg.Log.Warn(what, "error", err)
			said = true
		}
		select {
		case <-ctx.Done():
		case <-time.After(watchAgain):
		}
	}
}

// hear takes in a signal of a card's health. A card that one instance has whole is
// that instance's; of one that is cut, the driver's number of the slice tells.
func (b *Board) hear(s Signal) {
	state := b.ledger.read()
	if s.UUID = state.Cards[s.Card].UUID; s.UUID == "" {
		return // none of ours: graphics of the host
	}
	if s.Owner == "" {
		s.Owner = b.ownerOfSignal(state, s)
	}
	b.changeHealth(func(h *Health, now time.Duration) {
		if s.At == 0 {
			s.At = now
		}
		h.Hear(s)
	})
}

func (b *Board) ownerOfSignal(state ledgerState, s Signal) string {
	var owners []string
	for id, h := range state.Holds {
		for _, p := range h.Parts {
			if p.Card == s.Card {
				owners = append(owners, id)
			}
		}
	}
	if len(owners) == 1 && s.GI < 0 {
		return owners[0]
	}
	if s.GI < 0 || b.cfg.Driver == nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(context.Background(), writeTakes)
	defer cancel()
	r, err := ReadMIG(ctx, b.cfg.Driver, s.Card)
	if err != nil {
		return ""
	}
	for _, i := range r.Instances {
		if i.ID == s.GI {
			return ownerOf(state.Holds, s.Card, func(p part) bool { return p.Slice != nil && p.Slice.SlotStart == i.Start })
		}
	}
	return ""
}

// changeHealth changes what is known of health, and keeps it if it differs.
func (b *Board) changeHealth(f func(h *Health, now time.Duration)) {
	b.telling.Lock() // until it is kept: an earlier state never replaces a later one
	defer b.telling.Unlock()
	now := b.cfg.SinceBoot()
	b.mu.Lock()
	before := b.health.Save(0)
	f(b.health, now)
	after := b.health.Save(0)
	saved := b.health.Save(now)
	b.mu.Unlock()
	if reflect.DeepEqual(before, after) {
		return
	}
	if err := b.ledger.change(func(s *ledgerState) { s.Health = &saved }); err != nil {
		b.cfg.Log.Warn("keep the cards' health", "error", err)
	}
}

// Incidents implements device.Watcher.
func (b *Board) Incidents() []nodewire.Incident {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.health.Incidents(b.cfg.SinceBoot())
}

// sampleOf sums what the driver measured of an instance's devices. What it didn't
// measure is not known, which is not idle.
func (b *Board) sampleOf(ctx context.Context, h hold, list []DriverSample) (nodewire.Sample, bool) {
	var out nodewire.Sample
	found, known := 0, true
	var percent, memory, power, hottest float64
	for _, p := range h.Parts {
		gi := -1
		if p.Slice != nil {
			if gi = b.instanceAt(ctx, p); gi < 0 {
				continue
			}
		}
		for _, s := range list {
			if s.PCIAddress == p.Card && s.GI == gi && !p.Share {
				found++
				known = known && s.Known
				out.At = s.At
				percent, memory, power, hottest = percent+s.Percent, memory+s.MemoryMiB, power+s.PowerWatts, max(hottest, s.TemperatureC)
			}
		}
	}
	if found == 0 {
		return out, false
	}
	if known {
		percent /= float64(found)
		out.GPUPercent = &percent
	}
	out.GPUMemoryMiB, out.GPUPowerWatts, out.GPUTemperatureC = &memory, &power, &hottest
	return out, true
}

func (b *Board) instanceAt(ctx context.Context, p part) int {
	list, err := b.cfg.Driver.Instances(ctx, p.Card)
	if err != nil {
		return -1
	}
	for _, i := range list {
		if i.Start == p.Slice.SlotStart && i.Start+i.Size == p.Slice.SlotEnd {
			return i.ID
		}
	}
	return -1
}
