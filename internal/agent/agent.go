package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tenon-cloud/tenon/internal/device"
	"github.com/tenon-cloud/tenon/internal/hypervisor"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

// Door is the agent's way to the control plane.
type Door interface {
	// Report delivers the node's view.
	Report(ctx context.Context, r nodewire.Report) (nodewire.ReportAnswer, error)
	// Serve answers the control plane's requests until ctx ends.
	Serve(ctx context.Context, h http.Handler) error
}

// Config is what an agent is made of. Door and Store are needed; the zero of
// everything else is usable.
type Config struct {
	NodeID  string
	CloudID string
	Version string // of the agent, for operators
	Drivers []hypervisor.Driver
	Board   device.Board // nil: the node has no GPUs
	Door    Door
	Store   Store
	Volumes Volumes           // nil: the node keeps none
	Labels  map[string]string // rack, zone
	// Watchdog is told what must end without contact even if this agent can't end
	// it; nil: there is none.
	Watchdog Watchdog
	// Clock is the time since boot, which nobody sets and which counts sleep; nil:
	// the kernel's.
	Clock func() time.Duration
	// Leaving reports, when the agent is asked to end, that the host goes down: then
	// guests are shut down in order before it ends; nil: it never does.
	Leaving func() bool
	Host    Host
	Timing  Timing
	Log     *slog.Logger
}

// Timing is how often and how long; zeros take the defaults.
type Timing struct {
	Report      time.Duration // at least so often: 5 s
	Coalesce    time.Duration // changes within it share a report: 20 ms
	Resync      time.Duration // look at every instance again: 10 s
	Sample      time.Duration // metrics: 5 s
	Probe       time.Duration // a reading of the cards may take: 10 s
	Activity    time.Duration // ask notebooks whether they are busy: 10 s
	MinBackoff  time.Duration // after the first failure of a step: 500 ms
	MaxBackoff  time.Duration // 15 s
	GiveUp      time.Duration // of failures in a row without progress, the instance has failed: 40 s
	StepTimeout time.Duration // of one step without a sign of life: 5 min
}

func (t Timing) withDefaults() Timing {
	set := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	set(&t.Report, 5*time.Second)
	set(&t.Coalesce, 20*time.Millisecond)
	set(&t.Resync, 10*time.Second)
	set(&t.Sample, 5*time.Second)
	set(&t.Probe, 10*time.Second)
	set(&t.Activity, 10*time.Second)
	set(&t.MinBackoff, 500*time.Millisecond)
	set(&t.MaxBackoff, 15*time.Second)
	set(&t.GiveUp, 40*time.Second)
	set(&t.StepTimeout, 5*time.Minute)
	return t
}

// Agent runs one node.
type Agent struct {
	cfg    Config
	t      Timing
	log    *slog.Logger
	ledger *ledger
	since  time.Time // when this agent began to watch
	proof  time.Time // when the one before it last lived; zero: not known

	guests map[string]*joined[map[string]hypervisor.Guest] // by driver
	held   *joined[map[string][]nodewire.Device]
	probe  *joined[device.Inventory]

	changed chan struct{} // something that a report tells has changed

	mu      sync.Mutex
	workers map[string]*worker
	runCtx  context.Context // of Run; nil before it
	ended   bool
	wg      sync.WaitGroup

	metrics   metrics
	contact   *contact
	streams   streams
	activity  activities
	volumes   volumes
	strays    strayWork
	cards     cards
	inventory atomic.Pointer[device.Inventory]
	orphans   atomic.Pointer[orphans]
	drivers   atomic.Pointer[map[string]string]
	kinds     atomic.Pointer[[]string]
	sequence  atomic.Int64
}

