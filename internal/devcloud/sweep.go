package devcloud

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// sweep takes away whatever of a cloud may be left on the host once its own
// children are gone: guests with their shims, mounts, network namespaces, the
// bridge, the packet rules, control groups. Everything is found by the cloud's
// id, and finding nothing is the usual case.
func sweep(l Layout) error {
	return errors.Join(killGuests(l), unmountBelow(l.Run, l.State, l.Far), dropNetwork(l.ID), dropCgroups(l.ID))
}

// killGuests ends every process in the cloud's control groups and every helper
// (shim, DNS forwarder) whose command line names its run directory. A helper
// that is only restarted by its guest's end goes after the guests.
func killGuests(l Layout) error {
	deadline := time.Now().Add(10 * time.Second)
	for {
		pids := append(cgroupMembers(l.ID), helpers(l.Run)...)
		if len(pids) == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%d processes of this cloud don't end: %v", len(pids), pids)
		}
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		<-time.After(20 * time.Millisecond)
	}
}

func helpers(run string) []int {
	var pids []int
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		// Someone's editor or `tail -f` on a file there is not a helper.
		argv := commandLine(pid)
		if len(argv) == 0 || !slices.ContainsFunc([]string{"containerd-shim", "containerd", "dnsmasq", "tenon-agent", "libvirtd", "virtlogd", "qemu-system-"}, func(name string) bool {
			return strings.HasPrefix(filepath.Base(argv[0]), name)
		}) {
			continue
		}
		if slices.ContainsFunc(argv, func(a string) bool { return strings.Contains(a, run+"/") }) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// cgroupFolders finds the cloud's control groups in every hierarchy, deepest
// first.
func cgroupFolders(id string) []string {
	var found []string
	roots := []string{"/sys/fs/cgroup"}
	entries, _ := os.ReadDir("/sys/fs/cgroup")
	for _, e := range entries {
		if e.IsDir() {
			roots = append(roots, filepath.Join("/sys/fs/cgroup", e.Name()))
		}
	}
	for _, root := range roots {
		top := filepath.Join(root, "tenon-"+id)
		_ = filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				found = append(found, path)
			}
			return nil
		})
	}
	slices.Sort(found)
	slices.Reverse(found)
	return slices.Compact(found)
}

func cgroupMembers(id string) []int {
	var pids []int
	for _, folder := range cgroupFolders(id) {
		text, _ := os.ReadFile(filepath.Join(folder, "cgroup.procs"))
		for _, word := range strings.Fields(string(text)) {
			if pid, err := strconv.Atoi(word); err == nil && pid > 1 && pid != os.Getpid() {
				pids = append(pids, pid)
			}
		}
	}
	slices.Sort(pids)
	return slices.Compact(pids)
}

func dropCgroups(id string) error {
	var errs []error
	for _, folder := range cgroupFolders(id) {
		// The kernel lets go of a group a moment after its last process.
		deadline := time.Now().Add(2 * time.Second)
		err := os.Remove(folder)
		for errors.Is(err, syscall.EBUSY) && time.Now().Before(deadline) {
			<-time.After(20 * time.Millisecond)
			err = os.Remove(folder)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("remove control group: %w", err))
		}
	}
	return errors.Join(errs...)
}

// unmountBelow unmounts everything below the folders, the deepest first.
func unmountBelow(folders ...string) error {
	points, err := mountsBelow(folders...)
	if err != nil {
		return err
	}
	var errs []error
	for _, point := range points {
		err := unix.Unmount(point, unix.UMOUNT_NOFOLLOW)
		if errors.Is(err, unix.EBUSY) {
			err = unix.Unmount(point, unix.UMOUNT_NOFOLLOW|unix.MNT_DETACH)
		}
		if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
			errs = append(errs, fmt.Errorf("unmount %s: %w", point, err))
		}
	}
	return errors.Join(errs...)
}

// mountsBelow lists mount points, the last mounted first.
func mountsBelow(folders ...string) ([]string, error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("read mounts: %w", err)
	}
	defer func() { _ = f.Close() }()
	var points []string
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) < 5 {
			continue
		}
		point := unescape(fields[4])
		if slices.ContainsFunc(folders, func(folder string) bool { return folder != "" && strings.HasPrefix(point, folder+"/") }) {
			points = append(points, point)
		}
	}
	slices.Reverse(points)
	return points, nil
}

// unescape undoes the octal escapes of mountinfo.
func unescape(s string) string {
	for _, pair := range [][2]string{{`\040`, " "}, {`\011`, "\t"}, {`\012`, "\n"}, {`\134`, `\`}} {
		s = strings.ReplaceAll(s, pair[0], pair[1])
	}
	return s
}

// dropNetwork removes the cloud's bridge, the guests' ends that hang on it and
// its packet rules.
func dropNetwork(id string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	var errs []error
	if bridge, err := netlink.LinkByName("tn" + id); err == nil {
		links, err := netlink.LinkList()
		if err != nil {
			errs = append(errs, fmt.Errorf("list links: %w", err))
		}
		for _, link := range links {
			if link.Attrs().MasterIndex == bridge.Attrs().Index {
				_ = netlink.LinkDel(link) // its other end may take it along at the same moment
			}
		}
		if err := netlink.LinkDel(bridge); err != nil {
			errs = append(errs, fmt.Errorf("remove bridge: %w", err))
		}
	}
	conn, err := nftables.New()
	if err != nil {
		return errors.Join(append(errs, fmt.Errorf("open nftables: %w", err))...)
	}
	tables, err := conn.ListTables()
	if err != nil {
		return errors.Join(append(errs, fmt.Errorf("list packet rules: %w", err))...)
	}
	for _, table := range tables {
		if table.Name == "tenon_"+id {
			conn.DelTable(table)
		}
	}
	if err := conn.Flush(); err != nil {
		errs = append(errs, fmt.Errorf("remove packet rules: %w", err))
	}
	return errors.Join(errs...)
}
