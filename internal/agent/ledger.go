package agent

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tenon-cloud/tenon/internal/durable"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

const ledgerFormat = 1

// Store keeps one document; Save returns only when it would survive a crash.
type Store interface {
	Load() ([]byte, error) // nil: nothing was ever saved
	Save(raw []byte) error
	Where() string // for messages
	// Beat notes that the agent lives; it need not survive a loss of power.
	Beat(now time.Time) error
	// LastBeat is the latest note; zero: there is none.
	LastBeat() time.Time
}

// state is what the ledger holds. A snapshot is never changed once it is
// published; records are replaced, not edited.
type state struct {
	Assignment *nodewire.Assignment `json:"assignment,omitempty"`
	Records    map[string]record    `json:"records"`

	byID map[string]*nodewire.Instance // of Assignment
}

// record is what the node may hold of one instance. It is made with the
// assignment, before the first step, and dropped after the last.
type record struct {
	Kind    string  `json:"kind"`
	Epoch   int64   `json:"epoch"`
	Earlier []int64 `json:"earlier,omitempty"` // epochs that may still hold something
	// RunGeneration and RunBoot say which start was seen to succeed: a guest of
	// that generation that is no longer there has been lost.
	RunGeneration int64   `json:"run_generation,omitempty"`
	RunBoot       string  `json:"run_boot,omitempty"`
	End           *ending `json:"end,omitempty"` // the run's end, once it is decided
}

// ending is how a run ended.
type ending struct {
	State         string    `json:"state"` // stopped, failed, gone
	Reason        string    `json:"reason,omitempty"`
	Message       string    `json:"message,omitempty"`
	ExitCode      *int      `json:"exit_code,omitempty"`
	LastLines     string    `json:"last_lines,omitempty"`
	RanForSeconds float64   `json:"ran_for_seconds,omitempty"`
	At            time.Time `json:"at"`
	Done          bool      `json:"done"` // process and devices are proven gone
}

func (s *state) want(id string) *nodewire.Instance { return s.byID[id] }

// assign sets the assignment and its index.
func (s *state) assign(as *nodewire.Assignment) {
	s.Assignment, s.byID = as, map[string]*nodewire.Instance{}
	if as == nil {
		return
	}
	for i := range as.Instances {
		s.byID[as.Instances[i].ID] = &as.Instances[i]
	}
}

func (s *state) version() nodewire.Version {
	if s.Assignment == nil {
		return nodewire.Version{}
	}
	return s.Assignment.Version
}

// ledger is the state on disk and in memory; they never differ for a reader.
type ledger struct {
	store Store
	cur   atomic.Pointer[state]

	queueMu sync.Mutex
	queue   []*change
	writeMu sync.Mutex
}

type change struct {
	apply func(*state) error
	done  bool
	err   error
}

// envelope is the document's outer form.
type envelope struct {
	Format int             `json:"format"`
	SHA256 string          `json:"sha256"` // of State
	State  json.RawMessage `json:"state"`
}

// openLedger reads what was saved. Damage is an error, never an empty ledger: an
// agent that forgot what it runs could give a held device away.
func openLedger(store Store) (*ledger, error) {
	raw, err := store.Load()
	if err != nil {
		return nil, fmt.Errorf("read ledger: %w", err)
	}
	s := &state{Records: map[string]record{}}
	if raw != nil {
		if err := decodeLedger(raw, s); err != nil {
			return nil, fmt.Errorf("read ledger %s: %w. This node does not guess what it holds: restore the file from a backup, "+
				"or make sure that no guest of this cloud runs here, move the file away and start again; the control plane sends the assignment anew", store.Where(), err)
		}
	}
	l := &ledger{store: store}
	l.cur.Store(s)
	return l, nil
}

func decodeLedger(raw []byte, s *state) error {
	var e envelope
	if err := json.Unmarshal(raw, &e); err != nil {
		return fmt.Errorf("the file is damaged: %w", err)
	}
	if e.Format != ledgerFormat {
		return fmt.Errorf("the file has format %d and this agent reads format %d", e.Format, ledgerFormat)
	}
	sum := sha256.Sum256(e.State)
	if hex.EncodeToString(sum[:]) != e.SHA256 {
		return errors.New("the file is damaged: its checksum does not match")
	}
	if err := json.Unmarshal(e.State, s); err != nil {
		return fmt.Errorf("the file is damaged: %w", err)
	}
	if s.Records == nil {
		s.Records = map[string]record{}
	}
	s.assign(s.Assignment)
	return nil
}

// snapshot is the present state; the caller must not change it.
func (l *ledger) snapshot() *state { return l.cur.Load() }

// update applies a change and returns when it is on disk. If apply fails, or
// the disk does, nothing has changed. Changes that come while one is being
// written go to disk together.
func (l *ledger) update(apply func(*state) error) error {
	c := &change{apply: apply}
	l.queueMu.Lock()
	l.queue = append(l.queue, c)
	l.queueMu.Unlock()

	l.writeMu.Lock()
	defer l.writeMu.Unlock()
	if c.done {
		return c.err
	}
	l.queueMu.Lock()
	batch := l.queue
	l.queue = nil
	l.queueMu.Unlock()

	next := l.snapshot()
	for _, c := range batch {
		trial := &state{Assignment: next.Assignment, byID: next.byID, Records: maps.Clone(next.Records)}
		if c.err = c.apply(trial); c.err == nil {
			next = trial
		}
	}
	var err error
	if next != l.snapshot() {
		if err = l.save(next); err == nil {
			l.cur.Store(next)
		}
	}
	for _, c := range batch {
		c.done = true
		if c.err == nil {
			c.err = err
		}
	}
	return c.err
}

func (l *ledger) save(s *state) error {
	inner, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("write ledger: %w", err)
	}
	sum := sha256.Sum256(inner)
	raw, err := json.Marshal(envelope{Format: ledgerFormat, SHA256: hex.EncodeToString(sum[:]), State: inner})
	if err != nil {
		return fmt.Errorf("write ledger: %w", err)
	}
	if err := l.store.Save(raw); err != nil {
		return fmt.Errorf("write ledger %s: %w", l.store.Where(), err)
	}
	return nil
}

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

// Beat implements Store.
func (f FileStore) Beat(now time.Time) error {
	return os.WriteFile(f.beatFile(), []byte(now.UTC().Format(time.RFC3339Nano)), 0o600)
}

// LastBeat implements Store.
func (f FileStore) LastBeat() time.Time {
	raw, err := os.ReadFile(f.beatFile())
	if err != nil {
		return time.Time{}
	}
	at, err := time.Parse(time.RFC3339Nano, string(raw))
	if err != nil {
		return time.Time{} // cut off as it was written
	}
	return at
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
