// Package sim is a board of simulated GPUs: cards from a data file, MIG slices
// at exactly the places that hardware takes, and a device number for each that
// no container has by default, so that what a container may open is really
// enforced by the kernel. Everything that it reports says that it is simulated.
//
// What is held is in state.json, written (tmp, fsync, rename) before a CDI spec
// is and changed last when that is taken away, so a crash at any point leaves
// something that Prepare or Release finishes.
//
// It may import device, device/host for what a fault means, nodewire, gpu and the CDI
// spec's types.
package sim

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"sort"
	"sync"
	"time"

	"github.com/tenon-cloud/tenon/internal/device"
	"github.com/tenon-cloud/tenon/internal/gpu"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

// Config says which cards there are and where their traces go.
type Config struct {
	Board    string         // name of a data file: local
	Boards   fs.FS          // with boards/*.json; nil: the built-in ones
	Modes    map[int]string // mode by card index, instead of the data file's
	CloudID  string         // part of every name that is visible on the host
	StateDir string         // keeps state.json
	Seed     string         // makes the UUIDs of a board that has no state yet; empty: by chance
	CDIDir   string         // where CDI specs go; empty: none are written
	Change   time.Duration  // how long a change of a card's mode or layout takes
	Clean    time.Duration  // how long a card is cleaned after a tenant had it whole
	Now      func() time.Time
	Log      *slog.Logger
}

// Board is a simulated device.Board.
type Board struct {
	cfg   Config
	cards []card
	parts []nodewire.Partition // of its NVSwitches

	mu        sync.Mutex
	state     state
	failProbe bool
	fault     ProbeFault
	marks     map[string]mark             // by UUID: states that a test set
	rest      map[string]bool             // owners that use nothing of what they hold
	wishes    map[string]nodewire.Card    // by PCI address, as last told
	unsaved   bool                        // a wish came to something that could not be saved
	lost      map[string][]nodewire.Place // slices that don't show, by UUID
}

type card struct {
	cardFile
	index int
	uuid  string
	model *gpu.Model
	geo   *gpu.Geometry
	mode  string
}

type mark struct {
	State  string `json:"state"`
	Reason string `json:"reason"`
}

var (
	_ device.Board    = (*Board)(nil)
	_ device.Inventor = (*Board)(nil)
)

// Open reads the board and what is held of it, and puts the CDI specs right.
func Open(cfg Config) (*Board, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	data, err := loadBoard(cfg.Boards, cfg.Board)
	if err != nil {
		return nil, err
	}
	b := &Board{cfg: cfg, marks: map[string]mark{}, lost: map[string][]nodewire.Place{}}
	if err := b.load(); err != nil {
		return nil, err
	}
	for i, c := range data.GPUs {
		m, err := gpu.ModelByKey(c.Model)
		if err != nil {
			return nil, err
		}
		geo, err := gpu.GeometryByName(m.Geometry)
		if err != nil {
			return nil, err
		}
		mode := c.Mode
		if want, ok := cfg.Modes[i]; ok {
			if want != "whole" && want != "mig" {
				return nil, fmt.Errorf("open simulated board: mode %q of card %d is neither whole nor mig", want, i)
			}
			mode = want
		}
		b.cards = append(b.cards, card{cardFile: c, index: i, uuid: b.cardUUID(i), model: m, geo: geo, mode: mode})
	}
	for i := range cfg.Modes {
		if i < 0 || i >= len(b.cards) {
			return nil, fmt.Errorf("open simulated board: a mode is set for card %d, but there are %d cards", i, len(b.cards))
		}
	}
	if b.parts, err = data.partitions(); err != nil {
		return nil, err
	}
	b.keepHeldModes()
	for i := range b.cards {
		c := &b.cards[i]
		s := b.state.Cards[c.PCIAddress]
		if s.Form.Mode == "" {
			s.Form.Mode = c.mode
		}
		if s.Mark != nil {
			b.marks[c.uuid] = *s.Mark
		}
		b.state.Cards[c.PCIAddress] = s
		b.settle(c)
	}
	return b, b.restore()
}

