package app_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tenon-cloud/tenon/internal/app"
	"github.com/tenon-cloud/tenon/internal/authn"
	"github.com/tenon-cloud/tenon/internal/cloud"
)

const (
	goodKey    = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAILPI94kkJ1dCCuw7hMZrqvNEHKvTqdVSVmcwzTbTfcXJ ada@laptop"
	privateKey = "-----BEGIN OPENSSH PRIVATE KEY----- b3BlbnNzaC1rZXktdjEAAAAABG5vbmU"
)

// images adds one of each kind, offered to everyone.
func (h *house) images(t *testing.T) {
	t.Helper()
	for name, kind := range map[string]cloud.InstanceKind{"debian-12-vm": cloud.KindVM, "jupyter": cloud.KindNotebook} {
		if _, err := h.ImageCreate(t.Context(), h.admin, app.ImageInput{Name: name, Kind: kind, Ref: "tenon/" + name + ":latest", Offered: true}); err != nil {
			t.Fatal(err)
		}
	}
}

func vm(name string) app.InstanceInput {
	return app.InstanceInput{Name: name, Image: "debian-12-vm", Flavor: "vm-small"}
}

func TestAVMIsAdmittedWithItsDiskAndSecrets(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.images(t)
	in := vm("vm-1")
	in.Kind, in.SSHKeys, in.UserData, in.OnStop, in.OnNodeLoss = cloud.KindVM, []string{"  " + goodKey + "\n"}, "#cloud-config\nsecret", cloud.StopHolds, cloud.LossRestarts
	c := h.admin
	c.IdempotencyKey = "one"
	made, err := h.InstanceCreate(t.Context(), c, "default", in)
	if err != nil {
		t.Fatal(err)
	}
	got, err := h.InstanceGet(t.Context(), h.admin, "default", "vm-1")
	if err != nil {
		t.Fatal(err)
	}
	if got.Kind != cloud.KindVM || got.OnStop != cloud.StopHolds || got.OnNodeLoss != cloud.LossRestarts || got.Held || got.QueuePlace != 1 {
		t.Errorf("kind %s, on_stop %s, on_node_loss %s, held %v, place %d", got.Kind, got.OnStop, got.OnNodeLoss, got.Held, got.QueuePlace)
	}
	if diff := cmp.Diff([]string{goodKey}, got.SSHKeys); diff != "" {
		t.Error(diff)
	}
	if len(got.Volumes) != 1 || got.Volumes[0].Role != cloud.VolumeRoot || got.Volumes[0].SizeMiB != 8192 || got.Volumes[0].State != "pending" || len(made.Volumes) != 1 || made.Volumes[0].ID != got.Volumes[0].ID {
		t.Errorf("volumes %+v, created with %+v", got.Volumes, made.Volumes)
	}
	// vm-small: 1 vCPU, 1 GiB and 8 GiB of disk; nothing is there yet, so nothing costs.
	if got.PricePerHourMicros != 10_000+2_000+8*130 || got.PriceNowMicros != 0 {
		t.Errorf("%d an hour, %d now", got.PricePerHourMicros, got.PriceNowMicros)
	}
	again, err := h.InstanceCreate(t.Context(), c, "default", in)
	if err != nil || again.ID != made.ID {
		t.Errorf("the same key again: %v %v", again.ID, err)
	}
	// The data is under the master key, bound to the instance, and nowhere else.
	var sealed []byte
	if err := h.pg.Owner.QueryRow(t.Context(), `SELECT user_data FROM instance WHERE id = $1`, made.ID).Scan(&sealed); err != nil {
		t.Fatal(err)
	}
	if text, err := h.keys.Open(authn.SealUserData, made.ID.String(), sealed); err != nil || string(text) != in.UserData {
		t.Errorf("%q, %v", text, err)
	}
	if _, err := h.keys.Open(authn.SealUserData, cloud.InstanceID{}.New().String(), sealed); err == nil {
		t.Error("it opens as another instance's")
	}
	if n := count(t, h, `SELECT (SELECT count(*) FROM event WHERE data::text || message LIKE '%secret%') + (SELECT count(*) FROM audit WHERE detail::text LIKE '%secret%')
		+ (SELECT count(*) FROM idempotency WHERE convert_from(response, 'UTF8') LIKE '%secret%')`); n != 0 {
		t.Errorf("%d rows tell it", n)
	}
}

