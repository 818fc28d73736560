package placement

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"runtime"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/gpu"
)

// sees is a mix of these requests, each as frequent as the others.
func sees(requests ...Request) Policy {
	var p Policy
	for _, r := range requests {
		p.Mix = append(p.Mix, Share{r, 1 / float64(len(requests))})
	}
	return p
}

// nodesOf is what a board would tell of its nodes.
func nodesOf(b *Board) (out []Node) {
	for i := range b.nodes {
		out = append(out, b.nodes[i].now())
	}
	return out
}

// A board that lives on decides as one that is made anew from the same nodes,
// whatever came, went and changed meanwhile.
func TestABoardThatLivesOnDecidesAsANewOne(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		policy := sees(genRequests(t)...)
		policy.Discipline = rapid.SampledFrom([]Discipline{BestEffort, Strict}).Draw(t, "discipline")
		first := genBoard(t)
		live := NewBoard(first, policy)
		for range rapid.IntRange(1, 6).Draw(t, "steps") {
			for range rapid.IntRange(0, 2).Draw(t, "changes") {
				switch s := genBoard(t); {
				case len(s.Nodes) == 0:
				case rapid.IntRange(0, 3).Draw(t, "remove") == 0:
					live.Remove(s.Nodes[0].ID)
				default:
					live.Set(rapid.SampledFrom(s.Nodes).Draw(t, "node"))
				}
			}
			if rapid.IntRange(0, 3).Draw(t, "reweigh") == 0 {
				policy.Mix = sees(genRequests(t)...).Mix
				live.Reweigh(policy.Mix)
			}
			now := Snapshot{Nodes: nodesOf(live)}
			requests := genRequests(t)
			if diff := cmp.Diff(NewBoard(now, policy).Decide(requests), live.Try(requests)); diff != "" {
				t.Fatalf("what is tried is decided otherwise:\n%s", diff)
			}
			if diff := cmp.Diff(now.Nodes, nodesOf(live)); diff != "" {
				t.Fatalf("what is tried stays:\n%s", diff)
			}
			for _, n := range now.Nodes {
				if n.FreeVCPU++; !live.Differs(n) {
					t.Fatalf("node %s does not differ with one vCPU more", n.ID)
				}
			}
			fresh := NewBoard(now, policy)
			if diff := cmp.Diff(fresh.Decide(requests), live.Decide(requests)); diff != "" {
				t.Fatalf("the board that lives on decides otherwise:\n%s", diff)
			}
			if diff := cmp.Diff(nodesOf(fresh), nodesOf(live)); diff != "" {
				t.Fatalf("and has booked otherwise:\n%s", diff)
			}
		}
	})
}

// Whatever is placed, cut, released and kept for later after a mark: a rollback
// leaves nothing of it.
func TestARollbackLeavesNothing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		b := NewBoard(genBoard(t), sees(genRequests(t)...))
		var classes []int
		for _, r := range genRequests(t) {
			classes = append(classes, b.Class(r))
		}
		before := nodesOf(b)
		mark := b.Mark()
		inner := -1
		var live, undone []Booking
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			switch rapid.IntRange(0, 5).Draw(t, "step") {
			case 0:
				if len(live) > 0 {
					b.Release(rapid.SampledFrom(live).Draw(t, "which"))
				}
			case 1:
				if len(live) > 0 {
					b.Cut(rapid.SampledFrom(live).Draw(t, "which"), 1)
				}
			case 2:
				if inner >= 0 {
					at := nodesOf(b)
					m := b.Mark()
					if id, _ := b.Place(classes[0], 1, 2); id > 0 {
						b.Rollback(m)
						undone = append(undone, id)
						if diff := cmp.Diff(at, nodesOf(b)); diff != "" {
							t.Fatalf("undone at once:\n%s", diff)
						}
					}
				}
				inner = b.Mark()
			case 3:
				if len(undone) > 0 {
					b.Block(undone[len(undone)-1])
				}
			default:
				lo := rapid.IntRange(1, 2).Draw(t, "min")
				id, n := b.Place(rapid.SampledFrom(classes).Draw(t, "class"), lo, lo+1)
				if id > 0 {
					live = append(live, id)
				}
				if id > 0 != (n > 0) || n > lo+1 || id > 0 && (n < lo || len(b.Members(id)) != n) {
					t.Fatalf("%d members of %d to %d", n, lo, lo+1)
				}
			}
		}
		b.Rollback(mark)
		if diff := cmp.Diff(before, nodesOf(b)); diff != "" {
			t.Fatal(diff)
		}
		for k := range b.nodes {
			for i := range b.nodes[k].gpus {
				if c := &b.nodes[k].gpus[i]; c.state != stateOf(c) {
					t.Fatalf("card %d of node %d is %+v", i, k, c.state)
				}
			}
		}
	})
}

