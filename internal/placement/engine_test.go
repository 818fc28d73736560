package placement

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/gpu"
)

func decide(t *testing.T, nodes []Node, requests ...Request) []Decision {
	t.Helper()
	return Decide(Snapshot{Nodes: nodes}, requests, Policy{}).Decisions
}

// one decides about one request.
func one(t *testing.T, nodes []Node, r Request) Decision {
	t.Helper()
	d := decide(t, nodes, r)
	if len(d) != 1 {
		t.Fatalf("%d decisions", len(d))
	}
	return d[0]
}

// cards are the numbers of the chosen cards on their node.
func cards(t *testing.T, d Decision) []int {
	t.Helper()
	if d.Refusal != nil {
		t.Fatalf("refused: %s", d.Refusal)
	}
	var out []int
	for _, x := range d.Members[0].Devices {
		out = append(out, int(x.GPUID[3]))
	}
	return out
}

func TestC7PlacementIsToldFromCapacity(t *testing.T) {
	t.Parallel()
	fragmented := one(t, []Node{newNode(1, holding(gpu.Place{Class: "3g", Start: 0}))}, slice(1, "4g"))
	if fragmented.Refusal == nil || fragmented.Refusal.Cause() != CauseFragmented {
		t.Errorf("a 4g beside a 3g at 0: %+v", fragmented)
	}
	full := one(t, []Node{newNode(1, holding(gpu.Place{Class: "3g", Start: 0}, gpu.Place{Class: "3g", Start: 4}))}, slice(1, "1g"))
	if full.Refusal == nil || full.Refusal.Cause() != CauseNoCapacity {
		t.Errorf("a 1g beside two 3g: %+v", full)
	}
	both := decide(t, []Node{newNode(1, holding())}, slice(1, "3g"), slice(2, "4g"))
	for i, want := range []cloud.Slots{{Start: 4, End: 8}, {Start: 0, End: 4}} {
		if both[i].Refusal != nil || both[i].Members[0].Devices[0].Slots != want {
			t.Errorf("3g, then 4g on an empty card: %+v", both[i])
		}
	}
}

func TestC8LoneSlices(t *testing.T) {
	t.Parallel()
	for class, want := range map[string]int{"3g": 4, "1g": 6} {
		d := one(t, []Node{newNode(1, holding())}, slice(1, class))
		if d.Refusal != nil || d.Members[0].Devices[0].Slots.Start != want {
			t.Errorf("a lone %s: %+v, want start %d", class, d, want)
		}
	}
}

func TestSlicesGoToTheFullestCard(t *testing.T) {
	t.Parallel()
	nodes := []Node{newNode(1, holding(), holding(gpu.Place{Class: "3g", Start: 4})), newNode(2, holding(gpu.Place{Class: "4g", Start: 0}, gpu.Place{Class: "2g", Start: 4}))}
	d := one(t, nodes, slice(1, "1g"))
	if d.Members[0].NodeID != nodeID(2) || d.Members[0].Devices[0].Slots.Start != 6 {
		t.Errorf("%+v", d.Members)
	}
}

func TestC22NVLinkPairs(t *testing.T) {
	t.Parallel()
	board := func(used ...int) []Node {
		var g []GPU
		for i, peer := range []int{2, 3, 0, 1, 5, 4, 7, 6} {
			c := h100(cloud.ModeWhole)
			c.NVLink = []string{address(peer)}
			if slices.Contains(used, i) {
				c.Used.Mask = 0xff
			}
			g = append(g, c)
		}
		return []Node{newNode(1, g...)}
	}
	pairs := [][]int{{0, 2}, {1, 3}, {4, 5}, {6, 7}}
	isPair := func(got []int, of [][]int) bool {
		return slices.ContainsFunc(of, func(p []int) bool { return slices.Equal(p, got) })
	}
	if got := cards(t, one(t, board(), whole(1, 2))); !isPair(got, pairs) {
		t.Errorf("asked for 2: %v", got)
	}
	if got := cards(t, one(t, board(0), whole(1, 1))); !slices.Equal(got, []int{2}) {
		t.Errorf("0 in use, asked for 1: %v, want 2", got)
	}
	if got := cards(t, one(t, board(0, 4), whole(1, 2))); !isPair(got, [][]int{{1, 3}, {6, 7}}) {
		t.Errorf("0 and 4 in use, asked for 2: %v", got)
	}
	if got := cards(t, one(t, board(0, 4), whole(1, 4))); !slices.Equal(got, []int{1, 3, 6, 7}) {
		t.Errorf("0 and 4 in use, asked for 4: %v", got)
	}
}

