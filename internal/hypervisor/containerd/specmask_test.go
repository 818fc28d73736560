package containerd

import (
	"slices"
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
		"sys/devices/system/cpu/online", "sys/kernel/mm/a", "sys/block/sda",
		"proc/cmdline", "proc/stat", "proc/driver/rtc", "proc/driver/nvidia/params", "proc/driver/nvidia/gpus/a",
	} {
		host[p] = &fstest.MapFile{}
	}
	if diff := cmp.Diff([]string{"/proc/cmdline", "/proc/driver"}, hostMasks(host, false)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"/proc/cmdline", "/proc/driver/rtc", "/proc/driver/nvidia/gpus"}, hostMasks(host, true)); diff != "" {
		t.Error(diff)
	}
	var places []string
	for _, m := range ownSys(host) {
		places = append(places, m.Destination)
	}
	if diff := cmp.Diff([]string{"/sys", "/sys/devices/system/cpu", "/sys/kernel/mm"}, places); diff != "" {
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
	out, _ = c.sh(t, "inst-mask", "ls /sys /sys/devices /sys/devices/system /sys/kernel; touch /sys/a 2>/dev/null && echo written")
	for _, word := range strings.Fields(out) {
		if !strings.HasPrefix(word, "/sys") && !slices.Contains([]string{"devices", "kernel", "system", "cpu", "memory", "node", "mm"}, word) {
			t.Errorf("in its /sys it sees %s", word)
		}
	}
	if out, _ := c.sh(t, "inst-mask", "grep -c ' /sys' /proc/mounts"); len(strings.TrimSpace(out)) > 1 {
		t.Errorf("its /sys is %s mounts, which df lists", out)
	}
	if out, _ := c.sh(t, "inst-mask", "cat /proc/self/cgroup"); strings.Contains(out, "inst-mask") || !strings.Contains(out, ":/\n") {
		t.Errorf("its control group: %q", out)
	}
	if out, code := c.sh(t, "inst-mask", "cat /sys/devices/system/cpu/online /proc/stat /proc/meminfo >/dev/null && ls /sys/kernel/mm >/dev/null"); code != 0 {
		t.Errorf("what programs read is gone: %s", out)
	}
}
