package cloudtest_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/tenon-cloud/tenon/api"
	"github.com/tenon-cloud/tenon/internal/cloudtest"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

func capacity(ctx context.Context, t *testing.T, c *cloudtest.Cloud) api.CapacityLine {
	t.Helper()
	got, err := c.Admin.Capacity(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return got.Total
}

// alarms are the keys of the open alarms about a card.
func alarms(ctx context.Context, t *testing.T, c *cloudtest.Cloud, card string) (out []string) {
	t.Helper()
	list, err := c.Admin.AlarmList(ctx, api.AlarmListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range list.Items {
		if a.Subject == card {
			out = append(out, a.Key[strings.LastIndex(a.Key, ":")+1:])
		}
	}
	return out
}

// TestFaultsOfACard follows a card through its faults and back: case C23, the
// count of C25, the tenant's view and the operator's.
func TestFaultsOfACard(t *testing.T) {
	t.Parallel()
	c := cloudtest.StartWith(t, cloudtest.Options{Board: "dgx-a100"})
	ctx := within(t, 3*time.Minute)
	acme, other := c.Tenant("acme"), c.Tenant("other")
	f, err := c.Admin.FlavorCreate(ctx, api.FlavorCreate{Name: "one-a100", GPUCount: 1, GPUModel: "a100-80gb", GPUMode: "whole", VCPU: 1, MemoryMiB: 512, DiskMiB: 1024})
	if err != nil {
		t.Fatal(err)
	}
	img := image(t, c)
	names := []string{"a", "b", "c", "d", "e", "f"}
	ids := map[string]string{}
	for _, name := range names {
		ids[name] = c.Running(acme.Client, api.InstanceCreate{Name: name, Image: img, Flavor: f.Name}).ID
	}
	var free, held api.GPU
	for _, g := range cardsOf(ctx, t, c) {
		switch {
		case len(g.Claims) == 0:
			free = g
		case g.Claims[0].Instance == "a":
			held = g
		}
	}

	// C23: a program's own fault is an event of its instance, and the card stays.
	c.Board.Fault(held.UUID, 31, ids["a"])
	hasEvent := func(client *api.Client, id, verb string) bool {
		l, err := client.InstanceEvents(ctx, "default", id, api.PageOptions{})
		if err != nil {
			return false
		}
		for _, e := range l.Items {
			if e.Verb == verb {
				return true
			}
		}
		return false
	}
	eventually(t, "the instance has its event", func() bool { return hasEvent(acme.Client, ids["a"], "gpu_fault") })
	if l, err := c.Admin.GPUIncidents(ctx, held.ID); err != nil || len(l.Items) != 1 || l.Items[0].XID != 31 || l.Items[0].Action != "none" || l.Items[0].InstanceID != ids["a"] {
		t.Errorf("incidents: %v %+v", err, l)
	}
	if g, _ := c.Admin.GPUGet(ctx, held.ID); g.State != "ready" || len(alarms(ctx, t, c, held.ID)) != 0 {
		t.Errorf("the card is %s, alarms %v", g.State, alarms(ctx, t, c, held.ID))
	}
	if _, err := other.GPUIncidents(ctx, held.ID); problemOf(t, err).Status != 403 {
		t.Errorf("a tenant read incidents: %v", err)
	}

	// C25: 8 cards, 6 held, 1 out.
	c.Board.Mark(free.UUID, "quarantined", "it can't be reset")
	eventually(t, "one is quarantined", func() bool {
		l := capacity(ctx, t, c)
		return l.Total == 8 && l.Healthy == 7 && l.Used == 6 && l.Free == 1
	})
	eventually(t, "there is an alarm", func() bool {
		return strings.Join(alarms(ctx, t, c, free.ID), " ") == "quarantined"
	})
	n, err := c.Admin.NodeGet(ctx, c.NodeID)
	if err != nil {
		t.Fatal(err)
	}
	ready := 0
	for _, g := range n.GPUs {
		if g.State == "ready" {
			ready++
		}
	}
	if ready != 7 {
		t.Errorf("the node shows %d ready cards", ready)
	}
	if _, err := c.Admin.GPURecover(ctx, held.ID); problemOf(t, err).Code != "gpu_not_out" {
		t.Errorf("a card that works was recovered: %v", err)
	}
	g, err := c.Admin.GPURecover(ctx, free.ID)
	if err != nil || !g.Checking {
		t.Fatalf("recover: %v %+v", err, g)
	}
	becomes(ctx, t, c, free.ID, "is back", func(g *api.GPU) bool { return g.State == "ready" && !g.Checking })
	eventually(t, "the alarm is over", func() bool { return len(alarms(ctx, t, c, free.ID)) == 0 })

	// C23: one fault seen twice is one incident; the card is out, whoever holds it is told.
	c.Board.Fault(held.UUID, 79, "")
	c.Board.Fault(held.UUID, 79, "")
	eventually(t, "the card is out", func() bool {
		l := capacity(ctx, t, c)
		return l.Total == 8 && l.Healthy == 7 && l.Used == 6 && l.Free == 2
	})
	eventually(t, "its holder is told", func() bool {
		i, err := acme.InstanceGet(ctx, "default", ids["a"])
		return err == nil && i.State == api.StateRunning && i.Reason == "gpu_degraded" && strings.Contains(i.Message, "XID 79") && hasEvent(acme.Client, ids["a"], "degraded")
	})
	if l, err := c.Admin.GPUIncidents(ctx, held.ID); err != nil || len(l.Items) != 2 || l.Items[0].XID != 79 {
		t.Errorf("incidents: %v %+v", err, l)
	}
	if hasEvent(acme.Client, ids["b"], "degraded") {
		t.Error("an instance on another card was told")
	}
	if _, err := c.Admin.GPURecover(ctx, held.ID); problemOf(t, err).Code != "gpu_in_use" {
		t.Errorf("a held card was recovered: %v", err)
	}
}

// TestALayoutThatLacksASlice keeps the others in service, with an alarm.
func TestALayoutThatLacksASlice(t *testing.T) {
	t.Parallel()
	c := cloudtest.Start(t)
	ctx := within(t, 2*time.Minute)
	acme := c.Tenant("acme")
	img, flv := image(t, c), slice(t, c)
	cards := cardsOf(ctx, t, c)
	card := cards[1]
	if _, err := c.Admin.GPUUpdate(ctx, card.ID, api.GPUUpdate{Layout: layout(counted("1g", 4))}, false); err != nil {
		t.Fatal(err)
	}
	now := becomes(ctx, t, c, card.ID, "has four slices", func(g *api.GPU) bool { return len(g.Slices) == 4 })
	lost := now.Slices[3]
	c.Board.Lose(card.UUID, nodewire.Place{Profile: lost.Profile, SlotStart: lost.SlotStart, SlotEnd: lost.SlotEnd})
	eventually(t, "there is an alarm", func() bool { return strings.Join(alarms(ctx, t, c, card.ID), " ") == "slices" })
	for _, name := range []string{"a", "b", "c"} {
		c.Running(acme.Client, api.InstanceCreate{Name: name, Image: img, Flavor: flv})
	}
	fourth, err := acme.InstanceCreate(ctx, "default", api.InstanceCreate{Name: "d", Image: img, Flavor: flv})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the fourth waits", func() bool {
		i, err := acme.InstanceGet(ctx, "default", fourth.ID)
		return err == nil && i.State == api.StateQueued && i.Message != ""
	})
	c.Board.Lose(card.UUID)
	eventually(t, "it runs once the slice shows", func() bool {
		i, err := acme.InstanceGet(ctx, "default", fourth.ID)
		return err == nil && i.State == api.StateRunning
	})
	eventually(t, "the alarm is over", func() bool { return len(alarms(ctx, t, c, card.ID)) == 0 })
}

