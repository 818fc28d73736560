package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io/fs"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/nftables"
	"golang.org/x/sys/unix"

	"github.com/tenon-cloud/tenon/internal/device/host"
	"github.com/tenon-cloud/tenon/internal/device/nvml"
	"github.com/tenon-cloud/tenon/internal/device/pci"
	"github.com/tenon-cloud/tenon/internal/hypervisor/libvirt"
	"github.com/tenon-cloud/tenon/internal/preflight"
)

// readFacts reads this machine. What can't be read is as on a bare one.
func readFacts(ctx context.Context, c config) preflight.Facts {
	f := preflight.Facts{
		HostBoard: c.board == "host", HugePages: c.hugePages, Door: c.doorURL, Root: os.Geteuid() == 0,
		UserSpaces:  int(number("/proc/sys/user/max_user_namespaces")),
		FileSystems: map[string]bool{"overlay": hasFileSystem("overlay"), "btrfs": hasFileSystem("btrfs")},
		LoopDevice:  exists("/dev/loop-control") || loadable("loop"), Tun: exists("/dev/net/tun") || loadable("tun"),
		Containerd: program(ctx, "containerd", "--version"), Runc: program(ctx, "runc", "--version"),
		Libvirt: program(ctx, "libvirtd", "--version"), QEMU: program(ctx, "qemu-system-x86_64", "--version"), QEMUUser: libvirt.HasUser(),
		Pages: hugePages("/sys/kernel/mm/hugepages"), MemoryLock: memoryLock(), Remapping: remapping("/proc/interrupts"),
		VFIO: preflight.VFIO{Loaded: exists("/sys/bus/pci/drivers/vfio-pci"), Available: loadable("vfio-pci")},
	}
	f.Denied = denied(f)
	f.Cgroups, f.NoCgroup = cgroups("/sys/fs/cgroup")
	var name unix.Utsname
	if unix.Uname(&name) == nil {
		f.Kernel = unix.ByteSliceToString(name.Release[:])
	}
	if f.QEMU.Path != "" && f.QEMUUser && !f.Denied["kvm"] {
		f.Virt, f.VirtWhy = libvirt.Probe(ctx, os.TempDir())
	} else {
		f.Virt, f.VirtWhy = "tcg", "not tried"
	}
	var hidden bool
	if f.StateFS, f.StateFree, hidden = fileSystem(c.engineDir); hidden {
		f.Denied["state folder"], f.Denied["disk room"] = true, true
	}
	rules, err := nftables.New()
	if err == nil {
		_, err = rules.ListTables()
	}
	f.NFTables, f.DoorErr = err, dial(ctx, c.doorURL)
	if !f.Root && errors.Is(err, fs.ErrPermission) {
		f.Denied["packet rules"] = true
	}
	var clock unix.Timex
	if state, err := unix.Adjtimex(&clock); err == nil {
		f.ClockSaid, f.ClockOff = true, state == unix.TIME_ERROR || clock.Status&unix.STA_UNSYNC != 0
		f.ClockError = time.Duration(clock.Maxerror) * time.Microsecond
	}
	if f.HostBoard {
		readCards(ctx, c, &f)
	}
	return f
}

// denied are the lines that say nothing of a host to whoever is not root. A device's
// file is seen by everybody, and opened by few; the limits are the caller's own.
func denied(f preflight.Facts) map[string]bool {
	out := map[string]bool{}
	if f.Root {
		return out
	}
	out["kvm"] = libvirt.HasKVM() // a probe guest runs as QEMU's own user
	out["memory lock"] = f.MemoryLock != ""
	out["interrupt remapping"] = !f.Remapping && unreadable("/proc/interrupts")
	for name, p := range map[string]preflight.Program{"containerd": f.Containerd, "runc": f.Runc, "libvirt": f.Libvirt, "qemu": f.QEMU} {
		out[name] = p.Path != "" && p.Version == "" && unix.Access(p.Path, unix.X_OK) == unix.EACCES
	}
	return out
}

// unreadable reports a file that is there and is not this user's to read.
func unreadable(path string) bool { return unix.Access(path, unix.R_OK) == unix.EACCES }