// New reads the ledger and makes an agent; Run starts it.
func New(cfg Config) (*Agent, error) {
	if cfg.Door == nil || cfg.Store == nil {
		return nil, errors.New("make agent: a door and a store are needed")
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	l, err := openLedger(cfg.Store)
	if err != nil {
		return nil, err
	}
	a := &Agent{
		cfg: cfg, t: cfg.Timing.withDefaults(), log: cfg.Log, ledger: l, since: time.Now(), proof: cfg.Store.LastBeat(),
		guests: map[string]*joined[map[string]hypervisor.Guest]{}, workers: map[string]*worker{},
		changed: make(chan struct{}, 1),
	}
	if as := l.snapshot().Assignment; as != nil && (other(as.NodeID, cfg.NodeID) || other(as.CloudID, cfg.CloudID)) {
		return nil, fmt.Errorf("make agent: the ledger %s belongs to node %s of cloud %s, this is node %s of cloud %s: give this node a state folder of its own",
			cfg.Store.Where(), as.NodeID, as.CloudID, cfg.NodeID, cfg.CloudID)
	}
	for _, d := range cfg.Drivers {
		a.guests[d.Name()] = &joined[map[string]hypervisor.Guest]{timeout: 20 * time.Second, read: func(ctx context.Context) (map[string]hypervisor.Guest, error) {
			list, err := d.List(ctx)
			if err != nil {
				return nil, err
			}
			m := make(map[string]hypervisor.Guest, len(list))
			for _, g := range list {
				m[g.ID] = g
			}
			return m, nil
		}}
	}
	a.held = &joined[map[string][]nodewire.Device]{timeout: 20 * time.Second, read: func(ctx context.Context) (map[string][]nodewire.Device, error) {
		if cfg.Board == nil {
			return nil, nil
		}
		return cfg.Board.Held(ctx)
	}}
	a.probe = &joined[device.Inventory]{timeout: a.t.Probe, read: func(ctx context.Context) (device.Inventory, error) { return cfg.Board.Inventory(ctx) }}
	a.contact = newContact(cfg, l)
	a.volumes.init()
	a.strays.init()
	a.cards.init()
	a.metrics.init(int(time.Hour / (5 * time.Second)))
	return a, nil
}

func other(recorded, configured string) bool {
	return recorded != "" && configured != "" && recorded != configured
}

// Run works until ctx ends. Guests go on without it.
func (a *Agent) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	a.mu.Lock()
	a.runCtx = ctx
	a.mu.Unlock()
	a.checkDrivers(ctx)
	a.sync()
	a.wg.Go(func() { a.fenceLoop(ctx) })
	a.wg.Go(func() { a.reportLoop(ctx) })
	a.wg.Go(func() { a.beginCards(ctx) })
	for _, d := range a.cfg.Drivers {
		a.wg.Go(func() { a.follow(ctx, d) })
	}
	a.wg.Go(func() { a.resyncLoop(ctx) })
	a.wg.Go(func() { a.sampleLoop(ctx) })
	a.wg.Go(func() { a.cardLoop(ctx) })
	a.wg.Go(func() { a.volumeLoop(ctx) })
	a.wg.Go(func() { a.activityLoop(ctx) })
	err := a.cfg.Door.Serve(ctx, a.Handler())
	cancel()
	a.mu.Lock()
	a.ended = true // no worker is added from here on
	a.mu.Unlock()
	a.wg.Wait()
	if a.cfg.Leaving != nil && a.cfg.Leaving() {
		a.haltGuests(context.WithoutCancel(ctx))
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("serve the control plane: %w", err)
	}
	return nil
}

// sync has a worker for every record and tells those whose intent changed.
func (a *Agent) sync() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.runCtx == nil || a.ended {
		return
	}
	s := a.ledger.snapshot()
	for id := range s.Records {
		w := a.workers[id]
		if w == nil {
			w = newWorker(a, id)
			a.workers[id] = w
			a.wg.Go(func() { w.run(a.runCtx) })
		}
		w.poke(s)
	}
	for id, w := range a.workers {
		if _, ok := s.Records[id]; !ok {
			w.poke(s)
		}
	}
}

// follow wakes a guest's worker when its engine hints at a change.
func (a *Agent) follow(ctx context.Context, d hypervisor.Driver) {
	for ctx.Err() == nil {
		for id := range d.Changes(ctx) {
			a.mu.Lock()
			w := a.workers[id]
			a.mu.Unlock()
			if w != nil {
				w.nudge()
			}
		}
		if !sleep(ctx, time.Second) { // the engine restarts: ask again
			return
		}
	}
}

// resyncLoop looks at the whole node now and then: a missed hint costs one
// interval.
func (a *Agent) resyncLoop(ctx context.Context) {
	tick := time.NewTicker(a.t.Resync)
	defer tick.Stop()
	for {
		a.findOrphans(ctx)
		a.endStrays(ctx)
		select {
		case <-tick.C:
		case <-a.strays.look: // strays alone changed
			continue
		case <-ctx.Done():
			return
		}
		a.checkDrivers(ctx)
		a.sync()
		a.mu.Lock()
		for _, w := range a.workers {
			w.nudge()
		}
		a.mu.Unlock()
	}
}

// checkDrivers keeps what operators see of each driver.
func (a *Agent) checkDrivers(ctx context.Context) {
	m, kinds := map[string]string{}, []string{}
	for _, d := range a.cfg.Drivers {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		version, err := d.Check(ctx)
		cancel()
		if err != nil {
			version = "unusable: " + err.Error()
		} else {
			kinds = append(kinds, kindsOf(d.Name())...)
		}
		m[d.Name()] = version
	}
	if a.cfg.Volumes != nil {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		_, err := a.cfg.Volumes.List(ctx)
		cancel()
		if err != nil { // nothing runs without a disk
			m["storage"], kinds = "unusable: "+err.Error(), []string{}
		}
	}
	slices.Sort(kinds)
	kinds = slices.Compact(kinds)
	a.drivers.Store(&m)
	a.kinds.Store(&kinds)
}

// kindsOf are the kinds of instances that a driver runs.
func kindsOf(driver string) []string {
	switch driver {
	case "containerd":
		return []string{"container", "notebook"}
	case "libvirt":
		return []string{"vm"}
	}
	return []string{"container", "notebook", "vm"}
}

// driver finds the one that makes guests of a kind.
func (a *Agent) driver(kind string) hypervisor.Driver {
	name := "containerd"
	if kind == "vm" {
		name = "libvirt"
	}
	for _, want := range []string{name, "fake"} {
		for _, d := range a.cfg.Drivers {
			if d.Name() == want {
				return d
			}
		}
	}
	return nil
}

// dirty asks for a report.
func (a *Agent) dirty() {
	select {
	case a.changed <- struct{}{}:
	default:
	}
}

func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
