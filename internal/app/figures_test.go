package app

import (
	"testing"

	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/postgres"
)

// What a flavor is said to have is what drivers told, usable: an H200's "1g.18gb"
// has 16 GiB, and a card of 46068 MiB holds 23 parts of 2000 MiB, not 24.
func TestFlavorsHaveWhatDriversTell(t *testing.T) {
	t.Parallel()
	told := []postgres.Figures{
		{Model: "h200-141gb", Profile: "1g", MemoryMiB: 16384, SMs: 16}, {Model: "h200-141gb", Profile: "whole", MemoryMiB: 143771},
		{Model: "l40s-48gb", Profile: "whole", MemoryMiB: 46068},
	}
	shape := func(model string, mode cloud.GPUMode, profile string) cloud.Shape {
		return cloud.Shape{GPUCount: 1, GPUModel: model, GPUMode: mode, GPUProfile: profile}
	}
	for _, c := range []struct {
		s      cloud.Shape
		mib    int64
		sms    int
		enough int64 // what the need of a user is compared with
		fits   bool
	}{
		{shape("h200-141gb", cloud.ModeMIG, "1g"), 16384, 16, 17 << 10, false},
		{shape("h200-141gb", cloud.ModeMIG, "1g"), 16384, 16, 16 << 10, true},
		{shape("h200-141gb", cloud.ModeMIG, "3g"), 0, 0, 1, false}, // nobody told
		{shape("h200-141gb", cloud.ModeWhole, "whole"), 143771, 0, 140 << 10, true},
		{shape("l40s-48gb", cloud.ModeVGPU, "vgpu23"), 2002, 0, 2000, true},
		{shape("l40s-48gb", cloud.ModeVGPU, "vgpu24"), 1919, 0, 2000, false},
		{shape("l40s-48gb", cloud.ModeShared, "share4"), 11517, 0, 11517, true},
		{shape("a100-80gb", cloud.ModeWhole, "whole"), 0, 0, 1, false},
	} {
		mib, sms := figures(c.s, told)
		if mib != c.mib || sms != c.sms || (mib >= c.enough) != c.fits {
			t.Errorf("%s %s has %d MiB and %d SMs, want %d and %d", c.s.GPUModel, c.s.GPUProfile, mib, sms, c.mib, c.sms)
		}
	}
}
