// Package watchdog ends guests that may not run without contact to the control
// plane when their node's agent can't: it is dead, stopped or stuck. It is a
// process of its own, so small that it has little to die of.
//
//	agent ─► lease.json: who must end when, on a clock that nobody sets ─► watchdog
//	agent ◄─ ack.json: the lease that the watchdog knows, and that it lives ◄─┘
//
// Both files lie in the run folder and name their boot: one that outlived it
// says nothing. The watchdog kills what the lease names and no more: a control
// group of this software, or a process with its start time.
//
// It may import the standard library and golang.org/x/sys.
package watchdog

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// Lease is what must end, and when.
type Lease struct {
	BootID   string  `json:"boot_id"`
	Sequence int64   `json:"sequence"`
	Guests   []Guest `json:"guests"`
}

// Guest may run until its deadline, a time since boot.
type Guest struct {
	ID       string        `json:"id"`
	Epoch    int64         `json:"epoch"`
	Deadline time.Duration `json:"deadline"`
	Cgroup   string        `json:"cgroup,omitempty"` // as below the control groups' root
	Process  *Process      `json:"process,omitempty"`
}

// Process is one by more than its number, which may be taken anew.
type Process struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // ticks since boot
}

// ack says which lease the watchdog knows.
type ack struct {
	BootID   string        `json:"boot_id"`
	Sequence int64         `json:"sequence"`
	At       time.Duration `json:"at"`
	Self     Process       `json:"self"`
}

func leaseFile(dir string) string { return filepath.Join(dir, "lease.json") }
func ackFile(dir string) string   { return filepath.Join(dir, "ack.json") }

// write replaces a file in one step; the run folder is in memory, so it is not
// synced.
func write(path string, v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if err := os.WriteFile(path+".new", raw, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

func read(path string, v any) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return json.Unmarshal(raw, v)
}

// quietFor is how long the watchdog may be silent, or behind, before it no longer
// counts as there.
const quietFor = 5 * time.Second

// Keeper is the agent's end.
type Keeper struct {
	dir, boot string
	clock     func() time.Duration

	mu       sync.Mutex
	sequence int64
	pending  []renewal // not acknowledged yet, oldest first
}

type renewal struct {
	sequence int64
	at       time.Duration
}

// NewKeeper keeps leases in a folder; clock is the time since boot.
func NewKeeper(dir, bootID string, clock func() time.Duration) (*Keeper, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the watchdog's folder: %w", err)
	}
	k := &Keeper{dir: dir, boot: bootID, clock: clock}
	var last Lease
	if read(leaseFile(dir), &last) == nil && last.BootID == bootID {
		k.sequence = last.Sequence // an acknowledgement of the agent before is none of ours
	}
	return k, nil
}

// Renew replaces the lease.
func (k *Keeper) Renew(guests []Guest) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	next := Lease{BootID: k.boot, Sequence: k.sequence + 1, Guests: guests}
	if err := write(leaseFile(k.dir), next); err != nil {
		return fmt.Errorf("renew lease: %w", err)
	}
	k.sequence++
	k.pending = append(k.pending, renewal{k.sequence, k.clock()})
	return nil
}

// Simulated is the watchdog of a simulated node: its guests are nowhere but in
// the agent's own process, so that they can't outlive it.
type Simulated struct{}

// Renew does nothing.
func (Simulated) Renew([]Guest) error { return nil }

// Acknowledged is true: what needs no end has one.
func (Simulated) Acknowledged() bool { return true }

// Acknowledged reports that the watchdog lives and knows the lease, as it is or
// was a moment ago.
func (k *Keeper) Acknowledged() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	var a ack
	if k.sequence == 0 || read(ackFile(k.dir), &a) != nil || a.BootID != k.boot {
		return false
	}
	now := k.clock()
	if a.At > now || now-a.At > quietFor || !alive(a.Self) {
		return false
	}
	for len(k.pending) > 0 && k.pending[0].sequence <= a.Sequence {
		k.pending = k.pending[1:]
	}
	return len(k.pending) == 0 || now-k.pending[0].at < quietFor && a.Sequence > 0
}
