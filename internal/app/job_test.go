package app_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tenon-cloud/tenon/internal/app"
	"github.com/tenon-cloud/tenon/internal/cloud"
)

func ask(name string, members int) app.JobInput {
	return app.JobInput{Name: name, Image: "debian-12", Flavor: "h100-1g-10gb", Members: &members}
}

func TestAJobIsRefusedWithAllThatIsWrong(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.node(t, 1, cloud.ModeMIG)
	n := func(v int) *int { return &v }
	for what, c := range map[string]struct {
		change func(*app.JobInput)
		fields []string
	}{
		"no members":            {func(in *app.JobInput) { in.Members = n(0) }, []string{"body.members"}},
		"more than all":         {func(in *app.JobInput) { in.Members, in.MembersMin = n(2), n(3) }, []string{"body.members_min"}},
		"fewer of nothing":      {func(in *app.JobInput) { in.Members, in.MembersMin = nil, n(1) }, []string{"body.members_min"}},
		"a gang and an array":   {func(in *app.JobInput) { in.Array = n(3) }, []string{"body.array"}},
		"parallel of a gang":    {func(in *app.JobInput) { in.Parallel = n(3) }, []string{"body.parallel"}},
		"too many for one node": {func(in *app.JobInput) { in.Members = n(65) }, []string{"body.members"}},
		"less than expected":    {func(in *app.JobInput) { in.ExpectedSeconds, in.MaxSeconds = n(10), n(9) }, []string{"body.max_seconds"}},
		"unknown words":         {func(in *app.JobInput) { in.Priority, in.Tier = "urgent", "slow" }, []string{"body.priority", "body.tier"}},
		"unknown things": {func(in *app.JobInput) { in.Flavor, in.Image, in.Pool, in.Retries = "huge", "windows", "moon", -1 },
			[]string{"body.flavor", "body.image", "body.pool", "body.retries"}},
		"a name too long for its members": {func(in *app.JobInput) { in.Name = strings.Repeat("x", 62) }, []string{"body.name"}},
		"a reserved variable":             {func(in *app.JobInput) { in.Env = map[string]string{"TENON_JOB": "x"} }, []string{"body.env"}},
		"never fits":                      {func(in *app.JobInput) { in.Members = n(9) }, []string{"body.members"}},
	} {
		in := ask("train", 4)
		c.change(&in)
		_, err := h.JobCreate(t.Context(), h.admin, "default", in)
		p := wantCode(t, what, err, cloud.KindInvalid, "invalid")
		var got []string
		for _, f := range p.Fields {
			got = append(got, f.Location)
		}
		slices.Sort(got)
		if diff := cmp.Diff(c.fields, got); diff != "" {
			t.Errorf("%s: %s", what, diff)
		}
		if what == "never fits" && (p.Detail["most_members"] != 7 || !strings.Contains(p.Fields[0].Message, "at most 7")) {
			t.Errorf("it does not say what would be possible: %+v", p)
		}
	}
	if n := count(t, h, `SELECT (SELECT count(*) FROM job) + (SELECT count(*) FROM instance) + (SELECT count(*) FROM event WHERE resource = 'job')`); n != 0 {
		t.Errorf("refused jobs left %d rows", n)
	}
	if used(t, h, h.admin, "default", cloud.QuotaInstances) != 0 {
		t.Error("a refused job was counted")
	}
}

func TestAJobIsAdmittedWholeOrNotAtAll(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	ctx := t.Context()
	if _, err := h.QuotaSet(ctx, h.admin, "default", one(5)); err != nil {
		t.Fatal(err)
	}
	c := h.admin
	c.IdempotencyKey = "job-1"
	first, err := h.JobCreate(ctx, c, "default", ask("train", 4))
	if err != nil {
		t.Fatal(err)
	}
	again, err := h.JobCreate(ctx, c, "default", ask("train", 4))
	if err != nil || again.ID != first.ID {
		t.Fatalf("asked again: %v, %v", again.ID, err)
	}
	_, err = h.JobCreate(ctx, h.admin, "default", ask("other", 2))
	wantCode(t, "one too many", err, cloud.KindQuota, "quota_exceeded")
	_, err = h.JobCreate(ctx, h.admin, "default", ask("train", 1))
	wantCode(t, "the same name", err, cloud.KindConflict, "name_taken")
	if got := used(t, h, h.admin, "default", cloud.QuotaInstances); got != 4 {
		t.Errorf("%d instances are counted", got)
	}
	if got := used(t, h, h.admin, "default", cloud.QuotaGPUMilli); got != 500 {
		t.Errorf("%d thousandths of a GPU are counted", got)
	}
	j, err := h.JobGet(ctx, h.admin, "default", "train")
	if err != nil || len(j.Members) != 4 || j.Queued != 4 || j.Members[3].Name != "train-3" || j.Members[3].JobName != "train" {
		t.Fatalf("it is %+v, %v", j, err)
	}
	// A member comes and goes with its job alone.
	_, err = h.InstanceDelete(ctx, h.admin, "default", "train-1", 0)
	if p := wantCode(t, "a member alone", err, cloud.KindConflict, "job_member"); !strings.Contains(p.Hint, "tenon job cancel train") {
		t.Errorf("it does not say what to do: %s", p.Hint)
	}
	if _, err := h.JobCancel(ctx, h.admin, "default", "train", first.Generation); err != nil {
		t.Fatal(err)
	}
	_, err = h.JobCancel(ctx, h.admin, "default", "train", first.Generation)
	wantCode(t, "an old generation", err, cloud.KindPrecondition, "generation_changed")
	// Another organisation sees nothing of it.
	other := h.tenant(t, "globex")
	_, err = h.JobGet(ctx, other, "default", first.ID.String())
	wantCode(t, "another's", err, cloud.KindNotFound, "not_found")
	_, err = h.JobDelete(ctx, other, "default", first.ID.String(), 0)
	wantCode(t, "another's", err, cloud.KindNotFound, "not_found")
}

func TestAnArrayCountsWhatRunsAtOnce(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	tasks, atOnce := 6, 2
	j, err := h.JobCreate(t.Context(), h.admin, "default", app.JobInput{Name: "sweep", Image: "debian-12", Flavor: "h100-1g-10gb", Array: &tasks, Parallel: &atOnce})
	if err != nil {
		t.Fatal(err)
	}
	if got := used(t, h, h.admin, "default", cloud.QuotaGPUMilli); got != 250 {
		t.Errorf("%d thousandths of a GPU are counted for two at once", got)
	}
	if got := used(t, h, h.admin, "default", cloud.QuotaInstances); got != 6 {
		t.Errorf("%d instances are counted", got)
	}
	waiting := 0
	for _, m := range j.Members {
		if m.State == cloud.StateStopped && m.Reason == "waits_turn" {
			waiting++
		}
	}
	if waiting != 4 {
		t.Errorf("%d tasks wait for their turn", waiting)
	}
}
