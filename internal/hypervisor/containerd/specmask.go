package containerd

import (
	"context"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/containerd/containerd/v2/core/containers"
	"github.com/containerd/containerd/v2/pkg/oci"
)

// seenSys is all of the host's /sys that a guest sees: processors and memory, which
// programs count, and what its own network namespace holds.
var seenSys = []string{
	"sys/class/net", "sys/devices/system/cpu", "sys/devices/system/memory", "sys/devices/system/node",
	"sys/devices/virtual/net", "sys/fs/cgroup", "sys/kernel/mm",
}

// hiddenProc tells of the host's devices, drivers, kernel and other guests. Those of
// the drivers are in hostMasks, since a guest with a card needs some.
var hiddenProc = []string{
	"proc/acpi", "proc/asound", "proc/bus", "proc/cmdline", "proc/diskstats", "proc/interrupts", "proc/iomem",
	"proc/ioports", "proc/irq", "proc/kallsyms", "proc/kcore", "proc/key-users", "proc/keys", "proc/latency_stats",
	"proc/locks", "proc/modules", "proc/partitions", "proc/sched_debug", "proc/scsi", "proc/swaps", "proc/timer_list", "proc/timer_stats",
}

// withHostMasks hides what the host's /sys and /proc tell of the host.
func withHostMasks(card bool) oci.SpecOpts {
	return func(_ context.Context, _ oci.Client, _ *containers.Container, s *oci.Spec) error {
		for _, p := range hostMasks(os.DirFS("/"), card) {
			if !slices.Contains(s.Linux.MaskedPaths, p) {
				s.Linux.MaskedPaths = append(s.Linux.MaskedPaths, p)
			}
		}
		return nil
	}
}

// hostMasks lists what to mask on a host as it is. The driver's libraries find a MIG
// slice by /proc/driver/nvidia*, so with a card only the list of cards is hidden there.
func hostMasks(host fs.FS, card bool) []string {
	masks := masksBelow(host, "sys", seenSys)
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

// masksBelow covers a folder but for what is seen.
func masksBelow(host fs.FS, dir string, seen []string) (masks []string) {
	entries, _ := fs.ReadDir(host, dir)
	for _, e := range entries {
		p := path.Join(dir, e.Name())
		switch {
		case slices.Contains(seen, p):
		case slices.ContainsFunc(seen, func(s string) bool { return strings.HasPrefix(s, p+"/") }):
			masks = append(masks, masksBelow(host, p, seen)...)
		default:
			masks = append(masks, "/"+p)
		}
	}
	return masks
}
