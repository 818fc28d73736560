package app_test

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tenon-cloud/tenon/internal/app"
	"github.com/tenon-cloud/tenon/internal/cloud"
)

// twenty runs f twenty times at once.
func twenty(f func(i int) (cloud.Instance, error)) (ok []cloud.Instance, errs []error) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			got, err := f(i)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				errs = append(errs, err)
			} else {
				ok = append(ok, got)
			}
		})
	}
	wg.Wait()
	return ok, errs
}

func TestC14OneUnitOfQuota(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	if _, err := h.QuotaSet(t.Context(), h.admin, "default", one(1)); err != nil {
		t.Fatal(err)
	}
	ok, errs := twenty(func(i int) (cloud.Instance, error) {
		return h.InstanceCreate(t.Context(), h.admin, "default", web("web-"+string(rune('a'+i))))
	})
	if len(ok) != 1 || used(t, h, h.admin, "default", cloud.QuotaInstances) != 1 {
		t.Fatalf("%d accepted, usage reads %d; want 1 and 1", len(ok), used(t, h, h.admin, "default", cloud.QuotaInstances))
	}
	for _, err := range errs {
		p := wantCode(t, "refused", err, cloud.KindQuota, "quota_exceeded")
		want := map[string]any{"resource": "instances", "limit": int64(1), "used": int64(1), "asked": int64(1)}
		if diff := cmp.Diff(want, p.Detail); diff != "" || p.Hint == "" {
			t.Errorf("detail (hint %q): %s", p.Hint, diff)
		}
	}
	// Nothing of the refused ones is left.
	if n := count(t, h, `SELECT count(*) FROM instance`) + count(t, h, `SELECT count(*) FROM event`) + count(t, h, `SELECT count(*) FROM audit WHERE action = 'instance.create'`); n != 3 {
		t.Errorf("%d rows of instances, events and audit, want one each", n)
	}
	if used(t, h, h.admin, "default", cloud.QuotaGPUMilli) != 125 {
		t.Errorf("gpu_milli used %d, want 125", used(t, h, h.admin, "default", cloud.QuotaGPUMilli))
	}
}

func TestC14OneIdempotencyKey(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	c := h.admin
	c.IdempotencyKey = "the-same"
	ok, errs := twenty(func(int) (cloud.Instance, error) { return h.InstanceCreate(t.Context(), c, "default", web("web-1")) })
	if len(errs) > 0 || len(ok) != 20 {
		t.Fatalf("%d answers, errors %v", len(ok), errs)
	}
	for _, i := range ok[1:] {
		if diff := cmp.Diff(ok[0].ID, i.ID); diff != "" || i.Name != "web-1" || i.State != cloud.StateQueued {
			t.Fatalf("another answer: %s", diff)
		}
	}
	if n := count(t, h, `SELECT count(*) FROM instance`); n != 1 || used(t, h, c, "default", cloud.QuotaInstances) != 1 {
		t.Fatalf("%d instances", n)
	}
	_, err := h.InstanceCreate(t.Context(), c, "default", web("web-2"))
	wantCode(t, "another body", err, cloud.KindInvalid, "idempotency_key_reused")
	if n := count(t, h, `SELECT count(*) FROM instance`); n != 1 {
		t.Fatalf("%d instances after a reused key", n)
	}
}

func TestCreateTellsEverythingThatIsWrong(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	_, err := h.InstanceCreate(t.Context(), h.admin, "default", app.InstanceInput{
		Name: "Web_1", Image: "windows", Flavor: "huge", Pool: "moon",
		Command: []string{strings.Repeat("x", 9000)}, Env: map[string]string{"1X": "secret", "TENON_URL": "secret"},
	})
	p := wantCode(t, "create", err, cloud.KindInvalid, "invalid")
	var got []string
	for _, f := range p.Fields {
		got = append(got, f.Location)
		if f.Value == "secret" || f.Message == "" {
			t.Errorf("field %+v tells a secret or nothing", f)
		}
	}
	slices.Sort(got)
	if diff := cmp.Diff([]string{"body.command", "body.env", "body.env", "body.flavor", "body.image", "body.name", "body.pool"}, got); diff != "" {
		t.Error(diff)
	}
	if n := count(t, h, `SELECT count(*) FROM instance`); n != 0 || used(t, h, h.admin, "default", cloud.QuotaInstances) != 0 {
		t.Error("something was changed")
	}
	if _, err := h.InstanceCreate(t.Context(), h.admin, "default", web("web-1")); err != nil {
		t.Fatal(err)
	}
	_, err = h.InstanceCreate(t.Context(), h.admin, "default", web("web-1"))
	wantCode(t, "same name", err, cloud.KindConflict, "name_taken")
	_, err = h.InstanceCreate(t.Context(), h.admin, "elsewhere", web("web-2"))
	wantCode(t, "no project", err, cloud.KindNotFound, "not_found")
	if used(t, h, h.admin, "default", cloud.QuotaInstances) != 1 {
		t.Error("a refused create was counted")
	}
}

