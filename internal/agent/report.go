package agent

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sort"
	"time"

	"github.com/tenon-cloud/tenon/internal/device"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

// reportLoop reports at once when something changes, and else now and then.
func (a *Agent) reportLoop(ctx context.Context) {
	a.awaitFirstLook(ctx)
	wait := 100 * time.Millisecond
	for ctx.Err() == nil {
		sent, heard := time.Now(), a.contact.clock()
		call, cancel := context.WithTimeout(ctx, 10*time.Second)
		answer, err := a.cfg.Door.Report(call, a.Report())
		cancel()
		if err != nil {
			if ctx.Err() == nil {
				a.log.Warn("report", "error", err, "retry_in", wait)
			}
			if !sleep(ctx, wait/2+time.Duration(rand.Int64N(int64(wait/2)+1))) {
				return
			}
			wait = min(2*wait, a.t.Report)
			continue
		}
		if a.contact.expire() {
			a.sync()
		}
		a.contact.made(heard) // as of its sending: the control plane took it later
		wait = 100 * time.Millisecond
		interval := a.t.Report
		if n := answer.NextSeconds; n >= 1 && n <= 60 {
			interval = time.Duration(n) * time.Second
		}
		t := time.NewTimer(interval)
		select {
		case <-t.C:
		case <-a.changed:
			if !sleep(ctx, a.t.Coalesce-time.Since(sent)) {
				return
			}
		case <-ctx.Done():
		}
		t.Stop()
		select { // what changed meanwhile is in the next one
		case <-a.changed:
		default:
		}
	}
}

// awaitFirstLook holds the first report until every instance was looked at once:
// before that "pending" would be a guess. It waits for the cards too, but not long.
func (a *Agent) awaitFirstLook(ctx context.Context) {
	deadline := time.Now().Add(3 * time.Second)
	for time.Now().Before(deadline) {
		known := a.cardsBegun()
		a.mu.Lock()
		for _, w := range a.workers {
			w.mu.Lock()
			known = known && w.pub.known
			w.mu.Unlock()
		}
		a.mu.Unlock()
		if known {
			return
		}
		t := time.NewTimer(100 * time.Millisecond)
		select {
		case <-a.changed:
		case <-t.C:
		case <-ctx.Done():
		}
		t.Stop()
		if ctx.Err() != nil {
			return
		}
	}
}

// Report is the node's view now.
func (a *Agent) Report() nodewire.Report {
	now, held := time.Now(), a.ledger.snapshot()
	var shown []byte
	if text := a.cards.shown.Load(); text != nil { // before the inventory: that is of then or later
		shown = *text
	}
	r := nodewire.Report{
		Version:  held.version(),
		Sequence: a.sequence.Add(1), BootID: a.cfg.Host.BootID, Agent: a.cfg.Version,
		VCPU: a.cfg.Host.VCPU, MemoryMiB: a.cfg.Host.MemoryMiB,
		ProbeOK: true, GPUs: []nodewire.GPU{}, Instances: []nodewire.InstanceReport{}, Drivers: map[string]string{},
	}
	if inv := a.inventory.Load(); inv != nil {
		r.GPUs, r.ProbeOK = inv.GPUs, inv.OK
	} else {
		r.ProbeOK = a.cfg.Board == nil // nobody knows yet how they are
	}
	if o := a.orphans.Load(); o != nil {
		r.Orphans = append(r.Orphans, o.list...)
	}
	a.quarantine(&r)
	a.tellCards(&r, held, shown)
	a.volumes.report(&r)
	r.Labels, r.Watchdog = a.cfg.Labels, a.contact.watched()
	if k := a.kinds.Load(); k != nil {
		r.Kinds = *k
	}
	if d := a.drivers.Load(); d != nil {
		r.Drivers = *d
	}
	a.mu.Lock()
	workers := make([]*worker, 0, len(a.workers))
	for _, w := range a.workers {
		workers = append(workers, w)
	}
	a.mu.Unlock()
	for _, w := range workers {
		if ir, known := w.report(now); known {
			ir.Activity = a.activityOf(ir, now)
			r.Instances = append(r.Instances, ir)
		} else if rec, ours := held.Records[w.id]; ours && held.want(w.id) == nil {
			// Silence about it would say that it is gone.
			r.Instances = append(r.Instances, nodewire.InstanceReport{ID: w.id, Epoch: rec.Epoch, State: nodewire.GuestStopping})
		}
	}
	sort.Slice(r.Instances, func(i, j int) bool { return r.Instances[i].ID < r.Instances[j].ID })
	return r
}

// takeInventory reads the cards; what can't be read stays as it was, unknown.
func (a *Agent) takeInventory(ctx context.Context) {
	if a.cfg.Board == nil {
		a.inventory.Store(&device.Inventory{OK: true, GPUs: []nodewire.GPU{}})
		return
	}
	a.cards.taken.Lock()
	defer a.cards.taken.Unlock()
	ctx, cancel := context.WithTimeout(ctx, a.t.Probe)
	defer cancel()
	acted := a.cards.acted.Load()
	inv, err := a.probe.fresh(ctx)
	last := a.inventory.Load()
	if err == nil && inv.OK && len(inv.GPUs) == 0 && (last != nil && len(last.GPUs) > 0 || a.ledger.snapshot().hasDevices()) {
		err = errors.New("it lists no card, and there were some")
	}
	if err != nil {
		a.log.Warn("read GPUs", "error", err)
		inv = device.Inventory{}
		if last != nil {
			for _, g := range last.GPUs {
				g.State, g.Reason = "unknown", "the probe failed"
				inv.GPUs = append(inv.GPUs, g)
			}
		}
	}
	if inv.GPUs == nil {
		inv.GPUs = []nodewire.GPU{}
	}
	changed := last != nil && cardsChanged(last, &inv)
	a.inventory.Store(&inv)
	a.cards.shown.Store(acted)
	if changed {
		a.dirty()
	}
}

// hasDevices reports that somebody may hold a share of a card here.
func (s *state) hasDevices() bool {
	for _, st := range s.Strays {
		if len(st.Devices) > 0 {
			return true
		}
	}
	if s.Assignment == nil {
		return false
	}
	return slices.ContainsFunc(s.Assignment.Instances, func(i nodewire.Instance) bool { return len(i.Devices) > 0 })
}
