package sim

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	specs "tags.cncf.io/container-device-interface/specs-go"

	"github.com/tenon-cloud/tenon/internal/nodewire"
)

// cdiKind is the vendor and class of every simulated device.
const cdiKind = "tenon.sim/gpu"

// present makes the device nodes and the CDI spec of one owner; idempotent.
func (b *Board) present(owner string, h hold) error {
	if b.cfg.DevDir != "" {
		// A container's root is another user outside its namespace: it must be
		// able to go through the folder and open the node.
		if err := os.MkdirAll(b.cfg.DevDir, 0o711); err != nil {
			return fmt.Errorf("make device folder: %w", err)
		}
		for i, d := range h.Devices {
			if err := makeNode(b.nodePath(d), h.Minors[i]); err != nil {
				return err
			}
		}
	}
	if b.cfg.CDIDir == "" {
		return nil
	}
	raw, err := json.MarshalIndent(b.spec(h), "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(b.cfg.CDIDir, 0o755); err != nil {
		return fmt.Errorf("make CDI folder: %w", err)
	}
	if err := writeFile(b.specPath(owner), raw, 0o644); err != nil {
		return fmt.Errorf("write CDI spec: %w", err)
	}
	return nil
}

// withdraw takes them away; idempotent.
func (b *Board) withdraw(owner string, h hold) error {
	if b.cfg.CDIDir != "" {
		if err := os.Remove(b.specPath(owner)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove CDI spec: %w", err)
		}
	}
	if b.cfg.DevDir != "" {
		for _, d := range h.Devices {
			if err := os.Remove(b.nodePath(d)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("remove device node: %w", err)
			}
		}
	}
	return nil
}

// restore presents what is held and removes this cloud's specs that nothing
// holds: a crash came between state and specs, or a reboot emptied /dev.
func (b *Board) restore() error {
	for owner, h := range b.state.Held {
		for _, d := range h.Devices {
			if b.card(d.GPUUUID) == nil {
				return fmt.Errorf("open simulated board: %s holds card %s, which board %q has not; start it with its earlier board", owner, d.GPUUUID, b.cfg.Board)
			}
		}
		if err := b.present(owner, h); err != nil {
			return fmt.Errorf("open simulated board: %w", err)
		}
	}
	if b.cfg.CDIDir == "" {
		return nil
	}
	files, err := filepath.Glob(b.specPath("*"))
	if err != nil {
		return err
	}
	for _, f := range files {
		prefix := strings.TrimSuffix(b.specPath(""), ".json")
		owner := strings.TrimSuffix(strings.TrimPrefix(f, prefix), ".json")
		if _, held := b.state.Held[owner]; !held {
			if err := os.Remove(f); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("open simulated board: %w", err)
			}
		}
	}
	return nil
}

func (b *Board) specPath(owner string) string {
	return filepath.Join(b.cfg.CDIDir, "tenon.sim-gpu-"+b.cfg.CloudID+"-"+owner+".json")
}

func (b *Board) nodePath(d nodewire.Device) string {
	name := fmt.Sprintf("sim-gpu%d", b.card(d.GPUUUID).index)
	if d.Mode == "mig" {
		name += fmt.Sprintf("-%s-%d", strings.ReplaceAll(d.Profile, "+", "-"), d.SlotStart)
	}
	return filepath.Join(b.cfg.DevDir, name)
}

// spec describes one owner's devices to the container engine. A container with
// a user namespace can't make device nodes, so the engine binds the host's: the
// node has the same path on both sides, and binds put it where programs look
// for NVIDIA's.
func (b *Board) spec(h hold) specs.Spec {
	spec := specs.Spec{Version: "0.6.0", Kind: cdiKind}
	var ids []string
	for i, d := range h.Devices {
		id := b.deviceUUID(*b.card(d.GPUUUID), d)
		ids = append(ids, id)
		dev := specs.Device{Name: id, Annotations: map[string]string{"tenon.sim/simulated": "true"}}
		if b.cfg.DevDir != "" {
			mode := os.FileMode(0o666)
			host := b.nodePath(d)
			dev.ContainerEdits.DeviceNodes = []*specs.DeviceNode{{
				Path: host, Type: "c", Major: major, Minor: int64(h.Minors[i]), FileMode: &mode, Permissions: "rw",
			}}
			paths := []string{fmt.Sprintf("/dev/nvidia%d", i)}
			if d.Mode == "mig" {
				paths = append(paths, fmt.Sprintf("/dev/nvidia-caps/nvidia-cap%d", h.Minors[i]))
			}
			for _, p := range paths {
				dev.ContainerEdits.Mounts = append(dev.ContainerEdits.Mounts, &specs.Mount{
					HostPath: host, ContainerPath: p, Type: "bind", Options: []string{"bind", "rw", "nosuid", "noexec"},
				})
			}
		}
		dev.ContainerEdits.Env = []string{fmt.Sprintf("TENON_GPU_DEVICE_%d=%s", i, id)}
		spec.Devices = append(spec.Devices, dev)
	}
	spec.ContainerEdits.Env = []string{
		"TENON_GPU_DEVICES=" + strings.Join(ids, ","),
		"TENON_GPU_SIMULATED=true",
	}
	return spec
}

// makeNode makes a character device that anyone may open, or leaves the right
// one that is there.
func makeNode(path string, minor int) error {
	want := uint64(major<<8 | minor)
	var st syscall.Stat_t
	if err := syscall.Stat(path, &st); err == nil {
		if st.Mode&syscall.S_IFMT == syscall.S_IFCHR && st.Rdev == want {
			return os.Chmod(path, 0o666)
		}
		if err := os.Remove(path); err != nil {
			return fmt.Errorf("replace device node: %w", err)
		}
	}
	if err := syscall.Mknod(path, syscall.S_IFCHR|0o666, int(want)); err != nil {
		return fmt.Errorf("make device node %s: %w", filepath.Base(path), err)
	}
	return os.Chmod(path, 0o666) // the process's umask has taken its share
}
