package libvirt

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Purge ends and removes everything that one cloud's machines hold on this host,
// whether or not its daemons or agent still run. Images, logs and disks stay.
func Purge(ctx context.Context, cfg Config) error {
	if cfg.CloudID == "" || cfg.StateDir == "" || cfg.RunDir == "" {
		return errors.New("purge needs a cloud id, a state and a run folder")
	}
	// The daemons first: libvirtd would wonder about its machines.
	errs := []error{killDaemons(cfg)}
	for id := range Processes(cfg.CloudID) {
		errs = append(errs, Kill(cfg.CloudID, id, killWithin))
	}
	if cfg.Network != nil {
		for _, id := range cfg.Network.AttachedVMs() {
			errs = append(errs, cfg.Network.DetachVM(ctx, id))
		}
	}
	removeCgroups(cfg.CloudID)
	errs = append(errs, unmountMachines(cfg))
	for _, dir := range []string{machinesDir(cfg), recordsDir(cfg), filepath.Join(cfg.RunDir, "libvirt"), filepath.Join(cfg.StateDir, "libvirt")} {
		errs = append(errs, os.RemoveAll(dir))
	}
	return errors.Join(errs...)
}

// removeCgroups deletes the empty control groups that a killed libvirtd left, in
// every hierarchy; one with a process in it stays, as it should.
func removeCgroups(cloudID string) {
	var found []string
	for _, pattern := range []string{"/sys/fs/cgroup/machine*/*", "/sys/fs/cgroup/*/machine*/*"} {
		hits, _ := filepath.Glob(pattern)
		for _, hit := range hits {
			if strings.Contains(filepath.Base(hit), "tenon-"+cloudID+"-") {
				found = append(found, hit)
			}
		}
	}
	for _, top := range found {
		var dirs []string
		_ = filepath.WalkDir(top, func(dir string, e fs.DirEntry, err error) error {
			if err == nil && e.IsDir() {
				dirs = append(dirs, dir)
			}
			return nil
		})
		for _, dir := range slices.Backward(dirs) {
			// The kernel lets go of a group a moment after its last process.
			for deadline := time.Now().Add(2 * time.Second); errors.Is(os.Remove(dir), unix.EBUSY) && time.Now().Before(deadline); {
				time.Sleep(pollInterval)
			}
		}
	}
}

// killDaemons ends what runs with this cloud's configuration files.
func killDaemons(cfg Config) error {
	var errs []error
	for _, name := range slices.Backward(Daemons) {
		argv, err := DaemonArgv(cfg, name)
		if err != nil {
			continue // not installed: it does not run
		}
		entries, err := os.ReadDir("/proc")
		if err != nil {
			return fmt.Errorf("list processes: %w", err)
		}
		for _, e := range entries {
			pid, err := strconv.Atoi(e.Name())
			raw, rerr := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
			if err != nil || rerr != nil || string(raw) != strings.Join(argv, "\x00")+"\x00" {
				continue
			}
			errs = append(errs, killIn(pid))
			gone := watchProcess(pid)
			if err := unix.Kill(pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
				errs = append(errs, fmt.Errorf("end %s: %w", name, err))
				continue
			}
			<-gone
		}
	}
	return errors.Join(errs...)
}

// killIn ends what else runs in a daemon's mount namespace: QEMU that it asked
// what it can do. Machines have namespaces of their own.
func killIn(daemon int) error {
	space := func(pid string) string {
		link, _ := os.Readlink(filepath.Join("/proc", pid, "ns/mnt"))
		return link
	}
	own, theirs := space("self"), space(strconv.Itoa(daemon))
	if theirs == "" || own == theirs {
		return nil // it never got its own
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return fmt.Errorf("list processes: %w", err)
	}
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil && pid != daemon && space(e.Name()) == theirs {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	}
	return nil
}

func unmountMachines(cfg Config) error {
	raw, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return fmt.Errorf("read mounts: %w", err)
	}
	var points []string
	for line := range strings.Lines(string(raw)) {
		if f := strings.Fields(line); len(f) > 4 && (f[4] == machinesDir(cfg) || strings.HasPrefix(f[4], machinesDir(cfg)+"/")) {
			points = append(points, f[4])
		}
	}
	var errs []error
	for _, point := range slices.Backward(points) {
		if err := unix.Unmount(point, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil && !errors.Is(err, unix.EINVAL) {
			errs = append(errs, fmt.Errorf("unmount %s: %w", point, err))
		}
	}
	return errors.Join(errs...)
}
