//go:build cgo && linux

package nvml

import (
	"errors"
	"slices"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/gpus"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/server"
	"github.com/google/go-cmp/cmp"

	"github.com/tenon-cloud/tenon/internal/device/host"
	"github.com/tenon-cloud/tenon/internal/device/nvml/simnvml"
)

// starts is where a mock puts slices of a profile, and how large they are.
func starts(c gpus.Config, profile int) (from []int, size int) {
	for _, p := range c.MIGProfiles.GpuInstancePlacements[profile] {
		from, size = append(from, int(p.Start)), int(p.Size)
	}
	slices.Sort(from)
	return from, size
}

// The library's mock of the A100 is as hardware lists it, and so is the simulated
// driver; its mocks of Hopper are not, so that nothing may be taken from them.
func TestTheLibrarysMockOfHopperIsNotHardware(t *testing.T) {
	t.Parallel()
	ids := map[int]int{ // the library's numbers, and nvidia-smi's
		nvml.GPU_INSTANCE_PROFILE_1_SLICE: 19, nvml.GPU_INSTANCE_PROFILE_1_SLICE_REV1: 20, nvml.GPU_INSTANCE_PROFILE_1_SLICE_REV2: 15,
		nvml.GPU_INSTANCE_PROFILE_2_SLICE: 14, nvml.GPU_INSTANCE_PROFILE_3_SLICE: 9, nvml.GPU_INSTANCE_PROFILE_4_SLICE: 5, nvml.GPU_INSTANCE_PROFILE_7_SLICE: 0,
	}
	const at = "0000:3b:00.0"
	for _, c := range []struct {
		model  string
		mock   gpus.Config
		differ []int
	}{
		{"a100-40gb", gpus.A100_SXM4_40GB, nil}, {"a100-80gb", gpus.A100_SXM4_80GB, nil},
		{"h100-80gb", gpus.H100_SXM5_80GB, []int{nvml.GPU_INSTANCE_PROFILE_1_SLICE_REV2, nvml.GPU_INSTANCE_PROFILE_3_SLICE, nvml.GPU_INSTANCE_PROFILE_7_SLICE}},
	} {
		d, err := simnvml.New(simnvml.Card{Model: c.model, PCIAddress: at})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.SetMIG(t.Context(), at, true); err != nil {
			t.Fatal(err)
		}
		list, err := d.Profiles(t.Context(), at)
		if err != nil {
			t.Fatal(err)
		}
		for profile, id := range ids {
			from, size := starts(c.mock, profile)
			same := false
			for _, p := range list {
				same = same || p.ID == id && p.Slots == size && slices.Equal(p.Starts, from)
			}
			if differs := slices.Contains(c.differ, profile); same == differs {
				t.Errorf("%s, profile %d: the mock has %v of %d slots; as hardware lists it: %v", c.model, id, from, size, same)
			}
		}
	}
}

// SMs and memory of a profile are what the library says of this card, and of no
// other of its model.
func TestProfilesHaveWhatTheLibraryTells(t *testing.T) {
	t.Parallel()
	b := newBench(t, "00000000:3B:00.0")
	d := b.Devices[0].(*server.Device)
	ask := d.GetGpuInstanceProfileInfoFunc
	d.GetGpuInstanceProfileInfoFunc = func(profile int) (nvml.GpuInstanceProfileInfo, nvml.Return) {
		info, r := ask(profile)
		if profile == nvml.GPU_INSTANCE_PROFILE_1_SLICE_REV2 {
			info.MultiprocessorCount, info.MemorySizeMB = 26, 9216
		}
		return info, r
	}
	if m, err := b.d.SetMIG(t.Context(), first, true); err != nil || !m.Current {
		t.Fatal(m, err)
	}
	list, err := b.d.Profiles(t.Context(), first)
	if err != nil {
		t.Fatal(err)
	}
	got := map[int][2]int64{}
	for _, p := range list {
		got[p.ID] = [2]int64{int64(p.SMs), p.MemoryMiB}
	}
	for _, id := range []int{nvml.GPU_INSTANCE_PROFILE_1_SLICE, nvml.GPU_INSTANCE_PROFILE_3_SLICE, nvml.GPU_INSTANCE_PROFILE_7_SLICE} {
		info := gpus.A100_SXM4_40GB.MIGProfiles.GpuInstanceProfiles[id]
		if want := [2]int64{int64(info.MultiprocessorCount), int64(info.MemorySizeMB)}; got[int(info.Id)] != want || want[0] == 0 {
			t.Errorf("profile %d has %v, want %v", info.Id, got[int(info.Id)], want)
		}
	}
	double := gpus.A100_SXM4_40GB.MIGProfiles.GpuInstanceProfiles[nvml.GPU_INSTANCE_PROFILE_1_SLICE_REV2]
	if got[int(double.Id)] != [2]int64{26, 9216} {
		t.Errorf("the 1g of double memory has %v", got[int(double.Id)])
	}
}

// Which vGPU types MIG slices back is the library's to tell; it says of the others
// that none does.
func TestVGPUTypesAsTheLibraryTellsThem(t *testing.T) {
	t.Parallel()
	b := newBench(t, "00000000:3B:00.0")
	d := b.Devices[0].(*server.Device)
	d.GetSupportedVgpusFunc = func() ([]nvml.VgpuTypeId, nvml.Return) { return nil, nvml.ERROR_NOT_SUPPORTED }
	if _, err := b.d.VGPUTypes(t.Context(), first); !errors.Is(err, host.ErrRefused) {
		t.Errorf("a driver that makes no vGPUs: %v", err)
	}
	kind := func(id uint32, name, class string, profile uint32, r nvml.Return) nvml.VgpuTypeId {
		return &mock.VgpuTypeId{
			GetIDFunc:                   func() uint32 { return id },
			GetNameFunc:                 func() (string, nvml.Return) { return name, nvml.SUCCESS },
			GetClassFunc:                func() (string, nvml.Return) { return class, nvml.SUCCESS },
			GetFramebufferSizeFunc:      func() (uint64, nvml.Return) { return 5 << 30, nvml.SUCCESS },
			GetMaxInstancesFunc:         func(nvml.Device) (int, nvml.Return) { return 7, nvml.SUCCESS },
			GetGpuInstanceProfileIdFunc: func() (uint32, nvml.Return) { return profile, r },
		}
	}
	d.GetSupportedVgpusFunc = func() ([]nvml.VgpuTypeId, nvml.Return) {
		return []nvml.VgpuTypeId{
			kind(474, "GRID A100-1-5C", "Compute", 19, nvml.SUCCESS), kind(471, "GRID A100-5C", "Compute", ^uint32(0), nvml.SUCCESS),
			kind(472, "GRID A100-5Q", "Quadro", 0, nvml.ERROR_NOT_SUPPORTED),
		}, nvml.SUCCESS
	}
	got, err := b.d.VGPUTypes(t.Context(), first)
	want := []host.VGPUType{
		{ID: "474", Name: "GRID A100-1-5C", ProfileID: 19, MemoryMiB: 5120, Compute: true, Max: 7}, {ID: "471", Name: "GRID A100-5C", ProfileID: -1, MemoryMiB: 5120, Compute: true, Max: 7},
		{ID: "472", Name: "GRID A100-5Q", ProfileID: -1, MemoryMiB: 5120, Max: 7},
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Error(err, diff)
	}
}
