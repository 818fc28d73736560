//go:build cgo && linux

package nvml

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/tenon-cloud/tenon/internal/device/host"
	"github.com/tenon-cloud/tenon/internal/device/pci"
)

// Built says whether this program can load NVIDIA's library at all.
const Built = true

// resetTakes is how long nvidia-smi may take for a reset.
const resetTakes = 2 * time.Minute

// Driver is NVIDIA's. While it is open, the library keeps every card's device
// node open, so it is closed before a card is bound to vfio-pci or reset, and
// opened anew by the next call, which then also finds cards that came back.
type Driver struct {
	lib nvml.Interface
	smi func(ctx context.Context, args ...string) ([]byte, error)

	mu     sync.RWMutex // held for reading by every call, for writing to open and close
	open   bool
	opened chan struct{} // closed when it opens
	times  int           // opened so far
}

var _ host.Driver = (*Driver)(nil)

// Open loads the library; host.ErrNoDriver when there is none. The driver is one in
// either case: what it is asked later tries anew, since the kernel's module may be
// loaded after us.
func Open() (host.Driver, error) { return opening(newDriver(nvml.New())) }

func opening(d *Driver) (host.Driver, error) {
	done, err := d.use()
	if err != nil {
		return d, err
	}
	done()
	return d, nil
}

func newDriver(lib nvml.Interface) *Driver {
	return &Driver{lib: lib, opened: make(chan struct{}), smi: func(ctx context.Context, args ...string) ([]byte, error) {
		ctx, cancel := context.WithTimeout(ctx, resetTakes)
		defer cancel()
		return exec.CommandContext(ctx, "nvidia-smi", args...).CombinedOutput()
	}}
}

// use keeps the library open until done is called.
func (d *Driver) use() (done func(), err error) {
	for {
		d.mu.RLock()
		if d.open {
			return d.mu.RUnlock, nil
		}
		d.mu.RUnlock()
		d.mu.Lock()
		if !d.open {
			if err := failed(d.lib.Init()); err != nil {
				d.mu.Unlock()
				return nil, fmt.Errorf("open NVIDIA's management library: %w", err)
			}
			d.open = true
			d.times++
			close(d.opened)
		}
		d.mu.Unlock()
	}
}

// Close lets go of every card. It waits for calls under way; the watch waits for
// the next call.
func (d *Driver) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.open {
		return nil
	}
	if err := failed(d.lib.Shutdown()); err != nil {
		return fmt.Errorf("close NVIDIA's management library: %w", err)
	}
	d.open, d.opened = false, make(chan struct{})
	return nil
}

// failed is a return code as an error.
func failed(r nvml.Return) error {
	switch r {
	case nvml.SUCCESS:
		return nil
	case nvml.ERROR_LIBRARY_NOT_FOUND, nvml.ERROR_DRIVER_NOT_LOADED:
		return fmt.Errorf("%w: %s", host.ErrNoDriver, nvml.ErrorString(r))
	case nvml.ERROR_NOT_FOUND, nvml.ERROR_GPU_NOT_FOUND, nvml.ERROR_GPU_IS_LOST:
		return fmt.Errorf("%w: %s", host.ErrNoCard, nvml.ErrorString(r))
	case nvml.ERROR_IN_USE:
		return fmt.Errorf("%w: %s", host.ErrBusy, nvml.ErrorString(r))
	case nvml.ERROR_NOT_SUPPORTED, nvml.ERROR_FUNCTION_NOT_FOUND, nvml.ERROR_INVALID_ARGUMENT:
		return fmt.Errorf("%w: %s", host.ErrRefused, nvml.ErrorString(r))
	}
	return errors.New(nvml.ErrorString(r))
}

// on opens the library for one card, until done is called.
func (d *Driver) on(card string) (dev nvml.Device, done func(), err error) {
	if done, err = d.use(); err != nil {
		return nil, nil, err
	}
	if dev, err = d.find(card); err != nil {
		done()
		return nil, nil, err
	}
	return dev, done, nil
}

// has says whether the installed library knows a function: a call of one that it
// doesn't would end the process.
func (d *Driver) has(symbol string) bool { return d.lib.Extensions().LookupSymbol(symbol) == nil }

// Cards lists the cards. One that can't be told of is left out with an error, since
// a shorter list alone would look as if it had gone; the others stay.
func (d *Driver) Cards(context.Context) ([]host.DriverCard, error) {
	done, err := d.use()
	if err != nil {
		return nil, err
	}
	defer done()
	devices, err := d.devices()
	var out []host.DriverCard
	for _, dev := range devices {
		c, cardErr := d.card(dev)
		switch {
		case cardErr == nil:
			out = append(out, c)
		case !errors.Is(cardErr, host.ErrNoCard):
			err = errors.Join(err, fmt.Errorf("read a card: %w", cardErr))
		}
	}
	joinSwitched(out)
	return out, err
}

