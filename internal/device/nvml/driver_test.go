//go:build cgo && linux

package nvml

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/gpus"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/server"
	"github.com/google/go-cmp/cmp"

	"github.com/tenon-cloud/tenon/internal/device/host"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

// bench is the library's own mock of A100s, completed by what we ask besides: its
// MIG tables of that card agree with hardware.
type bench struct {
	*server.Server
	d        *Driver
	inits    atomic.Int32
	shuts    atomic.Int32
	procs    []nvml.ProcessInfo
	nameless bool        // MIG devices are not listed, as for a moment while they change
	lost     nvml.Return // what the first card answers; SUCCESS: it is well
}

func busID(s string) (out [32]int8) {
	for i, c := range []byte(s) {
		out[i] = int8(c)
	}
	return out
}

func newBench(t *testing.T, addresses ...string) *bench {
	t.Helper()
	var configs []gpus.Config
	for range addresses {
		configs = append(configs, gpus.A100_SXM4_40GB)
	}
	b := &bench{Server: server.NewServerWithGPUs("610.43.02", "13.610", 13000, configs...)}
	b.LookupSymbolFunc = func(s string) error {
		if s == "nvmlDeviceGetGpuInstanceProfileInfoV" { // its answer can't be mocked
			return errors.New("undefined symbol")
		}
		return nil
	}
	b.InitFunc = func() nvml.Return { b.inits.Add(1); return nvml.SUCCESS }
	b.ShutdownFunc = func() nvml.Return { b.shuts.Add(1); return nvml.SUCCESS }
	for i, address := range addresses {
		b.complete(b.Devices[i].(*server.Device), address)
	}
	b.d = newDriver(b)
	return b
}

func (b *bench) complete(d *server.Device, address string) {
	d.GetPciInfoFunc = func() (nvml.PciInfo, nvml.Return) {
		return nvml.PciInfo{BusId: busID(address)}, nvml.SUCCESS
	}
	d.GetModuleIdFunc = func() (int, nvml.Return) { return d.Index + 1, nvml.SUCCESS }
	d.GetEccModeFunc = func() (nvml.EnableState, nvml.EnableState, nvml.Return) {
		return nvml.FEATURE_ENABLED, nvml.FEATURE_DISABLED, nvml.SUCCESS
	}
	d.GetPersistenceModeFunc = func() (nvml.EnableState, nvml.Return) { return nvml.FEATURE_ENABLED, nvml.SUCCESS }
	d.GetRemappedRowsFunc = func() (int, int, bool, bool, nvml.Return) { return 1, 0, true, false, nvml.SUCCESS }
	d.GetNvLinkStateFunc = func(link int) (nvml.EnableState, nvml.Return) {
		if link >= 2 {
			return nvml.FEATURE_DISABLED, nvml.ERROR_INVALID_ARGUMENT
		}
		return nvml.FEATURE_ENABLED, nvml.SUCCESS
	}
	d.GetNvLinkRemoteDeviceTypeFunc = func(int) (nvml.IntNvLinkDeviceType, nvml.Return) {
		return nvml.NVLINK_DEVICE_TYPE_GPU, nvml.SUCCESS
	}
	d.GetNvLinkRemotePciInfoFunc = func(int) (nvml.PciInfo, nvml.Return) {
		return nvml.PciInfo{BusId: busID("00000000:5B:00.0")}, nvml.SUCCESS
	}
	d.GetComputeRunningProcessesFunc = func() ([]nvml.ProcessInfo, nvml.Return) {
		if d.Index == 0 && b.lost != nvml.SUCCESS {
			return nil, b.lost
		}
		return b.procs, nvml.SUCCESS
	}
	d.GetGraphicsRunningProcessesFunc = func() ([]nvml.ProcessInfo, nvml.Return) { return b.procs, nvml.SUCCESS }
	d.GetMaxMigDeviceCountFunc = func() (int, nvml.Return) { return 7, nvml.SUCCESS }
	d.GetMigDeviceHandleByIndexFunc = func(i int) (nvml.Device, nvml.Return) {
		d.RLock()
		defer d.RUnlock()
		ids := func(a, b *server.GpuInstance) int { return int(a.Info.Id) - int(b.Info.Id) }
		for _, gi := range slices.SortedFunc(maps.Keys(d.GpuInstances), ids) {
			for ci := range gi.ComputeInstances {
				if i--; i < 0 && !b.nameless {
					return &mock.Device{
						GetGpuInstanceIdFunc:     func() (int, nvml.Return) { return int(gi.Info.Id), nvml.SUCCESS },
						GetComputeInstanceIdFunc: func() (int, nvml.Return) { return int(ci.Info.Id), nvml.SUCCESS },
						GetUUIDFunc:              func() (string, nvml.Return) { return fmt.Sprintf("MIG-%d-%d", gi.Info.Id, ci.Info.Id), nvml.SUCCESS },
					}, nvml.SUCCESS
				}
			}
		}
		return nil, nvml.ERROR_NOT_FOUND
	}
	d.GetGpuInstanceByIdFunc = func(id int) (nvml.GpuInstance, nvml.Return) {
		d.RLock()
		defer d.RUnlock()
		for gi := range d.GpuInstances {
			if int(gi.Info.Id) == id {
				return gi, nvml.SUCCESS
			}
		}
		return nil, nvml.ERROR_NOT_FOUND
	}
}

