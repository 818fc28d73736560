package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/tenon-cloud/tenon/internal/device"
	"github.com/tenon-cloud/tenon/internal/device/pci"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

const (
	busyFor    = 20 * time.Second // that a device in use is waited for
	busyLook   = 200 * time.Millisecond
	mendEvery  = 30 * time.Second
	writeTakes = 10 * time.Second // a write beside that: a reset waits for the device
)

// CDI names devices to a container engine, by the vendor's own specs.
type CDI interface {
	// Present gives the fully qualified names of devices by their driver's UUIDs,
	// with the settings of each, and keeps them for an owner. Idempotent.
	Present(ctx context.Context, owner string, uuids []string, env []string) ([]string, error)
	// Withdraw takes an owner's away.
	Withdraw(ctx context.Context, owner string) error
}

// Config is what a board stands on.
type Config struct {
	Sys     pci.Sys
	Options pci.Options
	// Parents are names of parents of mediated devices that are no PCI functions
	// and that an operator offers, such as mtty in a lab.
	Parents    []string
	Driver     Driver // nil: no card is a driver's that can be asked, whatever has it; one that may answer later is not nil
	DriverName string // of the kernel's module that it stands on; empty: nvidia
	Fabric     Fabric // nil: none
	CDI        CDI    // nil: containers get no cards
	StateDir   string
	BootID     string
	SinceBoot  func() time.Duration
	Holders    Holders                       // nil: nobody is looked for
	CgroupOf   CgroupOf                      // nil: by this host's /proc
	KernelLog  func() (io.ReadCloser, error) // nil: this host's
	BusyFor    time.Duration                 // 0: 20 s
	Log        *slog.Logger
}

// Board is a device.Board of real cards.
type Board struct {
	cfg    Config
	ledger *ledger

	resumeOnce sync.Once
	resumed    chan struct{} // closed once what was interrupted has had its time

	telling  sync.Mutex // one change of health at a time, with its keeping; before mu
	mu       sync.Mutex // guards what follows
	locks    map[string]chan struct{}
	last     []nodewire.GPU
	excluded []nodewire.Excluded
	parts    []nodewire.Partition
	wishes   map[string]string // by card: why it is not as wished
	waits    map[string]string // by card: why its reset, or its cleaning, is not over
	health   *Health
}

var (
	_ device.Board   = (*Board)(nil)
	_ device.Keeper  = (*Board)(nil)
	_ device.Watcher = (*Board)(nil)
	_ device.Resumer = (*Board)(nil)
)

// Load reads the ledger and touches no card; Resume is to follow.
func Load(cfg Config) (*Board, error) {
	if cfg.Sys == nil || cfg.StateDir == "" {
		return nil, errors.New("the board needs /sys and a state folder")
	}
	l, err := openLedger(cfg.StateDir)
	if err != nil {
		return nil, err
	}
	return load(cfg, l), nil
}

// Open is Load and Resume.
func Open(ctx context.Context, cfg Config) (*Board, error) {
	b, err := Load(cfg)
	if err != nil {
		return nil, err
	}
	b.Resume(ctx)
	return b, nil
}

func load(cfg Config, l *ledger) *Board {
	if cfg.BusyFor == 0 {
		cfg.BusyFor = busyFor
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.DriverName == "" {
		cfg.DriverName = "nvidia"
	}
	if cfg.CgroupOf == nil {
		cfg.CgroupOf = ProcCgroup("/proc")
	}
	if cfg.KernelLog == nil {
		cfg.KernelLog = OpenKernelLog
	}
	if cfg.SinceBoot == nil {
		began := time.Now()
		cfg.SinceBoot = func() time.Duration { return time.Since(began) }
	}
	if cfg.Driver != nil {
		cfg.Driver = gate{cfg.Driver, &sync.RWMutex{}}
	}
	b := &Board{cfg: cfg, ledger: l, locks: map[string]chan struct{}{}, wishes: map[string]string{}, waits: map[string]string{}, resumed: make(chan struct{})}
	b.health = NewHealth(cfg.BootID, l.read().Health)
	for _, c := range l.read().Cards {
		if c.Last != nil {
			b.last = append(b.last, *c.Last)
		}
	}
	sortGPUs(b.last)
	return b
}

// Resume implements device.Resumer: it ends a release that had begun, a check, a
// partition of NVSwitches that nobody needs. What can't be ended now stays as it
// is, and is tried again with the next wish or release.
func (b *Board) Resume(ctx context.Context) {
	defer b.resumeOnce.Do(func() { close(b.resumed) })
	b.resume(ctx)
	if _, err := b.look(ctx); err != nil { // so that each card is known before its faults are
		b.cfg.Log.Warn("read cards", "error", err)
	}
}

// resume ends what was begun.
func (b *Board) resume(ctx context.Context) {
	s := b.ledger.read()
	for _, id := range slices.Sorted(maps.Keys(s.Holds)) {
		if h := s.Holds[id]; h.Releasing {
			if err := b.Release(ctx, id, h.Epoch); err != nil {
				b.cfg.Log.Warn("end a release that was interrupted", "instance", id, "error", err)
			}
		}
	}
	if b.cfg.Fabric != nil {
		if err := b.applyFabric(ctx, nil); err != nil {
			b.cfg.Log.Warn("bring NVSwitch partitions to what is needed", "error", err)
		}
	}
	var wishes []nodewire.Card
	for _, address := range slices.Sorted(maps.Keys(s.Cards)) {
		c := b.ledger.card(address) // as the releases left it: an idle card may have changed its mode
		if c.Phase == nodewire.GPUCleaning {
			if err := b.recoverLocked(ctx, address, c.Recovered); err != nil {
				b.cfg.Log.Warn("end a check that was interrupted", "card", address, "error", err)
			}
		}
		if c.MadeVFs && c.Switched == "vgpu" && !c.isBacked() { // those of slices come after the slices
			if err := b.remakeVFs(ctx, address); err != nil {
				b.cfg.Log.Warn("make virtual functions again", "card", address, "error", err)
			}
		}
		if c.Wish != nil {
			wishes = append(wishes, *c.Wish)
		}
	}
	// Before guests start: a reboot took the slices and, of some cards, the mode.
	if err := b.Wish(ctx, wishes); err != nil {
		b.cfg.Log.Warn("bring cards to their layout", "error", err)
	}
}

func (b *Board) recoverLocked(ctx context.Context, card string, count int64) error {
	unlock, err := b.lock(ctx, card)
	if err != nil {
		return err
	}
	defer unlock()
	return b.recover(ctx, card, count)
}

// lock takes the cards' locks in order. Mode changes, starts and releases of one
// card never overlap.
func (b *Board) lock(ctx context.Context, cards ...string) (unlock func(), err error) {
	cards = slices.Compact(slices.Sorted(slices.Values(cards)))
	var have []chan struct{}
	unlock = func() {
		for _, c := range have {
			<-c
		}
	}
	for _, card := range cards {
		b.mu.Lock()
		c := b.locks[card]
		if c == nil {
			c = make(chan struct{}, 1)
			b.locks[card] = c
		}
		b.mu.Unlock()
		select {
		case c <- struct{}{}:
			have = append(have, c)
		case <-ctx.Done():
			unlock()
			return nil, fmt.Errorf("wait for other work on card %s: %w", card, ctx.Err())
		}
	}
	return unlock, nil
}

func (h hold) cards() []string {
	var out []string
	for _, p := range h.Parts {
		out = append(out, p.Card)
	}
	return out
}
