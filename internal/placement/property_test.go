package placement

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/gpu"
)

// apply books a plan on a copy of the board and reports the first thing that a
// database or a node would refuse.
func apply(s Snapshot, requests []Request, p Plan) (Snapshot, error) {
	out := clone(s)
	asked := map[cloud.InstanceID]Request{}
	for _, r := range requests {
		asked[r.InstanceID] = r
	}
	for _, d := range p.Decisions {
		r := asked[d.InstanceID]
		if (d.Refusal == nil) == (len(d.Members) == 0) {
			return out, fmt.Errorf("%s is neither placed nor refused", d.InstanceID)
		}
		if d.Refusal == nil && len(d.Members) != max(r.Count, 1) {
			return out, fmt.Errorf("%s has %d of %d members", d.InstanceID, len(d.Members), r.Count)
		}
		for _, a := range d.Members {
			i := slices.IndexFunc(out.Nodes, func(n Node) bool { return n.ID == a.NodeID })
			if i < 0 {
				return out, fmt.Errorf("no node %s", a.NodeID)
			}
			if err := book(&out.Nodes[i], r, a); err != nil {
				return out, err
			}
		}
	}
	return out, nil
}

func book(n *Node, r Request, a Assignment) error {
	if n.State != cloud.NodeReady || n.Drained || !eligible(n, r.Pool) {
		return fmt.Errorf("node %s takes no work of pool %q", n.ID, r.Pool)
	}
	n.FreeVCPU -= r.Shape.VCPU
	n.FreeMemoryMiB -= r.Shape.MemoryMiB
	if n.FreeVCPU < 0 || n.FreeMemoryMiB < 0 {
		return fmt.Errorf("node %s is oversold: %d vCPU, %d MiB", n.ID, n.FreeVCPU, n.FreeMemoryMiB)
	}
	if len(a.Devices) != r.Shape.GPUCount {
		return fmt.Errorf("%d devices of %d", len(a.Devices), r.Shape.GPUCount)
	}
	for _, d := range a.Devices {
		k := slices.IndexFunc(n.GPUs, func(g GPU) bool { return g.ID == d.GPUID })
		if k < 0 {
			return fmt.Errorf("no card %s on the node", d.GPUID)
		}
		c := &n.GPUs[k]
		switch {
		case c.State != cloud.GPUReady || c.Model != r.Shape.GPUModel || c.Mode != d.Mode || d.Mode != r.Shape.GPUMode || d.Profile != r.Shape.GPUProfile:
			return fmt.Errorf("the wrong card or profile: %+v on %+v", d, c)
		case !slices.Contains(legal[c.Geometry+" "+string(d.Mode)+" "+d.Profile], d.Slots):
			return fmt.Errorf("no legal shape: %+v", d)
		case c.Used.Mask&gpu.SlotMask(d.Slots) != 0:
			return fmt.Errorf("two owners: %+v on %08b", d, c.Used.Mask)
		case c.Used.Media && strings.HasSuffix(d.Profile, "+me"):
			return fmt.Errorf("two holders of the media engines")
		}
		hold(c, d)
	}
	return nil
}

func TestPlansAreSoundAndRefusalsTrue(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s, requests := genBoard(t), genRequests(t)
		before := clone(s)
		plan := Decide(s, requests, Policy{})
		if diff := cmp.Diff(before, s); diff != "" {
			t.Fatalf("the snapshot was changed: %s", diff)
		}
		after, err := apply(s, requests, plan)
		if err != nil {
			t.Fatal(err)
		}
		if len(plan.Decisions) != len(requests) {
			t.Fatalf("%d decisions on %d requests", len(plan.Decisions), len(requests))
		}
		for _, d := range plan.Decisions {
			if d.Refusal == nil {
				continue
			}
			r := requests[slices.IndexFunc(requests, func(r Request) bool { return r.InstanceID == d.InstanceID })]
			if possible(clone(after), r, max(r.Count, 1)) {
				t.Fatalf("refused (%s) though it fits: %+v", d.Refusal, r)
			}
			inPool := slices.ContainsFunc(s.Nodes, func(n Node) bool { return eligible(&n, r.Pool) })
			if never := inPool && !possible(emptied(s), r, max(r.Count, 1)); never != d.Refusal.NeverFits {
				t.Fatalf("never fits: %v, want %v: %+v", d.Refusal.NeverFits, never, r)
			}
			if len(d.Refusal.Reasons) == 0 || d.Refusal.Position < 1 {
				t.Fatalf("a refusal without a reason or a position: %+v", d.Refusal)
			}
		}
		// Deciding again about those that wait places nothing and no one twice.
		var rest []Request
		for _, d := range plan.Decisions {
			if d.Refusal != nil {
				rest = append(rest, requests[slices.IndexFunc(requests, func(r Request) bool { return r.InstanceID == d.InstanceID })])
			}
		}
		for _, d := range Decide(after, rest, Policy{}).Decisions {
			if d.Refusal == nil {
				t.Fatalf("the second pass places %s", d.InstanceID)
			}
		}
	})
}

