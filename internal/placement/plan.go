package placement

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/tenon-cloud/tenon/internal/cloud"
)

// Plan says for every request where it goes or why not, in the order in which
// they were decided. A request whose instance was listed before is left out.
type Plan struct{ Decisions []Decision }

// Decision is about one request: either Members or Refusal is set.
type Decision struct {
	InstanceID cloud.InstanceID
	Members    []Assignment // one for each member of the request, so one when Count is 0 or 1
	Refusal    *Refusal
}

// Assignment is a place: a node, and slots of its cards.
type Assignment struct {
	NodeID  cloud.NodeID
	Devices []Device // sorted by card, then slots: the order in which claims are inserted
	// Topology says for a person how whole cards lie to each other; empty: nothing is
	// known of that.
	Topology string
}

// Device is one card or slice.
type Device struct {
	GPUID   cloud.GPUID
	Mode    cloud.GPUMode
	Profile string // "whole", the MIG profile's class, or that of equal parts
	Slots   cloud.Slots
	Units   int // of a card that is had in parts of any size; 0: all of it, or its slots
}

// Refusal says why a request waits.
type Refusal struct {
	// NeverFits: no node of the pool could take it even if nothing ran there.
	// False while the pool has no node at all: one may still come.
	NeverFits bool
	// Position in its pool's queue of those that wait, from 1.
	Position int
	Reasons  []Reason
}

// Cause is the refusal in one word, for the instance's reason.
type Cause string

const (
	CauseNeverFits  Cause = "never_fits"
	CauseFragmented Cause = "fragmented"  // enough is free, but not in the right slots
	CauseNoCapacity Cause = "no_capacity" // too little is free
	CauseNoNode     Cause = "no_node"     // no node of the pool takes new work now
	CauseBehind     Cause = "behind"      // waits for an earlier one
)

// Cause is the refusal in one word.
func (r Refusal) Cause() Cause {
	switch {
	case r.NeverFits:
		return CauseNeverFits
	case r.has(Behind):
		return CauseBehind
	case r.has(Fragmented), r.has(NodePartition):
		return CauseFragmented
	case slices.ContainsFunc(r.Reasons, func(x Reason) bool { return !x.Code.unavailable() }):
		return CauseNoCapacity
	}
	return CauseNoNode
}

func (r Refusal) has(c Code) bool {
	return slices.ContainsFunc(r.Reasons, func(x Reason) bool { return x.Code == c })
}

// String is the refusal for a person: "2 nodes: not ready; 3 GPUs: fragmented".
func (r Refusal) String() string {
	out := make([]string, len(r.Reasons))
	for i, x := range r.Reasons {
		out[i] = x.String()
	}
	return strings.Join(out, "; ")
}

// Code is a machine-readable reason. The text after it is for people.
type Code string

const (
	PoolEmpty       Code = "pool_empty"
	BadShape        Code = "bad_shape"
	NotForKind      Code = "not_for_kind"
	Behind          Code = "behind"
	NodeNotReady    Code = "node_not_ready"
	NodeDrained     Code = "node_drained"
	KindUnsupported Code = "kind_unsupported"
	VolumeElsewhere Code = "volume_elsewhere"
	NodeNoGPU       Code = "node_no_gpu"
	NodeFewGPUs     Code = "node_few_gpus"
	NodePartSize    Code = "node_partition_size"
	NodePartition   Code = "node_partition"
	NodeVCPU        Code = "node_vcpu"
	NodeMemory      Code = "node_memory"
	NodeMembers     Code = "node_members"
	GPUModel        Code = "gpu_model"
	GPUMode         Code = "gpu_mode"
	GPUProfile      Code = "gpu_profile"
	GPULayout       Code = "gpu_layout"
	GPUBundle       Code = "gpu_bundle"
	GPUNotForVM     Code = "gpu_not_for_vm"
	GPUNotReady     Code = "gpu_not_ready"
	GPUCleaning     Code = "gpu_cleaning"
	GPUNeedsReset   Code = "gpu_needs_reset"
	GPUChanging     Code = "gpu_changing"
	GPUShares       Code = "gpu_shares"
	SharesNotForVM  Code = "shares_not_for_vm"
	VGPUForVM       Code = "vgpu_for_vm"
	GPUMedia        Code = "gpu_media"
	GPUBusy         Code = "gpu_busy"
	Fragmented      Code = "gpu_fragmented"
	GPUMemory       Code = "gpu_memory"
)

