package app

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tenon-cloud/tenon/internal/cloud"
)

// told is what a refusal says, a field a line, with the value that it gives back.
func told(err error) (out string) {
	var e *cloud.Error
	if errors.As(err, &e) {
		for _, f := range e.Fields {
			out += fmt.Sprintf("%s %v: %s\n", f.Location, f.Value, f.Message)
		}
	}
	return out
}

// TestARefusedLayoutSaysWhatIsPossible: which entry, what of it, and what there is
// instead, spelled as the card's driver does.
func TestARefusedLayoutSaysWhatIsPossible(t *testing.T) {
	t.Parallel()
	const have = "1g.10gb, 1g.10gb+me, 1g.20gb, 2g.20gb, 3g.40gb, 4g.40gb, 7g.80gb"
	n := func(i int) *int { return &i }
	h100 := cloud.GPU{Model: "h100-80gb", Mode: cloud.ModeMIG, Geometry: "mig8"}
	l40s := cloud.GPU{Model: "l40s-48gb", Mode: cloud.ModeWhole, Geometry: "plain"}
	mig, shared, whole := cloud.ModeMIG, cloud.ModeShared, cloud.ModeWhole
	for name, c := range map[string]struct {
		card   cloud.GPU
		mode   cloud.GPUMode
		layout []LayoutEntry
		shares *int
		want   string
	}{
		"an unknown profile": {h100, mig, []LayoutEntry{{Profile: "1g"}, {Profile: "5g.50gb"}}, nil,
			"body.layout[1].profile 5g.50gb: there is no profile \"5g.50gb\" on H100 80 GB, which has " + have + "\n"},
		"an unknown profile at a start": {h100, mig, []LayoutEntry{{Profile: "5g", SlotStart: n(0)}}, nil,
			"body.layout[0].profile 5g: there is no profile \"5g\" on H100 80 GB, which has " + have + "\n"},
		"another card's": {h100, mig, []LayoutEntry{{Profile: "a100 1g.5gb"}}, nil,
			"body.layout[0].profile a100 1g.5gb: there is no profile \"a100 1g.5gb\" on H100 80 GB, which has " + have + "\n"},
		"a start that there is not": {h100, mig, []LayoutEntry{{Profile: "2g.20gb", SlotStart: n(1)}}, nil,
			"body.layout[0].slot_start 1: 2g.20gb begins at slot 0, 2 or 4\n"},
		"a start below all": {h100, mig, []LayoutEntry{{Profile: "2g.20gb", SlotStart: n(-1)}}, nil,
			"body.layout[0].slot_start -1: a slot from 0; leave it out for any\n"},
		"a start that is taken": {h100, mig, []LayoutEntry{{Profile: "3g.40gb", SlotStart: n(0)}, {Profile: "1g.10gb", SlotStart: n(3)}}, nil,
			"body.layout[1].slot_start 3: beside the entries before it 1g.10gb begins at slot 4, 5 or 6\n"},
		"several at one start": {h100, mig, []LayoutEntry{{Profile: "1g.10gb", SlotStart: n(0), Count: n(2)}}, nil,
			"body.layout[0].count 2: an entry with a slot_start is one slice: leave count out\n"},
		"too many":                     {h100, mig, []LayoutEntry{{Profile: "3g.40gb", Count: n(3)}}, nil, "body.layout[0].count 3: at most 2 of 3g.40gb fit on one card\n"},
		"none of it":                   {h100, mig, []LayoutEntry{{Profile: "3g.40gb", Count: n(0)}}, nil, "body.layout[0].count 0: 1 to 2 of 3g.40gb\n"},
		"twice":                        {h100, mig, []LayoutEntry{{Profile: "1g"}, {Profile: "1g.10gb"}}, nil, "body.layout[1].profile 1g.10gb: 1g.10gb is in the layout twice: give it once with a count, or a slot_start to each\n"},
		"a card without MIG":           {l40s, whole, []LayoutEntry{{Profile: "1g"}}, nil, "body.layout <nil>: only a GPU that is cut by MIG has a layout\n"},
		"too many shares":              {h100, shared, nil, n(9), "body.shares 9: a GPU is shared in 2, 3, 4, 5, 6, 7 or 8\n"},
		"one share":                    {h100, shared, nil, n(1), "body.shares 1: a GPU is shared in 2, 3, 4, 5, 6, 7 or 8\n"},
		"shared, in nobody knows what": {h100, shared, nil, nil, "body.shares 0: say into how many shares: 2, 3, 4, 5, 6, 7 or 8\n"},
	} {
		in := CardInput{Mode: &c.mode, Shares: c.shares}
		if c.layout != nil {
			in.Layout = &c.layout
		}
		_, err := wishFor(c.card, in, "body.")
		if diff := cmp.Diff(c.want, told(err)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// TestAFlavorThatNoVMCanHaveIsNotMade: only a VM holds a virtual GPU.
func TestAFlavorThatNoVMCanHaveIsNotMade(t *testing.T) {
	t.Parallel()
	shape := cloud.Shape{VCPU: 1, MemoryMiB: 512, DiskMiB: 1024, GPUCount: 1, GPUModel: "h100-80gb", GPUMode: cloud.ModeVGPU, GPUProfile: "3g"}
	_, fields := shapeOf(shape)
	want := "body.memory_mib 512: at least 1024: only a virtual machine can hold a virtual GPU, and needs as much\n" +
		"body.disk_mib 1024: at least 4096: only a virtual machine can hold a virtual GPU, and needs as much\n"
	if diff := cmp.Diff(want, told(cloud.Invalid(fields...))); diff != "" {
		t.Error(diff)
	}
	shape.MemoryMiB, shape.DiskMiB = vmMemoryMinimum, vmDiskMinimum
	if _, fields := shapeOf(shape); len(fields) > 0 {
		t.Errorf("as much as a VM needs: %+v", fields)
	}
	shape.MemoryMiB, shape.DiskMiB, shape.GPUMode = 512, 1024, cloud.ModeMIG // a container's
	if _, fields := shapeOf(shape); len(fields) > 0 {
		t.Errorf("a container's: %+v", fields)
	}
}
