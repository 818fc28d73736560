package placement

import (
	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/gpu"
	"github.com/tenon-cloud/tenon/internal/packing"
)

// Snapshot is what the nodes have at one moment.
type Snapshot struct {
	Nodes []Node
	// Thousandths: vCPUs are counted in thousandths, as traces do.
	Thousandths bool
}

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
	Slices     []gpu.Place        // what makes up Used, of a card cut by MIG; nil: not told
	// Units: a card that can be had whole or in parts of any size has so many, MiB of
	// its memory or thousandths of it, and Taken of them are. 0: as its mode and
	// geometry say.
	Units, Taken int
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
			Slices: slicesOf(g),
		}
		if g.Mode == cloud.ModeShared && len(g.Claims) > 0 {
			out.GPUs[i].Org = g.Claims[0].OrgID
		}
	}
	return out
}

// slicesOf are the MIG slices that are held of a card.
func slicesOf(g cloud.GPU) (out []gpu.Place) {
	if g.Mode != cloud.ModeMIG && g.Mode != cloud.ModeVGPU {
		return nil
	}
	for _, c := range g.Claims {
		out = append(out, gpu.Place{Class: c.Profile, Start: c.Slots.Start})
	}
	return out
}

// AnyModel among a request's models is every one.
const AnyModel = "*"

// Request is something that wants a place.
type Request struct {
	InstanceID cloud.InstanceID
	Org        cloud.OrgID // shares of one card are one organisation's at a time
	Kind       cloud.InstanceKind
	Shape      cloud.Shape
	Pool       string // empty: any pool without simulated nodes
	Priority   int    // higher first
	Order      int64  // when it was queued: lower first; the id breaks ties
	Count      int    // members alike; 0 means 1
	Min        int    // of those are placed together or none is; 0: all of them
	// Home is the node that its data lies on, the only one that it can run on;
	// zero: it has none yet.
	Home cloud.NodeID
	// Models that will do, instead of the shape's; nil: that one.
	Models []string
	// Units of one card that has them; 0: as the shape says.
	Units int
}

// Discipline says what a request that finds no place does to those behind it.
type Discipline string

const (
	BestEffort Discipline = "best_effort" // nothing: they are tried
	Strict     Discipline = "strict"      // those of its pool wait, unless it can never fit
)

// Policy is what an operator may choose, and what is known of the future. The zero
// value is best effort.
type Policy struct {
	Discipline Discipline
	// Mix is what is asked for, in the long run: places are chosen to leave most room
	// for it. Without one, the fullest node wins.
	Mix []Share
	// Weights of what a place costs; the zero value is the default.
	Weights packing.Weights
}

// Share is a kind of request and how often it comes. Of the request count what it
// is and its shape, not who asks.
type Share struct {
	Request Request
	Weight  float64
}
