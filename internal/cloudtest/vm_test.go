package cloudtest_test

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/tenon-cloud/tenon/api"
	"github.com/tenon-cloud/tenon/internal/cloudtest"
	"github.com/tenon-cloud/tenon/internal/pgtest"
)

const publicKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAILPI94kkJ1dCCuw7hMZrqvNEHKvTqdVSVmcwzTbTfcXJ ada@laptop"

// vmImage adds one that everyone may use.
func vmImage(t *testing.T, c *cloudtest.Cloud) string {
	t.Helper()
	i, err := c.Admin.ImageCreate(t.Context(), api.ImageCreate{Name: "test-vm", Kind: "vm", Ref: "tenon/test-vm:latest", Offered: true})
	if err != nil {
		t.Fatal(err)
	}
	return i.Name
}

// until reads an instance until something holds of it.
func until(t *testing.T, c *api.Client, name, what string, ok func(*api.Instance) bool) *api.Instance {
	t.Helper()
	var last *api.Instance
	pgtest.Eventually(t, what, func() bool {
		i, err := c.InstanceGet(t.Context(), "default", name)
		if err != nil {
			return false
		}
		last = i
		return ok(i)
	})
	return last
}

func disk(i *api.Instance) string {
	for _, v := range i.Volumes {
		return v.State
	}
	return "none"
}

