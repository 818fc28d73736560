package cloudtest_test

import (
	"strings"
	"testing"
	"time"

	"github.com/tenon-cloud/tenon/api"
	"github.com/tenon-cloud/tenon/internal/cloudtest"
)

// TestTheLifeOfACard: who held it stays known to operators, run by run; a fault that
// an operator simulates is as real as any until the card is recovered; a card that
// was pulled leaves the count, keeps its history and can come back as a new one.
func TestTheLifeOfACard(t *testing.T) {
	t.Parallel()
	c := cloudtest.StartWith(t, cloudtest.Options{Board: "dgx-a100"})
	ctx := within(t, 3*time.Minute)
	acme, other := c.Tenant("acme"), c.Tenant("other")
	f, err := c.Admin.FlavorCreate(ctx, api.FlavorCreate{Name: "one-a100", GPUCount: 1, GPUModel: "a100-80gb", GPUMode: "whole", VCPU: 1, MemoryMiB: 512, DiskMiB: 1024})
	if err != nil {
		t.Fatal(err)
	}
	in := api.InstanceCreate{Name: "first", Image: image(t, c), Flavor: f.Name}
	first := c.Running(acme.Client, in)
	card := first.GPUs[0].GPUID
	history := func(o api.PageOptions) *api.Page[api.GPUStay] {
		t.Helper()
		p, err := c.Admin.GPUHistory(ctx, card, o)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	if p := history(api.PageOptions{}); len(p.Items) != 1 || p.Items[0].InstanceID != first.ID || p.Items[0].Instance != "first" || p.Items[0].Organisation != "acme" || p.Items[0].To != nil || p.Items[0].SlotEnd != 8 {
		t.Errorf("%+v", p.Items)
	}
	if _, err := acme.InstanceDelete(ctx, "default", first.ID); err != nil {
		t.Fatal(err)
	}
	eventually(t, "its stay is over", func() bool {
		p := history(api.PageOptions{})
		return len(p.Items) == 1 && p.Items[0].To != nil && !p.Items[0].To.Before(p.Items[0].From)
	})
	in.Name = "second"
	second := c.Running(acme.Client, in)
	for second.GPUs[0].GPUID != card { // the scheduler takes which it likes
		in.Name += "-x"
		second = c.Running(acme.Client, in)
	}
	one := history(api.PageOptions{Limit: 1})
	if len(one.Items) != 1 || one.Items[0].InstanceID != second.ID || one.NextPageToken == "" {
		t.Fatalf("%+v", one)
	}
	if rest := history(api.PageOptions{Limit: 1, PageToken: one.NextPageToken}); len(rest.Items) != 1 || rest.Items[0].InstanceID != first.ID || rest.NextPageToken != "" {
		t.Errorf("%+v", rest)
	}
	for what, err := range map[string]error{
		"history": func() error { _, err := other.GPUHistory(ctx, card, api.PageOptions{}); return err }(),
		"fault":   func() error { _, err := other.GPUSimulateFault(ctx, card, api.GPUFault{XID: 79}); return err }(),
		"forget":  other.GPUForget(ctx, card),
	} {
		if p := problemOf(t, err); p.Status != 403 {
			t.Errorf("a tenant asked for %s: %d", what, p.Status)
		}
	}
	if _, err := c.Admin.GPUHistory(ctx, "GPU-none", api.PageOptions{}); problemOf(t, err).Status != 404 {
		t.Errorf("a card that never was: %v", err)
	}

	genuine := cardsOf(ctx, t, c)[7]
	if _, err := c.DB.Owner.Exec(ctx, `UPDATE gpu SET simulated = false WHERE node_id = (SELECT node_id FROM gpu WHERE uuid = $1) AND uuid = $1`, genuine.UUID); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Admin.GPUSimulateFault(ctx, genuine.ID, api.GPUFault{XID: 79}); problemOf(t, err).Code != "gpu_not_simulated" || problemOf(t, err).Status != 409 {
		t.Errorf("a fault of a real card: %v", err)
	}
	if _, err := c.Admin.GPUSimulateFault(ctx, card, api.GPUFault{XID: 0}); problemOf(t, err).Status != 422 {
		t.Errorf("no fault: %v", err)
	}
	if _, err := c.Admin.GPUSimulateFault(ctx, card, api.GPUFault{XID: 79}); err != nil {
		t.Fatal(err)
	}
	becomes(ctx, t, c, card, "is out", func(g *api.GPU) bool { return g.State == "unhealthy" && strings.Contains(g.Reason, "simulated") })
	eventually(t, "there are an incident, an alarm and a tenant who knows", func() bool {
		l, err := c.Admin.GPUIncidents(ctx, card)
		i, errI := acme.InstanceGet(ctx, "default", second.ID)
		return err == nil && errI == nil && len(l.Items) == 1 && l.Items[0].XID == 79 && strings.Join(alarms(ctx, t, c, card), " ") == "unhealthy" && i.Reason == "gpu_degraded"
	})
	if got := capacity(ctx, t, c); got.Total != 8 || got.Healthy != 7 {
		t.Errorf("%+v", got)
	}
	if err := c.Admin.GPUForget(ctx, card); problemOf(t, err).Code != "gpu_in_use" {
		t.Errorf("a held card was forgotten: %v", err)
	}
	if _, err := acme.InstanceDelete(ctx, "default", second.ID); err != nil {
		t.Fatal(err)
	}
	becomes(ctx, t, c, card, "is free", func(g *api.GPU) bool { return len(g.Claims) == 0 })
	if err := c.Admin.GPUForget(ctx, card); problemOf(t, err).Code != "gpu_not_missing" {
		t.Errorf("a card that is there was forgotten: %v", err)
	}
	if _, err := c.Admin.GPURecover(ctx, card); err != nil {
		t.Fatal(err)
	}
	g := becomes(ctx, t, c, card, "is back", func(g *api.GPU) bool { return g.State == "ready" })

	c.Board.Mark(g.UUID, "missing", "it was pulled")
	becomes(ctx, t, c, card, "is missing", func(g *api.GPU) bool { return g.State == "missing" })
	if err := c.Admin.GPUForget(ctx, card); err != nil {
		t.Fatal(err)
	}
	if err := c.Admin.GPUForget(ctx, card); problemOf(t, err).Status != 404 {
		t.Errorf("forgotten twice: %v", err)
	}
	if got := capacity(ctx, t, c); got.Total != 7 || got.Healthy != 7 {
		t.Errorf("%+v", got)
	}
	eventually(t, "its alarm is over", func() bool { return len(alarms(ctx, t, c, card)) == 0 })
	left := func() []api.GPU {
		t.Helper()
		n, err := c.Admin.NodeGet(ctx, c.NodeID)
		if err != nil {
			t.Fatal(err)
		}
		return n.GPUs
	}
	// Its node goes on to say that it is missing, and is not believed to have it.
	c.Board.Fault(left()[0].UUID, 31, "")
	eventually(t, "another report has come", func() bool {
		l, err := c.Admin.GPUIncidents(ctx, left()[0].ID)
		return err == nil && len(l.Items) == 1
	})
	if n := len(left()); n != 7 {
		t.Errorf("%d cards", n)
	}
	if p := history(api.PageOptions{}); len(p.Items) != 2 {
		t.Errorf("its history: %+v", p.Items)
	}
	if p, err := c.Admin.GPUHistory(ctx, g.UUID, api.PageOptions{}); err != nil || len(p.Items) != 2 {
		t.Errorf("its history by its UUID: %v %+v", err, p)
	}
	c.Board.Mark(g.UUID, "ready", "")
	eventually(t, "it is there again, as a new one", func() bool {
		cards := left()
		return len(cards) == 8 && !strings.Contains(ids(cards), card)
	})
}

func ids(cards []api.GPU) (out string) {
	for _, g := range cards {
		out += g.ID + " "
	}
	return out
}
