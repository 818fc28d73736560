//go:build cgo && linux

package nvml

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/server"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	specs "tags.cncf.io/container-device-interface/specs-go"

	"github.com/tenon-cloud/tenon/internal/device/host"
)

// rootWith is a driver's files: its library, its hook and the nodes of two cards.
func rootWith(t *testing.T) (root, hook string) {
	t.Helper()
	root = t.TempDir()
	for _, dir := range []string{"dev", "usr/lib/x86_64-linux-gnu", "etc", "proc/driver/nvidia", "usr/bin"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil { //nolint:gosec // as on a host
			t.Fatal(err)
		}
	}
	write := func(name string) string {
		path := filepath.Join(root, name)
		if err := os.WriteFile(path, nil, 0o755); err != nil { //nolint:gosec // as on a host
			t.Fatal(err)
		}
		return path
	}
	for _, lib := range []string{"libnvidia-ml.so.610.43.02", "libcuda.so.610.43.02"} {
		write("usr/lib/x86_64-linux-gnu/" + lib)
	}
	for i, lib := range []string{"libnvidia-ml.so.1", "libcuda.so.1"} {
		to := []string{"libnvidia-ml.so.610.43.02", "libcuda.so.610.43.02"}[i]
		if err := os.Symlink(to, filepath.Join(root, "usr/lib/x86_64-linux-gnu", lib)); err != nil {
			t.Fatal(err)
		}
	}
	for i, node := range []string{"nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm"} {
		if err := unix.Mknod(filepath.Join(root, "dev", node), unix.S_IFCHR|0o666, int(unix.Mkdev(195, uint32(i)))); err != nil { //nolint:gosec // small
			t.Skipf("device nodes can't be made here: %v", err)
		}
	}
	return root, write("usr/bin/nvidia-cdi-hook")
}

func TestEachOwnerHasItsSpec(t *testing.T) {
	t.Parallel()
	root, hook := rootWith(t)
	b := newBench(t, "00000000:3B:00.0", "00000000:5B:00.0")
	var uuids []string
	for _, dev := range b.Devices {
		d := dev.(*server.Device)
		d.IsMigDeviceHandleFunc = func() (bool, nvml.Return) { return false, nvml.SUCCESS }
		uuids = append(uuids, d.UUID)
	}
	dir := t.TempDir()
	c := CDI{Dir: dir, Kind: "tenon.nvidia/gpu", DriverRoot: root, Hook: hook, lib: b}
	names, err := c.Present(t.Context(), "inst_1", []string{uuids[1], uuids[0]}, []string{"TENON_GPU_SHARES=4"})
	if diff := cmp.Diff([]string{"tenon.nvidia/gpu=inst_1-0", "tenon.nvidia/gpu=inst_1-1"}, names); err != nil || diff != "" {
		t.Fatal(err, diff)
	}
	if names, err = c.Present(t.Context(), "inst_2", uuids[1:], nil); err != nil || len(names) != 1 || names[0] != "tenon.nvidia/gpu=inst_2-0" {
		t.Error(names, err)
	}
	var spec specs.Spec
	raw, err := os.ReadFile(filepath.Join(dir, "tenon.nvidia-gpu-inst_1.json"))
	if err == nil {
		err = json.Unmarshal(raw, &spec)
	}
	if err != nil || spec.Kind != "tenon.nvidia/gpu" || len(spec.Devices) != 2 {
		t.Fatal(err, string(raw))
	}
	nodes := func(e specs.ContainerEdits) (out []string) {
		for _, n := range e.DeviceNodes {
			out = append(out, n.Path)
		}
		return out
	}
	first := spec.Devices[0].ContainerEdits
	if !slices.Contains(nodes(first), "/dev/nvidia1") || slices.Contains(nodes(first), "/dev/nvidia0") || !slices.Contains(first.Env, "TENON_GPU_SHARES=4") {
		t.Errorf("the first device is the second card: %v, %v", nodes(first), first.Env)
	}
	if !slices.Contains(nodes(spec.ContainerEdits), "/dev/nvidiactl") || !strings.Contains(string(raw), "libcuda.so.610.43.02") {
		t.Errorf("the driver's own nodes and libraries lack: %s", raw)
	}
	if err := errors.Join(c.Withdraw(t.Context(), "inst_1"), c.Withdraw(t.Context(), "inst_1")); err != nil {
		t.Error(err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, "*.json")); err != nil || len(left) != 1 || !strings.HasSuffix(left[0], "inst_2.json") {
		t.Error(left, err)
	}
	if names, err := c.Present(t.Context(), "inst_3", []string{"GPU-none"}, nil); err == nil {
		t.Errorf("a card that is not there has a spec: %v", names)
	}
}

func TestADeviceThatIsNotToldIsAnError(t *testing.T) {
	t.Parallel()
	if out, err := ownDevices([]specs.Device{{Name: "GPU-1"}}, "inst_1", []string{"GPU-1", "GPU-2"}, nil); !errors.Is(err, host.ErrNoCard) {
		t.Errorf("%v, %v", out, err)
	}
}

func TestCDISaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, err := (CDI{Dir: dir, Kind: "gpu"}).Present(t.Context(), "inst_1", []string{"GPU-1"}, nil); err == nil || !strings.Contains(err.Error(), "vendor/class") {
		t.Error(err)
	}
	_, err := CDI{Dir: dir, Kind: "tenon.nvidia/gpu", Hook: filepath.Join(dir, "none")}.Present(t.Context(), "inst_1", []string{"GPU-1"}, nil)
	if !errors.Is(err, host.ErrNoDriver) || !strings.Contains(err.Error(), "nvidia-container-toolkit-base") {
		t.Error(err)
	}
}
