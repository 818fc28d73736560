package app_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/tenon-cloud/tenon/internal/app"
	"github.com/tenon-cloud/tenon/internal/cloud"
)

func TestImages(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	ctx := t.Context()
	c := h.tenant(t, "acme")
	for ref, ok := range map[string]bool{
		"registry.test/a/b:1": true, "registry.test:5000/a": true, "localhost/a": true, "acme/default/tool:v1": true, "tenon/debian-12": true,
		"registry.test/missing:1": false, "UPPER": false, "a b": false, "registry.test/a:": false, "x@sha256:1": false, "": false, "../etc": false,
	} {
		img, err := h.ImageCreate(ctx, c, app.ImageInput{Name: "i" + cloud.ImageID{}.New().String()[20:], Ref: ref})
		if ok && (err != nil || img.Digest != digest || img.OrgID != c.Actor.OrgID) {
			t.Errorf("%q: %+v, %v", ref, img, err)
		}
		if !ok {
			if p := problem(err); p.Kind != cloud.KindInvalid || p.Fields[0].Location != "body.ref" {
				t.Errorf("%q: %v", ref, err)
			}
		}
	}
	_, err := h.ImageCreate(ctx, c, app.ImageInput{Name: "spy", Ref: "rival/default/tool:v1"})
	wantCode(t, "another organisation's repository", err, cloud.KindNotFound, "not_found")
	_, err = h.ImageCreate(ctx, c, app.ImageInput{Name: "all", Ref: "registry.test/a:1", Offered: true})
	wantCode(t, "an owner offers to all", err, cloud.KindForbidden, "forbidden")

	must(h.InstanceCreate(ctx, c, "default", web("web-1")))
	err = h.ImageDelete(ctx, h.admin, "debian-12")
	if p := wantCode(t, "in use", err, cloud.KindConflict, "image_in_use"); p.Detail["instances"] != 1 {
		t.Errorf("detail %v", p.Detail)
	}
	wantCode(t, "an owner takes back an offer", h.ImageDelete(ctx, c, "debian-12"), cloud.KindForbidden, "forbidden")
	must(h.InstanceDelete(ctx, c, "default", "web-1", 0))
	if err := h.ImageDelete(ctx, h.admin, "debian-12"); err != nil {
		t.Error(err)
	}
	var names []string
	for token := ""; ; {
		page := must(h.ImageList(ctx, c, app.Page{Limit: 2, Token: token}))
		for _, m := range page.Items {
			names = append(names, m.Name)
		}
		if token = page.NextPageToken; token == "" {
			break
		}
	}
	if len(names) != 5 {
		t.Errorf("pages give %v", names)
	}
}

func TestPrices(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	ctx := t.Context()
	past := app.PriceInput{SKU: "vcpu", MicrosPerHour: 1, StartsAt: time.Now().Add(-time.Second)}
	_, err := h.PriceCreate(ctx, h.admin, past)
	wantCode(t, "in the past", err, cloud.KindInvalid, "invalid")
	_, err = h.PriceCreate(ctx, h.admin, app.PriceInput{SKU: "gpu/h100-80gb/9g", MicrosPerHour: -1, StartsAt: time.Now().Add(time.Hour)})
	if p := wantCode(t, "no such profile", err, cloud.KindInvalid, "invalid"); len(p.Fields) != 2 {
		t.Errorf("fields %+v", p.Fields)
	}
	soon := app.PriceInput{SKU: "vcpu", MicrosPerHour: 77, StartsAt: time.Now().Add(time.Hour)}
	must(h.PriceCreate(ctx, h.admin, soon))
	_, err = h.PriceCreate(ctx, h.admin, soon)
	wantCode(t, "twice", err, cloud.KindConflict, "price_exists")
	current := map[string]int{}
	for _, p := range must(h.PriceList(ctx, h.admin)) {
		if p.Current {
			current[p.SKU]++
		}
		if p.MicrosPerHour == 77 && p.Current {
			t.Error("a price of the future is in force")
		}
	}
	for sku, n := range current {
		if n != 1 {
			t.Errorf("%d prices of %s in force", n, sku)
		}
	}
	_, err = h.PriceCreate(ctx, h.tenant(t, "acme"), soon)
	wantCode(t, "a tenant", err, cloud.KindForbidden, "forbidden")
}