func TestWholeCardsPreferOneNUMANode(t *testing.T) {
	t.Parallel()
	board := func(numa ...int) []Node {
		var g []GPU
		for _, n := range numa {
			c := h100(cloud.ModeWhole)
			c.NUMANode = n
			g = append(g, c)
		}
		return []Node{newNode(1, g...)}
	}
	if got := cards(t, one(t, board(0, 1, 0, 1), whole(1, 2))); !slices.Equal(got, []int{0, 2}) {
		t.Errorf("one NUMA node: %v", got)
	}
	// Unknown is not node 0, and two unknowns are not known to be one.
	if got := cards(t, one(t, board(-1, 0, -1, 1, 1), whole(1, 2))); !slices.Equal(got, []int{3, 4}) {
		t.Errorf("beside unknown ones: %v", got)
	}
	if got := cards(t, one(t, board(-1, 0), whole(1, 2))); len(got) != 2 {
		t.Errorf("a preference refuses: %v", got)
	}
}

func TestManyCardsOnOneNode(t *testing.T) {
	t.Parallel()
	var g []GPU
	for i := range 20 { // two islands of ten: too many sets to try them all
		c := h100(cloud.ModeWhole)
		c.NUMANode = i % 2
		for j := range 20 {
			if j != i && j%2 == i%2 {
				c.NVLink = append(c.NVLink, address(j))
			}
		}
		g = append(g, c)
	}
	g[0].Used.Mask = 0xff
	if got := cards(t, one(t, []Node{newNode(1, g...)}, whole(1, 10))); !slices.Equal(got, []int{1, 3, 5, 7, 9, 11, 13, 15, 17, 19}) {
		t.Errorf("ten of two islands: %v", got)
	}
}

func TestHostWorkStaysAwayFromFreeCards(t *testing.T) {
	t.Parallel()
	busy := h100(cloud.ModeWhole)
	busy.Used.Mask = 0xff
	nodes := []Node{newNode(1, h100(cloud.ModeWhole)), newNode(2, busy), newNode(3)}
	nodes[2].FreeVCPU = 2
	d := decide(t, nodes, hostOnly(1, 2), hostOnly(2, 2), hostOnly(3, 64))
	for i, want := range []cloud.NodeID{nodeID(3), nodeID(2), nodeID(1)} {
		if d[i].Refusal != nil || d[i].Members[0].NodeID != want {
			t.Errorf("request %d: %+v, want node %s", i+1, d[i], want)
		}
	}
}

func TestSimulatedNodesOnlyByName(t *testing.T) {
	t.Parallel()
	sim := newNode(1)
	sim.Pool, sim.Simulated = "simulated", true
	for pool, want := range map[string]bool{"": false, "default": false, "simulated": true} {
		r := hostOnly(1, 1)
		r.Pool = pool
		if got := one(t, []Node{sim}, r).Refusal == nil; got != want {
			t.Errorf("pool %q: placed %v, want %v", pool, got, want)
		}
	}
}

func TestOrderAndDiscipline(t *testing.T) {
	t.Parallel()
	nodes := []Node{newNode(1)}
	nodes[0].FreeVCPU = 4
	big, small, urgent := hostOnly(1, 8), hostOnly(2, 2), hostOnly(3, 2)
	urgent.Priority = 1
	impossible := hostOnly(0, 65)
	placed := func(p Policy) (out []cloud.InstanceID, plan Plan) {
		plan = Decide(Snapshot{Nodes: nodes}, []Request{small, big, impossible, urgent}, p)
		for _, d := range plan.Decisions {
			if d.Refusal == nil {
				out = append(out, d.InstanceID)
			}
		}
		return out, plan
	}
	if got, _ := placed(Policy{}); !slices.Equal(got, []cloud.InstanceID{urgent.InstanceID, small.InstanceID}) {
		t.Errorf("best effort places %v", got)
	}
	got, plan := placed(Policy{Discipline: Strict})
	if !slices.Equal(got, []cloud.InstanceID{urgent.InstanceID}) {
		t.Errorf("strict places %v", got)
	}
	last := plan.Decisions[3]
	if last.InstanceID != small.InstanceID || last.Refusal.Cause() != CauseBehind || last.Refusal.Position != 3 {
		t.Errorf("the small one waits behind the big one alone: %+v", last.Refusal)
	}
}

