package placement

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/tenon-cloud/tenon/internal/cloud"
)

// eight are the partitions of an HGX board of eight, by position: all, halves,
// pairs, singles.
var eight = [][]int{{0, 1, 2, 3, 4, 5, 6, 7}, {0, 1, 2, 3}, {4, 5, 6, 7}, {0, 2}, {1, 3}, {4, 6}, {5, 7}, {0}, {1}, {2}, {3}, {4}, {5}, {6}, {7}}

// switched is a node whose cards hang on NVSwitches.
func switched(id int, used ...int) Node {
	var g []GPU
	for i := range 8 {
		c := h100(cloud.ModeWhole)
		c.NUMANode = i / 4
		if slices.Contains(used, i) {
			c.Used.Mask = 0xff
		}
		for j := range 8 {
			if j != i {
				c.NVLink = append(c.NVLink, address(j))
			}
		}
		g = append(g, c)
	}
	n := newNode(id, g...)
	n.VCPU, n.FreeVCPU, n.MemoryMiB, n.FreeMemoryMiB = 256, 256, 1<<20, 1<<20
	for id, set := range eight {
		p := cloud.Partition{ID: id}
		for _, i := range set {
			p.GPUs = append(p.GPUs, n.GPUs[i].PCIAddress)
		}
		n.Partitions = append(n.Partitions, p)
	}
	return n
}

func machine(i, count int) Request {
	r := whole(i, count)
	r.Kind = cloud.KindVM
	return r
}

func TestAVMGetsExactlyOnePartition(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		used  []int
		count int
		want  [][]int // any of these
	}{
		{"two", nil, 2, [][]int{{0, 2}, {1, 3}, {4, 6}, {5, 7}}},
		{"two of the half that is begun", []int{0, 2}, 2, [][]int{{1, 3}}},
		{"two where one breaks nothing larger", []int{0, 4}, 2, [][]int{{1, 3}, {5, 7}}},
		{"four", []int{1}, 4, [][]int{{4, 5, 6, 7}}},
		{"eight", nil, 8, [][]int{{0, 1, 2, 3, 4, 5, 6, 7}}},
		{"one beside the one of a pair", []int{5}, 1, [][]int{{7}}},
		{"one in the pair whose half is begun", []int{0, 2, 5, 4, 6}, 1, [][]int{{7}}},
		{"one in the begun half", []int{0, 2}, 1, [][]int{{1}, {3}}},
	} {
		d := one(t, []Node{switched(1, c.used...)}, machine(1, c.count))
		if d.Refusal != nil {
			t.Errorf("%s: %s", c.name, d.Refusal)
		} else if got := cards(t, d); !slices.ContainsFunc(c.want, func(w []int) bool { return slices.Equal(w, got) }) {
			t.Errorf("%s: %v, want one of %v", c.name, got, c.want)
		}
	}
	// Also among nodes: where fewer larger ones are broken.
	if d := one(t, []Node{switched(1), switched(2, 0, 2), switched(3)}, machine(1, 2)); d.Members[0].NodeID != nodeID(2) {
		t.Errorf("two break a fresh board: %+v", d)
	}
	if got := Room(Snapshot{Nodes: []Node{switched(1, 0, 5)}}, machine(1, 2)); got != 2 {
		t.Errorf("room for %d pairs, want 2", got)
	}
	if d := decide(t, []Node{switched(1, 0, 5)}, machine(1, 2), machine(2, 2), machine(3, 2)); d[1].Refusal != nil || d[2].Refusal == nil {
		t.Errorf("two pairs are free: %+v", d)
	}
}

