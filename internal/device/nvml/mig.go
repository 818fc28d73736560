//go:build cgo && linux

package nvml

import (
	"context"
	"errors"
	"fmt"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/tenon-cloud/tenon/internal/device/host"
)

// attributes by the library's own number of a profile: its names drift.
var attributes = map[int][]string{
	nvml.GPU_INSTANCE_PROFILE_1_SLICE_REV1: {"me"}, nvml.GPU_INSTANCE_PROFILE_2_SLICE_REV1: {"me"},
	nvml.GPU_INSTANCE_PROFILE_1_SLICE_GFX: {"gfx"}, nvml.GPU_INSTANCE_PROFILE_2_SLICE_GFX: {"gfx"},
	nvml.GPU_INSTANCE_PROFILE_3_SLICE_GFX: {"gfx"}, nvml.GPU_INSTANCE_PROFILE_4_SLICE_GFX: {"gfx"},
	nvml.GPU_INSTANCE_PROFILE_1_SLICE_NO_ME: {"-me"}, nvml.GPU_INSTANCE_PROFILE_2_SLICE_NO_ME: {"-me"},
	nvml.GPU_INSTANCE_PROFILE_1_SLICE_ALL_ME: {"me.all"}, nvml.GPU_INSTANCE_PROFILE_2_SLICE_ALL_ME: {"me.all"},
}

// profile is one with what the library wants back of it.
type profile struct {
	host.MIGProfile
	info nvml.GpuInstanceProfileInfo
}

func (d *Driver) profiles(dev nvml.Device) ([]profile, error) {
	var out []profile
	for i := range nvml.GPU_INSTANCE_PROFILE_COUNT {
		info, r := dev.GetGpuInstanceProfileInfo(i)
		if r == nvml.ERROR_NOT_SUPPORTED || r == nvml.ERROR_INVALID_ARGUMENT {
			continue
		}
		if err := failed(r); err != nil {
			return nil, fmt.Errorf("read MIG profile %d: %w", i, err)
		}
		places, r := dev.GetGpuInstancePossiblePlacements(&info)
		if err := failed(r); err != nil {
			return nil, fmt.Errorf("read the placements of MIG profile %d: %w", info.Id, err)
		}
		p := profile{info: info, MIGProfile: host.MIGProfile{
			ID: int(info.Id), Compute: int(info.SliceCount), Attributes: attributes[i], Max: int(info.InstanceCount),
			MemoryMiB: int64(info.MemorySizeMB), SMs: int(info.MultiprocessorCount), //nolint:gosec // a card's memory
		}}
		for _, place := range places {
			p.Slots = int(place.Size)
			p.Starts = append(p.Starts, int(place.Start))
		}
		p.Name = fmt.Sprintf("%dg.%dgb", p.Compute, (p.MemoryMiB+512)/1024)
		if d.has("nvmlDeviceGetGpuInstanceProfileInfoV") {
			if v2, r := dev.GetGpuInstanceProfileInfoV(i).V2(); r == nvml.SUCCESS && v2.Name[0] != 0 {
				p.Name = text(v2.Name[:])
			}
		}
		out = append(out, p)
	}
	return out, nil
}

// Profiles lists how a card in MIG mode may be cut.
func (d *Driver) Profiles(_ context.Context, card string) ([]host.MIGProfile, error) {
	dev, done, err := d.on(card)
	if err != nil {
		return nil, err
	}
	defer done()
	if on, err := migOn(dev); err != nil || !on {
		return nil, err
	}
	list, err := d.profiles(dev)
	if err != nil {
		return nil, err
	}
	var out []host.MIGProfile
	for _, p := range list {
		out = append(out, p.MIGProfile)
	}
	return out, nil
}

// migOn: a mode that can't be read is not off.
func migOn(dev nvml.Device) (bool, error) {
	current, _, r := dev.GetMigMode()
	if r == nvml.ERROR_NOT_SUPPORTED {
		return false, nil
	}
	if err := failed(r); err != nil {
		return false, fmt.Errorf("read the MIG mode: %w", err)
	}
	return current == nvml.DEVICE_MIG_ENABLE, nil
}

