package libvirt

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// Daemons are the programs of a cloud's private libvirt, in the order in which
// they are started: virtlogd keeps what machines write to their serial ports.
var Daemons = []string{"virtlogd", "libvirtd"}

// SocketPath is where a cloud's private libvirtd listens.
func SocketPath(runDir string) string { return filepath.Join(runDir, "libvirt", "libvirt-sock") }

// LogSocketPath is where its virtlogd listens.
func LogSocketPath(runDir string) string { return filepath.Join(runDir, "libvirt", "virtlogd-sock") }

func configPath(cfg Config, name string) string {
	return filepath.Join(cfg.StateDir, "libvirt", "etc", name+".conf")
}

// Bounds of a machine's serial log: this much, and as much again that is older.
const (
	serialLogBytes   = 2 << 20
	serialLogBackups = 1
)

// daemonConfigs are files that the daemons read. Sockets belong to root alone,
// and QEMU never does.
var daemonConfigs = map[string]string{
	"libvirtd": `auth_unix_ro = "none"
auth_unix_rw = "none"
unix_sock_ro_perms = "0700"
unix_sock_rw_perms = "0700"
unix_sock_admin_perms = "0700"
log_outputs = "3:stderr"
host_uuid_source = "machine-id"
`,
	"virtlogd": fmt.Sprintf("log_outputs = \"3:stderr\"\nmax_size = %d\nmax_backups = %d\n", serialLogBytes, serialLogBackups),
	// dynamic_ownership: the driver gives files to QEMU's user itself, so that a
	// shared image never changes hands.
	"qemu": `security_driver = "none"
user = "` + qemuUser + `"
group = "` + qemuUser + `"
dynamic_ownership = 0
remember_owner = 0
stdio_handler = "logd"
seccomp_sandbox = 1
`,
}

// DaemonArgv is the command line that a daemon of this cloud ends up with.
func DaemonArgv(cfg Config, name string) ([]string, error) {
	program, err := exec.LookPath(name)
	if err != nil {
		if _, serr := os.Stat("/usr/sbin/" + name); serr != nil {
			return nil, fmt.Errorf("%s is not installed: install libvirt-daemon-system", name)
		}
		program = "/usr/sbin/" + name
	}
	return []string{program, "--config", configPath(cfg, name), "--pid-file", filepath.Join(cfg.RunDir, "libvirt", name+"-own.pid")}, nil
}

// DaemonConfigs are the texts of the daemons' files: a change needs a restart.
func DaemonConfigs() []byte {
	return []byte(daemonConfigs["libvirtd"] + daemonConfigs["virtlogd"] + daemonConfigs["qemu"])
}

// RunDaemon becomes one of the daemons. libvirt's folders are compiled in, so it
// runs in a mount namespace of its own where they are the cloud's. It returns
// only if that fails.
func RunDaemon(cfg Config, name string) error {
	argv, err := DaemonArgv(cfg, name)
	if err != nil {
		return err
	}
	if err := MakeFolders(cfg); err != nil {
		return err
	}
	if err := shareMachines(cfg); err != nil {
		return err
	}
	own := filepath.Join(cfg.StateDir, "libvirt")
	// Not its cache: what the host's QEMU can do is the same for all, and slow to ask.
	binds := [][2]string{
		{filepath.Join(cfg.RunDir, "libvirt"), "/run/libvirt"},
		{filepath.Join(own, "lib"), "/var/lib/libvirt"},
		{filepath.Join(own, "log"), "/var/log/libvirt"},
		{filepath.Join(own, "etc"), "/etc/libvirt"},
	}
	for _, b := range binds {
		if err := os.MkdirAll(b[0], 0o711); err != nil {
			return fmt.Errorf("make folder: %w", err)
		}
		if err := os.MkdirAll(b[1], 0o755); err != nil { // an empty place to mount on
			return fmt.Errorf("make mount point: %w", err)
		}
	}
	for file, text := range daemonConfigs {
		if file == "qemu" && kvmShut() {
			// libvirt can't carry our mount over its KVM into a machine's own /dev, so
			// there is none; the devices' control group still says what QEMU may open.
			text += "namespaces = []\n"
		}
		if err := os.WriteFile(configPath(cfg, file), []byte(text), 0o600); err != nil {
			return fmt.Errorf("write configuration: %w", err)
		}
	}
	runtime.LockOSThread() // a namespace is a thread's, and exec keeps this one
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("make mount namespace: %w", err)
	}
	// What the agent mounts later must be seen, and nothing of ours leak out.
	if err := unix.Mount("", "/", "", unix.MS_SLAVE|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("separate mounts: %w", err)
	}
	if err := letGo(cfg); err != nil {
		return err
	}
	for _, b := range binds {
		if err := unix.Mount(b[0], b[1], "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("bind %s: %w", b[1], err)
		}
	}
	if kvmShut() {
		if err := hideKVM(cfg); err != nil {
			return err
		}
	}
	return fmt.Errorf("become %s: %w", name, unix.Exec(argv[0], argv, os.Environ()))
}