func TestANotebookKeepsItsHome(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.images(t)
	made, err := h.InstanceCreate(t.Context(), h.admin, "default", app.InstanceInput{Name: "nb-1", Image: "jupyter", Flavor: "h100-1g-10gb"})
	if err != nil {
		t.Fatal(err)
	}
	if made.Kind != cloud.KindNotebook || made.Command != nil || len(made.Volumes) != 1 || made.Volumes[0].Role != cloud.VolumeHome {
		t.Errorf("%s with %v and %+v", made.Kind, made.Command, made.Volumes)
	}
	if deleted, err := h.InstanceDelete(t.Context(), h.admin, "default", "nb-1", 0); err != nil || deleted.State != cloud.StateDeleted {
		t.Fatal(deleted.State, err)
	}
	if n := count(t, h, `SELECT count(*) FROM volume WHERE state = 'deleted' AND deleted_at IS NOT NULL`); n != 1 {
		t.Error("a home that was never made is not gone at once")
	}
}

func TestC13AVMCanNotHoldASlice(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.images(t)
	in := app.InstanceInput{Name: "vm-1", Image: "debian-12-vm", Flavor: "h100-1g-10gb"}
	_, create := h.InstanceCreate(t.Context(), h.admin, "default", in)
	_, dry := h.InstanceDryRun(t.Context(), h.admin, "default", in)
	for what, err := range map[string]error{"create": create, "dry run": dry} {
		p := wantCode(t, what, err, cloud.KindInvalid, "invalid")
		i := slices.IndexFunc(p.Fields, func(f cloud.Field) bool { return f.Location == "body.flavor" })
		if i < 0 {
			t.Fatalf("%s: %+v", what, p.Fields)
		}
		for _, choice := range []string{"a container", "a whole GPU", "MIG-backed vGPU"} {
			if !strings.Contains(p.Fields[i].Message, choice) {
				t.Errorf("%s says %q without %q", what, p.Fields[i].Message, choice)
			}
		}
	}
	if n := count(t, h, `SELECT count(*) FROM instance`) + count(t, h, `SELECT count(*) FROM volume`); n != 0 {
		t.Errorf("%d rows are left", n)
	}
}

func TestWhatAKindDoesNotTakeIsToldAtOnce(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.images(t)
	many := make([]string, 17)
	for i := range many {
		many[i] = goodKey
	}
	for what, c := range map[string]struct {
		in   app.InstanceInput
		want []string
	}{
		"a VM with a command": {app.InstanceInput{Image: "debian-12-vm", Flavor: "vm-small", Command: []string{"sh"}, Env: map[string]string{"A": "b"}}, []string{"body.command", "body.env"}},
		"a VM's keys":         {app.InstanceInput{Image: "debian-12-vm", Flavor: "vm-small", SSHKeys: []string{goodKey, "ssh-rsa nonsense", privateKey, `command="sh" ` + goodKey}}, []string{"body.ssh_keys[1]", "body.ssh_keys[2]", "body.ssh_keys[3]"}},
		"too many keys":       {app.InstanceInput{Image: "debian-12-vm", Flavor: "vm-small", SSHKeys: many}, []string{"body.ssh_keys"}},
		"too much data":       {app.InstanceInput{Image: "debian-12-vm", Flavor: "vm-small", UserData: strings.Repeat("x", 64<<10+1)}, []string{"body.user_data"}},
		"too small":           {app.InstanceInput{Image: "debian-12-vm", Flavor: "cpu-small"}, []string{"body.flavor"}},
		"a container": {app.InstanceInput{Image: "debian-12", Flavor: "cpu-small", SSHKeys: []string{goodKey}, UserData: "x", OnStop: cloud.StopHolds},
			[]string{"body.on_stop", "body.ssh_keys", "body.user_data"}},
		"a notebook":    {app.InstanceInput{Image: "jupyter", Flavor: "cpu-small", OnStop: cloud.StopHolds}, []string{"body.on_stop"}},
		"another kind":  {app.InstanceInput{Image: "jupyter", Flavor: "cpu-small", Kind: cloud.KindVM}, []string{"body.kind"}},
		"other choices": {app.InstanceInput{Image: "debian-12", Flavor: "cpu-small", OnStop: "keep", OnNodeLoss: "run"}, []string{"body.on_node_loss", "body.on_stop"}},
	} {
		c.in.Name = "x"
		_, err := h.InstanceCreate(t.Context(), h.admin, "default", c.in)
		p := wantCode(t, what, err, cloud.KindInvalid, "invalid")
		var got []string
		for _, f := range p.Fields {
			got = append(got, f.Location)
			if f.Value == privateKey || strings.Contains(f.Message, "b3BlbnNz") {
				t.Errorf("%s: a private key is told back", what)
			}
		}
		slices.Sort(got)
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", what, diff)
		}
	}
	if n := count(t, h, `SELECT count(*) FROM instance`); n != 0 {
		t.Errorf("%d were created", n)
	}
}

