package containerd

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
	"tags.cncf.io/container-device-interface/pkg/cdi"

	"github.com/tenon-cloud/tenon/internal/hypervisor"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

// mountDevices gives the guests' device nodes a file system of their own, since
// the run folder is usually mounted without devices.
func mountDevices(dir string) error {
	if isMounted(dir) {
		return nil
	}
	if err := unix.Mount("tenon-devices", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NOEXEC, "mode=0700,size=1m"); err != nil {
		return fmt.Errorf("mount device folder: %w", err)
	}
	return nil
}

// withDevices applies the CDI edits to a spec: device nodes, libraries, variables
// and the device cgroup's rules. Everything that is not named stays refused.
func (d *Driver) withDevices(spec *specs.Spec, id string, names []string, owner uint32) error {
	if len(names) == 0 {
		return nil
	}
	cache, err := cdi.NewCache(cdi.WithSpecDirs(d.cfg.CDISpecDirs...), cdi.WithAutoRefresh(false))
	if err != nil {
		return deviceFailure("the node's device list can't be read", err)
	}
	if missing, err := cache.InjectDevices(spec, names...); err != nil {
		return deviceFailure(fmt.Sprintf("the node has no device %v", missing), err)
	}
	// runc binds a device node from the host into a user namespace, where it would
	// belong to nobody; so each guest gets nodes of its own, owned by its root.
	dir := filepath.Join(devicesDir(d.cfg), id)
	if err := os.RemoveAll(dir); err != nil {
		return deviceFailure("a device node can't be made", err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return deviceFailure("a device node can't be made", err)
	}
	for i, dev := range spec.Linux.Devices {
		node := filepath.Join(dir, strconv.Itoa(i))
		if err := makeNode(node, dev, owner); err != nil {
			return deviceFailure("the device node "+dev.Path+" can't be made", err)
		}
		spec.Mounts = append(spec.Mounts, specs.Mount{
			Destination: dev.Path, Type: "bind", Source: node, Options: []string{"bind", "rw", "nosuid", "noexec"},
		})
	}
	spec.Linux.Devices = nil
	return nil
}

func makeNode(path string, dev specs.LinuxDevice, owner uint32) error {
	kind := uint32(unix.S_IFCHR)
	switch dev.Type {
	case "c", "u":
	case "b":
		kind = unix.S_IFBLK
	default:
		return fmt.Errorf("a device of type %q can't be given to a guest", dev.Type)
	}
	if err := unix.Mknod(path, kind|0o666, int(unix.Mkdev(uint32(dev.Major), uint32(dev.Minor)))); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("make device node: %w", err)
	}
	// Past the umask: who gets in is the cgroup's business, as on any NVIDIA node.
	if err := os.Chmod(path, 0o666); err != nil {
		return fmt.Errorf("open device node: %w", err)
	}
	if err := os.Chown(path, int(owner), int(owner)); err != nil {
		return fmt.Errorf("own device node: %w", err)
	}
	return nil
}

func deviceFailure(message string, err error) error {
	return &hypervisor.Failure{Reason: nodewire.ReasonDevice, Message: message, Err: err}
}