// codes in the order in which reasons are listed, with their words.
var codes = []struct {
	code Code
	unit string // what is counted
	text string
}{
	{PoolEmpty, "", "the pool has no nodes"},
	{BadShape, "", "the shape is not one that can be placed"},
	{NotForKind, "", "a virtual machine can't hold a MIG slice: take a container, a whole GPU, or a MIG-backed vGPU type"},
	{SharesNotForVM, "", "a virtual machine can't hold a share of a GPU: take a container, a whole GPU, or a vGPU type"},
	{VGPUForVM, "", "only a virtual machine can hold a virtual GPU: take a VM, a whole GPU, or a MIG slice"},
	{Behind, "request", "ahead and also waiting"},
	{NodeNotReady, "node", "not ready"},
	{NodeDrained, "node", "drained"},
	{KindUnsupported, "node", "can't run instances of this kind now"},
	{NodeNoGPU, "node", "no GPU"},
	{NodeFewGPUs, "node", "some fitting GPUs, but fewer than asked"},
	{NodePartSize, "node", "NVSwitch partitions have"},
	{NodePartition, "node", "enough GPUs free, but no NVSwitch partition of as many"},
	{NodeVCPU, "node", "not enough vCPU free"},
	{NodeMemory, "node", "not enough memory free"},
	{NodeMembers, "node", "room for some members, but not for all"},
	{GPUModel, "GPU", "model differs"},
	{GPUMode, "GPU", "cut in another way"},
	{GPUProfile, "GPU", "has no such profile"},
	{GPULayout, "GPU", "laid out without such a slice"},
	{GPUBundle, "GPU", "a virtual machine can only get it together with others"},
	{GPUNotForVM, "GPU", "not for virtual machines, since its node can't isolate it"},
	{GPUNotReady, "GPU", "not ready"},
	{GPUCleaning, "GPU", "being cleaned"},
	{GPUNeedsReset, "GPU", "waits for a reset"},
	{GPUChanging, "GPU", "its mode or layout is being changed"},
	{GPUShares, "GPU", "in use"},
	{GPUMedia, "GPU", "media engines in use"},
	{GPUBusy, "GPU", "in use"},
	{Fragmented, "GPU", "fragmented"},
	{GPUMemory, "GPU", "insufficient GPU memory"},
	{VolumeElsewhere, "node", "its data is on another node"},
}

func rank(c Code) int {
	for i := range codes {
		if codes[i].code == c {
			return i
		}
	}
	return len(codes)
}

// unavailable reports the reasons that say nothing of what is free.
func (c Code) unavailable() bool {
	switch c {
	case PoolEmpty, NodeNotReady, NodeDrained, VolumeElsewhere:
		return true
	}
	return false
}

// Reason counts the nodes or cards that could not be used for one cause. Each
// node is counted once or through its cards; one that lacks both vCPU and memory
// is counted for both.
type Reason struct {
	Code  Code
	Count int
	Sizes string // of NodePartSize: those that there are
}

// String is the reason for a person.
func (r Reason) String() string {
	i := rank(r.Code)
	if i == len(codes) {
		return string(r.Code)
	}
	c := codes[i]
	switch {
	case c.unit == "":
		return c.text
	case r.Code == NodePartSize && r.Count == 1:
		return fmt.Sprintf("1 node: this board's %s %s", c.text, r.Sizes)
	case r.Code == NodePartSize:
		return fmt.Sprintf("%d nodes: these boards' %s %s", r.Count, c.text, r.Sizes)
	case r.Count == 1:
		return fmt.Sprintf("1 %s: %s", c.unit, c.text)
	}
	return fmt.Sprintf("%d %ss: %s", r.Count, c.unit, c.text)
}

// tally gathers reasons.
type tally map[Code]int

func (t tally) reasons() []Reason {
	out := make([]Reason, 0, len(t))
	for c, n := range t {
		out = append(out, Reason{Code: c, Count: n})
	}
	slices.SortFunc(out, func(a, b Reason) int { return cmp.Compare(rank(a.Code), rank(b.Code)) })
	return out
}