// devices are the cards that can be opened. An error tells of one that can't.
func (d *Driver) devices() ([]nvml.Device, error) {
	n, r := d.lib.DeviceGetCount()
	if err := failed(r); err != nil {
		return nil, fmt.Errorf("count cards: %w", err)
	}
	var out []nvml.Device
	var all []error
	for i := range n {
		dev, r := d.lib.DeviceGetHandleByIndex(i)
		if r == nvml.ERROR_GPU_IS_LOST || r == nvml.ERROR_NO_PERMISSION {
			continue // fallen off the bus, or another container's: sysfs tells which
		}
		if err := failed(r); err != nil {
			all = append(all, fmt.Errorf("open card %d: %w", i, err))
			continue
		}
		out = append(out, dev)
	}
	return out, errors.Join(all...)
}

// find opens the card at an address.
func (d *Driver) find(card string) (nvml.Device, error) {
	devices, opened := d.devices()
	for _, dev := range devices {
		info, r := dev.GetPciInfo()
		if err := failed(r); err != nil {
			continue
		}
		if address, err := addressOf(info); err == nil && address == card {
			return dev, nil
		}
	}
	if opened != nil {
		return nil, fmt.Errorf("find card %s: %w", card, opened)
	}
	return nil, fmt.Errorf("find card %s: %w", card, host.ErrNoCard)
}

func addressOf(info nvml.PciInfo) (string, error) {
	a, err := pci.ParseAddress(text(info.BusId[:]))
	if err != nil {
		return "", err
	}
	return a.String(), nil
}

func text(chars []int8) string {
	var b strings.Builder
	for _, c := range chars {
		if c == 0 {
			break
		}
		b.WriteByte(byte(c))
	}
	return b.String()
}

// card reads one. What a kind of card has not got stays empty; only its identity
// must be told.
func (d *Driver) card(dev nvml.Device) (host.DriverCard, error) {
	var c host.DriverCard
	info, r := dev.GetPciInfo()
	if err := failed(r); err != nil {
		return c, fmt.Errorf("read its PCI address: %w", err)
	}
	var err error
	if c.PCIAddress, err = addressOf(info); err != nil {
		return c, err
	}
	if c.UUID, r = dev.GetUUID(); r != nvml.SUCCESS {
		return c, fmt.Errorf("read the UUID of %s: %w", c.PCIAddress, failed(r))
	}
	if c.Name, r = dev.GetName(); r != nvml.SUCCESS {
		return c, fmt.Errorf("read the name of %s: %w", c.PCIAddress, failed(r))
	}
	if mem, r := dev.GetMemoryInfo(); r == nvml.SUCCESS {
		c.MemoryMiB = int64(mem.Total >> 20) //nolint:gosec // a card's memory
	}
	if minor, r := dev.GetMinorNumber(); r == nvml.SUCCESS {
		c.Minor = minor
	}
	if d.has("nvmlDeviceGetModuleId") {
		if module, r := dev.GetModuleId(); r == nvml.SUCCESS {
			c.Module = module
		}
	}
	if current, pending, r := dev.GetMigMode(); r == nvml.SUCCESS {
		c.MIG = host.MIGMode{Capable: true, Current: current == nvml.DEVICE_MIG_ENABLE, Pending: pending == nvml.DEVICE_MIG_ENABLE}
	} else if r != nvml.ERROR_NOT_SUPPORTED {
		return c, fmt.Errorf("read the MIG mode of %s: %w", c.PCIAddress, failed(r))
	}
	if current, pending, r := dev.GetEccMode(); r == nvml.SUCCESS {
		c.ECC = host.ECCMode{Capable: true, Current: current == nvml.FEATURE_ENABLED, Pending: pending == nvml.FEATURE_ENABLED}
	}
	if mode, r := dev.GetPersistenceMode(); r == nvml.SUCCESS {
		c.Persistence = mode == nvml.FEATURE_ENABLED
	}
	if _, _, pending, failure, r := dev.GetRemappedRows(); r == nvml.SUCCESS {
		c.Remap = host.RowRemap{Known: true, Pending: pending, Failure: failure}
	}
	d.links(dev, &c)
	if c.Processes, err = processes(dev); err != nil {
		return c, fmt.Errorf("list the processes on %s: %w", c.PCIAddress, err)
	}
	return c, nil
}

