package agent

import (
	"context"
	"sync"
	"time"

	"github.com/tenon-cloud/tenon/internal/hypervisor"
)

// leaveWithin bounds the shutdown of all guests of a host that goes down: a little
// more than the longest that any of them gets.
const leaveWithin = 150 * time.Second

// haltGuests shuts down what runs, each in the time that its stop gives it. Their
// runs end with the host, and what is to come back does so after its boot.
func (a *Agent) haltGuests(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, leaveWithin)
	defer cancel()
	s := a.ledger.snapshot()
	type guest struct {
		id     string
		driver hypervisor.Driver
	}
	var running []guest
	for _, d := range a.cfg.Drivers {
		list, err := d.List(ctx)
		if err != nil {
			a.log.Warn("list guests", "driver", d.Name(), "error", err)
			continue
		}
		for _, g := range list {
			if rec, ours := s.Records[g.ID]; ours && rec.End == nil && rec.Epoch == g.Epoch && g.State == hypervisor.Running {
				running = append(running, guest{g.ID, d})
			}
		}
	}
	if len(running) == 0 {
		return
	}
	a.log.Info("the host goes down: guests are shut down", "guests", len(running))
	err := a.ledger.update(func(s *state) error { // before the first ends: that it ended would look like its own doing
		for _, g := range running {
			rec := s.Records[g.id]
			rec.Halted = true
			s.Records[g.id] = rec
		}
		return nil
	})
	if err != nil {
		a.log.Warn("note that guests are shut down; they are left to the host", "error", err)
		return
	}
	var all sync.WaitGroup
	for _, g := range running {
		all.Go(func() {
			if _, err := g.driver.Stop(ctx, g.id, grace(s.want(g.id))); err != nil {
				a.log.Warn("shut a guest down", "instance", g.id, "error", err)
			}
		})
	}
	all.Wait()
}
