package libvirt

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenon-cloud/tenon/internal/device"
	"github.com/tenon-cloud/tenon/internal/hypervisor"
	"github.com/tenon-cloud/tenon/internal/network"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

// hostWith is a /sys with these files.
func hostWith(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func nodes(n int) map[string]string {
	files := map[string]string{}
	for i := range n {
		dir := fmt.Sprintf("devices/system/node/node%d/", i)
		files[dir+"cpulist"] = fmt.Sprintf("%d-%d,%d-%d\n", 16*i, 16*i+15, 64+16*i, 64+16*i+15)
		files[dir+"meminfo"] = fmt.Sprintf("Node %d MemTotal:  268435456 kB\nNode %d MemFree:   134217728 kB\n", i, i)
	}
	return files
}

func gpuSpec(vcpu int, memoryMiB int64, grants ...device.Grant) hypervisor.Spec {
	return hypervisor.Spec{Instance: nodewire.Instance{
		ID: "inst_01", Epoch: 3, Generation: 2, OrgID: "org_1", Name: "vm-1", VCPU: vcpu, MemoryMiB: memoryMiB, DiskMiB: 8192,
		Image: nodewire.Image{Ref: "tenon/debian-12-vm", Digest: "sha256:" + strings.Repeat("a", 64), Embedded: true},
	}, Grants: grants}
}

func function(address string, node int, bytes uint64) device.Function {
	return device.Function{Address: address, NUMANode: node, BARBytes: bytes}
}

type gpuMachine struct {
	spec hypervisor.Spec
	virt string
	huge bool
}

func gpuMachines() map[string]gpuMachine {
	h200 := func(bus string, node int) device.Grant {
		return device.Grant{Pass: []device.Function{function("0000:"+bus+":00.0", node, 256<<30+48<<20)}}
	}
	virtual := function("0000:17:00.6", 1, 0)
	return map[string]gpuMachine{
		"one-card": {spec: gpuSpec(4, 8192, device.Grant{Pass: []device.Function{
			function("0000:01:00.0", -1, 304<<20), function("0000:01:00.1", -1, 16<<10), function("0000:01:00.2", -1, 320<<10), function("0000:01:00.3", -1, 4<<10),
		}}), virt: virtTCG},
		"one-node":  {spec: gpuSpec(16, 65536, h200("3b", 1), h200("4c", 1)), virt: virtKVM, huge: true},
		"two-nodes": {spec: gpuSpec(16, 131072, h200("3b", 0), h200("9a", 1), h200("4c", 0)), virt: virtKVM},
		"vgpus":     {spec: gpuSpec(2, 4096, device.Grant{Mediated: "48ac3d9d-5366-5f65-8bb3-4e6232a0d043"}, device.Grant{Virtual: &virtual}), virt: virtKVM},
	}
}

// TestLibvirtTakesMachinesWithGPUs by its schema and its own placing of devices.
func TestLibvirtTakesMachinesWithGPUs(t *testing.T) {
	c := newCloud(t)
	c.cfg.SysDir = hostWith(t, nodes(2))
	for name, m := range gpuMachines() {
		text, err := c.domain(m.spec, network.Attachment{ID: m.spec.ID, Address: "10.64.0.9", MAC: "02:76:00:00:00:01", Port: "tv0123456789ab"}, virt{mode: virtTCG})
		if err != nil {
			t.Fatal(err)
		}
		dom, err := c.define(t.Context(), m.spec.ID, text)
		if err != nil {
			t.Errorf("%s: libvirt refuses it: %v", name, errors.Unwrap(err))
			continue
		}
		if err := c.undefine(t.Context(), dom); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestMachinesAreShapedForTheirGPUs(t *testing.T) {
	t.Parallel()
	for name, tc := range gpuMachines() {
		d := testDriver(t)
		d.cfg.SysDir, d.cfg.HugePages = hostWith(t, nodes(2)), tc.huge
		text, err := d.domain(tc.spec, network.Attachment{ID: "inst_01", Address: "10.64.0.9", MAC: "02:76:00:00:00:01", Port: "tv0123456789ab"}, virt{mode: tc.virt})
		if err != nil {
			t.Fatal(err)
		}
		golden := filepath.Join("testdata", "gpu-"+name+".xml")
		if os.Getenv("UPDATE_GOLDEN") != "" {
			if err := os.WriteFile(golden, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), text); diff != "" {
			t.Errorf("%s: UPDATE_GOLDEN=1 writes it anew; is this meant?\n%s", name, diff)
		}
	}
}

func TestFewVCPUsSeeOneNode(t *testing.T) {
	t.Parallel()
	d := testDriver(t)
	d.cfg.SysDir = hostWith(t, nodes(2))
	text, err := d.domain(gpuSpec(1, 2048, device.Grant{Pass: []device.Function{function("0000:01:00.0", 0, 1<<20)}}, device.Grant{Pass: []device.Function{function("0000:02:00.0", 1, 1<<20)}}),
		network.Attachment{}, virt{mode: virtKVM})
	if err != nil || strings.Contains(text, "pcie-expander-bus") || !strings.Contains(text, `cpuset="0-15,64-79,16-31,80-95"`) {
		t.Errorf("%v\n%s", err, text)
	}
}

// TestAFullNodeIsPreferred: strictly, the guest would be ended for memory.
func TestAFullNodeIsPreferred(t *testing.T) {
	t.Parallel()
	d := testDriver(t)
	d.cfg.SysDir = hostWith(t, nodes(1))
	grant := device.Grant{Pass: []device.Function{function("0000:01:00.0", 0, 1<<20)}}
	for memory, want := range map[int64]string{1 << 16: "strict", 1 << 18: "preferred"} {
		text, err := d.domain(gpuSpec(4, memory, grant), network.Attachment{}, virt{mode: virtKVM})
		if err != nil || !strings.Contains(text, `<memory mode="`+want+`" nodeset="0">`) {
			t.Errorf("%d MiB: not %s (%v)", memory, want, err)
		}
	}
}

func TestAMissingDeviceIsNamed(t *testing.T) {
	t.Parallel()
	d := testDriver(t)
	d.cfg.SysDir = hostWith(t, map[string]string{"bus/pci/devices/0000:01:00.0": "", "bus/mdev/devices/aa": ""})
	here := device.Grant{Pass: []device.Function{function("0000:01:00.0", -1, 0)}}
	gone := device.Grant{Pass: []device.Function{function("0000:01:00.0", -1, 0), function("0000:01:00.1", -1, 0)}}
	if err := d.checkGiven([]device.Grant{here, {Mediated: "aa"}, {Emulated: true}}); err != nil {
		t.Error(err)
	}
	for name, grants := range map[string][]device.Grant{"0000:01:00.1": {here, gone}, "bb": {{Mediated: "bb"}}} {
		var f *hypervisor.Failure
		if err := d.checkGiven(grants); !errors.As(err, &f) || f.Reason != nodewire.ReasonDevice || !strings.Contains(f.Message, name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAStartMayTakeLongerWithGPUs(t *testing.T) {
	t.Parallel()
	if got := startTakes(gpuSpec(2, 1<<20)); got != slowly {
		t.Errorf("without GPUs: %s", got)
	}
	grant := device.Grant{Pass: []device.Function{function("0000:01:00.0", -1, 256<<30)}}
	if got := startTakes(gpuSpec(2, 64<<10, grant)); got != slowly+320*time.Second {
		t.Errorf("64 GiB and a region of 256: %s", got)
	}
}

// TestAMachineFollowsAMediatedDevice as it follows a card, and one on no known node
// pins nothing: unknown is not node 0.
func TestAMachineFollowsAMediatedDevice(t *testing.T) {
	t.Parallel()
	d := testDriver(t)
	d.cfg.SysDir = hostWith(t, nodes(2))
	one := 1
	for _, c := range []struct {
		near *int
		want bool
	}{{&one, true}, {nil, false}} {
		text, err := d.domain(gpuSpec(2, 4096, device.Grant{Mediated: "48ac3d9d-5366-5f65-8bb3-4e6232a0d043", Near: c.near}), network.Attachment{}, virt{mode: virtKVM})
		pinned := strings.Contains(text, `cpuset="16-31,80-95"`) && strings.Contains(text, `<memory mode="strict" nodeset="1">`)
		if err != nil || pinned != c.want || !c.want && (strings.Contains(text, "cpuset=") || strings.Contains(text, "<numatune>")) {
			t.Errorf("pinned %v (%v)\n%s", pinned, err, text)
		}
	}
}
