package volume

import (
	"context"
	"path"
	"sort"
	"sync"

	"github.com/tenon-cloud/tenon/internal/nodewire"
)

// Memory books volumes of a simulated node and keeps no data.
type Memory struct {
	mu   sync.Mutex
	kept map[string]Found
}

// NewMemory is a simulated node's storage.
func NewMemory() *Memory { return &Memory{kept: map[string]Found{}} }

// Ensure books a volume.
func (m *Memory) Ensure(_ context.Context, v nodewire.Volume) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f := m.kept[v.ID]
	m.kept[v.ID] = Found{ID: v.ID, Role: v.Role, SizeMiB: max(f.SizeMiB, v.SizeMiB), UsedMiB: f.UsedMiB}
	return path.Join("/simulated", v.ID), nil
}

// Has reports that a volume is booked.
func (m *Memory) Has(_ context.Context, id string) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, ok := m.kept[id]
	return ok, nil
}

// Remove forgets a volume.
func (m *Memory) Remove(_ context.Context, id string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.kept, id)
	return nil
}

// List is every volume that is booked.
func (m *Memory) List(context.Context) ([]Found, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make([]Found, 0, len(m.kept))
	for _, f := range m.kept {
		out = append(out, f)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].ID < out[j].ID })
	return out, nil
}
