package cloud

import (
	"slices"
	"time"
)

// GPUMode is the one way in which a card is cut, at a time.
type GPUMode string

const (
	ModeWhole  GPUMode = "whole"
	ModeMIG    GPUMode = "mig"
	ModeShared GPUMode = "shared"
	ModeVGPU   GPUMode = "vgpu"
)

// GPUState says whether a card may be placed on.
type GPUState string

const (
	GPUReady       GPUState = "ready"
	GPUCleaning    GPUState = "cleaning"    // between tenants: reset and check under way
	GPUNeedsReset  GPUState = "needs_reset" // after its present work, before the next
	GPUQuarantined GPUState = "quarantined" // out until an operator recovers it
	GPUUnhealthy   GPUState = "unhealthy"   // a fault took it out
	GPUMissing     GPUState = "missing"     // was there, the node no longer sees it
	GPUUnknown     GPUState = "unknown"     // the probe failed: neither free nor gone
)

// GPU is a physical card on a node.
type GPU struct {
	ID          GPUID
	NodeID      NodeID
	NodeName    string
	NodeWell    bool // it answers, and is not fenced
	NodeDrained bool
	UUID        string // NVML's, with its GPU- prefix; simulated cards have their own
	PCIAddress  string // domain:bus:slot.function
	Index       int    // for display only; changes between boots
	Model       string // key of gpu.Models: h100-80gb
	Geometry    string // key of gpu.Geometries
	Mode        GPUMode
	State       GPUState
	Reason      string   // why it is not ready
	MemoryMiB   int64    // usable, from the driver
	NUMANode    int      // -1: unknown
	NVLink      []string // PCI addresses of the cards joined to it
	Simulated   bool
	Claims      []Claim `db:"-"`

	Vendor     string // PCI vendor and device id, four hex digits each; empty: not said
	Device     string
	Driver     string         // of its function, as read
	Modes      []GPUMode      // that it can be in on its node; empty: the node doesn't say
	Companions []string       // functions that go to a VM with it
	Bundle     []string       // cards that a VM can only get together with it
	NotForVM   bool           `db:"not_for_vm"` // no VM can have it whole; Reason says why
	VGPUTypes  []VGPUType     `db:"vgpu_types"`
	Slices     []Slice        // that exist on it, ours and foreign
	Profiles   []SliceFigures // what slices of it have, as its driver told
	Missing    []SlicePlace   // of its layout, what the driver doesn't show

	Wish       CardWish   `db:"-"`
	Changing   bool       // it is not yet what is wished
	WishReason string     // why not, as its node says
	WishedAt   *time.Time // nil: nobody ever did
	Revision   int64      // of the wish: another one has another; 0: nobody ever wished
	Recover    int64      // counts an operator's asking for a check
	Recovered  int64      // the last that was acted on
}

// CardWish is what an operator wants a card to be. Without a mode there is no
// wish, and it stays as it is.
type CardWish struct {
	Mode     GPUMode
	Geometry string
	Layout   []SlicePlace // fixed slices; empty: made as they are placed
	Shares   int          // of a shared card
	VGPUType string       // of a vgpu card that MIG doesn't cut
}

// Fixed are the places that a card has its slices at, as its driver shows them;
// nil: wherever they fit.
func (g GPU) Fixed() []SlicePlace {
	if g.Wish.Mode != g.Mode {
		return nil
	}
	return Shown(g.Wish.Layout, g.Missing)
}

// Shown are the places of a layout but for those that are missing; nil when no
// place is fixed.
func Shown(layout, missing []SlicePlace) []SlicePlace {
	if len(layout) == 0 {
		return nil
	}
	out := make([]SlicePlace, 0, len(layout))
	for _, p := range layout {
		if !slices.Contains(missing, p) {
			out = append(out, p)
		}
	}
	return out
}

// SlicePlace is a slice at an exact place.
type SlicePlace struct {
	Profile   string `json:"profile"`
	SlotStart int    `json:"slot_start"`
	SlotEnd   int    `json:"slot_end"`
}

// Slice is a MIG instance that exists on a card.
type Slice struct {
	UUID      string `json:"uuid"`
	Profile   string `json:"profile"`
	SlotStart int    `json:"slot_start"`
	SlotEnd   int    `json:"slot_end"`
	Foreign   bool   `json:"foreign,omitempty"` // the platform did not make it: shown, never touched
	MemoryMiB int64  `json:"memory_mib,omitempty"`
}

// SliceFigures are what a driver tells of a MIG profile. No table of ours knows.
type SliceFigures struct {
	Profile   string `json:"profile"`
	MemoryMiB int64  `json:"memory_mib"`
	SMs       int    `json:"sms,omitempty"`
}

// VGPUType is a virtual GPU type that a card's host driver offers.
type VGPUType struct {
	Name      string `json:"name"`
	ID        string `json:"id"`
	Available int    `json:"available"`
	MemoryMiB int64  `json:"memory_mib,omitempty"`
}

// Partition is a set of cards behind NVSwitches that one VM can get, as the node's
// Fabric Manager lists it.
type Partition struct {
	ID      int      `json:"id"`
	GPUs    []string `json:"gpus"`    // PCI addresses, sorted
	Foreign bool     `json:"foreign"` // active, and not the platform's doing: its cards are in no other's reach
}

// Excluded is a PCI function that looks like a GPU and is not offered.
type Excluded struct {
	PCIAddress string
	Vendor     string
	Device     string
	Reason     string
}

// What an incident does to its card.
const (
	IncidentNone       = "none"        // the application's fault
	IncidentNeedsReset = "needs_reset" // no new work before a reset
	IncidentOut        = "out"         // the card is out
)

// Incident is one fault of a card, however many signals told of it.
type Incident struct {
	ID         string // the node's
	GPUID      GPUID
	Kind       string // xid, fell_off_bus, row_remap_pending…
	XID        int    `db:"xid"` // NVIDIA's number; 0: none
	Action     string
	Message    string
	InstanceID InstanceID // whose program it was; zero: not known, or nobody's
	At         time.Time
	ReceivedAt time.Time
}

// SimulatedFault is one that a simulated card is to show; its incident has its id.
type SimulatedFault struct {
	ID  string `json:"id"`
	XID int    `json:"xid"`
}

// GPUStay is a hold of some of a card, as its history keeps it.
type GPUStay struct {
	ID           GPUStayID
	GPUID        GPUID
	InstanceID   InstanceID
	InstanceName string
	OrgName      string
	Epoch        int64
	Model        string
	Mode         GPUMode
	Profile      string
	Slots        Slots
	From         time.Time
	To           *time.Time // nil: it is held
}

// Slots is a half-open range of a GPU's slots. A whole card is [0,8), a MIG
// slice its memory slices, a share its number (decision 1).
type Slots struct{ Start, End int }

// Size is the number of slots held.
func (s Slots) Size() int { return s.End - s.Start }

// Overlaps reports whether two ranges share a slot.
func (s Slots) Overlaps(o Slots) bool { return s.Start < o.End && o.Start < s.End }

// Claim is a live hold of slots by an instance. It is deleted on release, by
// the release transition whose epoch matches and by nothing else.
type Claim struct {
	ID           ClaimID
	GPUID        GPUID
	OrgID        OrgID
	ProjectID    ProjectID
	InstanceID   InstanceID
	InstanceName string
	OrgName      string
	Epoch        int64
	Mode         GPUMode
	Profile      string // "whole", or the MIG profile's class: 1g, 1g+me, 1g2, 2g, 3g, 4g, 7g
	Slots        Slots
	CreatedAt    time.Time
}
