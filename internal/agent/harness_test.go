package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/tenon-cloud/tenon/internal/device"
	"github.com/tenon-cloud/tenon/internal/device/sim"
	"github.com/tenon-cloud/tenon/internal/hypervisor"
	"github.com/tenon-cloud/tenon/internal/hypervisor/fake"
	"github.com/tenon-cloud/tenon/internal/nodewire"
	"github.com/tenon-cloud/tenon/internal/volume"
)

// container is a small instance without GPUs.
func container(id string, epoch int64) nodewire.Instance {
	return nodewire.Instance{
		ID: id, Epoch: epoch, Generation: 1, Kind: "container", Name: "web", Desired: nodewire.DesiredRunning,
		VCPU: 1, MemoryMiB: 256, StopGraceSeconds: 5,
	}
}

// fakeDoor keeps the reports and passes requests to the agent's handler.
type fakeDoor struct {
	mu      sync.Mutex
	reports []nodewire.Report
	at      []time.Time
	cut     bool // the network between node and control plane
	handler http.Handler
}

func (d *fakeDoor) Report(_ context.Context, r nodewire.Report) (nodewire.ReportAnswer, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.cut {
		return nodewire.ReportAnswer{}, errors.New("no route to host")
	}
	d.reports = append(d.reports, r)
	d.at = append(d.at, time.Now())
	return nodewire.ReportAnswer{Sequence: r.Sequence, NextSeconds: 5}, nil
}

func (d *fakeDoor) Serve(ctx context.Context, h http.Handler) error {
	d.mu.Lock()
	d.handler = h
	d.mu.Unlock()
	<-ctx.Done()
	return nil
}

func (d *fakeDoor) setCut(cut bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.cut = cut
}

func (d *fakeDoor) last() nodewire.Report {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.reports) == 0 {
		return nodewire.Report{}
	}
	return d.reports[len(d.reports)-1]
}

// put sends an assignment the way that the control plane does.
func put(h http.Handler, as nodewire.Assignment) (int, nodewire.Held) {
	raw, _ := json.Marshal(as)
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, httptest.NewRequest(http.MethodPut, nodewire.PathAssignment, bytes.NewReader(raw)))
	var held nodewire.Held
	_ = json.Unmarshal(rec.Body.Bytes(), &held)
	return rec.Code, held
}

// errCrashed is what a killed process's calls come to.
var errCrashed = errors.New("the process is dead")

// fuse kills an agent at its n-th effect on the world, before or after it took
// place. After that none of its calls reach anything.
type fuse struct {
	mu    sync.Mutex
	left  int // 0: never
	after bool
	blown bool
	blind bool // the engine does not say what it runs
	kill  context.CancelFunc
}

func (f *fuse) effect(do func() error) error {
	f.mu.Lock()
	if f.blown {
		f.mu.Unlock()
		return errCrashed
	}
	if f.left > 0 {
		f.left--
		if f.left == 0 {
			f.blown = true
			f.mu.Unlock()
			if f.after {
				_ = do()
			}
			f.kill()
			return errCrashed
		}
	}
	f.mu.Unlock()
	return do()
}

func (f *fuse) isBlind() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.blind
}

func (f *fuse) dead() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.blown
}

// world is what outlives an agent: engine, board and disk.
type world struct {
	engine *fake.Engine
	board  *sim.Board
	disk   Store
	timing Timing
	boot   string
	base   time.Time // of the boot
	store  *volume.Memory
	dog    Watchdog
	dies   bool          // the host, with each start of a guest
	leaves bool          // the host goes down with the agent
	gone   string        // address of a card that the host no longer shows
	slow   time.Duration // that the board takes to end what was interrupted

	mu     sync.Mutex
	faults []string
	did    []string // what was asked of the board and the engine, in order
}

func newWorld(t testing.TB, dir string, opts fake.Options) *world {
	t.Helper()
	b, err := sim.Open(sim.Config{Board: "local", CloudID: "c1", StateDir: filepath.Join(dir, "sim")})
	if err != nil {
		t.Fatal(err)
	}
	return &world{engine: fake.New(opts), board: b, disk: &MemoryStore{}, boot: "boot-1", base: time.Now().Add(-time.Hour), store: volume.NewMemory()}
}

func (w *world) sinceBoot() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Since(w.base)
}

func (w *world) fault(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faults = append(w.faults, fmt.Sprintf(format, args...))
}

// note keeps the order of what is asked for.
func (w *world) note(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.did = append(w.did, what)
}

func (w *world) deeds() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string(nil), w.did...)
}

func (w *world) allFaults() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append(append([]string(nil), w.faults...), w.engine.Faults()...)
}

// node is one life of the agent.
type node struct {
	*Agent
	door *fakeDoor
	fuse *fuse
	stop context.CancelFunc
	done chan struct{}
}

