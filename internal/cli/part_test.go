package cli

import (
	"testing"

	"github.com/tenon-cloud/tenon/api"
)

// A part of a card is never shown as the card.
func TestWhatIsHeldOfACard(t *testing.T) {
	t.Parallel()
	for _, x := range []struct{ mode, profile, want string }{
		{"whole", "H100 80 GB", "H100 80 GB"},
		{"mig", "1g.10gb", "H100 80 GB 1g.10gb"},
		{"shared", "1/4 share", "H100 80 GB 1/4 share"},
		{"vgpu", "1/4 vGPU", "H100 80 GB 1/4 vGPU"},
		{"vgpu", "3g.40gb", "H100 80 GB 3g.40gb vGPU"},
	} {
		if got := gpuText(api.Shape{GPUCount: 1, GPUModelName: "H100 80 GB", GPUMode: x.mode, GPUProfileName: x.profile}, false); got != x.want {
			t.Errorf("asked for %s %s: %q, want %q", x.mode, x.profile, got, x.want)
		}
		if got := heldText(api.Claim{ModelName: "H100 80 GB", Mode: x.mode, ProfileName: x.profile}); got != x.want {
			t.Errorf("held %s %s: %q, want %q", x.mode, x.profile, got, x.want)
		}
	}
}
