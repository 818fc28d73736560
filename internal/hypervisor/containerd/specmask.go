package containerd

import (
	"context"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/containerd/containerd/v2/core/containers"
	"github.com/containerd/containerd/v2/pkg/oci"
	"github.com/opencontainers/runtime-spec/specs-go"
)

// seenSys is all of the host's /sys that a guest sees: processors and memory, which
// programs count.
var seenSys = []string{"sys/devices/system/cpu", "sys/devices/system/memory", "sys/devices/system/node", "sys/kernel/mm"}

// hiddenProc tells of the host's devices, drivers, kernel and other guests. Those of
// the drivers are in hostMasks, since a guest with a card needs some.
var hiddenProc = []string{
	"proc/acpi", "proc/asound", "proc/bus", "proc/cmdline", "proc/diskstats", "proc/interrupts", "proc/iomem",
	"proc/ioports", "proc/irq", "proc/kallsyms", "proc/kcore", "proc/key-users", "proc/keys", "proc/latency_stats",
	"proc/locks", "proc/modules", "proc/partitions", "proc/sched_debug", "proc/scsi", "proc/swaps", "proc/timer_list", "proc/timer_stats",
}

// withHostMasks hides what the host's /sys and /proc tell of the host. /sys is a small
// one of the guest's own, since masks of its hundred folders would fill what df prints.
func withHostMasks(card bool) oci.SpecOpts {
	return func(_ context.Context, _ oci.Client, _ *containers.Container, s *oci.Spec) error {
		host := os.DirFS("/")
		if i := slices.IndexFunc(s.Mounts, func(m specs.Mount) bool { return m.Destination == "/sys" }); i >= 0 {
			s.Mounts = slices.Replace(s.Mounts, i, i+1, ownSys(host)...)
		}
		s.Linux.MaskedPaths = slices.DeleteFunc(s.Linux.MaskedPaths, func(p string) bool { return strings.HasPrefix(p, "/sys/") })
		for _, p := range hostMasks(host, card) {
			if !slices.Contains(s.Linux.MaskedPaths, p) {
				s.Linux.MaskedPaths = append(s.Linux.MaskedPaths, p)
			}
		}
		return nil
	}
}

// ownSys mounts a guest's /sys: empty but for what is seen of the host's.
func ownSys(host fs.FS) []specs.Mount {
	mounts := []specs.Mount{{Destination: "/sys", Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "noexec", "nodev", "ro", "mode=755", "size=64k"}}}
	for _, p := range seenSys {
		if _, err := fs.Stat(host, p); err == nil {
			mounts = append(mounts, specs.Mount{Destination: "/" + p, Type: "bind", Source: "/" + p, Options: []string{"rbind", "nosuid", "noexec", "nodev", "ro"}})
		}
	}
	return mounts
}

// hostMasks lists what to mask of a host's /proc as it is. The driver's libraries find a MIG
// slice by /proc/driver/nvidia*, so with a card only the list of cards is hidden there.
func hostMasks(host fs.FS, card bool) []string {
	var masks []string
	for _, p := range hiddenProc {
		if _, err := fs.Stat(host, p); err == nil {
			masks = append(masks, "/"+p)
		}
	}
	if !card {
		if _, err := fs.Stat(host, "proc/driver"); err == nil {
			masks = append(masks, "/proc/driver")
		}
		return masks
	}
	drivers, _ := fs.ReadDir(host, "proc/driver")
	for _, e := range drivers {
		if !strings.HasPrefix(e.Name(), "nvidia") {
			masks = append(masks, "/proc/driver/"+e.Name())
		}
	}
	if _, err := fs.Stat(host, "proc/driver/nvidia/gpus"); err == nil {
		masks = append(masks, "/proc/driver/nvidia/gpus")
	}
	return masks
}