// Instances lists the GPU instances of a card with the names of their devices.
func (d *Driver) Instances(_ context.Context, card string) ([]host.GPUInstance, error) {
	dev, done, err := d.on(card)
	if err != nil {
		return nil, err
	}
	defer done()
	if on, err := migOn(dev); err != nil || !on {
		return nil, err
	}
	list, err := d.profiles(dev)
	if err != nil {
		return nil, err
	}
	names, err := migNames(dev)
	if err != nil {
		return nil, err
	}
	gpuUUID, r := dev.GetUUID()
	if err := failed(r); err != nil {
		return nil, fmt.Errorf("read the UUID of %s: %w", card, err)
	}
	var out []host.GPUInstance
	for _, p := range list {
		found, r := dev.GetGpuInstances(&p.info)
		if err := failed(r); err != nil {
			return nil, fmt.Errorf("list GPU instances of %s: %w", p.Name, err)
		}
		for _, gi := range found {
			info, r := gi.GetInfo()
			if err := failed(r); err != nil {
				return nil, fmt.Errorf("read a GPU instance: %w", err)
			}
			in := host.GPUInstance{ID: int(info.Id), ProfileID: int(info.ProfileId), Start: int(info.Placement.Start), Size: int(info.Placement.Size), MemoryMiB: p.MemoryMiB}
			if in.Computes, err = countCompute(gi); err != nil {
				return nil, err
			}
			for _, n := range names {
				if n.GI == in.ID && (in.UUID == "" || n.CI == 0) {
					in.UUID, in.OldUUID = n.uuid, host.MIGName{GPU: gpuUUID, GI: n.GI, CI: n.CI}.String()
				}
			}
			// The list of names may be of another moment. Whoever took such an instance
			// for the rest of a crash would destroy a tenant's.
			if in.Computes > 0 && in.UUID == "" {
				return nil, fmt.Errorf("read GPU instance %d: it has a compute instance, which no MIG device is of", in.ID)
			}
			out = append(out, in)
		}
	}
	return out, nil
}

// computes lists the compute instances of a GPU instance.
func computes(gi nvml.GpuInstance) ([]nvml.ComputeInstance, error) {
	var out []nvml.ComputeInstance
	for i := range nvml.COMPUTE_INSTANCE_PROFILE_COUNT {
		info, r := gi.GetComputeInstanceProfileInfo(i, nvml.COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED)
		if r == nvml.ERROR_NOT_SUPPORTED || r == nvml.ERROR_INVALID_ARGUMENT {
			continue
		}
		if err := failed(r); err != nil {
			return nil, fmt.Errorf("read compute profile %d: %w", i, err)
		}
		found, r := gi.GetComputeInstances(&info)
		if err := failed(r); err != nil {
			return nil, fmt.Errorf("list compute instances: %w", err)
		}
		out = append(out, found...)
	}
	return out, nil
}

func countCompute(gi nvml.GpuInstance) (int, error) {
	list, err := computes(gi)
	return len(list), err
}

type migName struct {
	host.MIGName
	uuid string
}

// migNames reads the MIG devices, which are compute instances, by their parents.
func migNames(dev nvml.Device) ([]migName, error) {
	most, r := dev.GetMaxMigDeviceCount()
	if err := failed(r); err != nil {
		return nil, fmt.Errorf("count MIG devices: %w", err)
	}
	var out []migName
	for i := range most {
		m, r := dev.GetMigDeviceHandleByIndex(i)
		if r == nvml.ERROR_NOT_FOUND || r == nvml.ERROR_INVALID_ARGUMENT {
			continue
		}
		if err := failed(r); err != nil {
			return nil, fmt.Errorf("open MIG device %d: %w", i, err)
		}
		var n migName
		var errs [3]nvml.Return
		n.GI, errs[0] = m.GetGpuInstanceId()
		n.CI, errs[1] = m.GetComputeInstanceId()
		n.uuid, errs[2] = m.GetUUID()
		for _, r := range errs {
			if err := failed(r); err != nil {
				return nil, fmt.Errorf("read MIG device %d: %w", i, err)
			}
		}
		out = append(out, n)
	}
	return out, nil
}