// What is kept for later is given to nobody, also once who lies there is gone, and
// is there when it is wanted.
func TestWhatIsKeptForLaterIsGivenToNobody(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		card        GPU
		large, tiny Request
	}{
		"slices": {holding(), slice(1, "7g"), slice(2, "1g")}, "cards": {h100(cloud.ModeWhole), whole(1, 1), whole(2, 1)},
		"memory": {GPU{Model: "h100-80gb", Mode: cloud.ModeWhole, State: cloud.GPUReady, Units: 1000}, func() Request { r := whole(1, 1); r.Units = 900; return r }(),
			func() Request { r := whole(2, 1); r.Units = 200; return r }()},
	} {
		b := NewBoard(Snapshot{Nodes: []Node{newNode(1, c.card)}}, Policy{})
		large, tiny := b.Class(c.large), b.Class(c.tiny)
		running, _ := b.Place(tiny, 1, 1)
		if id, _ := b.Place(large, 1, 1); running == 0 || id > 0 {
			t.Fatalf("%s: both at once", name)
		}
		mark := b.Mark()
		b.Release(running)
		later, _ := b.Place(large, 1, 1)
		b.Rollback(mark)
		b.Block(later)
		version := b.Version()
		b.Release(running)
		if id, _ := b.Place(tiny, 1, 1); id > 0 || later == 0 {
			t.Errorf("%s: what is kept was given away", name)
		}
		b.Release(later) // lifted, and kept again
		b.Block(later)
		if id, _ := b.Place(tiny, 1, 1); id > 0 {
			t.Errorf("%s: what is kept again was given away", name)
		}
		b.Release(later)
		if b.Version() == version {
			t.Errorf("%s: nobody is told that more fits", name)
		}
		if id, _ := b.Place(large, 1, 1); id == 0 {
			t.Errorf("%s: it is not there when it is wanted", name)
		}
	}
}

// What runs already can be released, as what was placed here.
func TestWhatRunsCanBeReleased(t *testing.T) {
	t.Parallel()
	n := newNode(1, holding(gpu.Place{Class: "4g", Start: 0}, gpu.Place{Class: "2g", Start: 4}))
	n.GPUs[0].Slices = []gpu.Place{{Class: "4g", Start: 0}, {Class: "2g", Start: 4}}
	b := NewBoard(Snapshot{Nodes: []Node{n}}, Policy{})
	four, two := b.Class(slice(1, "4g")), b.Class(slice(2, "2g"))
	id := b.Held(four, nodeID(1), []Device{{GPUID: gpuID(1, 0), Mode: cloud.ModeMIG, Profile: "4g", Slots: cloud.Slots{End: 4}}})
	if got, _ := b.Place(four, 1, 1); got > 0 || id == 0 {
		t.Fatal("two of 4g on one card")
	}
	b.Release(id)
	for range 2 {
		if got, _ := b.Place(two, 1, 1); got == 0 {
			t.Fatal("what was released is not free")
		}
	}
	if got, _ := b.Place(two, 1, 1); got > 0 {
		t.Error("a third 2g beside one that runs")
	}
	if b.Held(four, nodeID(9), nil) != 0 || b.Held(four, nodeID(1), []Device{{GPUID: gpuID(9, 9)}}) != 0 {
		t.Error("what the board doesn't know is booked")
	}
}

// Places leave room for what is asked for: the same request goes elsewhere when
// something else comes often.
func TestPlacesLeaveRoomForTheMix(t *testing.T) {
	t.Parallel()
	lean, rich := newNode(1, h100(cloud.ModeWhole)), newNode(2, h100(cloud.ModeWhole))
	lean.VCPU, lean.FreeVCPU = 16, 16
	big := whole(9, 1)
	big.Shape.VCPU = 12
	if d := one(t, []Node{lean, rich}, hostOnly(1, 8)); d.Members[0].NodeID != nodeID(1) {
		t.Errorf("nothing is known of what comes, so the fullest node has it: %+v", d)
	}
	d := Decide(Snapshot{Nodes: []Node{lean, rich}}, []Request{hostOnly(1, 8)}, sees(big)).Decisions[0]
	if d.Members[0].NodeID != nodeID(2) {
		t.Errorf("what comes needs the vCPUs of the free card: %+v", d)
	}
	// A slice goes to the card that can't take the largest any more.
	empty, begun := newNode(1, holding()), newNode(2, holding(gpu.Place{Class: "1g", Start: 6}))
	d = Decide(Snapshot{Nodes: []Node{empty, begun}}, []Request{slice(1, "2g")}, sees(slice(1, "2g"), slice(1, "7g"))).Decisions[0]
	if d.Members[0].NodeID != nodeID(2) {
		t.Errorf("a card is broken that a 7g could have: %+v", d)
	}
}

