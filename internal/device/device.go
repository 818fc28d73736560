// Package device is what the agent knows of GPUs: a small interface of its own,
// one implementation per source of truth (device/sim from data files, device/nvml
// from the driver), one file per mode.
package device

import (
	"context"
	"errors"

	"github.com/tenon-cloud/tenon/internal/nodewire"
)

// ErrImpossible is wrapped by Prepare when the board can never make what is
// asked (no such card, another mode, a place that the hardware doesn't take).
// A place that is held by another owner is not that: it may be given back.
var ErrImpossible = errors.New("impossible on this board")

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
	// places (a MIG slice is created there) and returns their CDI names.
	Prepare(ctx context.Context, instanceID string, epoch int64, devices []nodewire.Device) ([]string, error)
	// Release takes back and cleans what the instance holds of this epoch or an
	// earlier one; an epoch before the one that holds changes nothing.
	Release(ctx context.Context, instanceID string, epoch int64) error
	// Held is what exists now, by owner, from the devices themselves.
	Held(ctx context.Context) (map[string][]nodewire.Device, error)
	// Telemetry samples every card and, by instance, every held share.
	Telemetry(ctx context.Context) (cards []nodewire.GPUSample, byInstance map[string]nodewire.Sample, err error)
}

// Inventor is a Board whose figures are invented. It is told which instances are
// known to use no GPU now, so that it doesn't show them busy.
type Inventor interface {
	Rest(instanceIDs map[string]bool)
}
