package libvirt

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/tenon-cloud/tenon/internal/device"
)

// QEMU is not root, and the kernel makes the file of an IOMMU group for root alone.
func TestQEMUMayOpenTheGroupsOfItsMachineAndNoLonger(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("not root: files can't change hands")
	}
	sys := hostWith(t, map[string]string{"kernel/iommu_groups/16/type": "DMA\n", "kernel/iommu_groups/21/type": "DMA\n"})
	for folder, group := range map[string]string{"bus/pci/devices/0000:41:00.0": "16", "bus/pci/devices/0000:41:00.1": "16", "bus/mdev/devices/8f1f": "21"} {
		if err := os.MkdirAll(filepath.Join(sys, folder), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(filepath.Join(sys, "kernel/iommu_groups", group), filepath.Join(sys, folder, "iommu_group")); err != nil {
			t.Fatal(err)
		}
	}
	dev := hostWith(t, map[string]string{"vfio/16": "", "vfio/21": "", "vfio/22": ""})
	d := &Driver{cfg: Config{SysDir: sys, DevDir: dev, RunDir: t.TempDir()}, owner: ids{uid: 64055, gid: 64056}}
	if err := os.MkdirAll(recordsDir(d.cfg), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := d.writeRecord("inst_01", record{Epoch: 3}); err != nil {
		t.Fatal(err)
	}
	owners := func() (out [3]uint32) {
		for i, name := range []string{"16", "21", "22"} {
			info, err := os.Stat(filepath.Join(dev, "vfio", name))
			if err != nil {
				t.Fatal(err)
			}
			out[i] = info.Sys().(*syscall.Stat_t).Uid
		}
		return out
	}
	grants := []device.Grant{{Pass: []device.Function{function("0000:41:00.0", 0, 0), function("0000:41:00.1", 0, 0)}}, {Mediated: "8f1f"}}
	for range 2 {
		if err := d.giveGroups("inst_01", grants); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := owners(), [3]uint32{64055, 64055, 0}; got != want {
		t.Errorf("given: the files belong to %v, want %v", got, want)
	}
	// Another start of the agent knows it from the record.
	again := &Driver{cfg: d.cfg, owner: d.owner}
	if err := again.takeGroups("inst_01"); err != nil {
		t.Fatal(err)
	}
	if got := owners(); got != [3]uint32{} {
		t.Errorf("taken back: the files belong to %v", got)
	}
	if err := os.Remove(filepath.Join(dev, "vfio/16")); err != nil { // with its device
		t.Fatal(err)
	}
	if err := again.takeGroups("inst_01"); err != nil {
		t.Error(err)
	}
}
