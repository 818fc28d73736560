package pci_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/tenon-cloud/tenon/internal/device/pci"
)

// The real /sys is read and written through its own links, and no further.
func TestOpenSys(t *testing.T) {
	dir := t.TempDir()
	device := filepath.Join(dir, "devices/pci0000:00/0000:00:02.0")
	if err := errors.Join(os.MkdirAll(device, 0o755), os.MkdirAll(filepath.Join(dir, "bus/pci/devices"), 0o755),
		os.Symlink("../../../devices/pci0000:00/0000:00:02.0", filepath.Join(dir, "bus/pci/devices/0000:00:02.0")),
		os.Symlink("/etc/hostname", filepath.Join(device, "outside")),
		os.WriteFile(filepath.Join(device, "driver_override"), []byte("(null)\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	sys, err := pci.OpenSys(dir)
	if err != nil {
		t.Fatal(err)
	}
	file := pci.DeviceFile(at(t, "00:02.0"), "driver_override")
	if err := sys.WriteFile(file, []byte("vfio-pci")); err != nil {
		t.Fatal(err)
	}
	if data, err := fs.ReadFile(sys, file); err != nil || string(data) != "vfio-pci" {
		t.Errorf("read back %q, %v", data, err)
	}
	if link, err := sys.ReadLink("bus/pci/devices/0000:00:02.0"); err != nil || filepath.Base(link) != "0000:00:02.0" {
		t.Errorf("the link leads to %q, %v", link, err)
	}
	if err := sys.WriteFile(pci.DeviceFile(at(t, "00:02.0"), "reset"), []byte("1")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a write made a file: %v", err)
	}
	if err := sys.WriteFile(pci.DeviceFile(at(t, "00:02.0"), "outside"), []byte("x")); err == nil {
		t.Error("a link out of /sys was followed")
	}
}

// This machine's own /sys can be read, whatever it has.
func TestScanThisMachine(t *testing.T) {
	sys, err := pci.OpenSys("/sys")
	if err != nil {
		t.Skipf("no /sys here: %v", err)
	}
	inv, err := pci.Scan(sys, pci.Options{})
	if errors.Is(err, fs.ErrNotExist) {
		t.Skipf("no PCI bus here: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d functions, IOMMU %v\n%s", len(inv.Functions), inv.IOMMU, table(inv))
}

// The kernel refuses to open what can only be written, and that is how it says that
// a driver can be bound or a card be reset.
func TestWhatCanOnlyBeWrittenIsSeen(t *testing.T) {
	const file = "bus/platform/drivers_probe"
	if _, err := os.Stat("/sys/" + file); err != nil {
		t.Skip("no sysfs here: ", err)
	}
	sys, err := pci.OpenSys("/sys")
	if err != nil {
		t.Fatal(err)
	}
	if f, err := sys.Open(file); err == nil {
		f.Close()
		t.Skip("this kernel opens it for reading")
	}
	if _, err := fs.Stat(sys, file); err != nil {
		t.Error("a file that is there is not seen: ", err)
	}
}