// CreateInstance makes a GPU instance and a compute instance over all of it.
func (d *Driver) CreateInstance(_ context.Context, card string, profileID, start int) error {
	dev, done, err := d.on(card)
	if err != nil {
		return err
	}
	defer done()
	list, err := d.profiles(dev)
	if err != nil {
		return err
	}
	for _, p := range list {
		if p.ID != profileID {
			continue
		}
		gi, r := dev.CreateGpuInstanceWithPlacement(&p.info, &nvml.GpuInstancePlacement{Start: uint32(start), Size: uint32(p.Slots)}) //nolint:gosec // 0 to 8
		if err := failed(r); err != nil {
			return fmt.Errorf("create GPU instance %s at %d: %w", p.Name, start, err)
		}
		if err := createCompute(gi, p.info.SliceCount); err != nil {
			return errors.Join(fmt.Errorf("create the compute instance of %s at %d: %w", p.Name, start, err), failed(gi.Destroy()))
		}
		return nil
	}
	return fmt.Errorf("create GPU instance on %s: no profile %d: %w", card, profileID, host.ErrRefused)
}

func createCompute(gi nvml.GpuInstance, slices uint32) error {
	for i := range nvml.COMPUTE_INSTANCE_PROFILE_COUNT {
		info, r := gi.GetComputeInstanceProfileInfo(i, nvml.COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED)
		if r != nvml.SUCCESS || info.SliceCount != slices {
			continue
		}
		_, r = gi.CreateComputeInstance(&info)
		return failed(r)
	}
	return fmt.Errorf("no profile with all %d slices: %w", slices, host.ErrRefused)
}

// DestroyInstance takes away a GPU instance, its compute instances first.
func (d *Driver) DestroyInstance(_ context.Context, card string, id int) error {
	dev, done, err := d.on(card)
	if err != nil {
		return err
	}
	defer done()
	gi, r := dev.GetGpuInstanceById(id)
	if r == nvml.ERROR_NOT_FOUND {
		return nil
	}
	if err := failed(r); err != nil {
		return fmt.Errorf("open GPU instance %d: %w", id, err)
	}
	list, err := computes(gi)
	if err != nil {
		return fmt.Errorf("destroy GPU instance %d: %w", id, err)
	}
	for _, ci := range list {
		if err := failed(ci.Destroy()); err != nil {
			return fmt.Errorf("destroy a compute instance of GPU instance %d: %w", id, err)
		}
	}
	if err := failed(gi.Destroy()); err != nil {
		return fmt.Errorf("destroy GPU instance %d: %w", id, err)
	}
	return nil
}

// SetMIG asks for a mode and reads back what came of it.
func (d *Driver) SetMIG(_ context.Context, card string, on bool) (host.MIGMode, error) {
	dev, done, err := d.on(card)
	if err != nil {
		return host.MIGMode{}, err
	}
	defer done()
	mode := nvml.DEVICE_MIG_DISABLE
	if on {
		mode = nvml.DEVICE_MIG_ENABLE
	}
	// The first code says why the mode is only pending, which the reading shows.
	_, r := dev.SetMigMode(mode)
	if err := failed(r); err != nil {
		return host.MIGMode{}, fmt.Errorf("set the MIG mode of %s: %w", card, err)
	}
	current, pending, r := dev.GetMigMode()
	if err := failed(r); err != nil {
		return host.MIGMode{}, fmt.Errorf("read the MIG mode of %s: %w", card, err)
	}
	return host.MIGMode{Capable: true, Current: current == nvml.DEVICE_MIG_ENABLE, Pending: pending == nvml.DEVICE_MIG_ENABLE}, nil
}
