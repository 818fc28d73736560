package placement

import (
	"testing"

	"github.com/tenon-cloud/tenon/internal/cloud"
)

// What has data on a node goes there or nowhere, and says how many others would
// have been looked at.
func TestDataGoesToItsNode(t *testing.T) {
	t.Parallel()
	node := func(n byte, kinds ...string) Node {
		return Node{ID: cloud.NodeID{n}, Pool: "default", State: cloud.NodeReady, VCPU: 4, MemoryMiB: 4096, FreeVCPU: 4, FreeMemoryMiB: 4096, Kinds: kinds}
	}
	ask := Request{InstanceID: cloud.InstanceID{1}, Kind: cloud.KindVM, Shape: cloud.Shape{VCPU: 1, MemoryMiB: 1024}, Pool: "default"}
	all := Snapshot{Nodes: []Node{node(1, "vm"), node(2, "vm"), node(3, "container")}}
	home := ask
	home.Home = cloud.NodeID{2}
	if d := Decide(all, []Request{home}, Policy{}).Decisions[0]; d.Refusal != nil || d.Members[0].NodeID != home.Home {
		t.Errorf("%+v", d)
	}
	full := Snapshot{Nodes: []Node{node(1, "vm"), node(2, "vm")}}
	full.Nodes[1].FreeVCPU = 0
	d := Decide(full, []Request{home}, Policy{}).Decisions[0]
	if d.Refusal == nil || d.Refusal.NeverFits || d.Refusal.Cause() != CauseNoCapacity || d.Refusal.String() != "1 node: not enough vCPU free; 1 node: its data is on another node" {
		t.Errorf("with no room at home: %+v", d.Refusal)
	}
	gone := Snapshot{Nodes: []Node{node(1, "vm")}}
	if d := Decide(gone, []Request{home}, Policy{}).Decisions[0]; d.Refusal == nil || d.Refusal.NeverFits || d.Refusal.Cause() != CauseNoNode {
		t.Errorf("with its node out of the pool: %+v", d.Refusal)
	}
	none := Snapshot{Nodes: []Node{node(3, "container", "notebook")}}
	if d := Decide(none, []Request{ask}, Policy{}).Decisions[0]; d.Refusal == nil || d.Refusal.NeverFits || d.Refusal.Reasons[0].Code != KindUnsupported {
		t.Errorf("a VM where none can run now: %+v", d.Refusal)
	}
	if n := Room(all, ask); n != 8 {
		t.Errorf("room for %d, want 4 on each node that runs VMs", n)
	}
}
