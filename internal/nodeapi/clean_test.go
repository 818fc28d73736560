package nodeapi

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/tenon-cloud/tenon/internal/nodewire"
)

func TestCleanKeepsWhatIsRight(t *testing.T) {
	t.Parallel()
	percent, code, use := 40, 3, 12.5
	r := nodewire.Report{
		VCPU: 4, MemoryMiB: 4096, BootID: "b", Agent: "1",
		GPUs: []nodewire.GPU{{UUID: "GPU-1", PCIAddress: "0000:01:00.0", Model: "h100-80gb", Geometry: "mig8", Mode: "mig", State: "ready", MemoryMiB: 81559, NUMANode: -1, NVLink: []string{"0000:02:00.0"}}},
		Instances: []nodewire.InstanceReport{{ID: "inst_1", Epoch: 1, State: nodewire.GuestStopped, Reason: nodewire.ReasonExited, Progress: &percent,
			ExitCode: &code, LastLines: "a\nb\n", Address: "10.0.0.2", RanForSeconds: 2.5, Activity: &nodewire.Activity{Kernels: 3, BusyKernels: 1, QuietSeconds: 4, Sessions: 2, GPUPercent: &use, HasGPU: true}}},
		Drivers: map[string]string{"containerd": "2.1"}, Kinds: []string{"container", "notebook"}, Labels: map[string]string{"rack": "a1"}, Watchdog: true,
		Volumes:    []nodewire.VolumeReport{{ID: "vol_1", State: nodewire.VolumePresent, UsedMiB: 12, Message: "m"}},
		Partitions: []nodewire.Partition{{ID: 3, GPUs: []string{"0000:01:00.0", "0000:02:00.0"}, Foreign: true}},
	}
	before, _ := json.Marshal(r)
	if dropped := clean(&r); len(dropped) > 0 {
		t.Errorf("dropped %v", dropped)
	}
	if after, _ := json.Marshal(r); string(after) != string(before) {
		t.Errorf("changed\n%s\n%s", before, after)
	}
}

// A part of a partition is none: a VM would get it as if it were one.
func TestCleanKeepsOnlyWholePartitions(t *testing.T) {
	t.Parallel()
	one := []string{"0000:01:00.0"}
	r := nodewire.Report{VCPU: 1, MemoryMiB: 1, Partitions: []nodewire.Partition{
		{ID: 1, GPUs: []string{"0000:02:00.0", "00000000:01:00.0"}}, {ID: 1, GPUs: one}, {ID: -1, GPUs: one}, {ID: 2}, {ID: 3, GPUs: []string{"0000:01:00.0", "over there"}},
		{ID: 4, GPUs: []string{"0000:01:00.0", "00000000:01:00.0"}}, {ID: math.MaxInt, GPUs: one},
	}}
	clean(&r)
	if got, _ := json.Marshal(r.Partitions); string(got) != `[{"id":1,"gpus":["0000:01:00.0","0000:02:00.0"]}]` {
		t.Errorf("%s", got)
	}
}