// Three of a board that has no partition of three can never be.
func TestANumberThatNoPartitionHasIsRefusedForGood(t *testing.T) {
	t.Parallel()
	r := one(t, []Node{switched(1)}, machine(1, 3)).Refusal
	if r == nil || !r.NeverFits || r.String() != "1 node: this board's NVSwitch partitions have 1, 2, 4 or 8 GPUs" || r.Reasons[0].Code != NodePartSize {
		t.Errorf("%+v", r)
	}
	if r := one(t, []Node{switched(1), switched(2, 3)}, machine(1, 5)).Refusal; !r.NeverFits || r.String() != "2 nodes: these boards' NVSwitch partitions have 1, 2, 4 or 8 GPUs" {
		t.Errorf("%s", r)
	}
	// Another node has no switches, and takes them.
	plain := newNode(2, h100(cloud.ModeWhole), h100(cloud.ModeWhole), h100(cloud.ModeWhole))
	if d := one(t, []Node{switched(1), plain}, machine(1, 3)); d.Refusal != nil || d.Members[0].NodeID != nodeID(2) {
		t.Errorf("%+v", d)
	}
	// So do cards of the same host that hang on none.
	mixed := switched(1, 0, 1, 2, 3, 4, 5, 6, 7)
	for i := range 3 {
		c := h100(cloud.ModeWhole)
		c.ID, c.PCIAddress = gpuID(1, 20+i), address(20+i)
		mixed.GPUs = append(mixed.GPUs, c)
	}
	if d := one(t, []Node{mixed}, machine(1, 3)); d.Refusal != nil || cards(t, d)[0] != 20 {
		t.Errorf("%+v", d)
	}
	// Five free, and no four of them are a partition.
	if r := one(t, []Node{switched(1, 0, 4, 5)}, machine(1, 4)).Refusal; r == nil || r.NeverFits || r.Cause() != CauseFragmented || r.String() != "1 node: enough GPUs free, but no NVSwitch partition of as many" {
		t.Errorf("%+v", r)
	}
	if r := one(t, []Node{switched(1, 0, 1, 2, 4, 5)}, machine(1, 4)).Refusal; r.has(NodePartition) || !r.has(NodeFewGPUs) {
		t.Errorf("three free: %s", r)
	}
}

// A container isn't bound by partitions, though a card of a VM's isn't its.
func TestContainersAreNotBoundByPartitions(t *testing.T) {
	t.Parallel()
	d := decide(t, []Node{switched(1)}, machine(1, 2), whole(2, 3), whole(3, 3), whole(4, 1))
	seen := map[int]bool{}
	for _, x := range d[:3] {
		for _, i := range cards(t, x) {
			if seen[i] {
				t.Errorf("card %d has two owners", i)
			}
			seen[i] = true
		}
	}
	if len(seen) != 8 || d[3].Refusal == nil {
		t.Errorf("%+v", d)
	}
	if got := cards(t, one(t, []Node{switched(1, 5)}, whole(1, 1))); !slices.Equal(got, []int{7}) {
		t.Errorf("one breaks a fresh pair: %v", got)
	}
}

// A partition with a card that is out of service, gone, or in another mode is out;
// the others stay.
func TestADegradedBoardGivesItsOtherPartitions(t *testing.T) {
	t.Parallel()
	for name, degrade := range map[string]func(*Node){
		"unhealthy":  func(n *Node) { n.GPUs[2].State = cloud.GPUUnhealthy },
		"missing":    func(n *Node) { n.GPUs[2].State = cloud.GPUMissing },
		"cut":        func(n *Node) { n.GPUs[2].Mode = cloud.ModeMIG },
		"not a VM's": func(n *Node) { n.GPUs[2].NotForVM = true },
		"forgotten":  func(n *Node) { n.GPUs = slices.Delete(n.GPUs, 2, 3) },
	} {
		n := switched(1)
		degrade(&n)
		if r := one(t, []Node{n}, machine(1, 8)).Refusal; r == nil || r.NeverFits != (name != "unhealthy" && name != "missing") {
			t.Errorf("%s: eight: %+v", name, r)
		} else if name == "forgotten" && r.String() != "1 node: this board's NVSwitch partitions have 1, 2 or 4 GPUs" {
			t.Errorf("%s: %s", name, r)
		}
		var given []int
		for _, d := range decide(t, []Node{n}, machine(1, 4), machine(2, 2), machine(3, 1)) {
			if d.Refusal != nil {
				t.Errorf("%s: %s", name, d.Refusal)
				continue
			}
			given = append(given, cards(t, d)...)
		}
		if slices.Sort(given); !slices.Equal(given, []int{0, 1, 3, 4, 5, 6, 7}) {
			t.Errorf("%s: %v", name, given)
		}
		if r := one(t, []Node{n, switched(2, 0, 1, 2, 3, 4, 5, 6, 7)}, machine(1, 8)).Refusal; r == nil || r.NeverFits {
			t.Errorf("%s: another board could: %+v", name, r)
		}
	}
}