// hold puts an instance as if its node had stopped it and it held its place.
func (h *house) hold(t *testing.T, name string, node cloud.NodeID) {
	t.Helper()
	exec(t, h, `UPDATE instance SET state = 'starting', node_id = $2, epoch = 1 WHERE name = $1`, name, node)
	exec(t, h, `INSERT INTO gpu_claim (id, gpu_id, org_id, project_id, instance_id, epoch, mode, geometry, profile, slots)
		SELECT gen_random_uuid(), g.id, i.org_id, i.project_id, i.id, 1, 'whole', g.geometry, 'whole', '[0,8)'
		FROM instance i, gpu g WHERE i.name = $1 AND g.node_id = $2 ORDER BY g.id LIMIT (SELECT gpu_count FROM instance WHERE name = $1) ON CONFLICT DO NOTHING`, name, node)
	exec(t, h, `UPDATE instance SET state = 'stopped', held = true, desired_state = 'stopped' WHERE name = $1`, name)
	exec(t, h, `UPDATE volume SET state = 'present', node_id = $2, said = 'present', said_at = now() WHERE instance_id = (SELECT id FROM instance WHERE name = $1)`, name, node)
}

func TestAHeldVMStartsWithoutAQueueAndIsReleasedAtOnce(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.images(t)
	ctx := t.Context()
	node := h.node(t, 1, cloud.ModeWhole)
	if _, err := h.InstanceCreate(ctx, h.admin, "default", app.InstanceInput{Name: "vm-1", Image: "debian-12-vm", Flavor: "h100-1x", OnStop: cloud.StopHolds}); err != nil {
		t.Fatal(err)
	}
	h.hold(t, "vm-1", node)
	held, err := h.InstanceGet(ctx, h.admin, "default", "vm-1")
	if err != nil || !held.Held || held.PriceNowMicros != held.PricePerHourMicros || held.PriceNowMicros < 2_500_000 {
		t.Fatalf("held %v, %d of %d an hour, %v", held.Held, held.PriceNowMicros, held.PricePerHourMicros, err)
	}
	_, err = h.InstanceStop(ctx, h.admin, "default", "vm-1", app.StopInput{}, 0)
	if p := wantCode(t, "stop again", err, cloud.KindConflict, "state_conflict"); !strings.Contains(p.Hint, "release") {
		t.Errorf("hint %q", p.Hint)
	}
	_, err = h.InstanceStart(ctx, h.admin, "default", "vm-1", app.StartInput{WithoutGPU: true}, 0)
	wantCode(t, "start without what it holds", err, cloud.KindConflict, "place_held")
	small := "vm-small"
	_, err = h.InstanceUpdate(ctx, h.admin, "default", "vm-1", app.InstanceChange{Flavor: &small}, 0)
	wantCode(t, "resize", err, cloud.KindConflict, "state_conflict")
	started, err := h.InstanceStart(ctx, h.admin, "default", "vm-1", app.StartInput{}, 0)
	if err != nil || started.State != cloud.StateStarting || started.Epoch != 2 || started.Held || started.NodeID != node {
		t.Fatalf("%s epoch %d held %v, %v", started.State, started.Epoch, started.Held, err)
	}
	if n := count(t, h, `SELECT count(*) FROM gpu_claim WHERE epoch = 2`); n != 1 || used(t, h, h.admin, "default", cloud.QuotaGPUMilli) != 1000 {
		t.Errorf("%d claims at its new epoch, %d used", n, used(t, h, h.admin, "default", cloud.QuotaGPUMilli))
	}
	if n := count(t, h, `SELECT count(*) FROM event WHERE data->>'state' = 'starting' AND data->>'held' = 'true'`); n != 1 {
		t.Error("its start does not say that it held its place")
	}
	exec(t, h, `UPDATE instance SET state = 'stopped', held = true`)
	released, err := h.InstanceStop(ctx, h.admin, "default", "vm-1", app.StopInput{GPU: cloud.StopReleases}, 0)
	if err != nil || released.State != cloud.StateStopped || released.Held || !released.NodeID.IsZero() {
		t.Fatalf("%+v %v", released, err)
	}
	if n := count(t, h, `SELECT count(*) FROM gpu_claim`); n != 0 || used(t, h, h.admin, "default", cloud.QuotaGPUMilli) != 0 || used(t, h, h.admin, "default", cloud.QuotaInstances) != 1 {
		t.Errorf("%d claims are left", n)
	}
	if got, err := h.InstanceGet(ctx, h.admin, "default", "vm-1"); err != nil || got.PriceNowMicros != 8*130 {
		t.Errorf("stopped it costs %d an hour, want its disk alone; %v", got.PriceNowMicros, err)
	}
}

