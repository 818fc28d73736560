package cloudtest_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/tenon-cloud/tenon/api"
	"github.com/tenon-cloud/tenon/internal/cloudtest"
)

// staysOf lists why things stay on a node, by name.
func staysOf(ctx context.Context, t *testing.T, c *cloudtest.Cloud, node string) map[string]string {
	t.Helper()
	list, err := c.Admin.NodeStays(ctx, node)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, s := range list.Items {
		if s.Message == "" {
			t.Errorf("%+v does not say what would move it", s)
		}
		out[s.Instance+s.Orphan] = s.Reason
	}
	return out
}

// TestANodeFromDrainToForgotten follows a node that is drained, cut off,
// confirmed off and forgotten, and counts its cards all the while (case C25).
func TestANodeFromDrainToForgotten(t *testing.T) {
	t.Parallel()
	o := newOutposts(t)
	ctx := within(t, 3*time.Minute)
	acme := o.Tenant("acme")
	img, flv := image(t, o.Cloud), slice(t, o.Cloud)
	moves := o.Running(acme.Client, api.InstanceCreate{Name: "moves", Image: img, Flavor: flv, OnNodeLoss: "restart"})
	here, other, _ := o.where(ctx, acme, moves.ID)
	if _, err := o.Admin.NodeDrain(ctx, other.name); err != nil {
		t.Fatal(err)
	}
	waits := o.Running(acme.Client, api.InstanceCreate{Name: "waits", Image: img, Flavor: flv})
	if _, err := o.Admin.NodeUndrain(ctx, other.name); err != nil {
		t.Fatal(err)
	}
	count := func() api.CapacityLine {
		got, err := o.Admin.Capacity(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if all := got.Total; all.Free > all.Healthy || all.Used+all.Free > all.Total || all.Healthy > all.Total {
			t.Errorf("the count of cards makes no sense: %+v", all)
		}
		return got.Total
	}
	before := count()

	drained, err := o.Admin.NodeDrain(ctx, here.name)
	if err != nil || !drained.Drained || drained.Stays == nil || drained.Stays.Running != 2 {
		t.Fatalf("drained: %v %+v", err, drained)
	}
	if got := staysOf(ctx, t, o.Cloud, here.name); len(got) != 2 || got["moves"] != "running" || got["waits"] != "running" {
		t.Errorf("what stays: %v", got)
	}
	for what, call := range map[string]func() error{
		"fence":  func() error { _, err := o.Admin.NodeFence(ctx, here.name); return err },
		"forget": func() error { return o.Admin.NodeForget(ctx, here.name) },
	} {
		if p := problemOf(t, call()); p.Status != 409 || p.Hint == "" {
			t.Errorf("%s of a node that works: %+v", what, p)
		}
	}
	if _, err := acme.NodeFence(ctx, here.name); problemOf(t, err).Status != 403 {
		t.Errorf("a tenant fenced a node: %v", err)
	}

	here.wire.set(true)
	eventually(t, "it has no connection", func() bool { return !o.Pool.Has(here.id) })
	o.pass(20 * time.Second)
	eventually(t, "it is late", func() bool {
		n, err := o.Admin.NodeGet(ctx, here.name)
		return err == nil && n.State == "late"
	})
	unknown := func(why string) {
		t.Helper()
		list, err := o.Admin.GPUList(ctx, api.GPUListOptions{Node: here.name, State: "unknown"})
		if err != nil || len(list.Items) != before.Total/2 {
			t.Errorf("%d cards are unknown, %v", len(list.Items), err)
		}
		n, err := o.Admin.NodeGet(ctx, here.name)
		if err != nil {
			t.Fatal(err)
		}
		for _, g := range append(n.GPUs, list.Items...) {
			if g.Node != here.name || g.State != "unknown" || !strings.Contains(g.Reason, why) || len(g.Free) != 0 {
				t.Errorf("a card of %s is %s (%s), want one of %s that is unknown: %s", g.Node, g.State, g.Reason, here.name, why)
			}
		}
	}
	unknown("not been heard of since 20")
	if p := problemOf(t, o.Admin.NodeForget(ctx, here.name)); p.Status != 409 {
		t.Errorf("a late node was forgotten: %+v", p)
	}
	for _, id := range []string{moves.ID, waits.ID} { // the operator switches it off
		here.guests.Exit(id, 137)
	}
	n, err := o.Admin.NodeFence(ctx, here.name)
	if err != nil || n.FencedAt == nil || n.FencedBy != "operator" {
		t.Fatalf("fenced: %v %+v", err, n)
	}
	unknown("fenced")
	eventually(t, "what may restarts elsewhere", func() bool {
		now, err := acme.InstanceGet(ctx, "default", moves.ID)
		return err == nil && now.State == api.StateRunning && other.runs(moves.ID)
	})
	if got := staysOf(ctx, t, o.Cloud, here.name); got["moves"] != "fenced_claim" || got["waits"] != "running" {
		t.Errorf("what stays when it is fenced: %v", got)
	}
	if got := count(); got.Total != before.Total {
		t.Errorf("cards while it is fenced: %+v, before %+v", got, before)
	}

	if err := o.Admin.NodeForget(ctx, here.name); err != nil {
		t.Fatal(err)
	}
	if _, err := o.Admin.NodeGet(ctx, here.name); problemOf(t, err).Status != 404 {
		t.Errorf("a forgotten node is still shown: %v", err)
	}
	if got := count(); got.Total != before.Total/2 {
		t.Errorf("cards at once after it is forgotten: %+v, before %+v", got, before)
	}
	eventually(t, "what waited for it fails and says why", func() bool {
		now, err := acme.InstanceGet(ctx, "default", waits.ID)
		return err == nil && now.State == api.StateFailed && now.Reason == "node_forgotten" && strings.Contains(now.Message, "given up")
	})
	eventually(t, "nothing of it is left and nobody is alarmed", func() bool {
		var left int
		if err := o.DB.Owner.QueryRow(ctx, `SELECT (SELECT count(*) FROM gpu WHERE node_id IN (SELECT id FROM node WHERE forgotten_at IS NOT NULL)) + (SELECT count(*) FROM gpu_claim WHERE fenced)`).Scan(&left); err != nil {
			t.Fatal(err)
		}
		alarms, err := o.Admin.AlarmList(ctx, api.AlarmListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return left == 0 && len(alarms.Items) == 0
	})
	if got := count(); got.Total != before.Total/2 || got.Used != 1 {
		t.Errorf("cards in the end: %+v, before %+v", got, before)
	}
	here.wire.set(false) // it comes back all the same, and is not let in
	if _, err := acme.InstanceStart(ctx, "default", waits.ID); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it runs on the other", func() bool { return other.runs(waits.ID) })
	if o.Pool.Has(here.id) {
		t.Error("a forgotten node is connected")
	}
}