func readCards(ctx context.Context, c config, f *preflight.Facts) {
	groups, _ := os.ReadDir("/sys/kernel/iommu_groups")
	f.IOMMUGroups = len(groups)
	sys, err := pci.OpenSys("/sys")
	var inv pci.Inventory
	if err == nil {
		inv, err = pci.Scan(sys, pci.Options{Allow: c.gpuAllow.ids})
	}
	if err != nil {
		f.ScanErr = err
		return
	}
	for _, x := range inv.Excluded {
		f.Excluded = append(f.Excluded, preflight.Device{Address: x.Function.Address.String(), Name: "GPU " + x.Function.ID.String(), Reason: x.Reason})
	}
	for _, u := range inv.Unknown {
		f.Unknown = append(f.Unknown, preflight.Device{Address: u.Address.String(), Reason: u.Reason})
	}
	for _, p := range inv.Parents {
		if slices.Contains(c.gpuAllow.parents, p.Name) {
			f.Parents = append(f.Parents, p.Name)
		}
	}
	f.Switches = len(inv.Switches)
	var list []host.DriverCard
	driver, err := nvml.Open()
	if err == nil {
		list, err = driver.Cards(ctx)
		f.NVIDIACards = len(list)
		_ = driver.Close()
	}
	f.NVIDIA = err
	for _, card := range inv.Cards {
		c := cardFacts(card)
		if i := slices.IndexFunc(list, func(d host.DriverCard) bool { return d.PCIAddress == c.Address }); i >= 0 {
			c.Told = told(list[i])
		}
		f.Cards = append(f.Cards, c)
	}
	fabric, err := host.FindFmpm()
	if err == nil {
		_, err = fabric.Partitions(ctx)
	}
	f.Fabric = err
	if !f.Root && errors.Is(err, fs.ErrPermission) {
		f.Denied["fabric manager"] = true
	}
}

func cardFacts(c pci.Card) preflight.Card {
	out := preflight.Card{
		Address: c.Function.Address.String(), Name: "GPU " + c.Function.ID.String(), Driver: c.Function.Driver,
		NVIDIA: c.Function.ID.Vendor == pci.VendorNVIDIA, Notes: c.Notes, Resets: c.Function.Reset,
	}
	if !c.Whole.OK {
		out.Whole = c.Whole.Reason
	}
	if !c.Reset.OK {
		out.Reset = c.Reset.Reason
	}
	for _, p := range c.Parents {
		out.VGPU = string(p.Backend)
	}
	for _, k := range c.Companions {
		out.Companions = append(out.Companions, k.String())
	}
	for _, a := range c.Bundle {
		out.Bundle = append(out.Bundle, a.String())
	}
	return out
}

func told(d host.DriverCard) *preflight.Told {
	t := &preflight.Told{Name: d.Name, RowPending: d.Remap.Pending, RowFailure: d.Remap.Failure}
	for _, p := range d.Processes {
		t.Users = append(t.Users, p.String())
	}
	switch {
	case !d.MIG.Capable:
	case d.MIG.Current && d.MIG.Pending:
		t.MIG = "on"
	case d.MIG.Current:
		t.MIG = "going off with the next reset"
	case d.MIG.Pending:
		t.MIG = "going on with the next reset"
	default:
		t.MIG = "off"
	}
	return t
}

func exists(path string) bool { _, err := os.Stat(path); return err == nil }

// cgroups is which version there is, and what is missing of it.
func cgroups(root string) (version int, missing []string) {
	raw, err := os.ReadFile(filepath.Join(root, "cgroup.controllers")) //nolint:gosec // fixed names
	have := func(name string) bool { return slices.Contains(strings.Fields(string(raw)), name) }
	version = 2
	if err != nil {
		have = func(name string) bool { return exists(filepath.Join(root, name, "cgroup.procs")) }
		if version = 1; !have("memory") && !have("cpu") {
			return 0, nil
		}
	}
	for _, name := range []string{"cpu", "memory", "pids"} {
		if !have(name) {
			missing = append(missing, name)
		}
	}
	return version, missing
}

func number(path string) int64 {
	raw, _ := os.ReadFile(path) //nolint:gosec // fixed names
	n, _ := strconv.ParseInt(strings.TrimSpace(string(raw)), 10, 64)
	return n
}