// A place on a node that nobody hears of is charged until its last sign of life,
// and starts nothing.
func TestAHeldVMOnASilentNode(t *testing.T) {
	t.Parallel()
	for what, give := range map[string]func(h *house) error{
		"released": func(h *house) error {
			_, err := h.InstanceStop(t.Context(), h.admin, "default", "vm-1", app.StopInput{GPU: cloud.StopReleases}, 0)
			return err
		},
		"deleted": func(h *house) error {
			_, err := h.InstanceDelete(t.Context(), h.admin, "default", "vm-1", 0)
			return err
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t)
			h.images(t)
			node := h.node(t, 1, cloud.ModeWhole)
			if _, err := h.InstanceCreate(t.Context(), h.admin, "default", app.InstanceInput{Name: "vm-1", Image: "debian-12-vm", Flavor: "h100-1x", OnStop: cloud.StopHolds}); err != nil {
				t.Fatal(err)
			}
			h.hold(t, "vm-1", node)
			exec(t, h, `UPDATE instance SET state_at = now() - interval '1 hour'`)
			exec(t, h, `UPDATE node SET state = 'late', last_seen_at = now() - interval '10 minutes'`)
			_, err := h.InstanceStart(t.Context(), h.admin, "default", "vm-1", app.StartInput{}, 0)
			wantCode(t, "start on a silent node", err, cloud.KindConflict, "node_silent")
			if err := give(h); err != nil {
				t.Fatal(err)
			}
			if n := count(t, h, `SELECT count(*) FROM event e, node n WHERE (e.data->>'proven_until')::timestamptz = n.last_seen_at`); n != 1 {
				t.Errorf("%d events say until when it is proven", n)
			}
		})
	}
}

func TestAHeldVMIsDeletedAtOnceAndItsDiskByItsNode(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.images(t)
	node := h.node(t, 1, cloud.ModeWhole)
	if _, err := h.InstanceCreate(t.Context(), h.admin, "default", app.InstanceInput{Name: "vm-1", Image: "debian-12-vm", Flavor: "h100-1x"}); err != nil {
		t.Fatal(err)
	}
	h.hold(t, "vm-1", node)
	before := count(t, h, `SELECT generation FROM node WHERE id = $1`, node)
	got, err := h.InstanceDelete(t.Context(), h.admin, "default", "vm-1", 0)
	if err != nil || got.State != cloud.StateDeleted {
		t.Fatal(got.State, err)
	}
	if n := count(t, h, `SELECT count(*) FROM gpu_claim`) + count(t, h, `SELECT sum(used)::int FROM project_quota`); n != 0 {
		t.Errorf("%d claims and units of quota are left", n)
	}
	if n := count(t, h, `SELECT count(*) FROM volume WHERE state = 'deleting' AND ending_at IS NOT NULL`); n != 1 || count(t, h, `SELECT generation FROM node WHERE id = $1`, node) == before {
		t.Error("its node does not hear that the disk goes")
	}
}

