package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/tenon-cloud/tenon/internal/device/pci"
)

// vfioDriver is the kernel's driver that gives a function to a VM.
const vfioDriver = "vfio-pci"

// functionsOf notes how a card's functions are now, before anything is done.
func functionsOf(c pci.Card) []functionHold {
	var out []functionHold
	for _, f := range c.Functions() {
		out = append(out, functionHold{Address: f.Address, Driver: f.Driver, Override: f.Override})
	}
	return out
}

// bundleComplete says whether a VM gets all cards of an IOMMU group, or none.
func bundleComplete(c pci.Card, asked []string) error {
	for _, other := range c.Bundle {
		if !slices.Contains(asked, other.String()) {
			var names []string
			for _, a := range c.Bundle {
				names = append(names, a.String())
			}
			return fmt.Errorf("a virtual machine gets %s only together with %s: they share IOMMU group %d", c.Function.Address, strings.Join(names, ", "), c.Function.Group)
		}
	}
	return nil
}

// bindable waits until nobody of the host uses functions that are to go to a VM.
func (b *Board) bindable(ctx context.Context, list []functionHold, minor int) error {
	if !pci.HasDriver(b.cfg.Sys, vfioDriver) {
		return errors.New("the kernel's vfio-pci driver is not loaded (modprobe vfio-pci)")
	}
	for _, h := range list {
		f, err := pci.ReadFunction(b.cfg.Sys, h.Address)
		if err != nil {
			return err
		}
		if f.Driver == vfioDriver {
			continue
		}
		if err := b.waitFree(ctx, f, minor); err != nil {
			return err
		}
	}
	return nil
}

// bind gives a function to vfio-pci. One that is there already stays, so that it
// can be called again after a crash anywhere in it.
func (b *Board) bind(ctx context.Context, a pci.Address) error {
	f, err := pci.ReadFunction(b.cfg.Sys, a)
	if err != nil {
		return err
	}
	if f.Driver == vfioDriver {
		return nil
	}
	// First the override, so that no other driver takes it once it is free.
	if f.Override != vfioDriver {
		if err := b.write(ctx, pci.DeviceFile(a, "driver_override"), vfioDriver); err != nil {
			return fmt.Errorf("reserve %s for vfio-pci: %w", a, err)
		}
	}
	if err := b.unbind(ctx, a, f.Driver); err != nil {
		return err
	}
	if err := b.write(ctx, pci.DriversProbe, a.String()); err != nil {
		return fmt.Errorf("bind %s to vfio-pci: %w", a, err)
	}
	// The kernel reports success also when the driver refused.
	if f, err = pci.ReadFunction(b.cfg.Sys, a); err != nil {
		return err
	}
	if f.Driver != vfioDriver {
		return fmt.Errorf("bind %s to vfio-pci: the kernel said that it was done, and shows %s", a, driverName(f.Driver))
	}
	return nil
}

func (b *Board) unbind(ctx context.Context, a pci.Address, driver string) error {
	if driver == "" {
		return nil
	}
	err := b.writeAlone(ctx, driver, pci.DriverFile(driver, "unbind"), a.String())
	f, readErr := pci.ReadFunction(b.cfg.Sys, a)
	switch {
	case readErr != nil:
		return errors.Join(err, readErr)
	case f.Driver == "":
		return nil
	case err != nil:
		return fmt.Errorf("take %s from %s: %w", a, driver, err)
	}
	return fmt.Errorf("take %s from %s: the kernel said that it was done, and shows %s", a, driver, driverName(f.Driver))
}

// writeAlone writes while nobody of ours asks the vendor's driver anything, which
// would open the card again.
func (b *Board) writeAlone(ctx context.Context, driver, name, data string) error {
	if g, gated := b.cfg.Driver.(gate); gated && driver == b.cfg.DriverName {
		g.mu.Lock()
		defer g.mu.Unlock()
		b.letGo(pci.Function{Driver: driver})
	}
	return b.write(ctx, name, data)
}

// restore gives a function back to the driver that it had, or to none, and looks
// whether it is there.
func (b *Board) restore(ctx context.Context, h functionHold) error {
	f, err := pci.ReadFunction(b.cfg.Sys, h.Address)
	if err != nil {
		return err
	}
	if f.Override != h.Override {
		text := h.Override
		if text == "" {
			text = "\n"
		}
		if err := b.write(ctx, pci.DeviceFile(h.Address, "driver_override"), text); err != nil {
			return fmt.Errorf("restore driver_override of %s: %w", h.Address, err)
		}
	}
	if f.Driver == h.Driver {
		return nil
	}
	if f.Driver == vfioDriver {
		if err := b.unbind(ctx, h.Address, f.Driver); err != nil {
			return err
		}
		f.Driver = ""
	}
	if h.Driver == "" || f.Driver != "" {
		if f.Driver == h.Driver {
			return nil
		}
		// Somebody gave it another driver meanwhile.
		return fmt.Errorf("%s is with %s, and was with %s before", h.Address, driverName(f.Driver), driverName(h.Driver))
	}
	if !pci.HasDriver(b.cfg.Sys, h.Driver) {
		return fmt.Errorf("%s was with %s before, which is no longer loaded", h.Address, h.Driver)
	}
	// By name: a probe would take the first driver that knows the device.
	bindErr := b.write(ctx, pci.DriverFile(h.Driver, "bind"), h.Address.String())
	if f, err = pci.ReadFunction(b.cfg.Sys, h.Address); err != nil {
		return errors.Join(bindErr, err)
	}
	switch {
	case f.Driver == h.Driver:
		return nil
	case bindErr != nil:
		return fmt.Errorf("give %s back to %s: %w", h.Address, h.Driver, bindErr)
	}
	return fmt.Errorf("give %s back to %s: the kernel said that it was done, and shows %s", h.Address, h.Driver, driverName(f.Driver))
}

// isGone: the function is not on the bus.
func (b *Board) isGone(a pci.Address) (bool, error) {
	there, err := b.exists(pci.DeviceFile(a, "class"))
	return !there && err == nil, err
}

func driverName(s string) string {
	if s == "" {
		return "no driver"
	}
	return s
}

// vfioUsers waits for whoever has a function's VFIO group open: the guest that is
// ending, or somebody who is not ours.
func (b *Board) vfioUsers(ctx context.Context, list []functionHold) error {
	for _, h := range list {
		f, err := pci.ReadFunction(b.cfg.Sys, h.Address)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if f.Driver == vfioDriver {
			if err := b.waitFree(ctx, f, -1); err != nil {
				return err
			}
		}
	}
	return nil
}