// keepHeldModes lets a card that is held stay in the mode that it is held in.
func (b *Board) keepHeldModes() {
	for owner, h := range b.state.Held {
		for _, d := range h.Devices {
			if c := b.card(d.GPUUUID); c != nil && c.mode != d.Mode && b.state.Cards[c.PCIAddress].Form.Mode == "" {
				b.cfg.Log.Warn("mode kept: the card is held", "gpu", c.index, "mode", d.Mode, "asked", c.mode, "instance", owner)
				c.mode = d.Mode
			}
		}
	}
}

func (b *Board) card(uuid string) *card {
	for i := range b.cards {
		if b.cards[i].uuid == uuid {
			return &b.cards[i]
		}
	}
	return nil
}

// Inventory lists the cards with the slices that exist on them.
func (b *Board) Inventory(ctx context.Context) (device.Inventory, error) {
	b.mu.Lock()
	switch b.fault {
	case ProbeExits:
		b.mu.Unlock()
		return device.Inventory{}, errors.New("the probe exited with status 9 (simulated)")
	case ProbeHangs:
		b.mu.Unlock()
		<-ctx.Done()
		return device.Inventory{}, fmt.Errorf("the probe hangs (simulated): %w", ctx.Err())
	case ProbeSilent:
		b.mu.Unlock()
		return device.Inventory{OK: true}, nil
	}
	defer b.mu.Unlock()
	inv := device.Inventory{OK: !b.failProbe}
	now := b.cfg.Now()
	b.advance(now)
	for i := range b.cards {
		c := b.cards[i]
		g := nodewire.GPU{
			UUID: c.uuid, PCIAddress: c.PCIAddress, Index: c.index, Model: c.Model, Geometry: c.model.Geometry,
			Mode: c.mode, State: "ready", MemoryMiB: c.MemoryMiB, NUMANode: c.NUMANode, Simulated: true,
		}
		if m, ok := b.marks[c.uuid]; ok {
			g.State, g.Reason = m.State, m.Reason
		}
		if b.failProbe {
			g.State, g.Reason = "unknown", "the probe failed (simulated)"
		}
		for _, peer := range c.NVLink {
			g.NVLink = append(g.NVLink, b.cards[peer].PCIAddress)
		}
		for owner, h := range b.state.Held {
			for _, d := range h.Devices {
				if d.GPUUUID == c.uuid && d.Profile != gpu.Whole && c.parts(b.state.Cards[c.PCIAddress].Form) == 0 {
					g.Slices = append(g.Slices, nodewire.Slice{
						UUID: b.deviceUUID(c, d), Profile: d.Profile, SlotStart: d.SlotStart, SlotEnd: d.SlotEnd, Owner: owner,
					})
				}
			}
		}
		b.keep(&g, &b.cards[i], now)
		sort.Slice(g.Slices, func(i, j int) bool { return g.Slices[i].SlotStart < g.Slices[j].SlotStart })
		inv.GPUs = append(inv.GPUs, g)
	}
	return inv, nil
}

// ProbeFault is a way in which a probe of real cards fails.
type ProbeFault string

const (
	ProbeWorks  ProbeFault = ""
	ProbeExits  ProbeFault = "exits"  // with an error
	ProbeHangs  ProbeFault = "hangs"  // whatever its caller's patience
	ProbeSilent ProbeFault = "silent" // succeeds and lists nothing
)

// FailProbeAs makes the next inventories fail in a way, or work again.
func (b *Board) FailProbeAs(f ProbeFault) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fault = f
}

// FailProbe makes the next inventories fail, or work again.
func (b *Board) FailProbe(fail bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failProbe = fail
}

// Mark sets the state that a card reports; "ready" takes the mark away.
func (b *Board) Mark(uuid, state, reason string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if state == "ready" {
		delete(b.marks, uuid)
		return
	}
	b.marks[uuid] = mark{state, reason}
}

// Held is what exists now, by owner.
func (b *Board) Held(context.Context) (map[string][]nodewire.Device, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := make(map[string][]nodewire.Device, len(b.state.Held))
	for owner, h := range b.state.Held {
		out[owner] = append([]nodewire.Device(nil), h.Devices...)
	}
	return out, nil
}