func TestCleanDropsOnlyWhatIsWrong(t *testing.T) {
	t.Parallel()
	high := 400
	good := nodewire.GPU{UUID: "GPU-1", PCIAddress: "0000:01:00.0", Model: "h100-80gb", Geometry: "nonsense", Mode: "mig", State: "ready", MemoryMiB: 1}
	r := nodewire.Report{
		VCPU: -5, MemoryMiB: math.MaxInt64,
		GPUs: []nodewire.GPU{good, good, {UUID: "x", PCIAddress: "42:20.0", Model: "m", Geometry: "g", Mode: "mig", State: "ready", MemoryMiB: 1}, {UUID: "y", PCIAddress: "0000:02:00.0", Model: "m", Geometry: "g", Mode: "mig", State: "on fire", MemoryMiB: 1}},
		Instances: []nodewire.InstanceReport{
			{ID: "inst_1", State: "running", Message: "a\x00b\xff", Progress: &high, Address: "<script>", Reason: "DROP TABLE", LastLines: strings.Repeat("x", 1<<20) + "\nlast\n", StateForSeconds: math.Inf(1)},
			{ID: "inst_1", State: "stopped"}, {ID: "inst_2", State: "levitating"}, {ID: "", State: "running"},
		},
	}
	nan := math.NaN()
	r.Instances = append(r.Instances, nodewire.InstanceReport{ID: "inst_3", State: "running", Activity: &nodewire.Activity{Kernels: -1, BusyKernels: 9, QuietSeconds: math.Inf(-1), Sessions: 1 << 40}},
		nodewire.InstanceReport{ID: "inst_4", State: "running", Activity: &nodewire.Activity{HasGPU: true, GPUPercent: &nan}})
	r.Volumes = []nodewire.VolumeReport{{ID: "v", State: "present", UsedMiB: -4, Message: "a\x00"}, {ID: "v", State: "gone"}, {ID: "w", State: "levitating"}, {ID: "<", State: "gone"}}
	r.Kinds, r.Labels = []string{"container", "<script>"}, map[string]string{"rack": "a\x00b", "<": "x"}
	dropped := clean(&r)
	if v := r.Volumes; len(v) != 1 || v[0].UsedMiB != 0 || v[0].Message != "a" || len(r.Kinds) != 1 || len(r.Labels) != 1 || r.Labels["rack"] != "ab" {
		t.Errorf("%+v, %v, %v", v, r.Kinds, r.Labels)
	}
	if a := r.Instances[1].Activity; a.Kernels != 0 || a.BusyKernels != 0 || a.QuietSeconds != 0 || a.Sessions != maxCounted || r.Instances[2].Activity != nil {
		t.Errorf("%+v, %+v", a, r.Instances[2].Activity)
	}
	dropped = slices.DeleteFunc(dropped, func(s string) bool { return strings.HasPrefix(s, "volume ") })
	r.Instances = r.Instances[:1]
	if len(r.GPUs) != 1 || r.GPUs[0].Geometry != "mig8" || len(r.Instances) != 1 || len(dropped) != 6 {
		t.Fatalf("%+v %v", r, dropped)
	}
	i := r.Instances[0]
	if i.Message != "ab\uFFFD" || *i.Progress != 100 || i.Address != "" || i.Reason != "" || i.LastLines != "last\n" || i.StateForSeconds != maxSeconds {
		t.Errorf("%+v", i)
	}
	if r.VCPU != 0 || r.MemoryMiB != maxMemoryMiB {
		t.Errorf("%d vCPU, %d MiB", r.VCPU, r.MemoryMiB)
	}
}

// C3. One address in three spellings is one card, and the neighbours find it.
func TestC3OneCardUnderThreeSpellings(t *testing.T) {
	t.Parallel()
	at := func(uuid, address string) nodewire.GPU {
		return nodewire.GPU{UUID: uuid, PCIAddress: address, Model: "h100-80gb", Geometry: "mig8", Mode: "mig", State: "ready", MemoryMiB: 1}
	}
	r := nodewire.Report{GPUs: []nodewire.GPU{at("GPU-1", "42:00.0"), at("GPU-2", "00000000:42:00.0"), at("GPU-3", "00000001:C8:00.0"), at("GPU-4", "0000:c8:00.0"), at("GPU-5", "0000:gg:00.0")}}
	r.GPUs[0].NVLink = []string{"1:C8:00.0", "42:00.8"}
	dropped := clean(&r)
	var got []string
	for _, g := range r.GPUs {
		got = append(got, g.PCIAddress)
	}
	if want := []string{"0000:42:00.0", "0001:c8:00.0", "0000:c8:00.0"}; !slices.Equal(got, want) || len(dropped) != 2 {
		t.Errorf("cards at %v, dropped %v; want %v", got, dropped, want)
	}
	if n := r.GPUs[0].NVLink; len(n) != 1 || n[0] != "0001:c8:00.0" {
		t.Errorf("joined to %v", n)
	}
}

// TestCleanTextAlwaysFits holds for whatever a node writes.
func TestCleanTextAlwaysFits(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := string(rapid.SliceOfN(rapid.Byte(), 0, 200).Draw(t, "bytes"))
		n := rapid.IntRange(1, 50).Draw(t, "limit")
		for _, got := range []string{text(s, n), lastText(s, n)} {
			if len(got) > n || !utf8.ValidString(got) || strings.ContainsRune(got, 0) {
				t.Fatalf("%q from %q at %d", got, s, n)
			}
		}
	})
}

// What a node says of slices stays within its card: no slice has more than that.
func TestFiguresOfSlicesStayWithinTheirCard(t *testing.T) {
	t.Parallel()
	r := nodewire.Report{GPUs: []nodewire.GPU{{UUID: "GPU-1", PCIAddress: "42:00.0", Model: "h100-80gb", Geometry: "mig8", Mode: "mig", State: "ready", MemoryMiB: 81559,
		Profiles: []nodewire.Profile{{Profile: "1g", MemoryMiB: 9728, SMs: 16}, {Profile: "2g", MemoryMiB: 1 << 20}, {Profile: "3g"}, {Profile: "4g", MemoryMiB: 40192, SMs: -1}, {Profile: "a b", MemoryMiB: 1}}}}}
	clean(&r)
	if p := r.GPUs[0].Profiles; len(p) != 1 || p[0] != (nodewire.Profile{Profile: "1g", MemoryMiB: 9728, SMs: 16}) {
		t.Errorf("%+v", p)
	}
}