// loadable reports that the kernel has a module; nothing is loaded. A user's PATH may
// lack the folder that has modprobe.
func loadable(module string) bool {
	at, ok := find("modprobe")
	return ok && exec.Command(at, "-n", "-q", module).Run() == nil //nolint:gosec // a fixed name
}

// find is where a program is, if it is.
func find(name string) (path string, ok bool) {
	if path, err := exec.LookPath(name); err == nil {
		return path, true
	}
	for _, dir := range []string{"/usr/sbin", "/sbin"} {
		if path = filepath.Join(dir, name); exists(path) {
			return path, true
		}
	}
	return "", false
}

func hasFileSystem(name string) bool {
	raw, _ := os.ReadFile("/proc/filesystems")
	for line := range strings.Lines(string(raw)) {
		if fields := strings.Fields(line); len(fields) > 0 && fields[len(fields)-1] == name {
			return true
		}
	}
	return loadable(name)
}

var versionForm = regexp.MustCompile(`[0-9]+\.[0-9]+[0-9.]*`)

// program finds one and asks it what it is.
func program(ctx context.Context, name string, args ...string) (p preflight.Program) {
	path, ok := find(name)
	if !ok {
		return p
	}
	p.Path = path
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, args...).Output()
	if err == nil {
		p.Version = versionForm.FindString(string(out))
	}
	return p
}

func hugePages(dir string) (out []preflight.Pages) {
	sizes, _ := filepath.Glob(filepath.Join(dir, "hugepages-*kB"))
	for _, s := range sizes {
		kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimPrefix(filepath.Base(s), "hugepages-"), "kB"), 10, 64)
		if err == nil {
			out = append(out, preflight.Pages{MiB: kib / 1024, Total: number(filepath.Join(s, "nr_hugepages")), Free: number(filepath.Join(s, "free_hugepages"))})
		}
	}
	return out
}

// memoryLock is the limit of what may be locked, unless it may be raised.
func memoryLock() string {
	const sysResource = 24
	raw, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(raw)) {
		if caps, ok := strings.CutPrefix(line, "CapEff:"); ok {
			if bits, err := strconv.ParseUint(strings.TrimSpace(caps), 16, 64); err == nil && bits>>sysResource&1 == 1 {
				return ""
			}
		}
	}
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_MEMLOCK, &limit) != nil || limit.Max == unix.RLIM_INFINITY {
		return ""
	}
	return strconv.FormatUint(limit.Max/1024, 10) + " KiB"
}

// remapping reports that interrupts go through the IOMMU, as the kernel names them.
func remapping(file string) bool {
	raw, _ := os.ReadFile(file) //nolint:gosec // a fixed name
	lines := bufio.NewScanner(bytes.NewReader(raw))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if strings.Contains(lines.Text(), "IR-") {
			return true
		}
	}
	return false
}

var fileSystems = map[int64]string{
	unix.EXT4_SUPER_MAGIC: "ext4", unix.XFS_SUPER_MAGIC: "xfs", unix.BTRFS_SUPER_MAGIC: "btrfs", unix.TMPFS_MAGIC: "tmpfs", unix.OVERLAYFS_SUPER_MAGIC: "overlay",
}

// fileSystem is what a folder is on, or will be; hidden: it lies in one that is not
// this user's to look into.
func fileSystem(dir string) (kind string, free int64, hidden bool) {
	for dir != "/" && dir != "." {
		_, err := os.Stat(dir)
		if err == nil {
			break
		}
		hidden = hidden || errors.Is(err, fs.ErrPermission)
		dir = filepath.Dir(dir)
	}
	var st unix.Statfs_t
	if unix.Statfs(dir, &st) != nil {
		return "", 0, hidden
	}
	return fileSystems[st.Type], int64(st.Bavail) * st.Bsize, hidden //nolint:gosec // far below
}

// dial tries the way to the control plane.
func dial(ctx context.Context, door string) error {
	u, err := url.Parse(door)
	if door == "" || err != nil {
		return err
	}
	at := u.Host
	if u.Port() == "" {
		at = net.JoinHostPort(u.Hostname(), "443")
	}
	d := net.Dialer{Timeout: 3 * time.Second}
	conn, err := d.DialContext(ctx, "tcp", at)
	if err != nil {
		return err
	}
	return conn.Close()
}