const first = "0000:3b:00.0"

func TestACardAsTheLibraryTellsIt(t *testing.T) {
	t.Parallel()
	b := newBench(t, "00000000:3B:00.0", "00000001:C8:00.0")
	me := uint32(os.Getpid())
	b.procs = []nvml.ProcessInfo{{Pid: me, GpuInstanceId: ^uint32(0)}, {Pid: 1 << 30, GpuInstanceId: 3}}
	got, err := b.d.Cards(t.Context())
	if err != nil || len(got) != 2 {
		t.Fatal(got, err)
	}
	comm, _ := os.ReadFile("/proc/self/comm")
	want := host.DriverCard{
		UUID: got[0].UUID, PCIAddress: first, Name: gpus.A100_SXM4_40GB.Name, MemoryMiB: 40960, Module: 1, MIG: host.MIGMode{Capable: true},
		ECC: host.ECCMode{Capable: true, Current: true}, Persistence: true, Remap: host.RowRemap{Known: true, Pending: true}, NVLink: []string{"0000:5b:00.0"},
		Processes: []host.Process{{PID: int(me), Command: strings.TrimSpace(string(comm)), GI: -1}, {PID: 1 << 30, GI: 3}},
	}
	if diff := cmp.Diff(want, got[0]); diff != "" || got[1].PCIAddress != "0001:c8:00.0" {
		t.Error(diff, got[1].PCIAddress)
	}
	b.lost = nvml.ERROR_UNKNOWN
	if list, err := b.d.Cards(t.Context()); err == nil || len(list) != 1 || list[0].PCIAddress != "0001:c8:00.0" {
		t.Errorf("who uses one card can't be told, and the reading is %v, %v", list, err)
	}
	b.lost = nvml.ERROR_GPU_IS_LOST
	if list, err := b.d.Cards(t.Context()); err != nil || len(list) != 1 || list[0].PCIAddress != "0001:c8:00.0" {
		t.Errorf("one card of two has fallen off the bus, and the reading is %v, %v", list, err)
	}
}

func TestSwitchedCardsAreAllLinked(t *testing.T) {
	t.Parallel()
	b := newBench(t, "0000:3b:00.0", "0000:5b:00.0", "0000:86:00.0")
	for _, d := range b.Devices {
		d.(*server.Device).GetNvLinkRemoteDeviceTypeFunc = func(int) (nvml.IntNvLinkDeviceType, nvml.Return) {
			return nvml.NVLINK_DEVICE_TYPE_SWITCH, nvml.SUCCESS
		}
	}
	got, err := b.d.Cards(t.Context())
	if diff := cmp.Diff([]string{"0000:5b:00.0", "0000:86:00.0"}, got[0].NVLink); err != nil || diff != "" || !got[0].NVSwitch {
		t.Error(err, diff)
	}
}

type shelf struct{ owned []host.OwnedSlice }

