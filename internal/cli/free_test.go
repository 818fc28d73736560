package cli

import (
	"testing"

	"github.com/tenon-cloud/tenon/api"
)

// One figure where it holds for every kind of instance, each kind's own otherwise.
func TestWhatIsFreeIsTextByKind(t *testing.T) {
	t.Parallel()
	now := func(k api.FlavorKind) int { return k.FreeNow }
	for want, f := range map[string]api.Flavor{
		"4":                 {FreeNow: 4, Kinds: []api.FlavorKind{{Kind: "container", FreeNow: 4}, {Kind: "vm", FreeNow: 4}}},
		"container 4, vm 0": {FreeNow: 4, Kinds: []api.FlavorKind{{Kind: "container", FreeNow: 4}, {Kind: "vm"}}},
		"7":                 {FreeNow: 7}, // of a control plane of before
	} {
		if got := freeText(f, f.FreeNow, now); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
