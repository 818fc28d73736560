package cloudtest_test

import (
	"testing"
	"time"

	"github.com/tenon-cloud/tenon/api"
	"github.com/tenon-cloud/tenon/internal/cloudtest"
	"github.com/tenon-cloud/tenon/internal/hypervisor/fake"
)

// TestAHostReboot: what is to come back does so by itself, on its card, while
// another waits for that card; the time down is in nobody's usage; what is not to
// come back has failed and says why.
func TestAHostReboot(t *testing.T) {
	t.Parallel()
	c := cloudtest.StartWith(t, cloudtest.Options{Guests: fake.Options{}})
	ctx := within(t, 3*time.Minute)
	acme, rival := c.Tenant("acme"), c.Tenant("rival")
	f, err := c.Admin.FlavorCreate(ctx, api.FlavorCreate{Name: "one-h100", GPUCount: 1, GPUModel: "h100-80gb", GPUMode: "whole", VCPU: 1, MemoryMiB: 512, DiskMiB: 1024})
	if err != nil {
		t.Fatal(err)
	}
	img := image(t, c)
	back := c.Running(acme.Client, api.InstanceCreate{Name: "back", Image: img, Flavor: f.Name, OnNodeReboot: "restart"})
	gone := c.Running(acme.Client, api.InstanceCreate{Name: "gone", Image: img, Flavor: slice(t, c)})
	if back.OnNodeReboot != "restart" || gone.OnNodeReboot != "fail" { // a container begins from nothing
		t.Errorf("%s, %s", back.OnNodeReboot, gone.OnNodeReboot)
	}
	waits, err := rival.InstanceCreate(ctx, "default", api.InstanceCreate{Name: "waits", Image: img, Flavor: f.Name})
	if err != nil {
		t.Fatal(err)
	}
	card := back.GPUs[0].GPUID
	c.Reboot("boot-2", func() {
		if g, err := c.Admin.GPUGet(ctx, card); err != nil || len(g.Claims) != 1 {
			t.Errorf("while the host is off: %v %+v", err, g)
		}
	})
	eventually(t, "it runs again", func() bool {
		i, err := acme.InstanceGet(ctx, "default", back.ID)
		return err == nil && i.State == api.StateRunning && i.StartedAt.After(*back.StartedAt) && i.GPUs[0].GPUID == card
	})
	eventually(t, "the other has failed", func() bool {
		i, err := acme.InstanceGet(ctx, "default", gone.ID)
		return err == nil && i.State == api.StateFailed && i.Reason == "node_rebooted" && len(i.GPUs) == 0
	})
	if i, err := rival.InstanceGet(ctx, "default", waits.ID); err != nil || i.State != api.StateQueued {
		t.Errorf("another got in between: %v %+v", err, i)
	}
	p, err := c.Admin.GPUHistory(ctx, card, api.PageOptions{})
	if err != nil || len(p.Items) != 2 || p.Items[0].InstanceID != back.ID || p.Items[1].InstanceID != back.ID || p.Items[0].To != nil || !p.Items[1].To.Equal(p.Items[0].From) {
		t.Errorf("its card's history: %v %+v", err, p)
	}
	// Three stretches: two runs of the one and one of the other, none of which
	// reaches over the reboot.
	eventually(t, "the books are closed", func() bool {
		var open, over int
		err := c.DB.Owner.QueryRow(ctx, `SELECT count(*) FILTER (WHERE ended_at IS NULL), count(*) FILTER (WHERE ended_at IS NOT NULL) FROM segment`).Scan(&open, &over)
		return err == nil && open == 1 && over == 2
	})
	fail := "fail"
	if i, err := acme.InstanceUpdate(ctx, "default", back.ID, api.InstanceUpdate{OnNodeReboot: &fail}); err != nil || i.OnNodeReboot != "fail" {
		t.Errorf("%v %+v", err, i)
	}
	never := "never"
	if _, err := acme.InstanceUpdate(ctx, "default", back.ID, api.InstanceUpdate{OnNodeReboot: &never}); problemOf(t, err).Status != 422 {
		t.Errorf("another word: %v", err)
	}
	c.Reboot("boot-3", func() {})
	eventually(t, "it fails now", func() bool {
		i, err := acme.InstanceGet(ctx, "default", back.ID)
		return err == nil && i.State == api.StateFailed && i.Reason == "node_rebooted"
	})
	eventually(t, "and the one that waited has the card", func() bool {
		i, err := rival.InstanceGet(ctx, "default", waits.ID)
		return err == nil && i.State == api.StateRunning && i.GPUs[0].GPUID == card
	})
}