// Partitions are of places: cards that changed theirs are in each other's.
func TestCardsThatChangedPlacesAreInEachOthersPartitions(t *testing.T) {
	t.Parallel()
	n := switched(1, 0)
	a, b := &n.GPUs[2], &n.GPUs[5]
	a.PCIAddress, b.PCIAddress = b.PCIAddress, a.PCIAddress
	if got := cards(t, one(t, []Node{n}, machine(1, 1))); !slices.Equal(got, []int{5}) {
		t.Errorf("beside card 0 is now card 5: %v", got)
	}
	n = switched(1, 0, 1, 3, 4, 6)
	n.GPUs[2].PCIAddress, n.GPUs[5].PCIAddress = n.GPUs[5].PCIAddress, n.GPUs[2].PCIAddress
	if got := cards(t, one(t, []Node{n}, machine(1, 2))); !slices.Equal(got, []int{2, 7}) {
		t.Errorf("a pair is now 2 and 7: %v", got)
	}
	// Out of service, and recovered: it is in its partitions again.
	n = switched(1)
	n.GPUs[2].State = cloud.GPUQuarantined
	if r := one(t, []Node{n}, machine(1, 8)).Refusal; r == nil || r.NeverFits {
		t.Errorf("%+v", r)
	}
	n.GPUs[2].State = cloud.GPUReady
	if d := one(t, []Node{n}, machine(1, 8)); d.Refusal != nil {
		t.Errorf("%s", d.Refusal)
	}
}

// What others have joined is in no VM's reach, and may come back.
func TestPartitionsOfOthersAreInUse(t *testing.T) {
	t.Parallel()
	n := switched(1)
	n.Partitions[3].Foreign = true // 0 and 2
	if r := one(t, []Node{n}, machine(1, 8)).Refusal; r == nil || r.NeverFits || !r.has(GPUBusy) {
		t.Errorf("%+v", r)
	}
	if got := cards(t, one(t, []Node{n}, machine(1, 2))); !slices.Equal(got, []int{1, 3}) {
		t.Errorf("%v", got)
	}
}