// start runs an agent in the world until it is stopped or its fuse blows.
func (w *world) start(t testing.TB, f *fuse) *node {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	f.kill = cancel
	n := &node{door: &fakeDoor{}, fuse: f, stop: cancel, done: make(chan struct{})}
	a, err := New(Config{
		NodeID: "node_1", CloudID: "c1", Version: "test", Door: n.door,
		Drivers:  []hypervisor.Driver{&fusedDriver{w.engine, f, w}},
		Board:    &fusedBoard{w.board, f, w},
		Store:    &fusedStore{w.disk, f},
		Volumes:  &fusedVolumes{w.store, f},
		Watchdog: w.dog,
		Leaving:  func() bool { return w.leaves },
		Clock:    func() time.Duration { return w.sinceBoot() },
		Host:     Host{VCPU: 8, MemoryMiB: 1024, BootID: w.boot}, Timing: w.timing,
	})
	if err != nil {
		t.Fatal(err)
	}
	n.Agent = a
	go func() {
		defer close(n.done)
		if err := a.Run(ctx); err != nil {
			w.fault("run: %v", err)
		}
	}()
	return n
}

func (n *node) end() {
	n.stop()
	<-n.done
}

type fusedStore struct {
	Store
	f *fuse
}

func (s *fusedStore) Save(raw []byte) error {
	return s.f.effect(func() error { return s.Store.Save(raw) })
}

type fusedVolumes struct {
	*volume.Memory
	f *fuse
}

func (v *fusedVolumes) Ensure(ctx context.Context, want nodewire.Volume) (folder string, err error) {
	err = v.f.effect(func() error { folder, err = v.Memory.Ensure(ctx, want); return err })
	return folder, err
}

func (v *fusedVolumes) List(ctx context.Context) ([]volume.Found, error) {
	if v.f.isBlind() {
		return nil, errCrashed
	}
	return v.Memory.List(ctx)
}

func (v *fusedVolumes) Remove(ctx context.Context, id string) error {
	return v.f.effect(func() error { return v.Memory.Remove(ctx, id) })
}

type fusedDriver struct {
	*fake.Engine
	f *fuse
	w *world
}

func (d *fusedDriver) Prepare(ctx context.Context, spec hypervisor.Spec, p hypervisor.Progress) error {
	return d.f.effect(func() error { return d.Engine.Prepare(ctx, spec, p) })
}

func (d *fusedDriver) Start(ctx context.Context, spec hypervisor.Spec) (g hypervisor.Guest, err error) {
	d.w.note("start")
	if d.w.dies {
		d.f.mu.Lock()
		d.f.blown = true
		d.f.mu.Unlock()
		d.f.kill()
		return g, errCrashed
	}
	err = d.f.effect(func() error { g, err = d.Engine.Start(ctx, spec); return err })
	return g, err
}

func (d *fusedDriver) Stop(ctx context.Context, id string, grace time.Duration) (g hypervisor.Guest, err error) {
	err = d.f.effect(func() error { g, err = d.Engine.Stop(ctx, id, grace); return err })
	return g, err
}

func (d *fusedDriver) Remove(ctx context.Context, id string, keep bool) error {
	return d.f.effect(func() error { return d.Engine.Remove(ctx, id, keep) })
}

func (d *fusedDriver) List(ctx context.Context) ([]hypervisor.Guest, error) {
	if d.f.dead() || d.f.isBlind() {
		return nil, errCrashed
	}
	return d.Engine.List(ctx)
}

func (d *fusedDriver) Logs(ctx context.Context, id string, o hypervisor.LogOptions) (io.ReadCloser, error) {
	return d.Engine.Logs(ctx, id, o)
}

// fusedBoard also notes the crime that no crash excuses: devices freed while
// the engine still has their guest.
type fusedBoard struct {
	device.Board
	f *fuse
	w *world
}

func (b *fusedBoard) Prepare(ctx context.Context, want device.Request) (grants []device.Grant, err error) {
	b.w.note("prepare")
	if b.w.gone != "" {
		return nil, fmt.Errorf("prepare devices: card %w", &device.GoneError{Address: b.w.gone})
	}
	err = b.f.effect(func() error { grants, err = b.Board.Prepare(ctx, want); return err })
	return grants, err
}

func (b *fusedBoard) Release(ctx context.Context, id string, epoch int64) error {
	return b.f.effect(func() error {
		before, _ := b.Board.Held(ctx)
		err := b.Board.Release(ctx, id, epoch)
		after, _ := b.Board.Held(ctx)
		if len(before[id]) > 0 && len(after[id]) == 0 {
			guests, _ := b.w.engine.List(ctx)
			for _, g := range guests {
				if g.ID == id {
					b.w.fault("devices of %s were freed while its guest was %s", id, g.State)
				}
			}
		}
		return err
	})
}

func (b *fusedBoard) Inventory(ctx context.Context) (device.Inventory, error) {
	b.w.note("read")
	return b.Board.Inventory(ctx)
}

func (b *fusedBoard) Wish(ctx context.Context, cards []nodewire.Card) error {
	b.w.note("wish")
	return b.f.effect(func() error { return b.w.board.Wish(ctx, cards) })
}

func (b *fusedBoard) Resume(ctx context.Context) {
	if b.w.slow > 0 {
		sleep(ctx, b.w.slow)
	}
}

func (b *fusedBoard) Incidents() []nodewire.Incident { return b.w.board.Incidents() }
func (b *fusedBoard) Excluded() []nodewire.Excluded  { return b.w.board.Excluded() }

// state is what the last report says of an instance.
func (d *fakeDoor) state(id string) nodewire.InstanceReport {
	for _, r := range d.last().Instances {
		if r.ID == id {
			return r
		}
	}
	return nodewire.InstanceReport{}
}
