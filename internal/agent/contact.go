package agent

import (
	"context"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/tenon-cloud/tenon/internal/agent/watchdog"
	"github.com/tenon-cloud/tenon/internal/hypervisor"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

// Watchdog ends guests when their time is over and this agent can't.
type Watchdog interface {
	Renew(guests []watchdog.Guest) error
	// Acknowledged reports that it lives and knows what it was told.
	Acknowledged() bool
}

const (
	// fenceGrace is what a guest gets to end by itself once its time without contact
	// is over: the control plane waits for a margin only.
	fenceGrace = 5 * time.Second
	// watchdogAfter is how long after that time the watchdog leaves it to the agent.
	watchdogAfter = 20 * time.Second
	// leaseEvery is how often an unchanged lease is told again.
	leaseEvery = 30 * time.Second
	// contactEvery is how coarsely contact is kept on disk: less is known after a
	// crash, never more.
	contactEvery = 2 * time.Second
)

// contact knows when the control plane was last heard of: a report that it took,
// or an assignment that it pushed. An instance that may run elsewhere once its
// node is silent may not run here without contact for longer than it says.
type contact struct {
	clock  func() time.Duration
	boot   string
	store  Store
	ledger *ledger
	dog    Watchdog
	kick   chan struct{} // what must end without contact has changed

	mu    sync.Mutex
	known bool // false: not since this boot
	at    time.Duration
	kept  time.Duration // on disk
	// over are the epochs whose time ran out: contact that comes after that is too
	// late, since the control plane may have given them elsewhere.
	over map[string]int64

	told   []watchdog.Guest
	toldAt time.Duration
}

func newContact(cfg Config, l *ledger) *contact {
	c := &contact{
		clock: cfg.Clock, boot: cfg.Host.BootID, store: cfg.Store, ledger: l, dog: cfg.Watchdog,
		kick: make(chan struct{}, 1), over: map[string]int64{}, kept: math.MinInt64,
	}
	if c.clock == nil {
		c.clock = watchdog.SinceBoot
	}
	now := c.clock()
	switch last, ok := cfg.Store.LastContact(); {
	case !ok: // there was nothing to end yet
		c.known, c.at = true, now
	case last.BootID == c.boot && last.At <= now:
		c.known, c.at = true, last.At
	}
	return c
}

// made notes contact as of a moment.
func (c *contact) made(at time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.known || at > c.at {
		c.known, c.at = true, at
	}
}

// expire notes which instances' time is over by now; it comes before made.
func (c *contact) expire() (more bool) {
	s := c.ledger.snapshot()
	if s.Assignment == nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range s.Assignment.Instances {
		want := &s.Assignment.Instances[i]
		if c.late(want) && c.over[want.ID] != want.Epoch {
			c.over[want.ID], more = want.Epoch, true
		}
	}
	for id := range c.over {
		if s.want(id) == nil {
			delete(c.over, id)
		}
	}
	return more
}

// late must be called with mu held.
func (c *contact) late(want *nodewire.Instance) bool {
	return want.StopAfterSeconds > 0 && (!c.known || c.clock()-c.at > stopAfter(want))
}

func stopAfter(want *nodewire.Instance) time.Duration {
	return time.Duration(want.StopAfterSeconds) * time.Second
}

// fenced reports that an instance may no longer run here.
func (c *contact) fenced(want *nodewire.Instance) bool {
	if want == nil || want.StopAfterSeconds <= 0 {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.over[want.ID] == want.Epoch || c.late(want)
}

func (c *contact) watched() bool { return c.dog != nil && c.dog.Acknowledged() }

// fenceLoop ends in time what may not run without contact, and keeps the
// watchdog's lease.
func (a *Agent) fenceLoop(ctx context.Context) {
	c := a.contact
	for {
		next := leaseEvery // nothing to watch: a thousand simulated nodes sleep
		if a.lease() {
			next = time.Second
		}
		tick := time.NewTimer(next)
		select {
		case <-ctx.Done():
		case <-c.kick:
		case <-tick.C:
		}
		tick.Stop()
		if ctx.Err() != nil {
			return
		}
		if c.expire() {
			a.log.Warn("no contact with the control plane for too long: what may run elsewhere is ended here")
			a.sync()
		}
	}
}

// lease tells the watchdog, and the disk, what there is to watch. It reports
// whether there is anything.
func (a *Agent) lease() bool {
	c, s := a.contact, a.ledger.snapshot()
	c.mu.Lock()
	at, known := c.at, c.known
	c.mu.Unlock()
	guests := []watchdog.Guest{}
	any := false
	for id, rec := range s.Records {
		want := s.want(id)
		if want == nil || want.StopAfterSeconds <= 0 || rec.End != nil && rec.End.Done {
			continue
		}
		any = true
		if !known {
			continue // of another boot: the watchdog has nothing to end
		}
		guests = append(guests, a.trace(want, at+stopAfter(want)+watchdogAfter))
	}
	slices.SortFunc(guests, func(x, y watchdog.Guest) int {
		if x.ID < y.ID {
			return -1
		}
		return 1
	})
	now := c.clock()
	if c.dog != nil && (c.toldAt == 0 || now-c.toldAt >= leaseEvery || !slices.EqualFunc(guests, c.told, sameGuest)) {
		if err := c.dog.Renew(guests); err != nil {
			a.log.Error("tell the watchdog", "error", err)
		} else {
			c.told, c.toldAt = guests, now
		}
	}
	if any && known && at-contactEvery >= c.kept {
		if err := c.store.KeepContact(Contact{BootID: c.boot, At: at}); err != nil {
			a.log.Warn("keep when the control plane was heard of", "error", err)
		} else {
			c.kept = at
		}
	}
	return any
}

func sameGuest(x, y watchdog.Guest) bool {
	if (x.Process == nil) != (y.Process == nil) || x.Process != nil && *x.Process != *y.Process {
		return false
	}
	return x.ID == y.ID && x.Epoch == y.Epoch && x.Deadline == y.Deadline && x.Cgroup == y.Cgroup
}

// trace is by what the watchdog finds a guest: its control group, or the process
// that it was last seen as.
func (a *Agent) trace(want *nodewire.Instance, deadline time.Duration) watchdog.Guest {
	g := watchdog.Guest{ID: want.ID, Epoch: want.Epoch, Deadline: deadline}
	if d, ok := a.driver(want.Kind).(hypervisor.Enclosed); ok {
		g.Cgroup = d.Cgroup(want.ID)
		return g
	}
	a.mu.Lock()
	w := a.workers[want.ID]
	a.mu.Unlock()
	if w == nil {
		return g
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	g.Process = w.pub.process
	return g
}