// C24: memory is counted, not rounded.
func TestC24MemoryOfACard(t *testing.T) {
	t.Parallel()
	card := GPU{Model: "l40s", Mode: cloud.ModeWhole, State: cloud.GPUReady, NUMANode: -1, Units: 46068}
	var requests []Request
	for i := range 24 {
		r := whole(i, 1)
		r.Shape.GPUModel, r.Units = "l40s", 2000
		requests = append(requests, r)
	}
	d := decide(t, []Node{newNode(1, card)}, requests...)
	for i := range 23 {
		if d[i].Refusal != nil {
			t.Fatalf("ask %d: %s", i+1, d[i].Refusal)
		}
	}
	if r := d[23].Refusal; r == nil || r.NeverFits || r.String() != "1 GPU: insufficient GPU memory" || r.Cause() != CauseNoCapacity {
		t.Errorf("the 24th: %+v", r)
	}
	requests[0].Units = 46069
	if r := one(t, []Node{newNode(1, card)}, requests[0]).Refusal; r == nil || !r.NeverFits {
		t.Errorf("more than the card has: %+v", r)
	}
	if got := Room(Snapshot{Nodes: []Node{newNode(1, card)}}, requests[1]); got != 23 {
		t.Errorf("room for %d", got)
	}
	if d := decide(t, []Node{newNode(1, card, card)}, requests[1], func() Request { r := whole(30, 1); r.Shape.GPUModel = "l40s"; return r }(), requests[2]); d[1].Refusal != nil || d[2].Refusal != nil || cards(t, d[2])[0] == cards(t, d[1])[0] {
		t.Errorf("a whole card beside parts: %+v", d)
	}
}

// Any of several models: the one that nobody else needs.
func TestAnyOfSeveralModels(t *testing.T) {
	t.Parallel()
	a100 := h100(cloud.ModeWhole)
	a100.Model = "a100-80gb"
	nodes := []Node{newNode(1, h100(cloud.ModeWhole)), newNode(2, a100)}
	r := whole(1, 1)
	r.Models = []string{"h100-80gb", "a100-80gb"}
	got := Decide(Snapshot{Nodes: nodes}, []Request{r}, sees(whole(2, 1), r)).Decisions[0]
	if got.Refusal != nil || got.Members[0].NodeID != nodeID(2) {
		t.Errorf("%+v", got)
	}
	r.Models = []string{"b200-180gb"}
	if d := one(t, nodes, r); d.Refusal == nil || !d.Refusal.has(GPUModel) {
		t.Errorf("%+v", d)
	}
	r.Models = []string{AnyModel}
	if d := one(t, nodes, r); d.Refusal != nil {
		t.Errorf("%s", d.Refusal)
	}
}

// More makes than have a number of their own, and more cards of one make than
// packing looks at together.
func TestManyMakesAndManyCards(t *testing.T) {
	t.Parallel()
	var nodes []Node
	for i := range 80 {
		c := h100(cloud.ModeWhole)
		c.Model = fmt.Sprintf("model%02d", i)
		nodes = append(nodes, newNode(i, c, c))
	}
	for i := range 80 {
		r := whole(i, 1)
		r.Shape.GPUModel = fmt.Sprintf("model%02d", i)
		if d := one(t, nodes, r); d.Refusal != nil || d.Members[0].NodeID != nodeID(i) {
			t.Errorf("%s: %+v", r.Shape.GPUModel, d)
		}
		if r.Shape.GPUCount = 3; one(t, nodes, r).Refusal == nil {
			t.Errorf("%s: three of two", r.Shape.GPUModel)
		}
	}
	wide := newNode(1, slices.Repeat([]GPU{h100(cloud.ModeWhole)}, 20)...)
	if d := decide(t, []Node{wide}, whole(1, 18), whole(2, 2), whole(3, 1)); d[0].Refusal != nil || d[1].Refusal != nil || d[2].Refusal == nil {
		t.Errorf("%+v", d)
	}
}

func TestTheSamePlanOnAnyNumberOfProcessors(t *testing.T) {
	// Not parallel: it changes the process's setting.
	was := runtime.GOMAXPROCS(0)
	t.Cleanup(func() { runtime.GOMAXPROCS(was) })
	var hashes []uint64
	for _, procs := range []int{1, 2, 8} {
		runtime.GOMAXPROCS(procs)
		h := fnv.New64a()
		if err := json.NewEncoder(h).Encode(Decide(fleet(50), mix(900, false), sees(mix(40, false)...))); err != nil {
			t.Fatal(err)
		}
		hashes = append(hashes, h.Sum64())
	}
	if hashes[0] != hashes[1] || hashes[0] != hashes[2] {
		t.Errorf("%x", hashes)
	}
}
