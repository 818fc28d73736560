package cloud

import "time"

// NodeState is the control plane's view of a node's liveness.
type NodeState string

const (
	NodeReady NodeState = "ready"
	NodeLate  NodeState = "late" // no news lately: no new placements, what runs stays
	NodeLost  NodeState = "lost" // no news for long: fenced by decision 8; its claims stay held
)

// Node is a hypervisor that has enrolled.
type Node struct {
	ID            NodeID
	Name          string
	PoolID        PoolID
	PoolName      string
	State         NodeState
	Drained       bool // an operator's: no new placements
	Simulated     bool
	VCPU          int     // what the host has
	MemoryMiB     int64   // what the host has, less what it keeps for itself
	CPUOvercommit float64 // vCPUs sold per vCPU of the host
	AgentVersion  string
	LastSeenAt    *time.Time
	CreatedAt     time.Time
	Generation    int64 // of its assignment
	AckGeneration int64 // the last that the agent holds
	UsedVCPU      int
	UsedMemoryMiB int64
	Labels        map[string]string // rack, zone
	Kinds         []string          // of instances that its usable drivers can run
	Drivers       map[string]string // driver → its version and how it works, or why it can't be used
	Watchdog      bool              // it ends guests by itself when it has lost contact
	FencedAt      *time.Time        // what may restart elsewhere no longer runs on it
	FencedByHand  bool              // an operator confirmed that it is off
	Orphans       []Orphan          // what it has and nobody assigned
	Stays         StayCounts        `db:"-"` // what a drain leaves on it
	Counted       bool              `db:"-"` // Stays is known
	GPUs          []GPU             `db:"-"`
	Excluded      []Excluded        `db:"-"` // functions that look like GPUs and are not offered
	Partitions    []Partition       `db:"-"` // of its NVSwitches
}

// Orphan is what a node runs or keeps and nobody assigned.
type Orphan struct {
	Driver string `json:"driver"`
	ID     string `json:"id"`
	What   string `json:"what"`
}

// Reasons why something stays on a node that is drained.
const (
	StayRunning  = "running"
	StayStopping = "stopping"
	StayHeld     = "held"
	StayVolume   = "volume"
	StayFenced   = "fenced_claim"
	StayOrphan   = "orphan"
)

// Stay is what a drain leaves on a node, and why: of a tenant's instance no more
// than what it is called and how it is.
type Stay struct {
	InstanceID   InstanceID
	InstanceName string
	OrgName      string
	VolumeID     VolumeID
	Orphan       string // its id
	Kind         string
	State        string
	Reason       string
	Message      string // why it stays, and what would move it
}

// StayCounts are how many of each stay.
type StayCounts struct {
	Running, Stopping, Held, Volumes, FencedClaims, Orphans int
}

// Pool is a set of nodes that work is steered to by name.
type Pool struct {
	ID        PoolID
	Name      string
	Simulated bool // gets work only when it is asked for by name
}

// SimulatedPool is the pool of the simulated fleet.
const SimulatedPool = "simulated"