func (d *Driver) links(dev nvml.Device, c *host.DriverCard) {
	seen := map[string]bool{}
	for link := range nvml.NVLINK_MAX_LINKS {
		state, r := dev.GetNvLinkState(link)
		if r == nvml.ERROR_NOT_SUPPORTED || r == nvml.ERROR_INVALID_ARGUMENT {
			break
		}
		if r != nvml.SUCCESS || state != nvml.FEATURE_ENABLED {
			continue
		}
		if d.has("nvmlDeviceGetNvLinkRemoteDeviceType") {
			if kind, r := dev.GetNvLinkRemoteDeviceType(link); r == nvml.SUCCESS && kind == nvml.NVLINK_DEVICE_TYPE_SWITCH {
				c.NVSwitch = true
				continue
			}
		}
		remote, r := dev.GetNvLinkRemotePciInfo(link)
		if r != nvml.SUCCESS {
			continue
		}
		if peer, err := addressOf(remote); err == nil && !seen[peer] {
			seen[peer] = true
			c.NVLink = append(c.NVLink, peer)
		}
	}
}

// joinSwitched links all cards whose links end at switches.
func joinSwitched(cards []host.DriverCard) {
	for i := range cards {
		for j := range cards {
			if i != j && cards[i].NVSwitch && cards[j].NVSwitch {
				cards[i].NVLink = append(cards[i].NVLink, cards[j].PCIAddress)
			}
		}
	}
}

// processes lists who uses a card: in MIG mode those of all its instances. If
// that can't be told the card must not pass for idle.
func processes(dev nvml.Device) ([]host.Process, error) {
	var out []host.Process
	seen := map[uint32]bool{}
	for _, list := range []func() ([]nvml.ProcessInfo, nvml.Return){dev.GetComputeRunningProcesses, dev.GetGraphicsRunningProcesses} {
		found, r := list()
		if r == nvml.ERROR_NOT_SUPPORTED {
			continue
		}
		if err := failed(r); err != nil {
			return nil, err
		}
		for _, p := range found {
			if seen[p.Pid] {
				continue
			}
			seen[p.Pid] = true
			out = append(out, host.Process{PID: int(p.Pid), Command: commandOf(p.Pid), GI: instanceID(p.GpuInstanceId)})
		}
	}
	return out, nil
}

func commandOf(pid uint32) string {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(raw))
}

func instanceID(id uint32) int {
	if id == ^uint32(0) {
		return -1
	}
	return int(id)
}

// Reset has nvidia-smi do it, since the library has no call for it. It refuses
// while anything uses the card, so we let go first.
func (d *Driver) Reset(ctx context.Context, card string) error {
	if err := d.Close(); err != nil {
		return err
	}
	if out, err := d.smi(ctx, "--gpu-reset", "-i", card); err != nil {
		return fmt.Errorf("reset %s: %w: %s", card, err, strings.TrimSpace(string(out)))
	}
	return nil
}

// Defaults puts back what a tenant may have changed. What a card has not got is
// no error.
func (d *Driver) Defaults(_ context.Context, card string) error {
	dev, done, err := d.on(card)
	if err != nil {
		return err
	}
	defer done()
	var all []error
	put := func(what string, r nvml.Return) {
		if err := failed(r); err != nil && !errors.Is(err, host.ErrRefused) {
			all = append(all, fmt.Errorf("put back the %s of %s: %w", what, card, err))
		}
	}
	if _, pending, r := dev.GetEccMode(); r == nvml.SUCCESS && pending != nvml.FEATURE_ENABLED {
		put("ECC mode", dev.SetEccMode(nvml.FEATURE_ENABLED))
	}
	put("compute mode", dev.SetComputeMode(nvml.COMPUTEMODE_DEFAULT))
	put("application clocks", dev.ResetApplicationsClocks())
	put("clocks", dev.ResetGpuLockedClocks())
	put("memory clocks", dev.ResetMemoryLockedClocks())
	if watt, r := dev.GetPowerManagementDefaultLimit(); r == nvml.SUCCESS {
		put("power limit", dev.SetPowerManagementLimit(watt))
	}
	return errors.Join(all...)
}

// SetPersistence has the driver keep a card's state while nobody has it open.
func (d *Driver) SetPersistence(_ context.Context, card string, on bool) error {
	dev, done, err := d.on(card)
	if err != nil {
		return err
	}
	defer done()
	mode := nvml.FEATURE_DISABLED
	if on {
		mode = nvml.FEATURE_ENABLED
	}
	if err := failed(dev.SetPersistenceMode(mode)); err != nil {
		return fmt.Errorf("set the persistence mode of %s: %w", card, err)
	}
	return nil
}