func rows(t *testing.T, c *cloudtest.Cloud, sql string) (n int) {
	t.Helper()
	if err := c.DB.Owner.QueryRow(t.Context(), sql).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// send posts raw bytes as a tenant.
func send(t *testing.T, c *cloudtest.Cloud, tenant *cloudtest.Tenant, path, body string) (int, []byte) {
	t.Helper()
	a := request(t, c, tenant.Token, http.MethodPost, path, body)
	return a.status, a.body
}

func code(err error) string {
	var p *api.Problem
	if errors.As(err, &p) {
		return p.Code
	}
	return ""
}

func TestC13AVMThatAsksForASliceIsToldWhatElse(t *testing.T) {
	t.Parallel()
	c := cloudtest.Start(t)
	acme := c.Tenant("acme")
	image, flavor := vmImage(t, c), slice(t, c)
	_, create := acme.InstanceCreate(t.Context(), "default", api.InstanceCreate{Name: "vm-1", Image: image, Flavor: flavor})
	_, dry := acme.InstanceDryRun(t.Context(), "default", api.DryRun{Image: image, Flavor: flavor})
	for what, err := range map[string]error{"create": create, "dry run": dry} {
		var p *api.Problem
		if !errors.As(err, &p) || p.Status != http.StatusUnprocessableEntity {
			t.Fatalf("%s: %v", what, err)
		}
		text := ""
		for _, f := range p.Errors {
			text += f.Message
		}
		for _, choice := range []string{"a container", "a whole GPU", "MIG-backed vGPU"} {
			if !strings.Contains(text, choice) {
				t.Errorf("%s says %q without %q", what, text, choice)
			}
		}
	}
}

func TestC21AGuestThatSwitchesItselfOff(t *testing.T) {
	t.Parallel()
	c := cloudtest.Start(t)
	acme := c.Tenant("acme")
	image := vmImage(t, c)
	released := c.Running(acme.Client, api.InstanceCreate{Name: "vm-1", Image: image, Flavor: "vm-small", SSHKeys: []string{publicKey}})
	held := c.Running(acme.Client, api.InstanceCreate{Name: "vm-2", Image: image, Flavor: "h100-1x", OnStop: "hold"})
	c.Guests.Exit(released.ID, 0)
	c.Guests.Exit(held.ID, 0)
	now := until(t, acme.Client, "vm-1", "it is stopped", func(i *api.Instance) bool { return i.State == api.StateStopped })
	if now.Held || now.Reason != "power_off" || disk(now) != "present" || len(now.SSHKeys) != 1 {
		t.Errorf("held %v, reason %s, disk %s", now.Held, now.Reason, disk(now))
	}
	kept := until(t, acme.Client, "vm-2", "it is stopped", func(i *api.Instance) bool { return i.State == api.StateStopped })
	if !kept.Held || len(kept.GPUs) != 1 || *kept.PriceNowMicros != *kept.PricePerHourMicros {
		t.Errorf("held %v with %d GPUs at %d of %d", kept.Held, len(kept.GPUs), *kept.PriceNowMicros, *kept.PricePerHourMicros)
	}
	// What is held starts without a queue, in its own place.
	started, err := acme.InstanceStart(t.Context(), "default", "vm-2")
	if err != nil || started.State != api.StateStarting || started.Held {
		t.Fatalf("%+v, %v", started, err)
	}
	again := until(t, acme.Client, "vm-2", "it runs again", func(i *api.Instance) bool { return i.State == api.StateRunning })
	if again.GPUs[0].GPUID != kept.GPUs[0].GPUID {
		t.Errorf("it runs elsewhere: %+v", again.GPUs)
	}
	if faults := c.Guests.Faults(); len(faults) > 0 {
		t.Errorf("faults: %v", faults)
	}
}

func TestC26OthersTookTheGPU(t *testing.T) {
	t.Parallel()
	c := cloudtest.Start(t)
	acme, other := c.Tenant("acme"), c.Tenant("umbrella")
	image, ctx := vmImage(t, c), t.Context()
	mine := c.Running(acme.Client, api.InstanceCreate{Name: "vm-1", Image: image, Flavor: "h100-1x"})
	if _, err := acme.InstanceStopAs(ctx, "default", "vm-1", api.InstanceStop{GPU: "release"}); err != nil {
		t.Fatal(err)
	}
	until(t, acme.Client, "vm-1", "it is stopped", func(i *api.Instance) bool { return i.State == api.StateStopped })
	c.Running(other.Client, api.InstanceCreate{Name: "theirs", Image: image, Flavor: "h100-1x"})
	if _, err := acme.InstanceStart(ctx, "default", "vm-1"); err != nil {
		t.Fatal(err)
	}
	waits := until(t, acme.Client, "vm-1", "it says why it waits", func(i *api.Instance) bool { return i.State == api.StateQueued && len(i.Reasons) > 0 })
	if waits.QueuePlace != 1 || disk(waits) != "present" || waits.Volumes[0].ID != mine.Volumes[0].ID {
		t.Errorf("place %d, disk %s", waits.QueuePlace, disk(waits))
	}
	if !slices.ContainsFunc(waits.Reasons, func(r api.Reason) bool { return r.Reason == "gpu_busy" && r.Count == 1 }) || !strings.Contains(waits.Message, "without its GPU") {
		t.Errorf("it waits for %+v: %s", waits.Reasons, waits.Message)
	}
	// Its disk alone is charged while it waits.
	if *waits.PriceNowMicros != 8*130 {
		t.Errorf("it costs %d an hour", *waits.PriceNowMicros)
	}
	usage, err := acme.Usage(ctx, "default", api.UsageOptions{GroupBy: "sku"})
	if err != nil || usage.Running != 0 || usage.RatePerHourMicros != 8*130 {
		t.Errorf("%d run at %d an hour, %v", usage.Running, usage.RatePerHourMicros, err)
	}
	// Without its GPU it runs at once, from the queue, and costs so.
	if _, err := acme.InstanceStartAs(ctx, "default", "vm-1", api.InstanceStart{WithoutGPU: true}); err != nil {
		t.Fatal(err)
	}
	saved := until(t, acme.Client, "vm-1", "it runs without its GPU", func(i *api.Instance) bool { return i.State == api.StateRunning })
	if saved.GPUCount != 0 || len(saved.GPUs) != 0 || saved.Flavor != "h100-1x" || saved.Volumes[0].ID != mine.Volumes[0].ID || *saved.PriceNowMicros >= 1_000_000 {
		t.Errorf("%d GPUs of %s at %d an hour", saved.GPUCount, saved.Flavor, *saved.PriceNowMicros)
	}
	// The next plain start asks for the GPU again.
	if _, err := acme.InstanceStop(ctx, "default", "vm-1"); err != nil {
		t.Fatal(err)
	}
	until(t, acme.Client, "vm-1", "it is stopped", func(i *api.Instance) bool { return i.State == api.StateStopped })
	if _, err := other.InstanceDelete(ctx, "default", "theirs"); err != nil {
		t.Fatal(err)
	}
	if _, err := acme.InstanceStart(ctx, "default", "vm-1"); err != nil {
		t.Fatal(err)
	}
	until(t, acme.Client, "vm-1", "it runs with its GPU", func(i *api.Instance) bool { return i.State == api.StateRunning && len(i.GPUs) == 1 })
}

func TestHoldAndReleaseAreChargedAsTheyShould(t *testing.T) {
	t.Parallel()
	c := cloudtest.Start(t)
	acme := c.Tenant("acme")
	image, ctx := vmImage(t, c), t.Context()
	i := c.Running(acme.Client, api.InstanceCreate{Name: "vm-1", Image: image, Flavor: "h100-1x"})
	if _, err := acme.InstanceStopAs(ctx, "default", "vm-1", api.InstanceStop{GPU: "hold"}); err != nil {
		t.Fatal(err)
	}
	until(t, acme.Client, "vm-1", "it is held", func(i *api.Instance) bool { return i.Held })
	rate := func(what string, micros int64, running int) {
		t.Helper()
		pgtest.Eventually(t, what, func() bool {
			u, err := acme.Usage(ctx, "default", api.UsageOptions{GroupBy: "instance"})
			return err == nil && u.RatePerHourMicros == micros && u.Running == running
		})
	}
	full := int64(2_500_000 + 2*10_000 + 2_000 + 8*130)
	rate("held, it is charged in full", full, 1)
	// Nobody else gets what it holds.
	wait := false
	_, err := acme.InstanceCreate(ctx, "default", api.InstanceCreate{Name: "vm-2", Image: image, Flavor: "h100-1x", Wait: &wait})
	if code(err) != "no_capacity" {
		t.Errorf("another was let in: %v", err)
	}
	if _, err := acme.InstanceStopAs(ctx, "default", "vm-1", api.InstanceStop{GPU: "release"}); err != nil {
		t.Fatal(err)
	}
	rate("released, its disk alone is charged", 8*130, 0)
	if _, err := acme.InstanceDelete(ctx, "default", "vm-1"); err != nil {
		t.Fatal(err)
	}
	rate("deleted, nothing is", 0, 0)
	pgtest.Eventually(t, "its disk is gone from its node", func() bool { return rows(t, c, `SELECT count(*) FROM volume WHERE state = 'deleted'`) == 1 })
	u, err := acme.Usage(ctx, "default", api.UsageOptions{GroupBy: "instance"})
	if err != nil {
		t.Fatal(err)
	}
	var skus []string
	for _, l := range u.Items {
		if l.InstanceID != i.ID || l.Quantity <= 0 {
			t.Errorf("%+v", l)
		}
		skus = append(skus, l.SKU)
	}
	slices.Sort(skus)
	if got := strings.Join(skus, " "); got != "gpu/h100-80gb/whole memory_gib vcpu volume_gib" {
		t.Errorf("charged for %s", got)
	}
	// The stretch is whole: from its start to its release, running and then held.
	if got := rows(t, c, `SELECT count(*) FROM segment a JOIN segment b ON b.instance_id = a.instance_id AND b.started_at = a.ended_at AND a.id <> b.id WHERE b.state = 'stopped'`); got < 1 {
		t.Error("between running and held there is a gap")
	}
	if got := rows(t, c, `SELECT count(*) FROM segment WHERE ended_at IS NULL`) + rows(t, c, `SELECT count(*) FROM volume_segment WHERE ended_at IS NULL`); got != 0 {
		t.Errorf("%d segments are open", got)
	}
}

func TestStopAndStartTakeTheirBodiesStrictly(t *testing.T) {
	t.Parallel()
	c := cloudtest.StartWith(t, cloudtest.Options{NoNode: true})
	acme := c.Tenant("acme")
	if _, err := acme.InstanceCreate(t.Context(), "default", api.InstanceCreate{Name: "web-1", Image: image(t, c), Flavor: "cpu-small"}); err != nil {
		t.Fatal(err)
	}
	for path, bodies := range map[string][]string{
		"/stop":  {`{"gpu":"keep"}`, `{"hold":true}`, `{"gpu":"hold"}`, `[]`},
		"/start": {`{"without_gpu":"yes"}`, `{"gpu":"hold"}`},
	} {
		for _, body := range bodies {
			status, text := send(t, c, acme, "/v1/projects/default/instances/web-1"+path, body)
			if status != http.StatusUnprocessableEntity && status != http.StatusBadRequest {
				t.Errorf("%s with %s: %d %s", path, body, status, text)
			}
		}
	}
	for _, body := range []string{"", "{}"} {
		if status, text := send(t, c, acme, "/v1/projects/default/instances/web-1/stop", body); status != http.StatusAccepted {
			t.Errorf("stop with %q: %d %s", body, status, text)
		}
		if status, text := send(t, c, acme, "/v1/projects/default/instances/web-1/start", body); status != http.StatusAccepted {
			t.Errorf("start with %q: %d %s", body, status, text)
		}
	}
	small := "cpu-medium"
	if _, err := acme.InstanceStop(t.Context(), "default", "web-1"); err != nil {
		t.Fatal(err)
	}
	got, err := acme.InstanceUpdate(t.Context(), "default", "web-1", api.InstanceUpdate{Flavor: &small})
	if err != nil || got.Flavor != small || got.MemoryMiB != 1024 {
		t.Errorf("resize: %+v %v", got, err)
	}
}
