package cloud

import "time"

// InstanceKind is what an instance runs as.
type InstanceKind string

const (
	KindContainer InstanceKind = "container"
	KindVM        InstanceKind = "vm"
	KindNotebook  InstanceKind = "notebook"
)

// DesiredState is the tenant's intent, written by app alone.
type DesiredState string

const (
	DesiredRunning DesiredState = "running"
	DesiredStopped DesiredState = "stopped"
	DesiredDeleted DesiredState = "deleted"
)

// InstanceState is where an instance is on its way to what is desired.
//
//	queued ─► starting ─► running ─► stopping ─► stopped
//	  │          │           │           │          │ start: queued again
//	  │          └───────────┴──► failed ◄┘         │
//	  └────────────────────── deleting ◄────────────┘ ─► deleted
//
// A VM that was stopped and holds its place starts there without a queue
// (stopped ─► starting). What ran on a fenced node goes back to the queue.
type InstanceState string

const (
	StateQueued   InstanceState = "queued"   // wants a place; Reason says what it waits for
	StateStarting InstanceState = "starting" // placed; its node pulls, prepares, starts
	StateRunning  InstanceState = "running"
	StateStopping InstanceState = "stopping"
	StateStopped  InstanceState = "stopped" // holds nothing; can be started
	StateFailed   InstanceState = "failed"  // ended with an error; holds nothing; can be started or deleted
	StateDeleting InstanceState = "deleting"
	StateDeleted  InstanceState = "deleted"
)

// InstanceStates lists every state, in the order a reader expects.
var InstanceStates = []InstanceState{StateQueued, StateStarting, StateRunning, StateStopping, StateStopped, StateFailed, StateDeleting, StateDeleted}

var instanceMoves = map[InstanceState][]InstanceState{
	StateQueued:   {StateStarting, StateStopped, StateFailed, StateDeleted},
	StateStarting: {StateRunning, StateStopping, StateFailed, StateDeleting, StateStopped, StateQueued},
	StateRunning:  {StateStopping, StateStopped, StateFailed, StateDeleting, StateQueued, StateStarting},
	StateStopping: {StateStopped, StateFailed, StateDeleting},
	StateStopped:  {StateQueued, StateStarting, StateDeleted},
	StateFailed:   {StateQueued, StateDeleted},
	StateDeleting: {StateDeleted},
	StateDeleted:  nil,
}

// CanMove reports whether an instance may go from one state to another; the
// same table is a CHECK in the database.
func CanMove(from, to InstanceState) bool {
	for _, s := range instanceMoves[from] {
		if s == to {
			return true
		}
	}
	return false
}

// OnNode reports the states in which a node may hold something of the
// instance, so its claims stay held. A stopped one that is held has a node too,
// which its state alone doesn't say.
func (s InstanceState) OnNode() bool {
	switch s {
	case StateStarting, StateRunning, StateStopping, StateDeleting:
		return true
	}
	return false
}

// Instance is anything that runs and holds resources.
type Instance struct {
	ID          InstanceID
	OrgID       OrgID
	ProjectID   ProjectID
	ProjectName string
	Name        string
	Kind        InstanceKind
	ImageID     ImageID
	ImageName   string
	ImageDigest string // resolved at admission; what runs is what was asked
	FlavorID    FlavorID
	FlavorName  string
	Shape       Shape // copied from the flavor at admission: a later edit changes nothing that runs
	PoolName    string
	Command     []string // nil: the image's
	Env         map[string]string
	Labels      map[string]string

	Desired            DesiredState
	Generation         int64 // of the intent
	State              InstanceState
	ObservedGeneration int64
	Reason             string // machine-readable: why it waits or failed (no_capacity, image_pull_failed, exited…)
	Message            string // for a person
	Progress           *int   // percent of the present step, when known
	ExitCode           *int
	LastLines          string // of its log, when it ended by itself
	NodeID             NodeID // zero when not placed
	NodeName           string
	Epoch              int64  // grows with each placement
	Address            string // on its node's bridge
	Simulated          bool   // its pool is, or a card that it holds
	CreatedBy          UserID
	CreatedAt          time.Time
	StartedAt          *time.Time // of the present run
	StateAt            time.Time  // when State was entered
	DeletedAt          *time.Time
	DeadlineAt         *time.Time // when the present state becomes a failure
	EventSeq           int64      // number of its last event

	OnStop     StopPolicy // what a stop does with its place, unless the stop says
	Held       bool       // stopped, and keeps its place: GPUs, vCPU and memory stay charged
	OnNodeLoss LossPolicy
	OnReboot   RebootPolicy
	SSHKeys    []string   // authorised for the image's user; VMs
	IdleSince  *time.Time // notebooks: since when nothing was going on; nil: busy, or not known
	IdleStopAt *time.Time // when the project's policy stops it, if it stays idle
	Volumes    []Volume   `db:"-"`

	JobID   JobID // it is a member of; zero: of none
	JobName string
	JobRank int
}

