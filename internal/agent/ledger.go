package agent

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tenon-cloud/tenon/internal/nodewire"
)

const ledgerFormat = 1

// Store keeps one document; Save returns only when it would survive a crash.
type Store interface {
	Load() ([]byte, error) // nil: nothing was ever saved
	Save(raw []byte) error
	Where() string // for messages
	// Beat notes that the agent lives. The last such note may be lost with the power,
	// an earlier one is there then.
	Beat(now time.Time) error
	// LastBeat is the latest note; zero: there is none.
	LastBeat() time.Time
	// KeepContact notes when the control plane was last heard of; it need not survive a
	// loss of power.
	KeepContact(c Contact) error
	// LastContact is the latest such note, if there is one.
	LastContact() (c Contact, ok bool)
}

// Contact is when the control plane was last heard of, on a clock that no one
// sets and that counts sleep: time since this boot.
type Contact struct {
	BootID string        `json:"boot_id"`
	At     time.Duration `json:"at"`
}

// state is what the ledger holds. A snapshot is never changed once it is
// published; records are replaced, not edited.
type state struct {
	Assignment *nodewire.Assignment `json:"assignment,omitempty"`
	Records    map[string]record    `json:"records"`
	// Strays are what ran here before the control plane was restored and that its
	// new era doesn't know: they go on until an operator lets them go.
	Strays map[string]stray `json:"strays,omitempty"`
	// Kept are the volumes that were made here: one that is missing later was lost,
	// and is not made anew in silence.
	Kept map[string]bool `json:"kept,omitempty"`

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
	RunGeneration int64  `json:"run_generation,omitempty"`
	RunBoot       string `json:"run_boot,omitempty"`
	// StartBoot is the boot in which its devices and its guest were last about to
	// be made: what takes its host down may do so within that.
	StartBoot string  `json:"start_boot,omitempty"`
	End       *ending `json:"end,omitempty"` // the run's end, once it is decided
	// Halted: it was shut down since its host went down, which is no end that it
	// chose, also where the kernel stays (a soft reboot).
	Halted bool `json:"halted,omitempty"`
	// Volumes are those that its guest may have mounted.
	Volumes []string `json:"volumes,omitempty"`
	// Adopted says what a guest counts as that a restored control plane knows at an
	// earlier generation: it is not restarted for that.
	Adopted *adoption `json:"adopted,omitempty"`
}

type adoption struct {
	Guest int64 `json:"guest"` // generation that it runs with
	As    int64 `json:"as"`    // generation that it counts as
}

// counts is the generation that one of the engine's counts as.
func (r *record) counts(generation int64) int64 {
	if r.Adopted != nil && r.Adopted.Guest == generation {
		return r.Adopted.As
	}
	return generation
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

// fill makes the maps that are not there.
func (s *state) fill() {
	if s.Records == nil {
		s.Records = map[string]record{}
	}
	if s.Strays == nil {
		s.Strays = map[string]stray{}
	}
	if s.Kept == nil {
		s.Kept = map[string]bool{}
	}
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
	s := &state{}
	s.fill()
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
	s.fill()
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
		trial := &state{
			Assignment: next.Assignment, byID: next.byID, Records: maps.Clone(next.Records),
			Strays: maps.Clone(next.Strays), Kept: maps.Clone(next.Kept),
		}
		trial.fill()
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