func TestMembersAllOrNone(t *testing.T) {
	t.Parallel()
	nodes := []Node{newNode(1, holding()), newNode(2, holding())}
	pair := slice(1, "4g")
	pair.Count = 2
	three := slice(0, "4g")
	three.Count = 3
	d := decide(t, nodes, three, pair, slice(3, "3g"))
	if d[0].Refusal == nil || !d[0].Refusal.NeverFits || d[0].Refusal.Reasons[0] != (Reason{Code: NodeMembers, Count: 2}) {
		t.Errorf("three 4g never fit two cards: %+v", d[0])
	}
	if d[1].Refusal != nil {
		t.Fatalf("what was tried and given up still takes room: %s", d[1].Refusal)
	}
	if len(d[1].Members) != 2 || d[1].Members[0].NodeID == d[1].Members[1].NodeID || d[2].Refusal != nil {
		t.Errorf("two members, then a 3g: %+v, %+v", d[1], d[2])
	}
}

func TestAGangMayBeSmallerThanItLikes(t *testing.T) {
	t.Parallel()
	nodes := []Node{newNode(1, holding()), newNode(2, holding())}
	gang := slice(0, "7g")
	for _, c := range []struct{ most, least, want int }{{3, 1, 2}, {3, 2, 2}, {3, 3, 0}, {1, 5, 1}, {3, 0, 0}} {
		gang.Count, gang.Min = c.most, c.least
		if d := one(t, nodes, gang); len(d.Members) != c.want || (d.Refusal == nil) != (c.want > 0) || c.want == 0 && !d.Refusal.NeverFits {
			t.Errorf("%d to %d members: %+v", c.least, c.most, d)
		}
	}
}

func TestGivenUpMembersFreeNothingElse(t *testing.T) {
	t.Parallel()
	full := holding(gpu.Place{Class: "7g", Start: 0})
	nodes := []Node{newNode(1, full, full, holding()), newNode(2, holding())}
	three := slice(0, "7g")
	three.Count = 3
	d := decide(t, nodes, three, slice(1, "7g"), slice(2, "7g"), slice(3, "7g"))
	for i, placed := range []bool{false, true, true, false} {
		if (d[i].Refusal == nil) != placed {
			t.Errorf("request %d: %+v", i, d[i])
		}
	}
	if got := cards(t, d[1]); got[0] != 2 {
		t.Errorf("a held card is given again: %v", got)
	}
}

func TestReasonsAreCounted(t *testing.T) {
	t.Parallel()
	late, drained, host := newNode(1, holding()), newNode(2, holding()), newNode(3)
	late.State, drained.Drained = cloud.NodeLate, true
	a100, sick := holding(), holding()
	a100.Model, sick.State = "a100-80gb", cloud.GPUUnhealthy
	mixed := newNode(4, a100, sick, h100(cloud.ModeWhole), holding(gpu.Place{Class: "3g", Start: 0}), holding(gpu.Place{Class: "7g", Start: 0}))
	starved := newNode(5, holding())
	starved.FreeVCPU, starved.FreeMemoryMiB = 0, 0
	d := one(t, []Node{late, drained, host, mixed, starved}, slice(1, "4g"))
	want := []Reason{
		{Code: NodeNotReady, Count: 1}, {Code: NodeDrained, Count: 1}, {Code: NodeNoGPU, Count: 1}, {Code: NodeVCPU, Count: 1}, {Code: NodeMemory, Count: 1},
		{Code: GPUModel, Count: 1}, {Code: GPUMode, Count: 1}, {Code: GPUNotReady, Count: 1}, {Code: GPUBusy, Count: 1}, {Code: Fragmented, Count: 1},
	}
	if diff := cmp.Diff(want, d.Refusal.Reasons); diff != "" {
		t.Error(diff)
	}
	const text = "1 node: not ready; 1 node: drained; 1 node: no GPU; 1 node: not enough vCPU free; 1 node: not enough memory free; " +
		"1 GPU: model differs; 1 GPU: cut in another way; 1 GPU: not ready; 1 GPU: in use; 1 GPU: fragmented"
	if d.Refusal.String() != text || d.Refusal.Cause() != CauseFragmented || d.Refusal.NeverFits {
		t.Errorf("%s (%s)", d.Refusal, d.Refusal.Cause())
	}
	if got := one(t, []Node{late, late}, slice(1, "1g")).Refusal; got.Cause() != CauseNoNode || got.String() != "2 nodes: not ready" {
		t.Errorf("%s (%s)", got, got.Cause())
	}
	vm := slice(1, "1g")
	vm.Kind = cloud.KindVM
	bad := slice(1, "5g")
	negative := hostOnly(1, -4)
	for _, r := range []Request{vm, bad, negative} {
		if got := one(t, []Node{mixed}, r).Refusal; got == nil || got.Cause() != CauseNeverFits {
			t.Errorf("%+v: %v", r, got)
		}
	}
	if got := one(t, nil, hostOnly(1, 1)).Refusal; got.NeverFits || got.Reasons[0].Code != PoolEmpty {
		t.Errorf("a pool without nodes: %+v", got)
	}
}

