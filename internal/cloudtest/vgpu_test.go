package cloudtest_test

import (
	"testing"
	"time"

	"github.com/tenon-cloud/tenon/api"
	"github.com/tenon-cloud/tenon/internal/cloudtest"
)

// A VM gets a MIG slice as a vGPU (facts of the field, part 2): an operator says that
// a card's slices are vGPUs, a flavor asks for one by its profile, and it is placed,
// counted and given back as a slice is.
func TestAVMGetsAMIGSliceAsAVGPU(t *testing.T) {
	t.Parallel()
	c := cloudtest.StartWith(t, cloudtest.Options{Change: 100 * time.Millisecond})
	ctx := within(t, 2*time.Minute)
	card := cardsOf(ctx, t, c)[0]
	if _, err := c.Admin.GPUUpdate(ctx, card.ID, api.GPUUpdate{Mode: "vgpu"}, false); err != nil {
		t.Fatal(err)
	}
	becomes(ctx, t, c, card.ID, "has vGPUs on slices", func(g *api.GPU) bool { return g.Mode == "vgpu" && g.Geometry == card.Geometry })
	f, err := c.Admin.FlavorCreate(ctx, api.FlavorCreate{Name: "vm-3g", GPUCount: 1, GPUModel: card.Model, GPUMode: "vgpu", GPUProfile: "3g.40gb", VCPU: 1, MemoryMiB: 2048, DiskMiB: 8192})
	if err != nil || f.GPUProfile != "3g" {
		t.Fatalf("%+v, %v", f, err)
	}
	i := c.Running(c.Admin, api.InstanceCreate{Name: "machine", Kind: "vm", Image: vmImage(t, c), Flavor: f.Name})
	g, err := c.Admin.GPUGet(ctx, card.ID)
	if err != nil || len(g.Claims) != 1 || g.Claims[0].Profile != "3g" || g.Claims[0].SlotStart != 4 || g.Claims[0].InstanceID != i.ID {
		t.Errorf("%+v, %v", g, err)
	}
	onBoard, err := c.Board.Held(ctx)
	if d := onBoard[i.ID]; err != nil || len(d) != 1 || d[0].Mode != "vgpu" || d[0].Profile != "3g" || d[0].SlotStart != 4 {
		t.Errorf("the board holds %v (%v)", onBoard, err)
	}
	if _, err := c.Admin.InstanceDelete(ctx, "default", i.ID); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the slice is free again", func() bool {
		g, err := c.Admin.GPUGet(ctx, card.ID)
		return err == nil && len(g.Claims) == 0
	})
}