// TestSharesAreOneOrganisations gives shares of a card to one organisation at a
// time.
func TestSharesAreOneOrganisations(t *testing.T) {
	t.Parallel()
	c := cloudtest.Start(t)
	ctx := within(t, 2*time.Minute)
	acme, other := c.Tenant("acme"), c.Tenant("other")
	img := image(t, c)
	card := cardsOf(ctx, t, c)[0]
	if _, err := c.Admin.GPUUpdate(ctx, card.ID, api.GPUUpdate{Mode: "shared", Shares: ptr(4)}, false); err != nil {
		t.Fatal(err)
	}
	becomes(ctx, t, c, card.ID, "is shared", func(g *api.GPU) bool { return g.Mode == "shared" && g.Slots == 4 && len(g.Free) == 4 })
	f, err := c.Admin.FlavorCreate(ctx, api.FlavorCreate{Name: "quarter", GPUCount: 1, GPUModel: "h100-80gb", GPUMode: "shared", GPUProfile: "share4", VCPU: 1, MemoryMiB: 512, DiskMiB: 1024})
	if err != nil {
		t.Fatal(err)
	}
	first := c.Running(acme.Client, api.InstanceCreate{Name: "first", Image: img, Flavor: f.Name})
	theirs, err := other.InstanceCreate(ctx, "default", api.InstanceCreate{Name: "theirs", Image: img, Flavor: f.Name})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "another organisation waits", func() bool {
		i, err := other.InstanceGet(ctx, "default", theirs.ID)
		return err == nil && i.State == api.StateQueued && strings.Contains(i.Message, "1 GPU: in use")
	})
	second := c.Running(acme.Client, api.InstanceCreate{Name: "second", Image: img, Flavor: f.Name})
	if first.GPUs[0].SlotStart == second.GPUs[0].SlotStart || second.GPUs[0].GPUID != card.ID {
		t.Errorf("shares: %+v %+v", first.GPUs, second.GPUs)
	}
	for _, id := range []string{first.ID, second.ID} {
		if _, err := acme.InstanceDelete(ctx, "default", id); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "it gets the card next", func() bool {
		i, err := other.InstanceGet(ctx, "default", theirs.ID)
		return err == nil && i.State == api.StateRunning
	})
}