func (s *shelf) Owned(string) []host.OwnedSlice { return s.owned }
func (s *shelf) Own(_ string, o host.OwnedSlice) error {
	_ = s.Disown("", o.Place)
	s.owned = append(s.owned, o)
	return nil
}
func (s *shelf) Disown(_ string, p nodewire.Place) error {
	s.owned = slices.DeleteFunc(slices.Clone(s.owned), func(o host.OwnedSlice) bool { return o.Place == p })
	return nil
}

func TestALayoutThroughTheLibrary(t *testing.T) {
	t.Parallel()
	b, s := newBench(t, "00000000:3B:00.0"), &shelf{}
	apply := func(places ...nodewire.Place) host.MIGResult {
		t.Helper()
		res, err := host.ApplyMIG(t.Context(), b.d, s, "boot-1", first, host.MIGWishOf(nodewire.Card{Mode: "mig", Layout: places}, nil))
		if err != nil || res.Wish != "" || len(res.Missing) > 0 || len(res.Slices) != len(places) {
			t.Fatalf("%+v, %v", res, err)
		}
		return res
	}
	res := apply(nodewire.Place{Profile: "4g", SlotStart: 0, SlotEnd: 4}, nodewire.Place{Profile: "3g", SlotStart: 4, SlotEnd: 8})
	uuid, _ := b.Devices[0].GetUUID()
	for i, in := range res.Reading.Instances {
		if in.UUID != fmt.Sprintf("MIG-%d-0", in.ID) || in.OldUUID != fmt.Sprintf("MIG-%s/%d/0", uuid, in.ID) || in.Computes != 1 {
			t.Errorf("%d: %+v", i, in)
		}
	}
	res = apply(nodewire.Place{Profile: "1g+me", SlotStart: 6, SlotEnd: 7}, nodewire.Place{Profile: "1g2", SlotStart: 0, SlotEnd: 2})
	if res.Slices[0].Profile != "1g2" || res.Slices[1].Profile != "1g+me" {
		t.Errorf("%+v", res.Slices)
	}
	b.nameless = true
	held := host.MIGWishOf(nodewire.Card{Mode: "mig"}, []nodewire.Place{{Profile: "1g2", SlotStart: 0, SlotEnd: 2}})
	if res, err := host.ApplyMIG(t.Context(), b.d, s, "boot-1", first, held); err == nil || !strings.Contains(err.Error(), "no MIG device is of") {
		t.Errorf("%+v, %v", res, err)
	}
	b.nameless = false
	if list, err := b.d.Instances(t.Context(), first); err != nil || len(list) != 2 {
		t.Errorf("a list of names that lacked some has cost a slice: %+v, %v", list, err)
	}
}

// A compute instance that can't be made leaves no GPU instance behind.
func TestHalfAnInstanceIsUndone(t *testing.T) {
	t.Parallel()
	b := newBench(t, "00000000:3B:00.0")
	d := b.Devices[0].(*server.Device)
	made := d.CreateGpuInstanceWithPlacementFunc
	d.CreateGpuInstanceWithPlacementFunc = func(info *nvml.GpuInstanceProfileInfo, at *nvml.GpuInstancePlacement) (nvml.GpuInstance, nvml.Return) {
		gi, r := made(info, at)
		gi.(*server.GpuInstance).CreateComputeInstanceFunc = func(*nvml.ComputeInstanceProfileInfo) (nvml.ComputeInstance, nvml.Return) {
			return nil, nvml.ERROR_INSUFFICIENT_RESOURCES
		}
		return gi, r
	}
	d.MigMode = 1
	if err := b.d.CreateInstance(t.Context(), first, nvml.GPU_INSTANCE_PROFILE_3_SLICE, 4); err == nil || !strings.Contains(err.Error(), "compute instance") {
		t.Error(err)
	}
	if list, err := b.d.Instances(t.Context(), first); err != nil || len(list) > 0 {
		t.Error(list, err)
	}
	if err := b.d.DestroyInstance(t.Context(), first, 99); err != nil {
		t.Errorf("what is not there can't be destroyed: %v", err)
	}
	if err := b.d.CreateInstance(t.Context(), "0000:ff:00.0", 0, 0); !errors.Is(err, host.ErrNoCard) {
		t.Error(err)
	}
}

