// Package device is what the agent knows of GPUs: a small interface of its own,
// one implementation per source of truth (device/sim from data files, device/nvml
// from the driver), one file per mode.
package device

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/tenon-cloud/tenon/internal/nodewire"
)

// ErrImpossible is wrapped by Prepare when the board can never make what is
// asked (no such card, another mode, a place that the hardware doesn't take).
// A place that is held by another owner is not that: it may be given back.
var ErrImpossible = errors.New("impossible on this board")

// GoneError is of a card that its host no longer shows.
type GoneError struct{ Address string }

func (e *GoneError) Error() string { return e.Address + " is gone: the host no longer shows it" }

// Inventory is one reading of a node's cards.
type Inventory struct {
	GPUs []nodewire.GPU
	OK   bool // false: the probe failed; the list is the last known one with state unknown
}

// Board is a node's set of cards. Its methods are idempotent and may be called
// again after a crash at any point.
type Board interface {
	// Inventory reads the cards; a failed probe is not an empty board.
	Inventory(ctx context.Context) (Inventory, error)
	// Prepare makes the devices of one instance exist at exactly the assigned
	// places (a MIG slice is created there, a function is bound to vfio-pci) and
	// says how each reaches the guest, in the order asked for.
	Prepare(ctx context.Context, want Request) ([]Grant, error)
	// Release takes back and cleans what the instance holds of this epoch or an
	// earlier one; an epoch before the one that holds changes nothing.
	Release(ctx context.Context, instanceID string, epoch int64) error
	// Held is what exists now, by owner, from the devices themselves.
	Held(ctx context.Context) (map[string][]nodewire.Device, error)
	// Telemetry samples every card and, by instance, every held share.
	Telemetry(ctx context.Context) (cards []nodewire.GPUSample, byInstance map[string]nodewire.Sample, err error)
}

// Request is what one instance is to be given.
type Request struct {
	InstanceID string
	Epoch      int64
	Kind       string // of instance: a vm takes PCI functions, the others device nodes
	Devices    []nodewire.Device
}

// Grant is how one device reaches its guest: by the one field that is set (Near
// goes with CDI and Mediated).
type Grant struct {
	CDI      string     // fully qualified CDI name, for a container
	Near     *int       // NUMA node of what is given by CDI or mediated; nil: unknown
	Pass     []Function // PCI functions bound to vfio-pci: a card and its companions
	Mediated string     // UUID of a mediated device, for a VM
	Virtual  *Function  // an SR-IOV function with a vGPU type: it keeps its driver
	Emulated bool       // a VM gets an emulated PCI device: the card is simulated
}

// Function is one PCI function that a VM gets, and what its machine must be like.
type Function struct {
	Address  string // domain:bus:slot.function
	NUMANode int    // -1: unknown, which is not node 0
	BARBytes uint64 // of all memory regions, for the guest's MMIO window
}

// pinsAGiB is how long it takes at most to pin a GiB of a VM's memory for its
// devices, or to map one of theirs.
const pinsAGiB = time.Second

// Pinning is how much longer a VM may take to start for the devices that it gets.
func Pinning(grants []Grant, memoryMiB int64) time.Duration {
	var bytes uint64
	pins := false
	for _, g := range grants {
		for _, f := range g.Pass {
			bytes += f.BARBytes
		}
		if g.Virtual != nil {
			bytes += g.Virtual.BARBytes
		}
		pins = pins || len(g.Pass) > 0 || g.Virtual != nil || g.Mediated != ""
	}
	if !pins {
		return 0
	}
	return time.Duration(memoryMiB>>10+int64(bytes>>30)) * pinsAGiB //nolint:gosec // far below
}

// NUMANodes are the nodes that grants are known to lie on, in order.
func NUMANodes(grants []Grant) (out []int) {
	add := func(n int) {
		if n >= 0 && !slices.Contains(out, n) { // -1 is unknown, which is not node 0
			out = append(out, n)
		}
	}
	for _, g := range grants {
		if g.Near != nil {
			add(*g.Near)
		}
		for _, f := range g.Pass {
			add(f.NUMANode)
		}
		if g.Virtual != nil {
			add(g.Virtual.NUMANode)
		}
	}
	slices.Sort(out)
	return out
}

// CDINames are the names among grants.
func CDINames(grants []Grant) []string {
	var out []string
	for _, g := range grants {
		if g.CDI != "" {
			out = append(out, g.CDI)
		}
	}
	return out
}

// Inventor is a Board whose figures are invented. It is told which instances are
// known to use no GPU now, so that it doesn't show them busy.
type Inventor interface {
	Rest(instanceIDs map[string]bool)
}

// Keeper is a Board whose cards change their mode and layout, and come back from
// quarantine. What a wish came to is in the inventory, card by card; the error is
// of what concerns none of them alone.
type Keeper interface {
	Wish(ctx context.Context, cards []nodewire.Card) error
}

// Resumer is a Board that has to end what was interrupted before it is used: it is
// told to once, and whatever it can't end in time stays for later.
type Resumer interface {
	Resume(ctx context.Context)
}

// Parted is a Board whose cards hang on NVSwitches: which sets of them one VM can
// get, as of the last inventory.
type Parted interface {
	Partitions() []nodewire.Partition
}

// Watcher is a Board that tells of faults, and of what it does not offer.
type Watcher interface {
	Incidents() []nodewire.Incident
	Excluded() []nodewire.Excluded
}
