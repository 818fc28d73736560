package nodewire

// Card is what a card is to be. A card changes its mode or layout only while
// nothing is held of it; until then, and when it fails, it stays as it was and
// says so.
type Card struct {
	PCIAddress string  `json:"pci_address"`
	Mode       string  `json:"mode"`                // whole, mig, shared, vgpu
	Layout     []Place `json:"layout,omitempty"`    // fixed slices of a mig or vgpu card; empty: made as they are assigned
	Shares     int     `json:"shares,omitempty"`    // of a shared card: how many
	VGPUType   string  `json:"vgpu_type,omitempty"` // of a vgpu card that isn't cut by MIG: the type's name
	// Recover counts an operator's "recovered": a number greater than the one the
	// node reports has it check the card and, if it passes, offer it again.
	Recover int64 `json:"recover,omitempty"`
	// Faults are those that an operator has a simulated card show, in order; a real
	// card shows none. Each is listed until its incident has come.
	Faults []Fault `json:"faults,omitempty"`
}

// Fault is one that is simulated. Its incident has its id.
type Fault struct {
	ID  string `json:"id"`
	XID int    `json:"xid"` // NVIDIA's number
}

// Place is a slice at an exact place.
type Place struct {
	Profile   string `json:"profile"`
	SlotStart int    `json:"slot_start"`
	SlotEnd   int    `json:"slot_end"`
}

// States of a card. Only a ready one takes new work.
const (
	GPUReady       = "ready"
	GPUCleaning    = "cleaning"    // between tenants: reset and checks
	GPUNeedsReset  = "needs_reset" // after its present work, before the next
	GPUQuarantined = "quarantined" // a check failed, or it can't be reset: an operator has to recover it
	GPUUnhealthy   = "unhealthy"   // the hardware failed
	GPUMissing     = "missing"     // gone from the bus
	GPUUnknown     = "unknown"     // the probe failed
)

// GPU is a card as the node sees it.
type GPU struct {
	UUID       string    `json:"uuid"`
	PCIAddress string    `json:"pci_address"`
	Index      int       `json:"index"`
	Vendor     string    `json:"vendor,omitempty"` // PCI vendor id, four hex digits
	Device     string    `json:"device,omitempty"` // PCI device id
	Model      string    `json:"model"`            // key of gpu.Models
	Geometry   string    `json:"geometry"`         // key of gpu.Geometries
	Mode       string    `json:"mode"`             // as read back
	State      string    `json:"state"`            // one of the states above
	Reason     string    `json:"reason,omitempty"`
	MemoryMiB  int64     `json:"memory_mib"`
	NUMANode   int       `json:"numa_node"` // -1: unknown
	NVLink     []string  `json:"nvlink,omitempty"`
	Simulated  bool      `json:"simulated"`
	Profiles   []Profile `json:"profiles,omitempty"` // how MIG cuts it, as its driver told when it was last in that mode
	Slices     []Slice   `json:"slices,omitempty"`   // MIG instances that exist, ours and foreign

	Driver     string   `json:"driver,omitempty"`     // of its function, as read
	Modes      []string `json:"modes,omitempty"`      // that it can be in on this node
	Companions []string `json:"companions,omitempty"` // functions that go to a VM with it
	Bundle     []string `json:"bundle,omitempty"`     // cards that a VM can only get together with it, by PCI address
	NotForVM   bool     `json:"not_for_vm,omitempty"` // whole: no VM can have it, for the reason that is given
	VGPUTypes  []VGPU   `json:"vgpu_types,omitempty"` // what the host driver offers now
	Wish       string   `json:"wish,omitempty"`       // why it is not yet what its Card says; empty: it is
	Missing    []Place  `json:"missing,omitempty"`    // of its layout, what the driver does not show
	Recovered  int64    `json:"recovered,omitempty"`  // the Recover that was last acted on
}

// Profile is what a slice has, as the driver tells it: no table knows.
type Profile struct {
	Profile   string `json:"profile"` // class
	MemoryMiB int64  `json:"memory_mib"`
	SMs       int    `json:"sms,omitempty"`
}

// VGPU is a virtual GPU type of a card.
type VGPU struct {
	Name      string `json:"name"` // as the driver spells it: "NVIDIA A100-4C", "mtty-2"
	ID        string `json:"id"`   // what is written to make one
	Available int    `json:"available"`
	MemoryMiB int64  `json:"memory_mib,omitempty"`
}

// Slice is a MIG instance that exists on a card.
type Slice struct {
	UUID      string `json:"uuid"`
	Profile   string `json:"profile"`
	SlotStart int    `json:"slot_start"`
	SlotEnd   int    `json:"slot_end"`
	Owner     string `json:"owner,omitempty"`   // instance id
	Foreign   bool   `json:"foreign,omitempty"` // the platform did not make it: shown, never touched
	MemoryMiB int64  `json:"memory_mib,omitempty"`
}

// Partition is a set of cards behind NVSwitches that can be given to one VM, as
// Fabric Manager lists it.
type Partition struct {
	ID      int      `json:"id"`
	GPUs    []string `json:"gpus"`              // PCI addresses, sorted
	Foreign bool     `json:"foreign,omitempty"` // active, and not by this agent
}

// Excluded is a PCI function that looks like a GPU and is not offered.
type Excluded struct {
	PCIAddress string `json:"pci_address"`
	Vendor     string `json:"vendor"`
	Device     string `json:"device"`
	Reason     string `json:"reason"`
}

// What an incident does to its card.
const (
	ActionNone       = "none"        // the application's fault: it is told on the instance
	ActionNeedsReset = "needs_reset" // no new placement before a reset
	ActionOut        = "out"         // the card is unhealthy
)

// Incident is one fault of a card, however many signals told of it.
type Incident struct {
	ID         string  `json:"id"` // the same for the same fault, also after a restart of the agent
	PCIAddress string  `json:"pci_address"`
	GPUUUID    string  `json:"gpu_uuid"`
	Kind       string  `json:"kind"`          // xid, fell_off_bus, row_remap_pending, row_remap_failure, missing_slice, reset_failed
	XID        int     `json:"xid,omitempty"` // NVIDIA's number
	Action     string  `json:"action"`
	Message    string  `json:"message"`
	InstanceID string  `json:"instance_id,omitempty"` // whose program it was, where that is known
	AgeSeconds float64 `json:"age_seconds"`           // since the first signal
}
