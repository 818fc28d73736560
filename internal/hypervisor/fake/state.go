package fake

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"time"

	"github.com/tenon-cloud/tenon/internal/durable"
	"github.com/tenon-cloud/tenon/internal/hypervisor"
)

const stateFormat = 1

// state is what outlives the process.
type state struct {
	Format int                  `json:"format"`
	Guests []kept               `json:"guests"`
	Images map[string]time.Time `json:"images"`
}

type kept struct {
	hypervisor.Guest
	Name      string   `json:"name"`
	Kind      string   `json:"kind"`
	VCPU      int      `json:"vcpu"`
	MemoryMiB int64    `json:"memory_mib"`
	CDI       []string `json:"cdi"`
	Lines     []string `json:"lines"`
	Plan      *plan    `json:"plan,omitempty"`
}

// load reads the guests. Those whose time came while no process ran them ended
// then; mu is held.
func (e *Engine) load() error {
	if e.opts.StateFile == "" {
		return nil
	}
	raw, err := os.ReadFile(e.opts.StateFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read simulated guests: %w", err)
	}
	var s state
	if err := json.Unmarshal(raw, &s); err != nil || s.Format != stateFormat {
		return fmt.Errorf("read simulated guests: %s is damaged or of another format: %w", e.opts.StateFile, errors.Join(err))
	}
	maps.Copy(e.images, s.Images)
	now := time.Now()
	for _, k := range s.Guests {
		g := &guest{Guest: k.Guest, name: k.Name, kind: k.Kind, vcpu: k.VCPU, memory: k.MemoryMiB, cdi: k.CDI, lines: k.Lines,
			plan: k.Plan, ended: make(chan struct{}), logged: make(chan struct{})}
		e.guests[g.ID] = g
		switch {
		case g.State != hypervisor.Running:
			close(g.ended)
		case g.plan != nil && g.StartedAt.Add(g.plan.After).Before(now):
			g.log(fmt.Sprintf("simulated guest exits with %d", g.plan.Code))
			g.end(g.plan.Code, false, g.StartedAt.Add(g.plan.After))
		default:
			e.arm(g)
		}
	}
	return nil
}

// save writes the guests; mu is held.
func (e *Engine) save() error {
	if e.opts.StateFile == "" {
		return nil
	}
	s := state{Format: stateFormat, Images: e.images, Guests: make([]kept, 0, len(e.guests))}
	for _, g := range e.guests {
		s.Guests = append(s.Guests, kept{Guest: g.Guest, Name: g.name, Kind: g.kind, VCPU: g.vcpu, MemoryMiB: g.memory, CDI: g.cdi, Lines: g.lines, Plan: g.plan})
	}
	raw, err := json.Marshal(s)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(e.opts.StateFile), 0o700)
	}
	if err == nil {
		err = durable.WriteFile(e.opts.StateFile, raw, 0o600)
	}
	if err != nil {
		return fmt.Errorf("keep simulated guests: %w", err)
	}
	return nil
}