func TestWhatIsInUseSaysSo(t *testing.T) {
	t.Parallel()
	b := newBench(t, "00000000:3B:00.0")
	d := b.Devices[0].(*server.Device)
	d.SetMigModeFunc = func(int) (nvml.Return, nvml.Return) { return nvml.SUCCESS, nvml.ERROR_IN_USE }
	if _, err := b.d.SetMIG(t.Context(), first, true); !errors.Is(err, host.ErrBusy) {
		t.Error(err)
	}
	// A mode that is only pending is no error: the reading says it.
	d.SetMigModeFunc = func(int) (nvml.Return, nvml.Return) { return nvml.ERROR_RESET_REQUIRED, nvml.SUCCESS }
	d.GetMigModeFunc = func() (int, int, nvml.Return) { return 0, 1, nvml.SUCCESS }
	if mode, err := b.d.SetMIG(t.Context(), first, true); err != nil || mode != (host.MIGMode{Capable: true, Pending: true}) {
		t.Error(mode, err)
	}
}

func TestTheLibraryIsLetGoBeforeAReset(t *testing.T) {
	t.Parallel()
	b := newBench(t, "00000000:3B:00.0")
	if _, err := b.d.Cards(t.Context()); err != nil {
		t.Fatal(err)
	}
	var args []string
	b.d.smi = func(_ context.Context, a ...string) ([]byte, error) {
		if b.shuts.Load() != 1 {
			t.Error("the reset runs while the library is open")
		}
		args = a
		return []byte("GPU is in use\n"), errors.New("exit status 19")
	}
	if err := b.d.Reset(t.Context(), first); err == nil || !strings.Contains(err.Error(), "GPU is in use") {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{"--gpu-reset", "-i", first}, args); diff != "" {
		t.Error(diff)
	}
	if _, err := b.d.Cards(t.Context()); err != nil || b.inits.Load() != 2 {
		t.Errorf("opened %d times, %v", b.inits.Load(), err)
	}
}