func TestOnlyWhatRunsCanHold(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.images(t)
	ctx := t.Context()
	for _, in := range []app.InstanceInput{vm("vm-1"), web("web-1")} {
		if _, err := h.InstanceCreate(ctx, h.admin, "default", in); err != nil {
			t.Fatal(err)
		}
	}
	hold := app.StopInput{GPU: cloud.StopHolds}
	_, err := h.InstanceStop(ctx, h.admin, "default", "vm-1", hold, 0)
	wantCode(t, "a queued one", err, cloud.KindConflict, "nothing_to_hold")
	_, err = h.InstanceStop(ctx, h.admin, "default", "web-1", hold, 0)
	wantCode(t, "a container", err, cloud.KindInvalid, "invalid")
	_, err = h.InstanceStart(ctx, h.admin, "default", "vm-1", app.StartInput{WithoutGPU: true}, 0)
	wantCode(t, "a queued one without GPU", err, cloud.KindConflict, "state_conflict")
	if _, err := h.InstanceStop(ctx, h.admin, "default", "web-1", app.StopInput{}, 0); err != nil {
		t.Fatal(err)
	}
	_, err = h.InstanceStart(ctx, h.admin, "default", "web-1", app.StartInput{WithoutGPU: true}, 0)
	wantCode(t, "a container without its GPU", err, cloud.KindInvalid, "invalid")
}

