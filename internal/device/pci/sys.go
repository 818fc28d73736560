package pci

import (
	"fmt"
	"io/fs"
	"os"
)

// Sys is the kernel's /sys to read and write: the real one, or a model of it.
type Sys interface {
	fs.ReadLinkFS
	// Stat opens nothing: the kernel lets nobody, not even root, open an attribute
	// for reading that can only be written, such as bind, reset and create.
	fs.StatFS
	// WriteFile writes data in one go to an attribute that exists. The error is
	// the kernel's own (EBUSY, ENODEV, EINVAL and so on). A write can take as long
	// as the driver behind it: an unbind waits for whoever has the device open.
	WriteFile(name string, data []byte) error
}

// realSys is a /sys that nothing leaves: its links are relative and stay inside,
// so os.Root can follow them, and one that led out would be refused.
type realSys struct {
	fs.ReadLinkFS
	root *os.Root
}

// OpenSys opens the kernel's /sys, or a copy of it for a test.
func OpenSys(root string) (Sys, error) {
	r, err := os.OpenRoot(root)
	if err != nil {
		return nil, fmt.Errorf("open sysfs: %w", err)
	}
	links, ok := r.FS().(fs.ReadLinkFS)
	if !ok {
		return nil, fmt.Errorf("open sysfs: links can't be read in %s", root)
	}
	return realSys{links, r}, nil
}

// Stat implements fs.StatFS.
func (s realSys) Stat(name string) (fs.FileInfo, error) { return s.root.Stat(name) }

func (s realSys) WriteFile(name string, data []byte) error {
	f, err := s.root.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if closed := f.Close(); err == nil {
		err = closed
	}
	return err
}

// Where things are in /sys.
const (
	devicesDir = "bus/pci/devices"
	driversDir = "bus/pci/drivers"

	DriversProbe = "bus/pci/drivers_probe"
	MediatedDir  = "bus/mdev/devices"
	parentsDir   = "class/mdev_bus"
)

// DeviceFile is the path of a function's attribute.
func DeviceFile(a Address, attribute string) string {
	return devicesDir + "/" + a.String() + "/" + attribute
}

// DriverFile is the path of a PCI driver's attribute: bind, unbind, new_id.
func DriverFile(driver, attribute string) string { return driversDir + "/" + driver + "/" + attribute }

// HasDriver says whether a driver is there to be bound.
func HasDriver(sys fs.FS, driver string) bool {
	_, err := fs.Stat(sys, DriverFile(driver, "bind"))
	return err == nil
}
