package simnvml

import (
	"context"
	"fmt"
	"slices"

	"github.com/tenon-cloud/tenon/internal/device/host"
)

var _ host.VGPUs = (*Driver)(nil)

// VGPUTypes lists those that the card was made with; none: it is no vGPU driver.
func (d *Driver) VGPUTypes(_ context.Context, address string) ([]host.VGPUType, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	c, err := d.find(address)
	if err != nil {
		return nil, err
	}
	if len(c.VGPUs) == 0 {
		return nil, fmt.Errorf("list vGPU types (simulated): %w", host.ErrRefused)
	}
	return slices.Clone(c.VGPUs), nil
}

// Backing says whether MIG slices back a vGPU type, and how many of its profile the
// card has now; so the kernel's side of a simulated host knows what it can make.
func (d *Driver) Backing(address, typeID string) (backed bool, instances int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	c, err := d.find(address)
	if err != nil {
		return false, 0
	}
	i := slices.IndexFunc(c.VGPUs, func(t host.VGPUType) bool { return t.ID == typeID })
	if i < 0 || c.VGPUs[i].ProfileID < 0 {
		return c.MIG.Current, 0 // no other type in MIG mode
	}
	for _, in := range c.instances {
		if in.ProfileID == c.VGPUs[i].ProfileID {
			instances++
		}
	}
	return true, instances
}
