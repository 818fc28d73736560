package sim

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tenon-cloud/tenon/internal/nodewire"
)

// A simulated HGX board has the partitions that Fabric Manager lists for an HGX
// H100, and refuses a VM any other set, as a host does.
func TestSimulatedHGXBoardsArePartitioned(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"hgx-h100", "hgx-b200"} {
		cfg := testConfig(t)
		cfg.Board = name
		b := open(t, cfg)
		list, sizes := inventory(t, b), map[int]int{}
		on := map[string]int{}
		for _, p := range b.Partitions() {
			sizes[len(p.GPUs)]++
			for _, a := range p.GPUs {
				if on[a]++; !slices.ContainsFunc(list, func(g nodewire.GPU) bool { return g.PCIAddress == a }) {
					t.Errorf("%s: no card is at %s", name, a)
				}
			}
		}
		if diff := cmp.Diff(map[int]int{8: 1, 4: 2, 2: 4, 1: 8}, sizes); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		for a, n := range on {
			if n != 4 {
				t.Errorf("%s: %s is in %d partitions, want one of each size", name, a, n)
			}
		}
		if got := b.Partitions()[3].GPUs; !slices.Equal(got, []string{list[4].PCIAddress, list[5].PCIAddress}) {
			t.Errorf("%s: modules 1 and 3 are %v", name, got)
		}
		cards := func(of ...int) (out []nodewire.Device) {
			for _, i := range of {
				out = append(out, whole(list[i].UUID)...)
			}
			return out
		}
		for _, bad := range [][]int{{0, 2}, {0, 1, 2}, {1, 2, 3, 4}} {
			r := ask("inst-a", 1, cards(bad...))
			r.Kind = "vm"
			if _, err := b.Prepare(context.Background(), r); err == nil || !strings.Contains(err.Error(), "no partition of exactly these") {
				t.Errorf("%s: a VM gets %v: %v", name, bad, err)
			}
		}
		r := ask("inst-a", 1, cards(5, 4))
		r.Kind = "vm"
		if _, err := b.Prepare(context.Background(), r); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := b.Prepare(context.Background(), ask("inst-b", 1, cards(0, 2, 7))); err != nil {
			t.Errorf("%s: a container is not bound: %v", name, err)
		}
	}
	if b := open(t, testConfig(t)); len(b.Partitions()) != 0 {
		t.Errorf("a board without switches has %v", b.Partitions())
	}
}
