package placement

import (
	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/gpu"
)

// Snapshot is what the nodes have at one moment.
type Snapshot struct{ Nodes []Node }

// Node is one node. What is free counts every instance that holds a place on
// it, started or not.
type Node struct {
	ID        cloud.NodeID
	Pool      string
	State     cloud.NodeState
	Drained   bool
	Simulated bool
	Kinds     []string // of instances that it can run; nil: any

	VCPU          int   // sold in all: the host's times the overcommit
	MemoryMiB     int64 // sold in all
	FreeVCPU      int
	FreeMemoryMiB int64
	GPUs          []GPU
	// Partitions of the NVSwitches that its cards hang on; a VM gets the cards of
	// exactly one. Cards that are in none hang on no switch.
	Partitions []cloud.Partition
}

// GPU is one card.
type GPU struct {
	ID         cloud.GPUID
	PCIAddress string
	Model      string
	Geometry   string
	Mode       cloud.GPUMode
	State      cloud.GPUState
	Used       gpu.Used           // a whole claim holds every slot
	NUMANode   int                // -1: unknown, which is no node
	NVLink     []string           // PCI addresses of the cards joined to it
	Changing   bool               // it is not yet what an operator wants it to be: it takes nothing new
	Fixed      []cloud.SlicePlace // the only places of its slices; nil: wherever they fit
	Bundled    bool               // a VM can only get it together with others
	Bundle     []string           // those, by PCI address, where they are known
	NotForVM   bool               // no VM can have it whole
	Org        cloud.OrgID        // whose shares are on it; zero: nobody's
}

// FromNode makes the engine's view of a node with its cards and their claims.
func FromNode(n cloud.Node) Node {
	vcpu := n.VCPU
	if n.CPUOvercommit > 0 {
		vcpu = int(float64(n.VCPU) * n.CPUOvercommit)
	}
	out := Node{
		ID: n.ID, Pool: n.PoolName, State: n.State, Drained: n.Drained, Simulated: n.Simulated, Kinds: n.Kinds,
		VCPU: vcpu, MemoryMiB: n.MemoryMiB,
		FreeVCPU: vcpu - n.UsedVCPU, FreeMemoryMiB: n.MemoryMiB - n.UsedMemoryMiB,
		GPUs: make([]GPU, len(n.GPUs)), Partitions: n.Partitions,
	}
	for i, g := range n.GPUs {
		out.GPUs[i] = GPU{
			ID: g.ID, PCIAddress: g.PCIAddress, Model: g.Model, Geometry: g.Geometry, Mode: g.Mode, State: g.State,
			Used: gpu.UsedBy(g.Claims), NUMANode: g.NUMANode, NVLink: g.NVLink,
			Changing: g.Changing, Fixed: g.Fixed(), Bundled: len(g.Bundle) > 0, Bundle: g.Bundle, NotForVM: g.NotForVM,
		}
		if g.Mode == cloud.ModeShared && len(g.Claims) > 0 {
			out.GPUs[i].Org = g.Claims[0].OrgID
		}
	}
	return out
}

// Request is something that wants a place.
type Request struct {
	InstanceID cloud.InstanceID
	Org        cloud.OrgID // shares of one card are one organisation's at a time
	Kind       cloud.InstanceKind
	Shape      cloud.Shape
	Pool       string // empty: any pool without simulated nodes
	Priority   int    // higher first
	Order      int64  // when it was queued: lower first; the id breaks ties
	Count      int    // members alike, all placed or none; 0 means 1
	// Home is the node that its data lies on, the only one that it can run on;
	// zero: it has none yet.
	Home cloud.NodeID
}

// Discipline says what a request that finds no place does to those behind it.
type Discipline string

const (
	BestEffort Discipline = "best_effort" // nothing: they are tried
	Strict     Discipline = "strict"      // those of its pool wait, unless it can never fit
)

// Policy is what an operator may choose. The zero value is best effort.
type Policy struct{ Discipline Discipline }
