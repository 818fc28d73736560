package cloudtest_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tenon-cloud/tenon/api"
	"github.com/tenon-cloud/tenon/internal/cloudtest"
)

// TestFaultsInQuickSuccessionAreAllShown: each that is accepted is an incident, the
// same one twice too, and one of the whole card reaches everybody who holds some of
// it, a program's own only its owner.
func TestFaultsInQuickSuccessionAreAllShown(t *testing.T) {
	t.Parallel()
	c := cloudtest.Start(t)
	ctx := within(t, 2*time.Minute)
	acme := c.Tenant("acme")
	card := cardsOf(ctx, t, c)[1]
	if _, err := c.Admin.GPUUpdate(ctx, card.ID, api.GPUUpdate{Layout: layout(counted("1g", 4))}, false); err != nil {
		t.Fatal(err)
	}
	becomes(ctx, t, c, card.ID, "has four slices", func(g *api.GPU) bool { return len(g.Slices) == 4 })
	img, flv := image(t, c), slice(t, c)
	var ids []string
	for _, name := range []string{"a", "b"} {
		i := c.Running(acme.Client, api.InstanceCreate{Name: name, Image: img, Flavor: flv})
		if i.GPUs[0].GPUID != card.ID {
			t.Fatalf("%s is on another card: %+v", name, i.GPUs)
		}
		ids = append(ids, i.ID)
	}
	asked := []int{31, 31, 48, 48, 13, 94, 63, 79, 79}
	var all sync.WaitGroup
	for _, xid := range asked {
		all.Go(func() {
			if _, err := c.Admin.GPUSimulateFault(ctx, card.ID, api.GPUFault{XID: xid}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	slices.Sort(asked)
	var got []int
	eventually(t, "each is an incident", func() bool {
		l, err := c.Admin.GPUIncidents(ctx, card.ID)
		if err != nil {
			return false
		}
		got = nil
		for _, x := range l.Items {
			got = append(got, x.XID)
		}
		slices.Sort(got)
		return len(got) >= len(asked)
	})
	if !slices.Equal(got, asked) {
		t.Errorf("asked for %v, and there are %v", asked, got)
	}
	told := func(id string) map[float64]int {
		out := map[float64]int{}
		l, err := acme.InstanceEvents(ctx, "default", id, api.PageOptions{Limit: 100})
		if err != nil {
			return out
		}
		for _, e := range l.Items {
			if xid, ok := e.Data["xid"].(float64); ok {
				out[xid]++
			}
		}
		return out
	}
	for _, id := range ids {
		eventually(t, "every holder knows of what hit the card", func() bool {
			n := told(id)
			return n[48] == 2 && n[94] == 1 && n[63] == 1 && n[79] == 2
		})
	}
	if a, b := told(ids[0]), told(ids[1]); a[31]+b[31] != 2 || a[31]*b[31] != 0 {
		t.Errorf("a program's own fault: %v, %v", a, b)
	}
}