// The watch lets go with Close, does not open by itself, and goes on after.
func TestTheWatchDoesNotHoldCards(t *testing.T) {
	t.Parallel()
	b := newBench(t, "00000000:3B:00.0")
	events, waits, sets := make(chan nvml.EventData, 1), make(chan bool, 1), atomic.Int32{}
	b.EventSetCreateFunc = func() (nvml.EventSet, nvml.Return) {
		sets.Add(1)
		return &mock.EventSet{WaitFunc: func(ms uint32) (nvml.EventData, nvml.Return) {
			select {
			case waits <- true:
			default:
			}
			select {
			case e := <-events:
				return e, nvml.SUCCESS
			case <-time.After(time.Duration(ms) * time.Millisecond / 50):
				return nvml.EventData{}, nvml.ERROR_TIMEOUT
			}
		}}, nvml.SUCCESS
	}
	d := b.Devices[0].(*server.Device)
	d.GetSupportedEventTypesFunc = func() (uint64, nvml.Return) { return nvml.EventTypeXidCriticalError, nvml.SUCCESS }
	d.RegisterEventsFunc = func(uint64, nvml.EventSet) nvml.Return { return nvml.SUCCESS }
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	told, ended := make(chan host.DriverEvent, 1), make(chan error, 1)
	go func() { ended <- b.d.Watch(ctx, func(e host.DriverEvent) { told <- e }) }()
	if b.inits.Load() != 0 {
		t.Error("the watch opens the library")
	}
	cards := func() {
		if _, err := b.d.Cards(t.Context()); err != nil {
			t.Error(err)
		}
	}
	cards()
	<-waits
	if err := b.d.Close(); err != nil || b.shuts.Load() != 1 || b.inits.Load() != 1 {
		t.Errorf("%v, closed %d times, opened %d", err, b.shuts.Load(), b.inits.Load())
	}
	select {
	case <-waits: // one may have been under way
	default:
	}
	cards()
	events <- nvml.EventData{Device: d, EventType: nvml.EventTypeXidCriticalError, EventData: 79, GpuInstanceId: ^uint32(0)}
	got := <-told
	if got.XID != 79 || got.PCIAddress != first || got.GI != -1 || got.SinceBoot <= 0 || sets.Load() != 2 {
		t.Errorf("%+v, %d event sets", got, sets.Load())
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// On a host without the driver this is the whole of it; on one with it, what it
// lists is printed.
func TestThisHostsDriver(t *testing.T) {
	t.Parallel()
	d, err := Open()
	if errors.Is(err, host.ErrNoDriver) {
		t.Logf("no driver here: %v", err)
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	cards, err := d.Cards(t.Context())
	t.Logf("%+v, %v", cards, err)
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

// A card that can't even be opened hides none of the others, from no question.
func TestACardThatCanNotBeOpenedHidesNoOther(t *testing.T) {
	t.Parallel()
	b := newBench(t, "00000000:3B:00.0", "00000001:C8:00.0")
	open := b.DeviceGetHandleByIndexFunc
	b.DeviceGetHandleByIndexFunc = func(i int) (nvml.Device, nvml.Return) {
		if i == 0 {
			return nil, nvml.ERROR_TIMEOUT
		}
		return open(i)
	}
	d := b.Devices[1].(*server.Device)
	d.GetUtilizationRatesFunc = func() (nvml.Utilization, nvml.Return) { return nvml.Utilization{Gpu: 7}, nvml.SUCCESS }
	d.GetPowerUsageFunc = func() (uint32, nvml.Return) { return 0, nvml.SUCCESS }
	d.GetTemperatureFunc = func(nvml.TemperatureSensors) (uint32, nvml.Return) { return 0, nvml.SUCCESS }
	if list, err := b.d.Cards(t.Context()); err == nil || len(list) != 1 || list[0].PCIAddress != "0001:c8:00.0" {
		t.Errorf("cards: %v, %v", list, err)
	}
	if _, err := b.d.Instances(t.Context(), "0001:c8:00.0"); err != nil {
		t.Error(err)
	}
	if _, err := b.d.Instances(t.Context(), first); err == nil || errors.Is(err, host.ErrNoCard) {
		t.Errorf("a card that can't be told of is said not to be there: %v", err)
	}
	if list, err := b.d.Samples(t.Context()); err != nil || len(list) != 1 || list[0].Percent != 7 {
		t.Errorf("samples: %v, %v", list, err)
	}
}

// A MIG mode that can't be read is an error, and not a card without slices.
func TestAModeThatCanNotBeReadIsNotOff(t *testing.T) {
	t.Parallel()
	const first = "0000:3b:00.0"
	b := newBench(t, "00000000:3B:00.0")
	b.Devices[0].(*server.Device).GetMigModeFunc = func() (int, int, nvml.Return) { return 0, 0, nvml.ERROR_UNKNOWN }
	if list, err := b.d.Profiles(t.Context(), first); err == nil {
		t.Errorf("its profiles are %v", list)
	}
	if list, err := b.d.Instances(t.Context(), first); err == nil {
		t.Errorf("its instances are %v", list)
	}
	b.Devices[0].(*server.Device).GetMigModeFunc = func() (int, int, nvml.Return) { return 0, 0, nvml.ERROR_NOT_SUPPORTED }
	if _, err := b.d.Instances(t.Context(), first); err != nil {
		t.Error(err)
	}
}

// A library or a module that comes after the agent is found by the next question.
func TestALibraryThatComesLaterIsFound(t *testing.T) {
	t.Parallel()
	b := newBench(t, "00000000:3B:00.0")
	well := b.InitFunc
	b.InitFunc = func() nvml.Return { return nvml.ERROR_DRIVER_NOT_LOADED }
	d, err := opening(b.d)
	if !errors.Is(err, host.ErrNoDriver) || d == nil {
		t.Fatal(d, err)
	}
	if list, err := d.Cards(t.Context()); !errors.Is(err, host.ErrNoDriver) || len(list) > 0 {
		t.Errorf("%+v (%v)", list, err)
	}
	b.InitFunc = well
	if list, err := d.Cards(t.Context()); err != nil || len(list) != 1 {
		t.Errorf("%+v (%v)", list, err)
	}
}