// Whatever order VMs and containers start and stop in, every VM has exactly one
// listed partition, no card has two owners, and who waits could have none.
func TestEveryVMHasOnePartitionWhateverTheOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		nodes := []Node{switched(1), switched(2)}
		if rapid.Bool().Draw(t, "others") { // sets that overlap within a size, as no board lists them
			nodes[1].Partitions = nil
			for id, set := range rapid.SliceOfN(rapid.SliceOfNDistinct(rapid.IntRange(0, 7), 1, 4, rapid.ID), 1, 12).Draw(t, "sets") {
				p := cloud.Partition{ID: id}
				for _, i := range set {
					p.GPUs = append(p.GPUs, address(i))
				}
				nodes[1].Partitions = append(nodes[1].Partitions, p)
			}
		}
		listed := func(n Node, set []string) bool {
			return slices.ContainsFunc(n.Partitions, func(p cloud.Partition) bool {
				return slices.Equal(slices.Sorted(slices.Values(p.GPUs)), set)
			})
		}
		type holds struct {
			node int
			gpus []int
		}
		running := map[int]holds{}
		for step := range rapid.IntRange(1, 30).Draw(t, "steps") {
			if len(running) > 0 && rapid.IntRange(0, 2).Draw(t, "stop") == 0 {
				var ids []int
				for id := range running {
					ids = append(ids, id)
				}
				slices.Sort(ids)
				id := rapid.SampledFrom(ids).Draw(t, "who")
				for _, i := range running[id].gpus {
					nodes[running[id].node].GPUs[i].Used.Mask = 0
				}
				delete(running, id)
				continue
			}
			if rapid.IntRange(0, 9).Draw(t, "fault") == 0 {
				c := &nodes[rapid.IntRange(0, 1).Draw(t, "node")].GPUs[rapid.IntRange(0, 7).Draw(t, "card")]
				c.State = map[cloud.GPUState]cloud.GPUState{cloud.GPUReady: cloud.GPUUnhealthy, cloud.GPUUnhealthy: cloud.GPUReady}[c.State]
			}
			r := machine(step, rapid.IntRange(1, 8).Draw(t, "count"))
			vm := rapid.IntRange(0, 3).Draw(t, "kind") > 0
			if !vm {
				r.Kind = cloud.KindContainer
			}
			room := Room(Snapshot{Nodes: nodes}, r)
			d := Decide(Snapshot{Nodes: nodes}, []Request{r}, Policy{}).Decisions[0]
			if (room > 0) != (d.Refusal == nil) {
				t.Fatalf("room for %d, and %+v", room, d)
			}
			if d.Refusal != nil {
				for _, n := range nodes {
					free := map[string]bool{}
					for _, g := range n.GPUs {
						free[g.PCIAddress] = g.State == cloud.GPUReady && g.Used.Mask == 0
					}
					if vm && slices.ContainsFunc(n.Partitions, func(p cloud.Partition) bool {
						return len(p.GPUs) == r.Shape.GPUCount && !slices.ContainsFunc(p.GPUs, func(a string) bool { return !free[a] })
					}) {
						t.Fatalf("refused %d (%s) though a partition is free", r.Shape.GPUCount, d.Refusal)
					}
				}
				ever := slices.ContainsFunc(nodes, func(n Node) bool {
					loose := 0
					for _, g := range n.GPUs {
						if !slices.ContainsFunc(n.Partitions, func(p cloud.Partition) bool { return slices.Contains(p.GPUs, g.PCIAddress) }) {
							loose++
						}
					}
					return !vm || loose >= r.Shape.GPUCount || slices.ContainsFunc(n.Partitions, func(p cloud.Partition) bool { return len(p.GPUs) == r.Shape.GPUCount })
				})
				if d.Refusal.NeverFits == ever {
					t.Fatalf("never %v, and %d could ever be: %v", d.Refusal.NeverFits, r.Shape.GPUCount, ever)
				}
				continue
			}
			h := holds{node: slices.IndexFunc(nodes, func(n Node) bool { return n.ID == d.Members[0].NodeID })}
			n := &nodes[h.node]
			var set []string
			for _, dev := range d.Members[0].Devices {
				i := slices.IndexFunc(n.GPUs, func(g GPU) bool { return g.ID == dev.GPUID })
				if n.GPUs[i].Used.Mask != 0 || n.GPUs[i].State != cloud.GPUReady {
					t.Fatalf("card %d of node %d is not to be had", i, h.node)
				}
				n.GPUs[i].Used.Mask = 0xff
				set, h.gpus = append(set, n.GPUs[i].PCIAddress), append(h.gpus, i)
			}
			bound := func(a string) bool {
				return slices.ContainsFunc(n.Partitions, func(p cloud.Partition) bool { return slices.Contains(p.GPUs, a) })
			}
			if slices.Sort(set); vm && !listed(*n, set) && slices.ContainsFunc(set, bound) {
				t.Fatalf("a VM has %v, which is no partition of %v", set, n.Partitions)
			}
			if len(set) != r.Shape.GPUCount {
				t.Fatalf("%d of %d cards", len(set), r.Shape.GPUCount)
			}
			running[step] = h
		}
	})
}

// BenchmarkPartitions: a thousand VMs on a thousand boards behind switches.
func BenchmarkPartitions(b *testing.B) {
	var s Snapshot
	for i := range 1000 {
		s.Nodes = append(s.Nodes, switched(i+1))
	}
	var requests []Request
	for i := range 1000 {
		requests = append(requests, machine(i+1, []int{1, 2, 4, 8}[i%4]))
	}
	for b.Loop() {
		Decide(s, requests, Policy{})
	}
}