func TestC16EveryWayToMoreIsRefusedAlike(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.images(t)
	ctx := t.Context()
	create := func(name, flavor string) error {
		_, err := h.InstanceCreate(ctx, h.admin, "default", app.InstanceInput{Name: name, Image: "debian-12-vm", Flavor: flavor})
		return err
	}
	dry := func(name, flavor string) error {
		_, err := h.InstanceDryRun(ctx, h.admin, "default", app.InstanceInput{Name: name, Image: "debian-12-vm", Flavor: flavor})
		return err
	}
	for _, f := range []string{"h100-1x", "h100-2x"} {
		if err := create("vm-"+f, f); err != nil {
			t.Fatal(err)
		}
	}
	// Both give back what they had; then four GPUs are used by others.
	for _, name := range []string{"vm-h100-1x", "vm-h100-2x"} {
		if _, err := h.InstanceStop(ctx, h.admin, "default", name, app.StopInput{}, 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := create("other", "h100-4x"); err != nil {
		t.Fatal(err)
	}
	limit := int64(4000)
	if _, err := h.QuotaSet(ctx, h.admin, "default", map[cloud.QuotaResource]*int64{cloud.QuotaGPUMilli: &limit}); err != nil {
		t.Fatal(err)
	}
	two, small := "h100-2x", "vm-small"
	resize := func(to *string) error {
		_, err := h.InstanceUpdate(ctx, h.admin, "default", "vm-h100-1x", app.InstanceChange{Flavor: to}, 0)
		return err
	}
	start := func(name string, how app.StartInput) error {
		_, err := h.InstanceStart(ctx, h.admin, "default", name, how, 0)
		return err
	}
	for what, c := range map[string]struct {
		err   error
		asked int64
	}{
		"create":                             {create("more", "h100-2x"), 2000},
		"dry run":                            {dry("more", "h100-2x"), 2000},
		"resize from 1 to 2":                 {resize(&two), 2000},
		"start of one that had released":     {start("vm-h100-1x", app.StartInput{}), 1000},
		"start of another that had released": {start("vm-h100-2x", app.StartInput{}), 2000},
	} {
		p := wantCode(t, what, c.err, cloud.KindQuota, "quota_exceeded")
		want := map[string]any{"resource": "gpu_milli", "limit": int64(4000), "used": int64(4000), "asked": c.asked}
		if diff := cmp.Diff(want, p.Detail); diff != "" {
			t.Errorf("%s: %s", what, diff)
		}
	}
	if n := count(t, h, `SELECT count(*) FROM instance WHERE state = 'stopped' AND NOT holds_quota`); n != 2 || used(t, h, h.admin, "default", cloud.QuotaGPUMilli) != 4000 {
		t.Errorf("something was changed: %d are stopped, %d used", n, used(t, h, h.admin, "default", cloud.QuotaGPUMilli))
	}
	// What needs no GPU is let through, and so is a smaller size.
	if err := start("vm-h100-1x", app.StartInput{WithoutGPU: true}); err != nil {
		t.Fatal(err)
	}
	got, err := h.InstanceGet(ctx, h.admin, "default", "vm-h100-1x")
	if err != nil || got.Shape.GPUCount != 0 || got.FlavorName != "h100-1x" || used(t, h, h.admin, "default", cloud.QuotaGPUMilli) != 4000 {
		t.Errorf("%d GPUs of flavor %s, %v", got.Shape.GPUCount, got.FlavorName, err)
	}
	if _, err := h.InstanceStop(ctx, h.admin, "default", "vm-h100-1x", app.StopInput{}, 0); err != nil {
		t.Fatal(err)
	}
	if err := resize(&small); err != nil {
		t.Fatal(err)
	}
}

func TestAResizeNeverShrinksADisk(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.images(t)
	ctx := t.Context()
	node := h.node(t, 2, cloud.ModeWhole)
	if _, err := h.InstanceCreate(ctx, h.admin, "default", vm("vm-1")); err != nil {
		t.Fatal(err)
	}
	h.hold(t, "vm-1", node)
	if _, err := h.InstanceStop(ctx, h.admin, "default", "vm-1", app.StopInput{GPU: cloud.StopReleases}, 0); err != nil {
		t.Fatal(err)
	}
	for _, f := range []app.FlavorInput{
		{Name: "vm-thin", Shape: cloud.Shape{VCPU: 1, MemoryMiB: 1024, DiskMiB: 4096}}, {Name: "vm-big", Shape: cloud.Shape{VCPU: 2, MemoryMiB: 2048, DiskMiB: 16384}},
	} {
		if _, err := h.FlavorCreate(ctx, h.admin, f); err != nil {
			t.Fatal(err)
		}
	}
	thin, big, slice := "vm-thin", "vm-big", "h100-1g-10gb"
	for _, to := range []*string{&thin, &slice} {
		_, err := h.InstanceUpdate(ctx, h.admin, "default", "vm-1", app.InstanceChange{Flavor: to}, 0)
		wantCode(t, "resize to "+*to, err, cloud.KindInvalid, "invalid")
	}
	// A larger disk comes, and costs, only with the next start: until then there is a way back.
	small := "vm-small"
	for _, to := range []string{big, small, big} {
		got, err := h.InstanceUpdate(ctx, h.admin, "default", "vm-1", app.InstanceChange{Flavor: &to}, 0)
		if err != nil || got.FlavorName != to || got.Volumes[0].SizeMiB != 8192 {
			t.Fatalf("resize to %s: %+v %v", to, got, err)
		}
	}
	price, err := h.InstanceGet(ctx, h.admin, "default", "vm-1")
	if err != nil || price.PriceNowMicros != 8*130 || price.PricePerHourMicros != 2*10_000+2*2_000+16*130 {
		t.Errorf("%d now, %d once it runs; %v", price.PriceNowMicros, price.PricePerHourMicros, err)
	}
	for name, s := range map[string]cloud.Shape{"vm-huge": {VCPU: 1, MemoryMiB: 512 << 10, DiskMiB: 16384}, "vm-other": {GPUCount: 1, GPUModel: "h200-141gb", GPUMode: cloud.ModeWhole, VCPU: 1, MemoryMiB: 2048, DiskMiB: 16384}} {
		if _, err := h.FlavorCreate(ctx, h.admin, app.FlavorInput{Name: name, Shape: s}); err != nil {
			t.Fatal(err)
		}
		_, err := h.InstanceUpdate(ctx, h.admin, "default", "vm-1", app.InstanceChange{Flavor: &name}, 0)
		if p := wantCode(t, "a size that its node never has", err, cloud.KindInvalid, "invalid"); len(p.Fields) != 1 || !strings.Contains(p.Fields[0].Message, "never start") {
			t.Errorf("%s: %+v", name, p.Fields)
		}
	}
	var got cloud.Instance
	// A policy can change at any time, and says nothing of money.
	hold, run := cloud.StopHolds, cloud.LossRestarts
	if got, err = h.InstanceUpdate(ctx, h.admin, "default", "vm-1", app.InstanceChange{OnStop: &hold, OnNodeLoss: &run}, 0); err != nil || got.OnStop != hold || got.OnNodeLoss != run {
		t.Fatalf("%+v %v", got, err)
	}
	if n := count(t, h, `SELECT count(*) FROM event WHERE verb IN ('updated', 'resized') AND data->>'state' = ''`); n != 4 {
		t.Errorf("%d events that say no state, want 4", n)
	}
	_, err = h.InstanceUpdate(ctx, h.admin, "default", "vm-1", app.InstanceChange{}, 0)
	wantCode(t, "nothing", err, cloud.KindInvalid, "invalid")
}

func TestWhatIsLostForGoodDoesNotStart(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.images(t)
	ctx := t.Context()
	node := h.node(t, 1, cloud.ModeWhole)
	if _, err := h.InstanceCreate(ctx, h.admin, "default", vm("vm-1")); err != nil {
		t.Fatal(err)
	}
	h.hold(t, "vm-1", node)
	if _, err := h.InstanceStop(ctx, h.admin, "default", "vm-1", app.StopInput{GPU: cloud.StopReleases}, 0); err != nil {
		t.Fatal(err)
	}
	exec(t, h, `UPDATE volume SET state = 'lost', ending_at = now(), message = 'its node was given up'`)
	_, err := h.InstanceStart(ctx, h.admin, "default", "vm-1", app.StartInput{}, 0)
	if p := wantCode(t, "start", err, cloud.KindConflict, "volume_lost"); !strings.Contains(p.Hint, "delete it") {
		t.Errorf("hint %q", p.Hint)
	}
	got, err := h.InstanceGet(ctx, h.admin, "default", "vm-1")
	if err != nil || got.State != cloud.StateStopped || got.PriceNowMicros != 0 || got.PricePerHourMicros != 10_000+2_000 || used(t, h, h.admin, "default", cloud.QuotaVCPU) != 0 {
		t.Errorf("%s, %d now, %d once it runs; %v", got.State, got.PriceNowMicros, got.PricePerHourMicros, err)
	}
}

// A cloud of before gets what came with VMs once; what is then taken away stays
// away.
func TestALaterStartAddsWhatCameSince(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	ctx := t.Context()
	exec(t, h, `ALTER TABLE price DISABLE TRIGGER price_guard`)
	exec(t, h, `DELETE FROM price WHERE sku = 'volume_gib'`)
	exec(t, h, `DELETE FROM flavor WHERE name IN ('vm-small', 'h100-8x')`)
	exec(t, h, `DELETE FROM pool WHERE name = 'simulated'`)
	for range 2 {
		if _, err := h.Setup(ctx, app.SetupInput{AdminEmail: adminEmail}); err != nil {
			t.Fatal(err)
		}
		if n := count(t, h, `SELECT (SELECT count(*) FROM price WHERE sku = 'volume_gib') + (SELECT count(*) FROM pool WHERE name = 'simulated' AND simulated) + (SELECT count(*) FROM flavor WHERE name = 'vm-small')`); n != 3 {
			t.Fatalf("%d of 3 were added", n)
		}
	}
	if err := h.FlavorRetire(ctx, h.admin, "h100-8x"); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Setup(ctx, app.SetupInput{AdminEmail: adminEmail}); err != nil {
		t.Fatal(err)
	}
	if n := count(t, h, `SELECT count(*) FROM flavor WHERE name = 'h100-8x' AND retired_at IS NULL`); n != 0 {
		t.Error("what was taken away is back")
	}
}
