package agent

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/tenon-cloud/tenon/internal/durable"
)

// FileStore is a Store in one file.
type FileStore string

// Where implements Store.
func (f FileStore) Where() string { return string(f) }

// Load implements Store.
func (f FileStore) Load() ([]byte, error) {
	raw, err := os.ReadFile(string(f))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil && raw == nil {
		raw = []byte{}
	}
	return raw, err
}

// Save implements Store: the old document or the new one is there after a crash.
func (f FileStore) Save(raw []byte) error { return writeDurably(string(f), raw) }

func (f FileStore) beatFile() string { return string(f) + ".alive" }

// Beat implements Store: what is charged after a loss of power is by the beat, so the
// one before is there until this one is. It is too frequent to be forced to disk.
func (f FileStore) Beat(now time.Time) error {
	return replace(f.beatFile(), []byte(now.UTC().Format(time.RFC3339Nano)))
}

// LastBeat implements Store.
func (f FileStore) LastBeat() time.Time {
	raw, err := os.ReadFile(f.beatFile())
	if err == nil {
		if at, err := time.Parse(time.RFC3339Nano, string(raw)); err == nil {
			return at
		}
	}
	var at time.Time // its content is lost: it lived when it wrote that, or the others
	for _, path := range []string{f.beatFile(), string(f), f.contactFile()} {
		if info, err := os.Stat(path); err == nil && info.ModTime().After(at) {
			at = info.ModTime()
		}
	}
	return at
}

func (f FileStore) contactFile() string { return string(f) + ".contact" }

// KeepContact implements Store.
func (f FileStore) KeepContact(c Contact) error {
	raw, err := json.Marshal(c)
	if err != nil {
		return err
	}
	return replace(f.contactFile(), raw)
}

// replace leaves the old file or the new one after a crash of this process.
func replace(path string, raw []byte) error {
	next := path + ".new"
	if err := os.WriteFile(next, raw, 0o600); err != nil {
		return err
	}
	return os.Rename(next, path)
}

// LastContact implements Store.
func (f FileStore) LastContact() (c Contact, ok bool) {
	raw, err := os.ReadFile(f.contactFile())
	return c, err == nil && json.Unmarshal(raw, &c) == nil
}

// writeDurably replaces a file (0600) and makes its folder where there is none.
func writeDurably(path string, raw []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return durable.WriteFile(path, raw, 0o600)
}

// MemoryStore is a Store for nodes that are simulated inside one process.
type MemoryStore struct {
	mu   sync.Mutex
	raw  []byte
	beat time.Time
	last *Contact
}

// KeepContact implements Store.
func (m *MemoryStore) KeepContact(c Contact) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.last = &c
	return nil
}

// LastContact implements Store.
func (m *MemoryStore) LastContact() (Contact, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.last == nil {
		return Contact{}, false
	}
	return *m.last, true
}

// Beat implements Store.
func (m *MemoryStore) Beat(now time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.beat = now
	return nil
}

// LastBeat implements Store.
func (m *MemoryStore) LastBeat() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.beat
}

// Where implements Store.
func (m *MemoryStore) Where() string { return "memory" }

// Load implements Store.
func (m *MemoryStore) Load() ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.raw, nil
}

// Save implements Store.
func (m *MemoryStore) Save(raw []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.raw = raw
	return nil
}
