package fake

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/tenon-cloud/tenon/internal/hypervisor"
)

const (
	stepEvery = 10 * time.Second // of the work that a guest pretends to do
	stepsKept = 2000
)

// written is a guest's log: what happened to it, and, with a Pace, the steps of
// the work that it pretends to do. Nothing is kept of those: they follow from the
// time. mu is held.
func (e *Engine) written(g *guest) []string {
	if e.opts.Pace == nil || g.StartedAt.IsZero() || len(g.lines) == 0 {
		return g.lines
	}
	until := time.Now()
	if g.State != hypervisor.Running {
		until = g.ExitedAt
	}
	steps := min(int(until.Sub(g.StartedAt)/stepEvery), stepsKept)
	out := append(make([]string, 0, len(g.lines)+steps), g.lines[0])
	for i := range steps {
		loss := 0.4 + 3.1*math.Exp(-float64(i)/60) + float64(e.opts.Pace.between(0, time.Second, g.ID, i))/float64(20*time.Second)
		out = append(out, fmt.Sprintf("simulated: step %d, loss %.3f, %d samples/s", i+1, loss, 800+e.opts.Pace.between(0, 400, g.ID, "rate", i)))
	}
	return append(out, g.lines[1:]...)
}

// Stats invents counters that grow with the guest's age and, with a Pace, swing
// like a busy machine's.
func (e *Engine) Stats(_ context.Context, id string) (hypervisor.Stats, error) {
	g, err := e.running(id)
	if err != nil {
		return hypervisor.Stats{}, err
	}
	age := time.Since(g.StartedAt).Seconds()
	if e.opts.Pace == nil {
		return hypervisor.Stats{
			CPUNanoseconds: int64(age * 1e9 / 4), MemoryBytes: 64<<20 + int64(age)%32<<20, Pids: 3,
			NetRxBytes: int64(age) * 1000, NetTxBytes: int64(age) * 400, DiskBytes: 8 << 20,
		}, nil
	}
	cpus, memory := float64(max(g.vcpu, 1)), float64(max(g.memory, 64))
	// The integral of 0.5 + 0.3 sin(t/47) + 0.1 sin(t/7), so that it only grows.
	cpu := cpus * (0.5*age + 0.3*47*(1-math.Cos(age/47)) + 0.1*7*(1-math.Cos(age/7)))
	used := memory * (0.12 + 0.55*(1-math.Exp(-age/180)) + 0.03*math.Sin(age/31))
	return hypervisor.Stats{
		CPUNanoseconds: int64(cpu * 1e9), MemoryBytes: int64(used * (1 << 20)), Pids: 3 + int64(2*cpus),
		NetRxBytes: int64(age * 180_000), NetTxBytes: int64(age * 45_000), DiskBytes: 8<<20 + int64(age*20_000)%(1<<30),
	}, nil
}
