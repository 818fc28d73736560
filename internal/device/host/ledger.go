package host

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/google/uuid"

	"github.com/tenon-cloud/tenon/internal/device/pci"
	"github.com/tenon-cloud/tenon/internal/durable"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

const ledgerFormat = 1

// ledgerState is all that must outlive the process. It is on disk before what it
// says is done to a device, and changed last when that is taken back, so that a
// crash leaves nothing that it doesn't name.
type ledgerState struct {
	Format int                     `json:"format"`
	Seed   string                  `json:"seed"`  // makes the identities of cards that no driver names
	Holds  map[string]hold         `json:"holds"` // by instance
	Cards  map[string]cardRecord   `json:"cards"` // by PCI address
	Slices map[string][]OwnedSlice `json:"slices,omitempty"`
	Fabric []int                   `json:"fabric,omitempty"` // partitions that we activated
	Health *HealthState            `json:"health,omitempty"`
	// Asked are the recoveries that were asked of slots whose cards are elsewhere now.
	Asked map[string]int64 `json:"asked,omitempty"`
	// Away are cards in whose place another is, as far as something is known of them
	// that their UUID alone does not tell, by that.
	Away map[string]cardRecord `json:"away,omitempty"`
}

// hold is what one instance was given, or is about to be.
type hold struct {
	Epoch     int64             `json:"epoch"`
	Kind      string            `json:"kind"`
	Devices   []nodewire.Device `json:"devices"`
	Parts     []part            `json:"parts"`               // one a device
	Partition *int              `json:"partition,omitempty"` // of NVSwitches
	// Releasing: its guest is gone and its cards are being cleaned. Nothing of it is
	// offered before that has passed.
	Releasing bool `json:"releasing,omitempty"`
}

// part is one device of a hold and how it was made.
type part struct {
	Card      string         `json:"card"` // PCI address
	Functions []functionHold `json:"functions,omitempty"`
	// Given: it was about to go to vfio-pci, so a guest may have had it. Cleaned is
	// what its reset came to, once there was one; empty: well.
	Given    bool          `json:"given,omitempty"`
	Boot     string        `json:"boot,omitempty"` // in which it was
	Cleaned  *string       `json:"cleaned,omitempty"`
	Mediated *mediatedHold `json:"mediated,omitempty"`
	Virtual  *virtualHold  `json:"virtual,omitempty"`
	Slice    *slicePlace   `json:"slice,omitempty"`
	Share    bool          `json:"share,omitempty"`
	Whole    bool          `json:"whole,omitempty"` // of a container
}

type slicePlace = nodewire.Place

// functionHold is a function as it was before it went to a VM.
type functionHold struct {
	Address  pci.Address `json:"address"`
	Driver   string      `json:"driver,omitempty"`
	Override string      `json:"override,omitempty"`
}

type mediatedHold struct {
	UUID   string `json:"uuid"`
	Parent string `json:"parent"`
	Type   string `json:"type"`
}

type virtualHold struct {
	Address pci.Address `json:"address"`
	Type    string      `json:"type"`
}

// cardRecord is what is kept of a card between readings.
type cardRecord struct {
	UUID       string         `json:"uuid"` // by which the control plane knows it
	DriverUUID string         `json:"driver_uuid,omitempty"`
	ID         pci.ID         `json:"id"`
	MemoryMiB  int64          `json:"memory_mib,omitempty"` // by its driver
	Module     int            `json:"module,omitempty"`
	NVSwitch   bool           `json:"nvswitch,omitempty"`
	Switched   string         `json:"mode,omitempty"` // shared or vgpu: modes that the hardware doesn't show
	VGPUType   string         `json:"vgpu_type,omitempty"`
	Shares     int            `json:"shares,omitempty"`
	MadeVFs    bool           `json:"made_vfs,omitempty"`
	Phase      string         `json:"phase,omitempty"` // cleaning or quarantined
	Reason     string         `json:"reason,omitempty"`
	Recovered  int64          `json:"recovered,omitempty"`
	HeldAs     string         `json:"held_as,omitempty"` // it left its slot while held under this UUID, and only an operator's check makes that good
	Unreset    bool           `json:"unreset,omitempty"` // a tenant had it, and no reset since went well
	Restore    []functionHold `json:"restore,omitempty"` // functions that are not back with their drivers
	Wish       *nodewire.Card `json:"wish,omitempty"`
	Last       *nodewire.GPU  `json:"last,omitempty"` // as last reported, for when it can't be read
}

// ledger keeps the state on disk.
type ledger struct {
	mu    sync.Mutex
	path  string
	state ledgerState
	// strike is called around each write, by tests that kill there.
	strike func(after bool)
}

