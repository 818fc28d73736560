//go:build cgo && linux

package nvml

import (
	"context"
	"fmt"
	"strconv"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/tenon-cloud/tenon/internal/device/host"
)

var _ host.VGPUs = (*Driver)(nil)

// VGPUTypes lists the vGPU types that a card supports, with the GPU instance profile
// that backs one: by the library, which alone knows it.
func (d *Driver) VGPUTypes(_ context.Context, card string) ([]host.VGPUType, error) {
	dev, done, err := d.on(card)
	if err != nil {
		return nil, err
	}
	defer done()
	if !d.has("nvmlDeviceGetSupportedVgpus") || !d.has("nvmlVgpuTypeGetGpuInstanceProfileId") {
		return nil, fmt.Errorf("list the vGPU types of %s: %w", card, host.ErrRefused)
	}
	list, r := dev.GetSupportedVgpus()
	if err := failed(r); err != nil {
		return nil, fmt.Errorf("list the vGPU types of %s: %w", card, err)
	}
	var out []host.VGPUType
	for _, t := range list {
		v := host.VGPUType{ID: strconv.FormatUint(uint64(t.GetID()), 10), ProfileID: -1}
		if v.Name, r = t.GetName(); r != nvml.SUCCESS {
			return nil, fmt.Errorf("read vGPU type %s of %s: %w", v.ID, card, failed(r))
		}
		if profile, r := t.GetGpuInstanceProfileId(); r == nvml.SUCCESS && profile != ^uint32(0) {
			v.ProfileID = int(profile)
		}
		if bytes, r := t.GetFramebufferSize(); r == nvml.SUCCESS {
			v.MemoryMiB = int64(bytes >> 20) //nolint:gosec // a card's memory
		}
		if most, r := t.GetMaxInstances(dev); r == nvml.SUCCESS {
			v.Max = most
		}
		if class, r := t.GetClass(); r == nvml.SUCCESS {
			v.Compute = class == "Compute"
		}
		out = append(out, v)
	}
	return out, nil
}