// letGo unmounts, in the daemon's namespace alone, what belongs to containers and
// other clouds: a copy would keep it in use after its owner has unmounted it.
func letGo(cfg Config) error {
	raw, err := os.ReadFile("/proc/thread-self/mountinfo")
	if err != nil {
		return fmt.Errorf("read mounts: %w", err)
	}
	var points []string
	for line := range strings.Lines(string(raw)) {
		f := strings.Fields(line)
		_, after, ok := strings.Cut(line, " - ")
		if len(f) < 5 || !ok {
			continue
		}
		point, kind := f[4], strings.Fields(after)[0]
		ours := point == machinesDir(cfg) || strings.HasPrefix(point, machinesDir(cfg)+"/")
		below := strings.HasPrefix(point, cfg.RunDir+"/") || strings.HasPrefix(point, cfg.StateDir+"/")
		if !ours && point != "/" && (below || kind == "nsfs" || kind == "overlay") {
			points = append(points, point)
		}
	}
	for i := len(points) - 1; i >= 0; i-- {
		if err := unix.Unmount(points[i], unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("let go of %s: %w", points[i], err)
		}
	}
	return nil
}

// shareMachines makes the machines' folder a shared mount, so that disks which
// the agent binds there reach a daemon that runs already.
func shareMachines(cfg Config) error {
	dir := machinesDir(cfg)
	unlock, err := lockFile(filepath.Join(cfg.RunDir, "vm.lock"))
	if err != nil {
		return err
	}
	defer unlock()
	if !isMountPoint(dir) {
		if err := unix.Mount(dir, dir, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("bind machines' folder: %w", err)
		}
	}
	if err := unix.Mount("", dir, "", unix.MS_SHARED, ""); err != nil {
		return fmt.Errorf("share machines' folder: %w", err)
	}
	return nil
}

func lockFile(path string) (func(), error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		f.Close()
		return nil, fmt.Errorf("take lock: %w", err)
	}
	return func() { f.Close() }, nil
}

// isMountPoint reads the kernel's list: a bind of a folder on itself has the
// folder's own device.
func isMountPoint(path string) bool {
	raw, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(raw)) {
		if f := strings.Fields(line); len(f) > 4 && f[4] == path {
			return true
		}
	}
	return false
}

// bindFile shows one file at another place, read-only or not; an existing bind of
// the same file stays.
func bindFile(from, to string, readOnly bool) error {
	var a, b unix.Stat_t
	if err := unix.Stat(from, &a); err != nil {
		return fmt.Errorf("find %s: %w", filepath.Base(from), err)
	}
	if isMountPoint(to) {
		if err := unix.Stat(to, &b); err == nil && a.Dev == b.Dev && a.Ino == b.Ino {
			return nil
		}
		if err := unbindFile(to); err != nil {
			return err
		}
	}
	f, err := os.OpenFile(to, os.O_CREATE|os.O_RDONLY|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return fmt.Errorf("make mount point: %w", err)
	}
	f.Close()
	if err := unix.Mount(from, to, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("bind %s: %w", filepath.Base(from), err)
	}
	if readOnly {
		if err := unix.Mount("", to, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
			return errors.Join(fmt.Errorf("make %s read-only: %w", filepath.Base(to), err), unbindFile(to))
		}
	}
	return nil
}

func unbindFile(path string) error {
	for isMountPoint(path) {
		if err := unix.Unmount(path, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil {
			return fmt.Errorf("unmount %s: %w", filepath.Base(path), err)
		}
	}
	return nil
}
