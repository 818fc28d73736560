package containerd

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/tenon-cloud/tenon/internal/device"
	"github.com/tenon-cloud/tenon/internal/hypervisor"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

// hostOf is a /sys with nodes of these CPUs, each with 64 GiB free.
func hostOf(t *testing.T, cpus ...string) string {
	t.Helper()
	sys := t.TempDir()
	for i, list := range cpus {
		dir := filepath.Join(sys, fmt.Sprintf("devices/system/node/node%d", i))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string]string{"cpulist": list + "\n", "meminfo": fmt.Sprintf("Node %d MemFree: %d kB\n", i, 64<<20)} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	return sys
}

func near(nodes ...int) (out []device.Grant) {
	for _, n := range nodes {
		g := device.Grant{CDI: "tenon.test/gpu=x", Near: &n}
		if n < 0 {
			g.Near = nil
		}
		out = append(out, g)
	}
	return out
}

func TestAContainerStaysWithItsGPUs(t *testing.T) {
	t.Parallel()
	if !canFollow(cgroupRoot, hostUnified()) {
		t.Skip("this host's control groups choose no CPUs")
	}
	two, single := hostOf(t, "0-15,32-47", "16-31,48-63"), hostOf(t, "0-63")
	for _, c := range []struct {
		name       string
		sys        string
		grants     []device.Grant
		vcpu       int
		gib        int64
		cpus, mems string
	}{
		{"one node", two, near(1), 8, 32, "16-31,48-63", "1"},
		{"node 0", two, near(0, 0), 8, 32, "0-15,32-47", "0"},
		{"two nodes", two, near(1, 0), 8, 100, "0-15,32-47,16-31,48-63", "0,1"},
		{"unknown is not node 0", two, near(-1), 8, 32, "", ""},
		{"one of two is unknown", two, near(-1, 1), 8, 32, "16-31,48-63", "1"},
		{"no GPU", two, nil, 8, 32, "", ""},
		{"a host of one node", single, near(0), 8, 32, "", ""},
		{"fewer CPUs than it was promised", two, near(1), 33, 32, "", "1"},
		{"less memory than it was promised", two, near(1), 8, 65, "16-31,48-63", ""},
		{"a node that can't be read", two, near(2), 8, 32, "", ""},
	} {
		d := &Driver{cfg: Config{SysDir: c.sys}, log: slog.New(slog.DiscardHandler)}
		s := specs.Spec{Linux: &specs.Linux{}}
		for _, opt := range d.besideGPUs(hypervisor.Spec{Instance: nodewire.Instance{ID: "inst_1", VCPU: c.vcpu, MemoryMiB: c.gib << 10}, Grants: c.grants}) {
			if err := opt(context.Background(), nil, nil, &s); err != nil {
				t.Fatal(err)
			}
		}
		var got specs.LinuxCPU
		if s.Linux.Resources != nil && s.Linux.Resources.CPU != nil {
			got = *s.Linux.Resources.CPU
		}
		if got.Cpus != c.cpus || got.Mems != c.mems {
			t.Errorf("%s: CPUs %q, memory of %q; want %q, %q", c.name, got.Cpus, got.Mems, c.cpus, c.mems)
		}
	}
}

// TestAContainerRunsBesideItsGPU: the kernel keeps it there, and what is started in
// it later. The host is told to be of two nodes, of which the second is made up.
func TestAContainerRunsBesideItsGPU(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	c.cfg.SysDir = hostOf(t, "1", "0")
	if !canFollow(cgroupRoot, hostUnified()) {
		t.Skip("this host's control groups choose no CPUs")
	}
	s := spec("inst_near", c.push(t, v1.Config{}), "sleep", "1000")
	s.VCPU = 1
	zero := 0
	s.Grants = []device.Grant{{Near: &zero}}
	c.start(t, s)
	out, code := c.sh(t, s.ID, "grep -E 'Cpus_allowed_list|Mems_allowed_list' /proc/self/status /proc/1/status")
	if code != 0 || strings.Count(out, "Cpus_allowed_list:\t1\n") != 2 || strings.Count(out, "Mems_allowed_list:\t0\n") != 2 {
		t.Errorf("it may run on (%d)\n%s", code, out)
	}
}