func TestLifeOfAnUnplacedInstance(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	ctx := t.Context()
	made, err := h.InstanceCreate(ctx, h.admin, "default", web("web-1"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = h.InstanceStart(ctx, h.admin, "default", "web-1", app.StartInput{}, 0)
	p := wantCode(t, "start of a queued one", err, cloud.KindConflict, "state_conflict")
	if diff := cmp.Diff([]string{"stop", "delete"}, p.Detail["allowed"]); diff != "" {
		t.Error(diff)
	}
	_, err = h.InstanceStop(ctx, h.admin, "default", "web-1", app.StopInput{}, 7)
	wantCode(t, "If-Match", err, cloud.KindPrecondition, "generation_changed")
	stopped, err := h.InstanceStop(ctx, h.admin, "default", made.ID.String(), app.StopInput{}, made.Generation)
	if err != nil || stopped.State != cloud.StateStopped || stopped.Generation != 2 {
		t.Fatalf("stopped: %+v, %v", stopped, err)
	}
	if g, n := used(t, h, h.admin, "default", cloud.QuotaGPUMilli), used(t, h, h.admin, "default", cloud.QuotaInstances); g != 0 || n != 1 {
		t.Errorf("a stopped one holds %d gpu_milli and %d instances, want 0 and 1", g, n)
	}
	// Case C16: what was given back must be had again.
	zero := int64(0)
	if _, err := h.QuotaSet(ctx, h.admin, "default", map[cloud.QuotaResource]*int64{cloud.QuotaGPUMilli: &zero}); err != nil {
		t.Fatal(err)
	}
	_, err = h.InstanceStart(ctx, h.admin, "default", "web-1", app.StartInput{}, 0)
	p = wantCode(t, "start above the limit", err, cloud.KindQuota, "quota_exceeded")
	if p.Detail["asked"] != int64(125) || p.Detail["limit"] != int64(0) {
		t.Errorf("detail %v", p.Detail)
	}
	if _, err := h.QuotaSet(ctx, h.admin, "default", map[cloud.QuotaResource]*int64{cloud.QuotaGPUMilli: nil}); err != nil {
		t.Fatal(err)
	}
	started, err := h.InstanceStart(ctx, h.admin, "default", "web-1", app.StartInput{}, 0)
	if err != nil || started.State != cloud.StateQueued || started.ID != made.ID {
		t.Fatalf("started: %+v, %v", started, err)
	}
	gone, err := h.InstanceDelete(ctx, h.admin, "default", "web-1", 0)
	if err != nil || gone.State != cloud.StateDeleted || gone.DeletedAt == nil {
		t.Fatalf("deleted: %+v, %v", gone, err)
	}
	for _, r := range cloud.QuotaResources {
		if n := used(t, h, h.admin, "default", r); n != 0 {
			t.Errorf("%s: %d still used", r, n)
		}
	}
	_, err = h.InstanceDelete(ctx, h.admin, "default", "web-1", 0)
	wantCode(t, "deleted twice", err, cloud.KindNotFound, "not_found")
	events, err := h.InstanceEvents(ctx, h.admin, "default", made.ID.String(), app.Page{})
	var verbs []string
	for i, e := range events.Items {
		verbs = append(verbs, e.Verb)
		if e.Seq != int64(len(events.Items)-i) {
			t.Errorf("event %d has number %d", i, e.Seq)
		}
	}
	if diff := cmp.Diff([]string{"deleted", "queued", "stopped", "created"}, verbs); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
	if _, err := h.InstanceCreate(ctx, h.admin, "default", web("web-1")); err != nil {
		t.Errorf("the name is not free again: %v", err)
	}
}

func TestIntentsOfAPlacedInstanceReachItsNode(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	ctx := t.Context()
	node := h.node(t, 1, cloud.ModeMIG)
	made, err := h.InstanceCreate(ctx, h.admin, "default", web("web-1"))
	if err != nil {
		t.Fatal(err)
	}
	exec(t, h, `INSERT INTO gpu_claim (id, gpu_id, org_id, project_id, instance_id, epoch, mode, geometry, profile, slots)
		SELECT gen_random_uuid(), g.id, i.org_id, i.project_id, i.id, 1, 'mig', 'mig8', '1g', '[6,7)' FROM gpu g, instance i`)
	exec(t, h, `UPDATE instance SET state = 'starting', node_id = $1, epoch = 1`, node)
	exec(t, h, `UPDATE instance SET state = 'running', started_at = now()`)
	restarted, err := h.InstanceRestart(ctx, h.admin, "default", "web-1", 0)
	if err != nil || restarted.State != cloud.StateRunning || restarted.Generation != 2 {
		t.Fatalf("restarted: %+v, %v", restarted, err)
	}
	detail, err := h.InstanceGet(ctx, h.admin, "default", "web-1")
	if err != nil || len(detail.Claims) != 1 || detail.Claims[0].ProfileName != "1g.10gb" || detail.Claims[0].Slots != (cloud.Slots{Start: 6, End: 7}) || detail.PricePerHourMicros == 0 {
		t.Fatalf("detail %+v, %v", detail, err)
	}
	list, err := h.InstanceList(ctx, h.admin, "default", app.InstanceFilter{}, app.Page{})
	if err != nil || len(list.Items) != 1 || list.Items[0].PricePerHourMicros != detail.PricePerHourMicros {
		t.Fatalf("a list tells no price: %+v, %v", list.Items, err)
	}
	a, err := h.NodeAssignment(ctx, node)
	if err != nil || a.Generation != 1 || len(a.Instances) != 1 || a.Instances[0].Desired != "running" || a.Instances[0].Generation != 2 || len(a.Instances[0].Devices) != 1 || a.Instances[0].Image.Digest != digest {
		t.Fatalf("assignment %+v, %v", a, err)
	}
	stopping, err := h.InstanceStop(ctx, h.admin, "default", "web-1", app.StopInput{}, 0)
	if err != nil || stopping.State != cloud.StateStopping || stopping.DeadlineAt == nil {
		t.Fatalf("stopping: %+v, %v", stopping, err)
	}
	for range 2 {
		deleting, err := h.InstanceDelete(ctx, h.admin, "default", made.ID.String(), 0)
		if err != nil || deleting.State != cloud.StateDeleting {
			t.Fatalf("deleting: %+v, %v", deleting, err)
		}
	}
	if a, err = h.NodeAssignment(ctx, node); err != nil || a.Generation != 3 || a.Instances[0].Desired != "gone" {
		t.Fatalf("assignment %+v, %v", a, err)
	}
	if n := count(t, h, `SELECT count(*) FROM gpu_claim`); n != 1 {
		t.Error("an intent freed a claim; only the node's word does")
	}
	if used(t, h, h.admin, "default", cloud.QuotaGPUMilli) != 125 {
		t.Error("an intent gave quota back; only the node's word does")
	}
}

func TestDryRunAndNoWait(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	ctx := t.Context()
	d, err := h.InstanceDryRun(ctx, h.admin, "default", web(""))
	if err != nil || d.StartsNow || len(d.Reasons) == 0 || !d.Priced || d.PricePerHourMicros == 0 {
		t.Fatalf("without nodes: %+v, %v", d, err)
	}
	in := web("web-1")
	in.NoWait = true
	_, err = h.InstanceCreate(ctx, h.admin, "default", in)
	if p := wantCode(t, "no wait", err, cloud.KindNoCapacity, "no_capacity"); p.Detail["reasons"] == nil {
		t.Error("no reasons")
	}
	if _, err := h.InstanceCreate(ctx, h.admin, "default", web("web-9")); err != nil {
		t.Fatal(err)
	}
	_, err = h.InstanceDryRun(ctx, h.admin, "default", web("web-9"))
	wantCode(t, "a taken name", err, cloud.KindConflict, "name_taken")
	h.node(t, 2, cloud.ModeMIG)
	if d, err = h.InstanceDryRun(ctx, h.admin, "default", web("")); err != nil || !d.StartsNow || d.FreeNow != 14 {
		t.Fatalf("with two cut cards: %+v, %v", d, err)
	}
	offers, err := h.FlavorList(ctx, h.admin)
	if err != nil {
		t.Fatal(err)
	}
	free, served := map[string]int{}, map[string]bool{}
	for _, o := range offers {
		free[o.Name], served[o.Name] = o.FreeNow, o.Served
		if o.ServedSimulated {
			t.Errorf("%s: no simulated pool has a node", o.Name)
		}
		if !o.Priced || o.PricePerHourMicros <= 0 {
			t.Errorf("%s has no price", o.Name)
		}
	}
	if free["h100-1g-10gb"] != 14 || free["h100-3g-40gb"] != 4 || free["h100-1x"] != 0 || free["a100-1g-10gb"] != 0 || free["cpu-small"] == 0 {
		t.Errorf("free now: %v", free)
	}
	if !served["h100-3g-40gb"] || !served["cpu-small"] || served["h100-1x"] || served["a100-1g-10gb"] {
		t.Errorf("served: %v", served)
	}
	whole := web("")
	whole.Flavor = "a100-1x"
	if d, err = h.InstanceDryRun(ctx, h.admin, "default", whole); err != nil || d.StartsNow || !d.NeverFits {
		t.Errorf("a model that no node has: %+v, %v", d, err)
	}
	// One that waits already takes a slice of a card first.
	if len(d.Instead) != 3 || d.Instead[0] != (app.Instead{Flavor: "h100-7g-80gb", Why: "as much of another model, H100 80 GB", FreeNow: 1}) || d.Instead[1].Flavor != "h100-3g-40gb" {
		t.Errorf("would start now instead: %+v", d.Instead)
	}
	if _, err := h.pg.Owner.Exec(ctx, `UPDATE node SET state = 'late'`); err != nil {
		t.Fatal(err)
	}
	if d, err = h.InstanceDryRun(ctx, h.admin, "default", web("")); err != nil || d.StartsNow || d.NeverFits || d.Instead != nil {
		t.Errorf("a node that is late: %+v, %v", d, err)
	}
	if _, err := h.pg.Owner.Exec(ctx, `UPDATE node SET state = 'ready'`); err != nil {
		t.Fatal(err)
	}
	if _, err = h.InstanceCreate(ctx, h.admin, "default", in); err != nil {
		t.Error(err)
	}
}
