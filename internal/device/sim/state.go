package sim

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/tenon-cloud/tenon/internal/durable"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

const stateFormat = 1

// state is what must outlive the process.
type state struct {
	Format int    `json:"format"`
	Seed   string `json:"seed"` // makes the UUIDs of this state folder
	// ByBoard has another board have other cards; a folder of before keeps its UUIDs.
	ByBoard bool            `json:"by_board,omitempty"`
	Held    map[string]hold `json:"held"` // by instance
	// Cards are by PCI address what operators made of them.
	Cards map[string]cardState `json:"cards,omitempty"`
	// Faults are what the cards showed of late, oldest first.
	Faults []fault `json:"faults,omitempty"`
}

type hold struct {
	Epoch   int64             `json:"epoch"`
	Devices []nodewire.Device `json:"devices"`
	Minors  []int             `json:"minors"` // one a device
}

func (b *Board) load() error {
	path := filepath.Join(b.cfg.StateDir, "state.json")
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		seed := b.cfg.Seed
		if seed == "" {
			seed = rand.Text()
		}
		b.state = state{Format: stateFormat, Seed: seed, ByBoard: true, Held: map[string]hold{}, Cards: map[string]cardState{}}
		return b.save()
	}
	if err != nil {
		return fmt.Errorf("read simulated board: %w", err)
	}
	if err := json.Unmarshal(raw, &b.state); err != nil {
		return fmt.Errorf("read simulated board: %s is damaged; stop this node's instances and remove it: %w", path, err)
	}
	if b.state.Format != stateFormat || b.state.Seed == "" {
		return fmt.Errorf("read simulated board: %s has format %d, this program reads %d", path, b.state.Format, stateFormat)
	}
	if b.state.Held == nil {
		b.state.Held = map[string]hold{}
	}
	if b.state.Cards == nil {
		b.state.Cards = map[string]cardState{}
	}
	return nil
}

func (b *Board) save() error {
	raw, err := json.Marshal(b.state)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(b.cfg.StateDir, 0o700); err != nil {
		return fmt.Errorf("save simulated board: %w", err)
	}
	if err := durable.WriteFile(filepath.Join(b.cfg.StateDir, "state.json"), raw, 0o600); err != nil {
		return fmt.Errorf("save simulated board: %w", err)
	}
	b.unsaved = false
	return nil
}

// uuid derives a stable identifier from the state folder's seed.
func (b *Board) uuid(words ...any) string {
	sum := sha256.Sum256([]byte(b.state.Seed + fmt.Sprint(words...)))
	return fmt.Sprintf("%x-%x-%x-%x-%x", sum[0:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
}

// cardUUID is that of the board's card of an index.
func (b *Board) cardUUID(i int) string {
	if b.state.ByBoard {
		return "GPU-SIM-" + b.uuid("gpu", b.cfg.Board, " ", i)
	}
	return "GPU-SIM-" + b.uuid("gpu", i)
}
