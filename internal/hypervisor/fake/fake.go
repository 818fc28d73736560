// Package fake makes simulated guests: they take as long to start as they are
// told, run until they are stopped or told to exit, and say in everything they
// show that they are simulated. It serves nodes that only book and the agent's
// tests; an Engine outlives the agent that uses it, like a real engine.
//
// With a Pace, guests take the times of real ones, by a seed, and answer like
// machines that do nothing: a shell, a web page, log lines, a load curve. With a
// StateFile they go on while no process runs them.
//
// It may import hypervisor, nodewire and durable.
package fake

import (
	"context"
	"fmt"
	"net"
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tenon-cloud/tenon/internal/device"
	"github.com/tenon-cloud/tenon/internal/hypervisor"
)

// Options says how quick guests are.
type Options struct {
	PrepareDelay time.Duration
	StartDelay   time.Duration
	StopDelay    time.Duration // of a guest's graceful end
	// Hook, if set, is called as a step of a guest begins (prepare, start, stop,
	// remove) and may fail it; it may block until ctx ends.
	Hook func(ctx context.Context, step, id string) error

	// Port, if set, is what a guest's ports are, in place of a page that says that
	// it is simulated.
	Port func(id string, port int) (net.Conn, error)

	Pace      *Pace  // nil: the delays above, every time
	StateFile string // keeps the guests for the next process; empty: they end with this one
}

// Engine holds the guests.
type Engine struct {
	opts Options

	mu       sync.Mutex
	guests   map[string]*guest
	images   map[string]time.Time // when each is, or will be, here
	watchers map[chan string]struct{}
	faults   []string

	processes atomic.Int64 // that Exec runs
}

type guest struct {
	hypervisor.Guest
	name   string
	kind   string
	vcpu   int
	memory int64 // MiB
	cdi    []string
	lines  []string
	plan   *plan         // how it will end by itself; nil: it won't
	timer  *time.Timer   // that makes it so
	ended  chan struct{} // closed when it is no longer running
	logged chan struct{} // closed and replaced with each line
}

var _ hypervisor.Driver = (*Engine)(nil)

// New makes an engine without guests.
func New(opts Options) *Engine {
	return &Engine{opts: opts, guests: map[string]*guest{}, images: map[string]time.Time{}, watchers: map[chan string]struct{}{}}
}

// Open makes an engine with the guests of its state file.
func Open(opts Options) (*Engine, error) {
	e := New(opts)
	e.mu.Lock()
	defer e.mu.Unlock()
	return e, e.load()
}

// Name implements hypervisor.Driver.
func (e *Engine) Name() string { return "fake" }

// Check implements hypervisor.Driver.
func (e *Engine) Check(context.Context) (string, error) { return "simulated", nil }

// Close implements hypervisor.Driver; guests go on in their state file.
func (e *Engine) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, g := range e.guests {
		g.disarm()
	}
	return nil
}

// Prepare takes the time of a pull.
func (e *Engine) Prepare(ctx context.Context, spec hypervisor.Spec, progress hypervisor.Progress) error {
	if err := e.hook(ctx, "prepare", spec.ID); err != nil {
		return err
	}
	if e.opts.Pace != nil {
		return e.pull(ctx, spec, progress)
	}
	const parts = 4
	for i := range parts {
		progress("image", "pulling a simulated image", 100*i/parts)
		if err := wait(ctx, e.opts.PrepareDelay/parts); err != nil {
			return err
		}
	}
	return nil
}

