package containerd

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/containerd/containerd/v2/pkg/oci"

	"github.com/tenon-cloud/tenon/internal/device"
	"github.com/tenon-cloud/tenon/internal/hypervisor"
	"github.com/tenon-cloud/tenon/internal/hypervisor/numa"
)

// besideGPUs keeps a container's threads and memory on the NUMA nodes of its GPUs, as
// far as these are known and have what it was promised: a node with fewer CPUs than
// its vCPUs, or with less memory free than its limit, would cost it more than the
// way to another node does.
func (d *Driver) besideGPUs(spec hypervisor.Spec) []oci.SpecOpts {
	nodes := device.NUMANodes(spec.Grants)
	if len(nodes) == 0 || !numa.Several(d.cfg.SysDir) || !canFollow(cgroupRoot, hostUnified()) {
		return nil
	}
	var cpus, mems []string
	enough, count := true, 0
	for _, n := range nodes {
		at, err := numa.Read(d.cfg.SysDir, n)
		if err != nil {
			d.log.Warn("a container can't stay with its GPUs", "instance", spec.ID, "error", err)
			return nil
		}
		cpus, mems = append(cpus, at.CPUs), append(mems, strconv.Itoa(n))
		count += numa.Count(at.CPUs)
		enough = enough && at.FreeMiB >= spec.MemoryMiB/int64(len(nodes))
	}
	var out []oci.SpecOpts
	if count >= spec.VCPU {
		out = append(out, oci.WithCPUs(strings.Join(cpus, ",")))
	}
	if enough {
		out = append(out, oci.WithCPUsMems(strings.Join(mems, ",")))
	}
	return out
}

// canFollow reports whether this host lets control groups choose nodes.
func canFollow(root string, v2 bool) bool {
	if !v2 {
		_, err := os.Stat(filepath.Join(root, "cpuset"))
		return err == nil
	}
	raw, _ := os.ReadFile(filepath.Join(root, "cgroup.controllers"))
	return slices.Contains(strings.Fields(string(raw)), "cpuset")
}
