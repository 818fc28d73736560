package host_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tenon-cloud/tenon/internal/device/host"
)

// hgx is the public example of NVIDIA's guide for HGX H100: modules do not follow
// addresses, and the partitions are all eight, halves, pairs and singles.
var hgxModules = map[int]string{5: "0000:0f:00.0", 7: "0000:10:00.0", 6: "0000:41:00.0", 8: "0000:44:00.0", 1: "0000:86:00.0", 3: "0000:87:00.0", 2: "0000:b8:00.0", 4: "0000:bb:00.0"}

func hgx() []host.FabricPartition {
	sets := [][]int{{1, 2, 3, 4, 5, 6, 7, 8}, {1, 2, 3, 4}, {5, 6, 7, 8}, {1, 3}, {2, 4}, {5, 7}, {6, 8}, {1}, {2}, {3}, {4}, {5}, {6}, {7}, {8}}
	var out []host.FabricPartition
	for id, set := range sets {
		p := host.FabricPartition{ID: id}
		for _, m := range set {
			p.GPUs = append(p.GPUs, host.FabricGPU{Module: m})
		}
		out = append(out, p)
	}
	return out
}

// switches is a simulated Fabric Manager: it refuses what overlaps.
type switches struct {
	parts   []host.FabricPartition
	calls   []string
	lies    bool
	crashAt int
	points  int
}

func (f *switches) point() {
	if f.points++; f.points == f.crashAt {
		panic("crash")
	}
}

func (f *switches) Partitions(context.Context) ([]host.FabricPartition, error) {
	return slices.Clone(f.parts), nil
}

func (f *switches) Activate(_ context.Context, id int) error { return f.set(id, true) }

func (f *switches) Deactivate(_ context.Context, id int) error { return f.set(id, false) }

func (f *switches) set(id int, on bool) error {
	f.point()
	f.calls = append(f.calls, fmt.Sprint(id, on))
	if f.lies {
		return nil
	}
	for _, p := range f.parts {
		for _, g := range p.GPUs {
			if on && p.Active && slices.Contains(f.parts[id].GPUs, g) {
				return errors.New("partition overlaps an active one (simulated)")
			}
		}
	}
	f.parts[id].Active = on
	f.point()
	return nil
}

func (f *switches) active() []int {
	var out []int
	for _, p := range f.parts {
		if p.Active {
			out = append(out, p.ID)
		}
	}
	return out
}

type fabricShelf struct{ ids []int }

func (s *fabricShelf) Activated() []int             { return s.ids }
func (s *fabricShelf) SetActivated(ids []int) error { s.ids = slices.Clone(ids); return nil }

func TestOnlyListedSetsOfCardsAreHandedOut(t *testing.T) {
	t.Parallel()
	parts, reasons := host.MapPartitions(hgx(), hgxModules)
	if len(parts) != 15 || len(reasons) > 0 {
		t.Fatalf("%d partitions, %v", len(parts), reasons)
	}
	if diff := cmp.Diff([]int{1, 2, 4, 8}, host.TogetherEver(parts)); diff != "" {
		t.Error(diff)
	}
	for _, c := range []struct {
		modules []int
		want    int // partition; -1: none
	}{
		{[]int{3, 1}, 3}, {[]int{1, 2}, -1}, {[]int{5, 6, 7, 8}, 2}, {[]int{1, 2, 5, 6}, -1}, {[]int{1, 2, 3}, -1}, {[]int{8}, 14}, {nil, -1},
	} {
		var cards []string
		for _, m := range c.modules {
			cards = append(cards, hgxModules[m])
		}
		p, ok := host.PartitionOf(parts, cards)
		if ok != (c.want >= 0) || ok && p.ID != c.want {
			t.Errorf("modules %v: partition %d (%v), want %d", c.modules, p.ID, ok, c.want)
		}
	}
	parts[3].Active = true // modules 1 and 3
	sets := host.TogetherNow(parts, map[string]bool{hgxModules[1]: true, hgxModules[3]: true, hgxModules[6]: true})
	var sizes []int
	for _, s := range sets {
		sizes = append(sizes, len(s))
		if slices.Contains(s, hgxModules[1]) || slices.Contains(s, hgxModules[6]) {
			t.Errorf("%v has a card that is taken", s)
		}
	}
	if diff := cmp.Diff([]int{1, 1, 1, 1, 1, 2, 2}, sizes); diff != "" {
		t.Error(diff)
	}
	// A partition that others have active takes its cards, though we hold none.
	if sets := host.TogetherNow(parts, nil); slices.ContainsFunc(sets, func(s []string) bool { return len(s) == 8 || len(s) == 1 && s[0] == hgxModules[3] }) {
		t.Errorf("cards of an active partition are offered apart: %v", sets)
	}
	short := hgxCopy()
	delete(short, 1)
	parts, reasons = host.MapPartitions(hgx(), short)
	if len(parts) != 11 || len(reasons) != 4 {
		t.Errorf("without module 1: %d partitions, %v", len(parts), reasons)
	}
}

func hgxCopy() map[int]string {
	out := map[int]string{}
	for k, v := range hgxModules {
		out[k] = v
	}
	return out
}

func TestPartitionsFollowTheirGuests(t *testing.T) {
	t.Parallel()
	f, s := &switches{parts: hgx()}, &fabricShelf{}
	step := func(need []int, want []int) {
		t.Helper()
		if err := host.ApplyFabric(t.Context(), f, s, hgxModules, need); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, f.active()); diff != "" {
			t.Error(diff)
		}
	}
	step([]int{3}, []int{3})
	step([]int{3, 2}, []int{2, 3})
	step([]int{0}, []int{0}) // the old ones first
	calls := len(f.calls)
	step([]int{0}, []int{0})
	if len(f.calls) != calls {
		t.Errorf("a second pass changed something: %v", f.calls[calls:])
	}
	step(nil, nil)
}

