package gpu

import (
	"testing"

	"github.com/tenon-cloud/tenon/internal/cloud"
)

func candidate(name, model, profile string, mode cloud.GPUMode, count int, price int64) Candidate {
	return Candidate{Name: name, MicrosPerHour: price, Priced: price > 0, Joined: mode == cloud.ModeWhole && count <= 4,
		Shape: cloud.Shape{GPUCount: count, GPUModel: model, GPUMode: mode, GPUProfile: profile}}
}

func TestANeedIsMetByTheCheapestThatDoes(t *testing.T) {
	t.Parallel()
	offers := []Candidate{
		{Name: "cpu"},
		candidate("h100-1g", "h100-80gb", "1g", cloud.ModeMIG, 1, 4),
		candidate("h100-3g", "h100-80gb", "3g", cloud.ModeMIG, 1, 16),
		candidate("h100-4g", "h100-80gb", "4g", cloud.ModeMIG, 1, 16),
		candidate("h100-1x", "h100-80gb", Whole, cloud.ModeWhole, 1, 32),
		candidate("h100-2x", "h100-80gb", Whole, cloud.ModeWhole, 2, 64),
		candidate("h100-8x", "h100-80gb", Whole, cloud.ModeWhole, 8, 256),
		candidate("a100-3g", "a100-80gb", "3g", cloud.ModeMIG, 1, 10),
		candidate("a100-2x", "a100-80gb", Whole, cloud.ModeWhole, 2, 40),
		candidate("l40s-share", "l40s-48gb", "share2", cloud.ModeShared, 1, 1),
		candidate("l40s-1x", "l40s-48gb", Whole, cloud.ModeWhole, 1, 0),
	}
	for _, c := range []struct {
		name    string
		need    Need
		first   string
		missing string
	}{
		{"24 GiB of GPU memory", Need{MemoryMiB: 24 << 10}, "a100-3g", ""},
		{"a share has no memory of its own", Need{MemoryMiB: 1 << 10}, "h100-1g", ""},
		{"half an H100", Need{Milli: 500, Model: "h100-80gb"}, "h100-3g", ""},
		{"2 GPUs joined by NVLink, compute capability ≥ 9.0", Need{Count: 2, NVLink: true, Capability: 90}, "h100-2x", ""},
		{"the same, whatever the capability", Need{Count: 2, NVLink: true}, "a100-2x", ""},
		{"what has no price comes last", Need{MemoryMiB: 44 << 10, Count: 1}, "h100-1x", ""},
		{"or alone", Need{Model: "l40s-48gb", MemoryMiB: 44 << 10}, "l40s-1x", ""},
		{"too much memory", Need{MemoryMiB: 200 << 10}, "", "nothing on offer has 200 GiB of GPU memory; there is 80 GiB (a100-2x), 79.6 GiB (h100-1x), 79.6 GiB (h100-2x), …"},
		{"too many", Need{Count: 16}, "", "nothing on offer has 16 GPUs at once; there is 8 (h100-8x), 2 (a100-2x), 2 (h100-2x), …"},
		{"eight are not all joined", Need{Count: 8, NVLink: true}, "", "nothing on offer has 8 GPUs joined by NVLink"},
		{"no such card", Need{Model: "b200-180gb"}, "", "nothing on offer has a B200 180 GB; there is A100 80 GB, H100 80 GB, L40S 48 GB"},
		{"too new", Need{Capability: 100}, "", "nothing on offer has compute capability 10.0; there is A100 80 GB, H100 80 GB, L40S 48 GB"},
	} {
		fit, missing := c.need.Among(offers)
		if missing != c.missing || (len(fit) > 0) != (c.first != "") || len(fit) > 0 && fit[0].Name != c.first {
			t.Errorf("%s: %+v, %q", c.name, fit, missing)
		}
	}
	// What a driver tells counts more than what a table says.
	offers[1].MemoryMiB = 30 << 10
	if fit, _ := (Need{MemoryMiB: 24 << 10}).Among(offers); fit[0].Name != "h100-1g" {
		t.Errorf("%+v", fit[0])
	}
}

func TestCapabilitiesOfKnownCards(t *testing.T) {
	t.Parallel()
	for _, m := range Models() {
		if none := m.Key == "qemu-edu" || m.Key[:2] == "mi"; (Capability(m.Key) == 0) != none {
			t.Errorf("%s has compute capability %d", m.Key, Capability(m.Key))
		}
	}
	for text, want := range map[string]int{"9.0": 90, "12.0": 120, "8.9": 89, "9": 0, "9.10": 0, "x.1": 0, "": 0} {
		if got, err := ParseCapability(text); got != want || (err == nil) != (want > 0) {
			t.Errorf("%q: %d, %v", text, got, err)
		}
	}
}