func TestFlavors(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	ctx := t.Context()
	shape := cloud.Shape{GPUCount: 1, GPUModel: "NVIDIA H100", GPUMode: cloud.ModeMIG, GPUProfile: "3g.39gb", VCPU: 1, MemoryMiB: 512, DiskMiB: 1024}
	got, err := h.FlavorCreate(ctx, h.admin, app.FlavorInput{Name: "half", Shape: shape})
	if err != nil || got.Shape.GPUProfile != "3g" || got.Shape.GPUModel != "h100-80gb" || got.ProfileName != "3g.40gb" || !got.Priced {
		t.Fatalf("%+v, %v", got, err)
	}
	shape.GPUProfile, shape.VCPU, shape.DiskMiB = "5g.50gb", 0, 1
	_, err = h.FlavorCreate(ctx, h.admin, app.FlavorInput{Name: "Bad", Shape: shape})
	if p := wantCode(t, "bad", err, cloud.KindInvalid, "invalid"); len(p.Fields) != 4 {
		t.Errorf("fields %+v", p.Fields)
	}
	if err := h.FlavorRetire(ctx, h.admin, "half"); err != nil {
		t.Fatal(err)
	}
	wantCode(t, "retired twice", h.FlavorRetire(ctx, h.admin, "half"), cloud.KindNotFound, "not_found")
	must(h.FlavorCreate(ctx, h.admin, app.FlavorInput{Name: "half", Shape: got.Shape}))
}

// Case C17 through the whole floor: segments, prices, report.
func TestUsageIsWhatTheSegmentsSay(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	ctx := t.Context()
	i := must(h.InstanceCreate(ctx, h.admin, "default", web("web-1")))
	day := time.Now().UTC().Truncate(24 * time.Hour).Add(24 * time.Hour) // priced from the first boot on
	for _, s := range []struct {
		gpus     int
		from, to time.Duration
	}{{4, 0, 30 * time.Minute}, {1, 30 * time.Minute, 50 * time.Minute}} {
		exec(t, h, `INSERT INTO segment (id, org_id, project_id, instance_id, kind, state, gpu_count, gpu_model, gpu_mode, gpu_profile, vcpu, memory_mib, started_at, ended_at)
			VALUES (gen_random_uuid(), $1, $2, $3, 'container', 'running', $4, 'h100-80gb', 'whole', 'whole', 0, 0, $5, $6)`,
			i.OrgID, i.ProjectID, i.ID, s.gpus, day.Add(s.from), day.Add(s.to))
	}
	for _, by := range []string{"day", "instance", "sku"} {
		got := must(h.Usage(ctx, h.admin, "default", app.UsageQuery{From: day, To: day.Add(24 * time.Hour), GroupBy: by}))
		if len(got.Lines) != 1 || got.TotalMicros != 5_833_333 || got.Lines[0].Quantity < 2.33333 || got.Lines[0].Quantity > 2.33334 {
			t.Errorf("by %s: %+v", by, got)
		}
	}
	_, err := h.Usage(ctx, h.admin, "default", app.UsageQuery{From: day, To: day, GroupBy: "moon"})
	if p := wantCode(t, "bad", err, cloud.KindInvalid, "invalid"); len(p.Fields) != 2 {
		t.Errorf("fields %+v", p.Fields)
	}
}

// Case C10: one slice under two drivers' names is one SKU, one price, and as much
// of a quota.
func TestC10ASliceCountsTheSameUnderEveryName(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	ctx := t.Context()
	var before int64
	for i, name := range []string{"3g.39gb", "3g.40gb", "3g"} {
		shape := cloud.Shape{GPUCount: 1, GPUModel: "h100-80gb", GPUMode: cloud.ModeMIG, GPUProfile: name, VCPU: 1, MemoryMiB: 512, DiskMiB: 1024}
		f, err := h.FlavorCreate(ctx, h.admin, app.FlavorInput{Name: fmt.Sprintf("half-%d", i), Shape: shape})
		if err != nil || f.Shape.GPUProfile != "3g" || !f.Priced {
			t.Fatalf("%s: %+v, %v", name, f, err)
		}
		must(h.InstanceCreate(ctx, h.admin, "default", app.InstanceInput{Name: fmt.Sprintf("i%d", i), Image: "debian-12", Flavor: f.Name}))
		now := used(t, h, h.admin, "default", cloud.QuotaGPUMilli)
		if now-before != 500 {
			t.Errorf("%s takes %d of a quota in thousandths of a card, want 500", name, now-before)
		}
		before = now
	}
}
