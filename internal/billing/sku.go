package billing

import (
	"fmt"
	"strings"

	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/gpu"
)

// Prices are per hour of one unit: a card or slice of a model, a vCPU, a GiB.
const (
	SKUVCPU      = "vcpu"
	SKUMemoryGiB = "memory_gib"
	SKUVolumeGiB = "volume_gib"
)

// GPUSKU is what a device is sold as: gpu/h100-80gb/1g. The profile is its class,
// so that a driver's other spelling changes no price.
func GPUSKU(model, profile string) string { return "gpu/" + model + "/" + profile }

// item is what a shape holds of one SKU: units/per of it.
type item struct {
	sku   string
	units int64
	per   int64 // parts that make one unit of the price
}

func items(s cloud.Shape, volumeMiB int64) []item {
	out := make([]item, 0, 4)
	if s.GPUCount > 0 {
		profile := s.GPUProfile
		if profile == "" {
			profile = gpu.Whole
		}
		out = append(out, item{GPUSKU(s.GPUModel, profile), int64(s.GPUCount), 1})
	}
	if s.VCPU > 0 {
		out = append(out, item{SKUVCPU, int64(s.VCPU), 1})
	}
	if s.MemoryMiB > 0 {
		out = append(out, item{SKUMemoryGiB, s.MemoryMiB, 1024})
	}
	if volumeMiB > 0 {
		out = append(out, item{SKUVolumeGiB, volumeMiB, 1024})
	}
	return out
}

// SKUs lists what a shape is charged for.
func SKUs(s cloud.Shape) []string {
	var out []string
	for _, i := range items(s, 0) {
		out = append(out, i.sku)
	}
	return out
}

// Describe names a SKU and the unit in which it is counted, for people.
func Describe(sku string) (name, unit string) {
	switch sku {
	case SKUVCPU:
		return "vCPU", "vCPU hours"
	case SKUMemoryGiB:
		return "Memory", "GiB hours"
	case SKUVolumeGiB:
		return "Volumes", "GiB hours"
	}
	model, profile, ok := strings.Cut(strings.TrimPrefix(sku, "gpu/"), "/")
	if !ok || !strings.HasPrefix(sku, "gpu/") {
		return sku, "hours"
	}
	name = model
	if m, err := gpu.ModelByKey(model); err == nil {
		name = m.Name
	}
	if profile == gpu.Whole {
		return name, "GPU hours"
	}
	return fmt.Sprintf("%s, %s slice", name, gpu.DisplayName(model, profile)), "slice hours"
}

// ParseSKU checks a SKU for a price: 422's message is the error.
func ParseSKU(sku string) error {
	if sku == SKUVCPU || sku == SKUMemoryGiB || sku == SKUVolumeGiB {
		return nil
	}
	rest, ok := strings.CutPrefix(sku, "gpu/")
	key, profile, two := strings.Cut(rest, "/")
	if !ok || !two {
		return fmt.Errorf("read SKU %q: not %s, %s, %s or gpu/<model>/<profile>", sku, SKUVCPU, SKUMemoryGiB, SKUVolumeGiB)
	}
	m, err := gpu.ModelByKey(key)
	if err != nil {
		return fmt.Errorf("read SKU %q: %w", sku, err)
	}
	if profile == gpu.Whole {
		return nil
	}
	if _, _, even := gpu.EvenOf(profile); even {
		return nil
	}
	if class, err := m.Class(profile); err != nil || class != profile {
		return fmt.Errorf("read SKU %q: the profile is not whole or one of %s", sku, strings.Join(m.Classes(), ", "))
	}
	return nil
}