func TestOthersPartitionsStayAndAreNamed(t *testing.T) {
	t.Parallel()
	f, s := &switches{parts: hgx()}, &fabricShelf{}
	f.parts[3].Active = true
	err := host.ApplyFabric(t.Context(), f, s, hgxModules, []int{1})
	if err == nil || !strings.Contains(err.Error(), "active partition 3") || !strings.Contains(err.Error(), "did not activate") || len(f.calls) > 0 {
		t.Errorf("%v, calls %v", err, f.calls)
	}
	if err := host.ApplyFabric(t.Context(), f, s, hgxModules, []int{99}); err == nil || !strings.Contains(err.Error(), "lists no partition 99") {
		t.Errorf("%v", err)
	}
	if err := host.ApplyFabric(t.Context(), f, s, hgxModules, nil); err != nil || len(f.calls) > 0 {
		t.Errorf("%v, calls %v", err, f.calls)
	}
}

func TestFabricManagersWordIsNotBelieved(t *testing.T) {
	t.Parallel()
	f, s := &switches{parts: hgx(), lies: true}, &fabricShelf{}
	if err := host.ApplyFabric(t.Context(), f, s, hgxModules, []int{3}); err == nil || !strings.Contains(err.Error(), "said that it was done") {
		t.Errorf("%v", err)
	}
	if len(f.calls) != 1 || len(s.ids) != 0 {
		t.Errorf("calls %v, ledger %v", f.calls, s.ids)
	}
}

// Killed anywhere: afterwards exactly what guests need is active.
func TestNoCrashLeavesAPartitionActive(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		f, s := &switches{parts: hgx()}, &fabricShelf{}
		disjoint := func() []int {
			return rapid.SampledFrom([][]int{nil, {0}, {1}, {2}, {1, 2}, {3, 4, 2}, {7, 8, 5}, {14}}).Draw(t, "need")
		}
		for range rapid.IntRange(1, 4).Draw(t, "rounds") {
			f.points, f.crashAt = 0, rapid.IntRange(0, 8).Draw(t, "crash")
			func() {
				defer func() { _ = recover() }()
				_ = host.ApplyFabric(context.Background(), f, s, hgxModules, disjoint())
			}()
			for _, id := range f.active() {
				if !slices.Contains(s.ids, id) {
					t.Fatalf("partition %d is active, and the ledger has %v", id, s.ids)
				}
			}
		}
		f.crashAt = 0
		need := disjoint()
		if err := host.ApplyFabric(context.Background(), f, s, hgxModules, need); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(slices.Sorted(slices.Values(need)), f.active()); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestTheListOfFmpm(t *testing.T) {
	t.Parallel()
	got, err := host.ParseFmpm([]byte(`{"version":16909068,"numPartitions":2,"maxNumPartitions":15,"partitionInfo":[
		{"partitionId":0,"isActive":0,"numGpus":2,"gpuInfo":[{"physicalId":1,"uuid":"","pciBusId":"","numNvLinksAvailable":18,"maxNumNvLinks":18,"nvlinkLineRateMBps":50000},{"physicalId":3,"uuid":"GPU-1","pciBusId":"00000000:87:00.0"}]},
		{"partitionId":7,"isActive":1,"numGpus":1,"gpuInfo":[{"physicalId":2}]}]}`))
	want := []host.FabricPartition{
		{ID: 0, GPUs: []host.FabricGPU{{Module: 1}, {Module: 3, UUID: "GPU-1", PCIAddress: "0000:87:00.0"}}},
		{ID: 7, Active: true, GPUs: []host.FabricGPU{{Module: 2}}},
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Error(err, diff)
	}
	for _, bad := range []string{"", "{}", "Failed to connect to Fabric Manager instance.", `{"partitionInfo":[{"partitionId":1,"numGpus":2,"gpuInfo":[]}]}`, `{"partitionInfo":[{"numGpus":0}]}`, `{"partitionInfo":[{"partitionId":1,"numGpus":1,"gpuInfo":[{"physicalId":1,"pciBusId":"gg:00.0"}]}]}`} {
		if got, err := host.ParseFmpm([]byte(bad)); err == nil {
			t.Errorf("%q reads as %v", bad, got)
		}
	}
}

// The command is found in PATH, is given fmpm's own flags, and tells why it failed.
func TestFmpmIsRun(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	if _, err := host.FindFmpm(); !errors.Is(err, host.ErrNoDriver) {
		t.Errorf("%v", err)
	}
	script := "#!/bin/sh\ncase \"$*\" in\n-l) echo '{\"partitionInfo\":[]}' ;;\n'-a 3') ;;\n*) echo \"Failed to connect ($*)\" >&2; exit 1 ;;\nesac\n"
	if err := os.WriteFile(filepath.Join(dir, "fmpm"), []byte(script), 0o755); err != nil { //nolint:gosec // it is run
		t.Fatal(err)
	}
	f, err := host.FindFmpm()
	if err != nil {
		t.Fatal(err)
	}
	if list, err := f.Partitions(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("%v, %v", list, err)
	}
	if err := f.Activate(t.Context(), 3); err != nil {
		t.Error(err)
	}
	if err := f.Deactivate(t.Context(), 3); err == nil || !strings.Contains(err.Error(), "Failed to connect (-d 3)") {
		t.Errorf("%v", err)
	}
}
