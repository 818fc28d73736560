package cloudtest_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tenon-cloud/tenon/api"
	"github.com/tenon-cloud/tenon/internal/cloudtest"
)

// A tenant of a simulated HGX H100 sees what one of a real board does: VMs have
// exactly one NVSwitch partition each, a number that no partition has is refused
// with those that there are, and a card out of service costs its partitions alone.
func TestVMsGetPartitionsOfNVSwitches(t *testing.T) {
	t.Parallel()
	c := cloudtest.StartWith(t, cloudtest.Options{Board: "hgx-h100"})
	ctx := within(t, 2*time.Minute)
	box, disk := image(t, c), vmImage(t, c)
	flavor := map[int]string{}
	for _, n := range []int{1, 2, 3, 4, 8} {
		f, err := c.Admin.FlavorCreate(ctx, api.FlavorCreate{Name: fmt.Sprintf("h100x%d", n), GPUCount: n, GPUModel: "h100-80gb", GPUMode: "whole", VCPU: 1, MemoryMiB: 1024, DiskMiB: 8192})
		if err != nil {
			t.Fatal(err)
		}
		flavor[n] = f.Name
	}
	var parts []api.Partition
	eventually(t, "the node tells of its partitions", func() bool {
		n, err := c.Admin.NodeGet(ctx, c.NodeID)
		if err != nil {
			return false
		}
		parts = n.Partitions
		return len(parts) == 15
	})
	has := func(name string) (set []string) {
		t.Helper()
		for _, g := range cardsOf(ctx, t, c) {
			if slices.ContainsFunc(g.Claims, func(k api.Claim) bool { return k.Instance == name }) {
				set = append(set, g.PCIAddress)
			}
		}
		slices.Sort(set)
		return set
	}
	listed := func(name string, count int) []string {
		t.Helper()
		set := has(name)
		if len(set) != count || !slices.ContainsFunc(parts, func(p api.Partition) bool { return slices.Equal(p.GPUs, set) }) {
			t.Errorf("%s has %v, which is no partition of %d", name, set, count)
		}
		return set
	}
	one := c.Running(c.Admin, api.InstanceCreate{Name: "one", Kind: "vm", Image: disk, Flavor: flavor[1]})
	c.Running(c.Admin, api.InstanceCreate{Name: "two", Kind: "vm", Image: disk, Flavor: flavor[2]})
	c.Running(c.Admin, api.InstanceCreate{Name: "four", Kind: "vm", Image: disk, Flavor: flavor[4]})
	listed("one", 1)
	listed("two", 2)
	listed("four", 4)

	const sizes = "1 node: this board's NVSwitch partitions have 1, 2, 4 or 8 GPUs"
	three, err := c.Admin.InstanceCreate(ctx, "default", api.InstanceCreate{Name: "three", Kind: "vm", Image: disk, Flavor: flavor[3]})
	if err != nil {
		t.Fatal(err)
	}
	until(t, c.Admin, three.Name, "is refused with the sizes that there are", func(i *api.Instance) bool {
		return i.Reason == "never_fits" && strings.HasSuffix(i.Message, sizes) && len(i.Reasons) == 1 && i.Reasons[0].Reason == "node_partition_size" && i.Reasons[0].Message == sizes
	})
	dry, err := c.Admin.InstanceDryRun(ctx, "default", api.DryRun{Image: disk, Flavor: flavor[3]})
	if err != nil || !dry.NeverFits || len(dry.Reasons) != 1 || dry.Reasons[0].Message != sizes {
		t.Errorf("a dry run: %+v, %v", dry, err)
	}
	if _, err := c.Admin.InstanceDelete(ctx, "default", three.ID); err != nil {
		t.Fatal(err)
	}
	// A container has the third card of the half, and then no pair is free.
	c.Running(c.Admin, api.InstanceCreate{Name: "box", Image: box, Flavor: flavor[1]})
	if _, err := c.Admin.InstanceDelete(ctx, "default", one.ID); err != nil {
		t.Fatal(err)
	}
	eventually(t, "one card is free", func() bool { return len(has("one")) == 0 })
	c.Running(c.Admin, api.InstanceCreate{Name: "again", Kind: "vm", Image: disk, Flavor: flavor[1]})
	listed("again", 1)
	stopped(ctx, t, c, "two")
	to := flavor[3]
	_, err = c.Admin.InstanceUpdate(ctx, "default", "two", api.InstanceUpdate{Flavor: &to})
	if problem := problemOf(t, err); problem.Status != 422 || len(problem.Errors) != 1 || !strings.Contains(problem.Errors[0].Message, "NVSwitch partitions have 1, 2, 4 or 8 GPUs") {
		t.Errorf("a resize to three: %+v", problem)
	}
}

func stopped(ctx context.Context, t *testing.T, c *cloudtest.Cloud, name string) {
	t.Helper()
	if _, err := c.Admin.InstanceStop(ctx, "default", name); err != nil {
		t.Fatal(err)
	}
	until(t, c.Admin, name, "is stopped", func(i *api.Instance) bool { return i.State == "stopped" })
}
