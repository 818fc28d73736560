package containerd

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

func TestHostMasksFollowTheHost(t *testing.T) {
	t.Parallel()
	host := fstest.MapFS{}
	for _, p := range []string{
		"sys/block/sda", "sys/class/net/lo", "sys/class/mem/null", "sys/devices/system/cpu/online", "sys/devices/system/edac/mc",
		"sys/devices/virtual/net/lo", "sys/devices/virtual/bdi/a", "sys/devices/pci0000:00/a", "sys/fs/ext4/a", "sys/kernel/mm/a",
		"proc/cmdline", "proc/stat", "proc/driver/rtc", "proc/driver/nvidia/params", "proc/driver/nvidia/gpus/a",
	} {
		host[p] = &fstest.MapFile{}
	}
	sys := []string{"/sys/block", "/sys/class/mem", "/sys/devices/pci0000:00", "/sys/devices/system/edac", "/sys/devices/virtual/bdi", "/sys/fs/ext4", "/proc/cmdline"}
	if diff := cmp.Diff(append(sys[:len(sys):len(sys)], "/proc/driver"), hostMasks(host, false)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(append(sys[:len(sys):len(sys)], "/proc/driver/rtc", "/proc/driver/nvidia/gpus"), hostMasks(host, true)); diff != "" {
		t.Error(diff)
	}
}

// TestGuestSeesNothingOfTheHost: neither the host's devices nor where it runs there.
func TestGuestSeesNothingOfTheHost(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	c.start(t, spec("inst-mask", c.push(t, v1.Config{}), "sleep", "600"))
	out, _ := c.sh(t, "inst-mask", `for d in /sys/block /sys/bus /sys/dev /sys/module /sys/firmware /sys/power /sys/class/mem /sys/devices/pci* /sys/devices/virtual/bdi /sys/fs/ext4 /proc/driver /proc/bus /proc/irq /proc/scsi; do ls $d 2>/dev/null; done
		for f in cmdline locks diskstats partitions modules kallsyms keys iomem interrupts swaps; do cat /proc/$f 2>/dev/null; done`)
	if out != "" {
		t.Errorf("of the host it sees %.500q", out)
	}
	if out, _ := c.sh(t, "inst-mask", "cat /proc/self/cgroup"); strings.Contains(out, "inst-mask") || !strings.Contains(out, ":/\n") {
		t.Errorf("its control group: %q", out)
	}
	if out, code := c.sh(t, "inst-mask", "cat /sys/devices/system/cpu/online /sys/class/net/lo/mtu /proc/stat /proc/meminfo >/dev/null && ls /sys/kernel/mm >/dev/null"); code != 0 {
		t.Errorf("what programs read is gone: %s", out)
	}
}
