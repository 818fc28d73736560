package agent

import (
	"context"
	"sync"
	"time"

	"github.com/tenon-cloud/tenon/internal/device"
	"github.com/tenon-cloud/tenon/internal/hypervisor"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

// metrics keeps an hour of samples of each running instance.
type metrics struct {
	mu    sync.Mutex
	size  int
	rings map[string]*ring
	cards []nodewire.GPUSample
}

// ring is the samples of one run.
type ring struct {
	epoch   int64
	hour    hour
	lastCPU int64 // nanoseconds
	lastAt  time.Time
}

func (m *metrics) init(size int) { m.size, m.rings = size, map[string]*ring{} }

func (m *metrics) drop(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.rings, id)
}

// add turns a reading into a sample. The share of a CPU needs two readings.
func (m *metrics) add(id string, epoch int64, at time.Time, st hypervisor.Stats, gpu nodewire.Sample) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.rings[id]
	if r == nil || r.epoch != epoch {
		r = &ring{epoch: epoch}
		m.rings[id] = r
	}
	s := gpu
	s.At = at
	s.MemoryMiB = float64(st.MemoryBytes) / (1 << 20)
	s.DiskMiB = float64(st.DiskBytes) / (1 << 20)
	s.NetRxBytes, s.NetTxBytes, s.Pids = st.NetRxBytes, st.NetTxBytes, st.Pids
	if elapsed := at.Sub(r.lastAt); !r.lastAt.IsZero() && elapsed > 0 && st.CPUNanoseconds >= r.lastCPU {
		s.CPUPercent = 100 * float64(st.CPUNanoseconds-r.lastCPU) / float64(elapsed)
	}
	r.lastCPU, r.lastAt = st.CPUNanoseconds, at
	r.hour.add(pack(s), m.size)
}

// list is all that is kept of an instance, oldest first.
func (m *metrics) list(id string) []nodewire.Sample { return m.since(id, time.Time{}) }

// since is what was kept from a moment on.
func (m *metrics) since(id string, from time.Time) []nodewire.Sample {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := []nodewire.Sample{}
	r := m.rings[id]
	if r == nil {
		return out
	}
	r.hour.each(m.size, func(f figure) {
		if from.IsZero() || f[0] >= from.UnixMicro() {
			out = append(out, f.unpack())
		}
	})
	return out
}

// sampleLoop reads counters and cards at a steady interval.
func (a *Agent) sampleLoop(ctx context.Context) {
	tick := time.NewTicker(a.t.Sample)
	defer tick.Stop()
	for {
		if err := a.cfg.Store.Beat(time.Now()); err != nil {
			a.log.Warn("note that the agent lives", "error", err)
		}
		if a.cardsBegun() { // before that they are on their way
			a.takeInventory(ctx)
		}
		a.sample(ctx)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func (a *Agent) sample(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, a.t.Sample)
	defer cancel()
	var gpus map[string]nodewire.Sample
	if a.cfg.Board != nil {
		if b, ok := a.cfg.Board.(device.Inventor); ok {
			b.Rest(a.resting())
		}
		cards, byInstance, err := a.cfg.Board.Telemetry(ctx)
		if err != nil {
			a.log.Debug("read telemetry", "error", err)
		} else {
			gpus = byInstance
			a.metrics.mu.Lock()
			a.metrics.cards = cards
			a.metrics.mu.Unlock()
		}
	}
	s := a.ledger.snapshot()
	running := map[string]int64{}
	a.mu.Lock()
	for id, w := range a.workers {
		w.mu.Lock()
		if w.pub.state == nodewire.GuestRunning {
			running[id] = w.pub.epoch
		}
		w.mu.Unlock()
	}
	a.mu.Unlock()

	var wg sync.WaitGroup
	slots := make(chan struct{}, 8)
	read := func(d hypervisor.Driver, id string) {
		at := time.Now()
		st, err := d.Stats(ctx, id)
		if err != nil {
			a.log.Debug("read counters", "instance", id, "error", err)
			return
		}
		a.metrics.add(id, running[id], at, st, gpus[id])
	}
	for id := range running {
		d := a.driver(s.Records[id].Kind)
		if d == nil {
			continue
		}
		if _, ok := d.(hypervisor.Enclosed); ok {
			read(d, id) // the kernel answers at once: to wake a thread for each costs more than the reading
			continue
		}
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			read(d, id)
		})
	}
	wg.Wait()
}
