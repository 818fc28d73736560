package simnvml

import (
	"fmt"
	"slices"

	"github.com/tenon-cloud/tenon/internal/device/host"
	"github.com/tenon-cloud/tenon/internal/gpu"
)

// What real cards of a model told, where that is known; the rest is its share by
// slots. Starts and sizes are the hardware's, as nvidia-smi mig -lgipp lists them:
// the mock of go-nvml has other ones for Hopper.
var (
	migSMs = map[string]map[string]int{
		"h100-80gb": {"1g": 16, "1g+me": 16, "1g2": 26, "2g": 32, "3g": 60, "4g": 64, "7g": 132},
		"a100-40gb": {"1g": 14, "1g+me": 14, "1g2": 14, "2g": 28, "3g": 42, "4g": 56, "7g": 98},
		"a100-80gb": {"1g": 14, "1g+me": 14, "1g2": 14, "2g": 28, "3g": 42, "4g": 56, "7g": 98},
		"a30-24gb":  {"1g": 14, "1g+me": 14, "2g": 28, "2g+me": 28, "4g": 56},
	}
	migMiB = map[string]map[string]int64{
		"h100-80gb":  {"1g": 9728, "1g+me": 9728, "2g": 19968, "3g": 40192},
		"h200-141gb": {"1g": 16384, "1g+me": 16384, "1g2": 33024, "3g": 71168},
	}
	// An A30's profile ids; the others have those of package gpu.
	migIDs = map[string]map[string]int{
		gpu.MIG4: {"1g": 14, "1g+me": 21, "2g": 5, "2g+me": 6, "4g": 0},
	}
)

// profiles is the table of a model; spelt may have a driver's other names.
func profiles(model *gpu.Model, spelt map[string]string) ([]host.MIGProfile, error) {
	geo, err := gpu.GeometryByName(model.Geometry)
	if err != nil {
		return nil, err
	}
	var out []host.MIGProfile
	for _, p := range geo.Profiles {
		name, err := model.DisplayName(p.Class)
		if err != nil {
			return nil, fmt.Errorf("make profile %s: %w", p.Class, err)
		}
		if other := spelt[p.Class]; other != "" {
			name = other
		}
		id := p.GIID
		if own, ok := migIDs[geo.Name][p.Class]; ok {
			id = own
		}
		mib := migMiB[model.Key][p.Class]
		if mib == 0 {
			mib = model.SliceMemoryMiB(p.Class)
		}
		q := host.MIGProfile{ID: id, Name: name, Compute: p.Compute, Slots: p.Slots, Starts: slices.Clone(p.Starts), Max: p.Max, MemoryMiB: mib, SMs: migSMs[model.Key][p.Class]}
		if p.Media {
			q.Attributes = []string{"me"}
		}
		out = append(out, q)
	}
	return out, nil
}
