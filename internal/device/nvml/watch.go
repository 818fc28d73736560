//go:build cgo && linux

package nvml

import (
	"context"
	"fmt"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"golang.org/x/sys/unix"

	"github.com/tenon-cloud/tenon/internal/device/host"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

const (
	listen    = 500 * time.Millisecond // so long at a time, so that Close need not wait longer
	aftermath = time.Second            // after a failure, before the next try
)

// Watch tells of XIDs until ctx ends. It never opens the library by itself: after
// Close it waits for another call to do so.
func (d *Driver) Watch(ctx context.Context, tell func(host.DriverEvent)) error {
	var set nvml.EventSet
	of := 0
	for ctx.Err() == nil {
		d.mu.RLock()
		if !d.open {
			opened := d.opened
			d.mu.RUnlock()
			set = nil // it went with the library
			select {
			case <-ctx.Done():
			case <-opened:
			}
			continue
		}
		if set == nil || of != d.times {
			var err error
			if set, err = d.register(); err != nil {
				d.mu.RUnlock()
				if pause(ctx, aftermath); ctx.Err() == nil {
					return err
				}
				continue
			}
			of = d.times
		}
		event, r := set.Wait(uint32(listen.Milliseconds()))
		out, ok := host.DriverEvent{}, false
		if r == nvml.SUCCESS {
			out, ok = eventOf(event)
		}
		d.mu.RUnlock()
		switch {
		case ok:
			tell(out)
		case r != nvml.SUCCESS && r != nvml.ERROR_TIMEOUT: // a card that is lost fails every wait
			pause(ctx, aftermath)
		}
	}
	return ctx.Err()
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// register asks for the events of every card that has them.
func (d *Driver) register() (nvml.EventSet, error) {
	set, r := d.lib.EventSetCreate()
	if err := failed(r); err != nil {
		return nil, fmt.Errorf("make an event set: %w", err)
	}
	devices, err := d.devices()
	if err != nil && len(devices) == 0 {
		return nil, err
	}
	for _, dev := range devices {
		if kinds, r := dev.GetSupportedEventTypes(); r == nvml.SUCCESS && kinds&nvml.EventTypeXidCriticalError != 0 {
			_ = dev.RegisterEvents(nvml.EventTypeXidCriticalError, set) // the kernel's log tells the same
		}
	}
	return set, nil
}

func eventOf(e nvml.EventData) (host.DriverEvent, bool) {
	if e.EventType != nvml.EventTypeXidCriticalError || e.Device == nil {
		return host.DriverEvent{}, false
	}
	info, r := e.Device.GetPciInfo()
	if r != nvml.SUCCESS {
		return host.DriverEvent{}, false
	}
	address, err := addressOf(info)
	if err != nil {
		return host.DriverEvent{}, false
	}
	return host.DriverEvent{PCIAddress: address, XID: int(e.EventData), GI: instanceID(e.GpuInstanceId), SinceBoot: sinceBoot()}, true //nolint:gosec // a small number
}

// sinceBoot is the clock of the kernel's log.
func sinceBoot() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		return 0
	}
	return time.Duration(t.Nano())
}

// Samples measures every card. Of a card in MIG mode the library has no
// utilisation; of its slices only the memory.
func (d *Driver) Samples(context.Context) ([]host.DriverSample, error) {
	done, err := d.use()
	if err != nil {
		return nil, err
	}
	defer done()
	devices, err := d.devices()
	if err != nil && len(devices) == 0 {
		return nil, err
	}
	var out []host.DriverSample
	for _, dev := range devices {
		info, r := dev.GetPciInfo()
		if r != nvml.SUCCESS {
			continue
		}
		address, err := addressOf(info)
		if err != nil {
			continue
		}
		s := host.DriverSample{PCIAddress: address, GI: -1, GPUSample: nodewire.GPUSample{At: time.Now()}}
		s.UUID, _ = dev.GetUUID()
		if use, r := dev.GetUtilizationRates(); r == nvml.SUCCESS {
			s.Percent, s.Known = float64(use.Gpu), true
		}
		if mem, r := dev.GetMemoryInfo(); r == nvml.SUCCESS {
			s.MemoryMiB = float64(mem.Used) / (1 << 20)
		}
		if milliwatt, r := dev.GetPowerUsage(); r == nvml.SUCCESS {
			s.PowerWatts = float64(milliwatt) / 1000
		}
		if celsius, r := dev.GetTemperature(nvml.TEMPERATURE_GPU); r == nvml.SUCCESS {
			s.TemperatureC = float64(celsius)
		}
		out = append(out, s)
		if on, err := migOn(dev); err == nil && on {
			out = append(out, sliceSamples(dev, s)...)
		}
	}
	return out, nil
}

func sliceSamples(dev nvml.Device, card host.DriverSample) []host.DriverSample {
	most, _ := dev.GetMaxMigDeviceCount()
	var out []host.DriverSample
	for i := range most {
		m, r := dev.GetMigDeviceHandleByIndex(i)
		if r != nvml.SUCCESS {
			continue
		}
		s := host.DriverSample{PCIAddress: card.PCIAddress, GPUSample: nodewire.GPUSample{At: card.At}}
		if s.GI, r = m.GetGpuInstanceId(); r != nvml.SUCCESS {
			continue
		}
		s.UUID, _ = m.GetUUID()
		if mem, r := m.GetMemoryInfo(); r == nvml.SUCCESS {
			s.MemoryMiB = float64(mem.Used) / (1 << 20)
		}
		out = append(out, s)
	}
	return out
}