// Shape is what an instance holds while it runs, and what it is charged for.
type Shape struct {
	GPUCount   int     `json:"gpu_count"`             // cards or slices
	GPUModel   string  `json:"gpu_model,omitempty"`   // key of gpu.Models; empty when GPUCount is 0
	GPUMode    GPUMode `json:"gpu_mode,omitempty"`    // whole or mig here
	GPUProfile string  `json:"gpu_profile,omitempty"` // profile class when mig: 1g, 2g…; "whole" otherwise
	VCPU       int     `json:"vcpu"`
	MemoryMiB  int64   `json:"memory_mib"`
	DiskMiB    int64   `json:"disk_mib"` // size limit of the writable layer
}

// Flavor is a named shape that operators offer.
type Flavor struct {
	ID          FlavorID
	Name        string
	Description string
	Shape       Shape
	CreatedAt   time.Time
	RetiredAt   *time.Time
}

// Image is something that an instance can be made from.
type Image struct {
	ID          ImageID
	OrgID       OrgID // zero: offered to everyone by the operator
	Name        string
	Kind        InstanceKind
	Ref         string // repository and tag in an OCI registry; "tenon/debian-12:latest" is in the embedded one
	Digest      string // sha256:… of the manifest when it was added
	SizeBytes   int64
	Description string
	CreatedAt   time.Time
}

// Event is one thing that happened to a resource, in the order in which it
// happened to it (Seq counts per resource, without holes).
type Event struct {
	ID         EventID // derived from the resource and Seq, or from the reporter's own id
	Cursor     int64   // position in the project's stream
	OrgID      OrgID
	ProjectID  ProjectID
	Resource   string // "instance" or "job"
	ResourceID string // printed id
	Seq        int64
	Verb       string // created, placed, running, stopped, failed…
	Message    string
	At         time.Time
	Data       map[string]any
}

// Alarm tells operators of something that needs a person.
type Alarm struct {
	ID             AlarmID
	Key            string // one open alarm per key
	Severity       string // warning or critical
	Subject        string // printed id of what it is about
	Message        string
	OpenedAt       time.Time
	AcknowledgedAt *time.Time
	ClearedAt      *time.Time
}

// StopPolicy is what a stop does with an instance's place.
type StopPolicy string

const (
	StopReleases StopPolicy = "release" // others may take it; a disk stays
	StopHolds    StopPolicy = "hold"    // it stays one's own, and charged; VMs only
)

// LossPolicy is what happens to an instance whose node is lost.
type LossPolicy string

const (
	LossWaits    LossPolicy = "wait"    // for the node to come back
	LossRestarts LossPolicy = "restart" // elsewhere, once nothing of it can run on its node
)

// RebootPolicy is what happens to an instance whose node was booted again.
type RebootPolicy string

const (
	RebootRestarts RebootPolicy = "restart" // where it was, with what it held
	RebootFails    RebootPolicy = "fail"
)

// RebootPolicyOf is the policy of a kind unless another is asked for. What keeps
// its data goes on with it; a container would begin from nothing.
func RebootPolicyOf(k InstanceKind) RebootPolicy {
	if k == KindContainer {
		return RebootFails
	}
	return RebootRestarts
}

// VolumeRole is what a volume is to its instance.
type VolumeRole string

const (
	VolumeRoot VolumeRole = "root" // a VM's disk
	VolumeHome VolumeRole = "home" // a notebook's home folder
)

// Volume is data that outlives a run. It belongs to one instance and, on local
// storage, lies on one node, so that its instance can run only there.
type Volume struct {
	ID         VolumeID
	OrgID      OrgID
	ProjectID  ProjectID
	InstanceID InstanceID
	Role       VolumeRole
	SizeMiB    int64
	UsedMiB    *int64
	NodeID     NodeID // zero: not made yet
	NodeName   string
	State      string // pending, present, deleting, deleted, lost
	Gone       bool   // lost for good: its node was given up
	Message    string
	CreatedAt  time.Time
	DeletedAt  *time.Time
}