// Start makes a guest and lets it run.
func (e *Engine) Start(ctx context.Context, spec hypervisor.Spec) (hypervisor.Guest, error) {
	if err := e.hook(ctx, "start", spec.ID); err != nil {
		return hypervisor.Guest{}, err
	}
	if g, ok := e.get(spec.ID); ok && g.State == hypervisor.Running && g.Epoch == spec.Epoch {
		return g, nil
	}
	delay := e.opts.StartDelay
	if e.opts.Pace != nil {
		delay = e.opts.Pace.start(spec)
	}
	if err := wait(ctx, delay); err != nil {
		return hypervisor.Guest{}, err
	}
	end, err := planOf(spec.Command)
	if err != nil {
		return hypervisor.Guest{}, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if g := e.guests[spec.ID]; g != nil {
		return hypervisor.Guest{}, fmt.Errorf("start simulated guest %s: one of epoch %d is %s", spec.ID, g.Epoch, g.State)
	}
	for id, g := range e.guests {
		for _, theirs := range g.cdi {
			for _, ours := range device.CDINames(spec.Grants) {
				if g.State == hypervisor.Running && ours == theirs {
					e.faults = append(e.faults, fmt.Sprintf("%s and %s hold %s", id, spec.ID, ours))
				}
			}
		}
	}
	g := &guest{
		Guest: hypervisor.Guest{
			ID: spec.ID, Epoch: spec.Epoch, Generation: spec.Generation, State: hypervisor.Running,
			StartedAt: time.Now(), Devices: spec.Devices,
		},
		name: spec.Name, kind: spec.Kind, vcpu: spec.VCPU, memory: spec.MemoryMiB, plan: end,
		cdi: device.CDINames(spec.Grants), ended: make(chan struct{}), logged: make(chan struct{}),
	}
	g.log("simulated guest " + spec.Name + " started")
	e.guests[spec.ID] = g
	if err := e.save(); err != nil {
		delete(e.guests, spec.ID)
		return hypervisor.Guest{}, err
	}
	e.arm(g)
	e.changed(spec.ID)
	return g.Guest, nil
}

func (e *Engine) get(id string) (hypervisor.Guest, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if g := e.guests[id]; g != nil {
		return g.Guest, true
	}
	return hypervisor.Guest{}, false
}

// Stop ends a guest.
func (e *Engine) Stop(ctx context.Context, id string, grace time.Duration) (hypervisor.Guest, error) {
	if err := e.hook(ctx, "stop", id); err != nil {
		return hypervisor.Guest{}, err
	}
	e.mu.Lock()
	g := e.guests[id]
	running := g != nil && g.State == hypervisor.Running
	e.mu.Unlock()
	if running {
		delay := e.opts.StopDelay
		if e.opts.Pace != nil {
			delay = e.opts.Pace.stop(id)
		}
		if err := wait(ctx, min(delay, grace)); err != nil {
			return hypervisor.Guest{}, err
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if g = e.guests[id]; g == nil {
		return hypervisor.Guest{}, hypervisor.ErrNoGuest
	}
	if g.State == hypervisor.Running {
		g.end(143, false, time.Now())
		e.changed(id)
		if err := e.save(); err != nil {
			return hypervisor.Guest{}, err // it has ended here; the next Stop writes it
		}
	}
	return g.Guest, nil
}

// Remove forgets a guest that has ended.
func (e *Engine) Remove(ctx context.Context, id string, _ bool) error {
	if err := e.hook(ctx, "remove", id); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	g := e.guests[id]
	if g == nil {
		return nil
	}
	if g.State == hypervisor.Running {
		return fmt.Errorf("remove simulated guest %s: it runs", id)
	}
	delete(e.guests, id)
	if err := e.save(); err != nil {
		e.guests[id] = g
		return err
	}
	e.changed(id)
	return nil
}

// List is every guest.
func (e *Engine) List(context.Context) ([]hypervisor.Guest, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := make([]hypervisor.Guest, 0, len(e.guests))
	for _, g := range e.guests {
		out = append(out, g.Guest)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].ID < out[j].ID })
	return out, nil
}

// Changes yields the ids of guests that changed.
func (e *Engine) Changes(ctx context.Context) <-chan string {
	in, out := make(chan string, 64), make(chan string)
	e.mu.Lock()
	e.watchers[in] = struct{}{}
	e.mu.Unlock()
	go func() {
		defer close(out)
		defer func() {
			e.mu.Lock()
			delete(e.watchers, in)
			e.mu.Unlock()
		}()
		for {
			select {
			case id := <-in:
				select {
				case out <- id:
				case <-ctx.Done():
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	return out
}

// Exit makes a running guest end by itself.
func (e *Engine) Exit(id string, code int) { e.exit(id, code, false) }

// ExitOOM makes a running guest end for want of memory.
func (e *Engine) ExitOOM(id string) { e.exit(id, 137, true) }

func (e *Engine) exit(id string, code int, oom bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if g := e.guests[id]; g != nil && g.State == hypervisor.Running {
		g.log(fmt.Sprintf("simulated guest exits with %d", code))
		g.end(code, oom, time.Now())
		if err := e.save(); err != nil {
			e.faults = append(e.faults, err.Error())
		}
		e.changed(id)
	}
}

// Faults lists what no agent may do and one did: two guests on one device.
func (e *Engine) Faults() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]string(nil), e.faults...)
}

func (g *guest) end(code int, oom bool, at time.Time) {
	g.State, g.ExitCode, g.OOMKilled, g.ExitedAt = hypervisor.Exited, code, oom, at
	g.disarm()
	close(g.ended)
}

func (g *guest) log(line string) {
	g.lines = append(g.lines, line)
	close(g.logged)
	g.logged = make(chan struct{})
}

// changed must be called with mu held; a full watcher misses a hint.
func (e *Engine) changed(id string) {
	for w := range e.watchers {
		select {
		case w <- id:
		default:
		}
	}
}

func (e *Engine) hook(ctx context.Context, step, id string) error {
	if e.opts.Hook != nil {
		return e.opts.Hook(ctx, step, id)
	}
	return ctx.Err()
}

func wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