func TestTheSameInstanceTwiceIsPlacedOnce(t *testing.T) {
	t.Parallel()
	if d := decide(t, []Node{newNode(1)}, hostOnly(1, 1), hostOnly(1, 1)); len(d) != 1 {
		t.Errorf("%d decisions", len(d))
	}
}

func TestFromNode(t *testing.T) {
	t.Parallel()
	n := FromNode(cloud.Node{VCPU: 2, CPUOvercommit: 4, UsedVCPU: 3, MemoryMiB: 4096, UsedMemoryMiB: 1024, PoolName: "default", State: cloud.NodeReady,
		GPUs: []cloud.GPU{{Model: "h100-80gb", Geometry: gpu.MIG8, Mode: cloud.ModeMIG, Claims: []cloud.Claim{{Profile: "1g+me", Slots: cloud.Slots{Start: 6, End: 7}}}}}})
	if n.VCPU != 8 || n.FreeVCPU != 5 || n.FreeMemoryMiB != 3072 || n.GPUs[0].Used != (gpu.Used{Mask: 0x40, Media: true, Compute: 1}) {
		t.Errorf("%+v", n)
	}
}

// fleet is nodes of 8 cards, half cut by MIG, every fourth without any.
func fleet(nodes int) Snapshot {
	var s Snapshot
	for i := range nodes {
		var g []GPU
		for k := range 8 * min(i%4, 1) {
			c := h100(cloud.ModeWhole)
			if k < 4 {
				c = holding()
			}
			c.NUMANode = k / 4
			c.NVLink = []string{address(k ^ 1)}
			g = append(g, c)
		}
		s.Nodes = append(s.Nodes, newNode(i, g...))
	}
	return s
}

// mix is requests of 20 shapes, or each of a shape of its own.
func mix(n int, distinct bool) []Request {
	var out []Request
	for i := range n {
		var r Request
		switch i % 5 {
		case 0:
			r = slice(i, "1g")
		case 1:
			r = slice(i, "3g")
		case 2:
			r = whole(i, 1+i%2)
		case 3:
			r = slice(i, "2g")
		default:
			r = hostOnly(i, 2)
		}
		r.Shape.MemoryMiB += int64(i % 4 * 512)
		if distinct {
			r.Shape.MemoryMiB += int64(i)
		}
		out = append(out, r)
	}
	return out
}

func BenchmarkDecide(b *testing.B) {
	for _, c := range []struct {
		name     string
		distinct bool
		full     bool
	}{{"20_shapes", false, false}, {"1000_shapes", true, false}, {"1000_shapes_full", true, true}} {
		b.Run(c.name, func(b *testing.B) {
			s, r := fleet(1000), mix(1000, c.distinct)
			if c.full {
				for i := range s.Nodes {
					s.Nodes[i].FreeVCPU = 0
				}
			}
			for b.Loop() {
				Decide(s, r, Policy{})
			}
		})
	}
}