func TestPlanIsStableUnderPermutation(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s, requests := genBoard(t), genRequests(t)
		policy := Policy{Discipline: rapid.SampledFrom([]Discipline{BestEffort, Strict}).Draw(t, "discipline")}
		want := Decide(s, requests, policy)
		rnd := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		s2, r2 := clone(s), slices.Clone(requests)
		rnd.Shuffle(len(s2.Nodes), func(i, j int) { s2.Nodes[i], s2.Nodes[j] = s2.Nodes[j], s2.Nodes[i] })
		for i := range s2.Nodes {
			g := s2.Nodes[i].GPUs
			rnd.Shuffle(len(g), func(i, j int) { g[i], g[j] = g[j], g[i] })
		}
		rnd.Shuffle(len(r2), func(i, j int) { r2[i], r2[j] = r2[j], r2[i] })
		if diff := cmp.Diff(want, Decide(s2, r2, policy)); diff != "" {
			t.Fatalf("the order of the input changes the plan:\n%s", diff)
		}
	})
}

// Cards that are alike in everything but their ids must not be told apart by
// the order in which they came.
func TestAlikeCardsInAnyOrder(t *testing.T) {
	t.Parallel()
	s, requests := fleet(20), mix(200, false)
	want := Decide(s, requests, Policy{})
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 10 {
		rnd.Shuffle(len(s.Nodes), func(i, j int) { s.Nodes[i], s.Nodes[j] = s.Nodes[j], s.Nodes[i] })
		for _, n := range s.Nodes {
			rnd.Shuffle(len(n.GPUs), func(i, j int) { n.GPUs[i], n.GPUs[j] = n.GPUs[j], n.GPUs[i] })
		}
		rnd.Shuffle(len(requests), func(i, j int) { requests[i], requests[j] = requests[j], requests[i] })
		if diff := cmp.Diff(want, Decide(s, requests, Policy{})); diff != "" {
			t.Fatalf("the order of the input changes the plan:\n%s", diff)
		}
	}
}

func TestRoomIsWhatFits(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s, r := genBoard(t), genRequests(t)[0]
		room := Room(s, r)
		if room > 1000 { // it asks for nothing
			return
		}
		if r.Count = room + 1; Decide(s, []Request{r}, Policy{}).Decisions[0].Refusal == nil {
			t.Fatalf("room for %d, yet %d are placed: %+v", room, r.Count, r)
		}
		if r.Count = room; room > 0 && Decide(s, []Request{r}, Policy{}).Decisions[0].Refusal != nil {
			t.Fatalf("room for %d, yet they are refused: %+v", room, r)
		}
	})
}

func TestStrictNeverOvertakes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s, requests := genBoard(t), genRequests(t)
		pool := map[cloud.InstanceID]string{}
		for _, r := range requests {
			pool[r.InstanceID] = r.Pool
		}
		blocked := map[string]bool{}
		plan := Decide(s, requests, Policy{Discipline: Strict})
		for _, d := range plan.Decisions {
			p := pool[d.InstanceID]
			if d.Refusal == nil && blocked[p] {
				t.Fatalf("%s overtakes in pool %q", d.InstanceID, p)
			}
			blocked[p] = blocked[p] || d.Refusal != nil && !d.Refusal.NeverFits
		}
		if _, err := apply(s, requests, plan); err != nil {
			t.Fatal(err)
		}
	})
}