func openLedger(dir string) (*ledger, error) {
	l := &ledger{path: filepath.Join(dir, "board.json")}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make folder of the board's ledger: %w", err)
	}
	raw, err := os.ReadFile(l.path)
	if errors.Is(err, fs.ErrNotExist) {
		l.state = ledgerState{Format: ledgerFormat, Seed: uuid.NewString(), Holds: map[string]hold{}, Cards: map[string]cardRecord{}}
		return l, l.save(l.state)
	}
	if err != nil {
		return nil, fmt.Errorf("read the board's ledger: %w", err)
	}
	if err := json.Unmarshal(raw, &l.state); err != nil {
		return nil, fmt.Errorf("read the board's ledger: %s is damaged; stop this node's instances and remove it: %w", l.path, err)
	}
	if l.state.Format != ledgerFormat || l.state.Seed == "" {
		return nil, fmt.Errorf("read the board's ledger: %s has format %d, this program reads %d", l.path, l.state.Format, ledgerFormat)
	}
	if l.state.Holds == nil {
		l.state.Holds = map[string]hold{}
	}
	if l.state.Cards == nil {
		l.state.Cards = map[string]cardRecord{}
	}
	return l, nil
}

func (l *ledger) save(s ledgerState) error {
	raw, err := json.Marshal(s)
	if err != nil {
		return err
	}
	if l.strike != nil {
		l.strike(false)
	}
	if err := durable.WriteFile(l.path, raw, 0o600); err != nil {
		return fmt.Errorf("write the board's ledger: %w", err)
	}
	if l.strike != nil {
		l.strike(true)
	}
	return nil
}

// read gives a copy that nobody changes.
func (l *ledger) read() ledgerState {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.copied()
}

func (l *ledger) copied() ledgerState {
	s := l.state
	s.Holds, s.Cards, s.Slices, s.Away = maps.Clone(s.Holds), maps.Clone(s.Cards), maps.Clone(s.Slices), maps.Clone(s.Away)
	s.Asked = maps.Clone(s.Asked)
	return s
}

// change is on disk when it returns; one that fails changes nothing.
func (l *ledger) change(f func(*ledgerState)) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	next := l.copied()
	f(&next)
	if err := l.save(next); err != nil {
		return err
	}
	l.state = next
	return nil
}

func (l *ledger) hold(id string) (hold, bool) {
	h, ok := l.read().Holds[id]
	return h, ok
}

func (l *ledger) setHold(id string, h hold) error {
	return l.change(func(s *ledgerState) { s.Holds[id] = h })
}

func (l *ledger) card(address string) cardRecord { return l.read().Cards[address] }

func (l *ledger) changeCard(address string, f func(*cardRecord)) error {
	return l.change(func(s *ledgerState) {
		c := s.Cards[address]
		f(&c)
		s.Cards[address] = c
	})
}

// Owned implements MIGLedger.
func (l *ledger) Owned(card string) []OwnedSlice { return slices.Clone(l.read().Slices[card]) }

// Own implements MIGLedger.
func (l *ledger) Own(card string, o OwnedSlice) error {
	return l.changeSlices(card, func(list []OwnedSlice) []OwnedSlice {
		list = slices.DeleteFunc(list, func(p OwnedSlice) bool { return p.Place == o.Place })
		return append(list, o)
	})
}

// Disown implements MIGLedger.
func (l *ledger) Disown(card string, p nodewire.Place) error {
	return l.changeSlices(card, func(list []OwnedSlice) []OwnedSlice {
		return slices.DeleteFunc(list, func(o OwnedSlice) bool { return o.Place == p })
	})
}

func (l *ledger) changeSlices(card string, f func([]OwnedSlice) []OwnedSlice) error {
	return l.change(func(s *ledgerState) {
		if s.Slices == nil {
			s.Slices = map[string][]OwnedSlice{}
		}
		s.Slices[card] = f(slices.Clone(s.Slices[card]))
	})
}

// Activated implements FabricLedger.
func (l *ledger) Activated() []int { return slices.Clone(l.read().Fabric) }

// SetActivated implements FabricLedger.
func (l *ledger) SetActivated(ids []int) error {
	return l.change(func(s *ledgerState) { s.Fabric = slices.Clone(ids) })
}

// deviceUUID is what we call what we make for an instance: the same again after a
// crash, another one for each epoch.
func deviceUUID(instanceID string, epoch int64, card string, place int) string {
	return uuid.NewSHA1(uuid.NameSpaceURL, fmt.Appendf(nil, "https://tenon.cloud/device/%s/%d/%s/%d", instanceID, epoch, card, place)).String()
}

// cardUUID names a card that no driver has named.
func (l *ledger) cardUUID(address string, id pci.ID) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return "PCI-" + uuid.NewSHA1(uuid.NameSpaceURL, fmt.Appendf(nil, "https://tenon.cloud/card/%s/%s/%s", l.state.Seed, address, id)).String()
}
