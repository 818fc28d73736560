package app_test

import (
	"strings"
	"testing"

	"github.com/tenon-cloud/tenon/internal/app"
	"github.com/tenon-cloud/tenon/internal/cloud"
)

// A GPU by what it must have: the cheapest flavor that a node could take, shown on
// the instance; what nothing has is refused at once, with what there is.
func TestAGPUByNeed(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.node(t, 2, cloud.ModeMIG)
	ask := func(n *app.NeedInput) app.InstanceInput {
		in := web("")
		in.Flavor, in.Need = "", n
		return in
	}
	for _, c := range []struct {
		need app.NeedInput
		want string
	}{
		{app.NeedInput{MemoryGiB: 8}, "h100-1g-10gb"}, {app.NeedInput{MemoryGiB: 15}, "h100-1g-20gb"}, {app.NeedInput{MemoryGiB: 24}, "h100-3g-40gb"},
		{app.NeedInput{Fraction: 0.5, Model: "NVIDIA H100"}, "h100-3g-40gb"}, {app.NeedInput{ComputeCapability: "9.0", Fraction: 0.1}, "h100-1g-10gb"},
	} {
		d, err := h.InstanceDryRun(t.Context(), h.admin, "default", ask(&c.need))
		if err != nil || d.Flavor != c.want {
			t.Errorf("%+v: %q (%v), want %s", c.need, d.Flavor, err, c.want)
		}
	}
	in := ask(&app.NeedInput{MemoryGiB: 24})
	in.Name = "by-need"
	made, err := h.InstanceCreate(t.Context(), h.admin, "default", in)
	if err != nil || made.FlavorName != "h100-3g-40gb" || made.Shape.GPUProfile != "3g" {
		t.Errorf("%+v, %v", made, err)
	}
	for _, c := range []struct {
		need app.NeedInput
		at   string
		says string
	}{
		{app.NeedInput{MemoryGiB: 200}, "body.gpu", "nothing on offer has 200 GiB of GPU memory; there is 79.6 GiB"},
		{app.NeedInput{Model: "b200"}, "body.gpu", "nothing on offer has a B200 180 GB; there is"},
		{app.NeedInput{Model: "h9000"}, "body.gpu.model", "h9000"}, {app.NeedInput{ComputeCapability: "nine"}, "body.gpu.compute_capability", "9.0"},
		{app.NeedInput{}, "body.gpu", "say what the GPU must have"},
	} {
		_, err := h.InstanceDryRun(t.Context(), h.admin, "default", ask(&c.need))
		if p := wantCode(t, c.says, err, cloud.KindInvalid, "invalid"); len(p.Fields) != 1 || p.Fields[0].Location != c.at || !strings.Contains(p.Fields[0].Message, c.says) {
			t.Errorf("%+v: %+v", c.need, p.Fields)
		}
	}
	both := web("")
	both.Need = &app.NeedInput{MemoryGiB: 1}
	for _, in := range []app.InstanceInput{both, ask(nil)} {
		_, err := h.InstanceDryRun(t.Context(), h.admin, "default", in)
		if p := wantCode(t, "both or none", err, cloud.KindInvalid, "invalid"); len(p.Fields) != 1 {
			t.Errorf("%+v", p.Fields)
		}
	}
}
