package simulate

import (
	"fmt"
	"math/rand"
	"strings"
	"testing"

	"github.com/tenon-cloud/tenon/internal/packing"
)

func TestTracesThatAreWrongAreRefusedWithTheirLine(t *testing.T) {
	t.Parallel()
	const nodes, pods = "sn,cpu_milli,memory_mib,gpu,model\n", "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n"
	for _, c := range []struct{ nodes, pods, want string }{
		{"", "", "heading"},
		{"sn,cpu_milli,gpu,model\n", "", "no column memory_mib"},
		{nodes + "a,1000,1,x,T4\n", "", `line 2, gpu "x"`},
		{nodes + "a,1000,1,17,T4\n", "", "not between 0 and 16"},
		{nodes + "a,-1,1,1,T4\n", "", "line 2, cpu_milli"},
		{nodes + "a,1000,1,1\n", "", "fields"},
		{nodes + "a,1000,1,1,T4\n", pods + "p,1,1,1,1001,\n", "line 2, gpu_milli"},
		{nodes + "a,1000,1,1,T4\n", pods + "p,1,1,1,,\n", "asks for nothing"},
		{nodes + "a,1000,1,1,T4\n", pods + "p,99999999999,1,1,500,\n", "line 2, cpu_milli"},
	} {
		m := &Models{}
		_, err := ReadNodes(strings.NewReader(c.nodes), m)
		if err == nil {
			_, err = ReadPods(strings.NewReader(c.pods), m)
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q %q: %v, want %q", c.nodes, c.pods, err, c.want)
		}
	}
}

func TestPodsAreReadInTheOrderOfTheirNames(t *testing.T) {
	t.Parallel()
	m := &Models{}
	got, err := ReadPods(strings.NewReader("name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\nb,2,20,4,,G2|T4\na,1,10,1,300,\nc,3,30,0,1000,\n"), m)
	want := []packing.Request{{CPUMilli: 1, MemoryMiB: 10, Cards: 1, Milli: 300}, {CPUMilli: 2, MemoryMiB: 20, Cards: 4, Milli: 1000, Models: 3}, {CPUMilli: 3, MemoryMiB: 30}}
	if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%+v (%v), want %+v", got, err, want)
	}
}

func TestArrivalsAskForNoMoreThanTheyShould(t *testing.T) {
	t.Parallel()
	pods := []packing.Request{{Cards: 1, Milli: 300}, {Cards: 2, Milli: 1000}, {CPUMilli: 1}}
	for _, arrived := range []float64{0.1, 0.5, 1, 1.3, 3} {
		var sum, most int64
		got := arrivals(pods, 10_000, arrived, rand.New(rand.NewSource(1)))
		for _, p := range got {
			sum += p.Demand()
			most = max(most, p.Demand())
		}
		if limit := int64(arrived * 10_000); sum > limit || sum <= limit-2000 {
			t.Errorf("%g times 10 cards are %d, want at most %d and nearly so", arrived, sum, limit)
		}
	}
}

// By hand: two nodes with one card each. FGD puts the half where a half is gone
// already, since a whole card is worth more whole.
func TestTheOtherPoliciesDoWhatTheirPapersSay(t *testing.T) {
	t.Parallel()
	m := &Models{}
	nodes, err := ReadNodes(strings.NewReader("cpu_milli,memory_mib,gpu,model\n64000,1000,1,T4\n64000,1000,1,T4\n"), m)
	if err != nil {
		t.Fatal(err)
	}
	nodes[1].Free[0] = 500
	half := packing.Request{CPUMilli: 1000, Cards: 1, Milli: 500}
	pods := []packing.Request{half, {CPUMilli: 1000, Cards: 1, Milli: 1000}}
	for name, s := range map[string]packing.Scorer{"fgd": newFGD(pods), "bestfit": newBestFit(nodes)} {
		e := packing.NewEngine(append([]packing.Node(nil), nodes...), s)
		if node, card := e.Place(e.Class(half)); node != 1 || card != 0 {
			t.Errorf("%s puts the half on node %d, card %d", name, node, card)
		}
	}
	f := newFGD(pods)
	// Half of the requests want a whole card, half take the half: 500 x 1/2.
	if got := f.Value(&nodes[1]); got != 250 {
		t.Errorf("the fragmentation of a half is %g, want 250", got)
	}
	if got := f.Value(&nodes[0]); got != 0 {
		t.Errorf("the fragmentation of a whole card is %g", got)
	}
}

func TestWhatCantBePlayedIsRefused(t *testing.T) {
	t.Parallel()
	for _, change := range []func(*Replay){
		func(x *Replay) { x.Policy = "luck" }, func(x *Replay) { x.Seeds = nil }, func(x *Replay) { x.Arrived = 0 },
		func(x *Replay) { x.Nodes = nil }, func(x *Replay) { x.Pods = nil },
	} {
		x := openb(t, "default")
		x.Seeds = []int64{1}
		change(x)
		if _, err := x.Run(t.Context()); err == nil {
			t.Errorf("%+v was played", x.Policy)
		}
	}
	for _, change := range []func(*MIG){
		func(x *MIG) { x.Policy = "luck" }, func(x *MIG) { x.Seeds = nil }, func(x *MIG) { x.Load = 0 },
		func(x *MIG) { x.GPUs = 0 }, func(x *MIG) { x.Mix = "x" }, func(x *MIG) { x.Requests = 0 },
	} {
		x := &MIG{GPUs: 1, Mix: "uniform", Load: 1, Seeds: []int64{1}, Requests: 1, Policy: "tenon"}
		change(x)
		if _, err := x.Run(t.Context()); err == nil {
			t.Errorf("%+v was played", x)
		}
	}
}

// A shorter form of the experiment with every mix: Tenon accepts at least what the
// better of the others does, give or take what chance makes of so few requests.
func TestTenonAcceptsWhatTheBestDoes(t *testing.T) {
	t.Parallel()
	for _, mix := range MixNames() {
		got := map[string]float64{}
		for _, p := range MIGPolicies {
			x := &MIG{GPUs: 100, Mix: mix, Load: 1, Seeds: []int64{100, 101}, Requests: 12_000, Policy: p}
			r, err := x.Run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			got[p] = r.Accepted
		}
		if best := max(got["best-fit"], got["frag-gradient"]); got["tenon"] < best-0.1 {
			t.Errorf("%s: %v", mix, got)
		}
		if !(got["random"] < got["first-fit"] && got["first-fit"] < got["best-fit"]) {
			t.Errorf("%s: the others are out of order: %v", mix, got)
		}
	}
}

func TestMovesMakeRoomWithinTheirBudget(t *testing.T) {
	t.Parallel()
	var accepted []float64
	for _, moves := range []float64{0, 0.01, 0.05} {
		x := &MIG{GPUs: 50, Mix: "uniform", Load: 1, Seeds: []int64{100}, Requests: 20_000, Policy: "tenon", Moves: moves}
		r, err := x.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got := r.PerSeed[0].Moves; float64(got) > moves*20_000 || moves > 0 && got == 0 {
			t.Errorf("%d moves of 20,000 requests, %g are allowed", got, moves)
		}
		accepted = append(accepted, r.AcceptedMemory)
	}
	if !(accepted[0] < accepted[1] && accepted[1] < accepted[2]) {
		t.Errorf("with more moves are accepted %v", accepted)
	}
}
