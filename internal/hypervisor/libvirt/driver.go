// Package libvirt makes virtual machines through a private libvirtd and QEMU.
//
// A machine is made of parts that are each found again after a crash: a tap on
// the cloud's bridge (package network), a disk in its volume's folder whose
// backing file is the cached image (disk.go), a settings disk for cloud-init
// (seed.go), a libvirt domain whose metadata says whose it is (domain.go), and a
// QEMU process. Nothing is kept only in memory.
//
//	Prepare            Start                      Stop              Remove
//	image, disk,  ───► domain defined, running ─► no process ─────► nothing but
//	network                 └── powers itself off ──┘               the disk
//
// The daemon is this cloud's own: it lives in a mount namespace where libvirt's
// fixed folders are the cloud's (daemon.go), so the host's libvirt and other
// clouds never meet it. It imports the node packages image and network.
package libvirt

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/tenon-cloud/tenon/internal/hypervisor"
	"github.com/tenon-cloud/tenon/internal/image"
	"github.com/tenon-cloud/tenon/internal/network"
)

// Config says where a cloud keeps its machines.
type Config struct {
	CloudID  string
	StateDir string // survives a reboot: images, domains, logs
	RunDir   string // does not: sockets, mounts
	Image    image.Config
	Network  *network.Network
	Virt     string // kvm or tcg; empty: what a probe says
	SysDir   string // the kernel's /sys; empty: /sys
	DevDir   string // its device files; empty: /dev
	// HugePages backs machines by the huge pages that an operator has set aside; a
	// machine for which there are too few doesn't start.
	HugePages bool
	Logger    *slog.Logger
}

// Driver implements hypervisor.Driver, Dialer and Consoler.
type Driver struct {
	cfg   Config
	log   *slog.Logger
	net   *network.Network
	disks *image.Disks
	conn  *connection
	owner ids // QEMU's own user

	mu      sync.Mutex
	ready   bool
	scanned time.Time // when all processes were looked through and none was a machine
	virt    virt
	stop    context.CancelFunc // of the logs' keeper

	consoles consoles
	closed   sync.WaitGroup
}

type ids struct {
	uid, gid int
	more     []uint32 // groups
}

var (
	_ hypervisor.Driver   = (*Driver)(nil)
	_ hypervisor.Dialer   = (*Driver)(nil)
	_ hypervisor.Consoler = (*Driver)(nil)
	_ hypervisor.Pruner   = (*Driver)(nil)
)

// qemuUser is who every QEMU process runs as; Debian's package makes it.
const qemuUser = "libvirt-qemu"

// New makes a driver; the daemon need not run yet.
func New(cfg Config) (*Driver, error) {
	if cfg.CloudID == "" || cfg.StateDir == "" || cfg.RunDir == "" || cfg.Network == nil {
		return nil, errors.New("the libvirt driver needs a cloud id, a state and a run folder, and a network")
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if cfg.Virt == "" {
		cfg.Virt = os.Getenv("TENON_VIRT")
	}
	if cfg.Virt != "" && cfg.Virt != virtKVM && cfg.Virt != virtTCG {
		return nil, fmt.Errorf("TENON_VIRT is %q; kvm and tcg are known", cfg.Virt)
	}
	d := &Driver{
		cfg: cfg, log: cfg.Logger, net: cfg.Network,
		disks: image.NewDisks(cfg.Image, imagesDir(cfg), CheckQCOW2),
		conn:  &connection{socket: SocketPath(cfg.RunDir)},
	}
	d.consoles.held, d.consoles.kept = map[string]*console{}, map[string]*console{}
	return d, nil
}

func imagesDir(cfg Config) string   { return filepath.Join(cfg.StateDir, "vm-images") }
func logsDir(cfg Config) string     { return filepath.Join(cfg.StateDir, "vm-logs") }
func machinesDir(cfg Config) string { return filepath.Join(cfg.RunDir, "vm") }        // what QEMU reaches
func recordsDir(cfg Config) string  { return filepath.Join(cfg.RunDir, "vm-guests") } // what it doesn't

func (d *Driver) machineDir(id string) string { return filepath.Join(machinesDir(d.cfg), id) }
func (d *Driver) logDir(id string) string     { return filepath.Join(logsDir(d.cfg), id) }

// Name implements hypervisor.Driver.
func (d *Driver) Name() string { return "libvirt" }

// Check implements hypervisor.Driver.
func (d *Driver) Check(ctx context.Context) (string, error) {
	if _, err := DaemonArgv(d.cfg, "libvirtd"); err != nil {
		return "", err
	}
	version, err := d.conn.version(ctx)
	if err != nil {
		return "", err
	}
	if err := d.ensureHost(ctx); err != nil {
		return "", err
	}
	d.mu.Lock()
	v := d.virt
	d.mu.Unlock()
	return fmt.Sprintf("%s, %s (%s)", version, v.mode, v.why), nil
}

// ensureHost brings up what all machines share, and puts right what has changed.
func (d *Driver) ensureHost(ctx context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.net.Up(ctx); err != nil { // somebody else may have changed it since
		return fmt.Errorf("the guests' network is not right: %w", err)
	}
	if d.ready {
		return nil
	}
	owner, err := lookupUser(qemuUser)
	if err != nil {
		return err
	}
	d.owner = owner
	if err := MakeFolders(d.cfg); err != nil {
		return err
	}
	d.virt = chooseVirt(ctx, d.cfg)
	d.log.Info("virtual machines", "mode", d.virt.mode, "why", d.virt.why)
	d.ready = true
	keep, cancel := context.WithCancel(context.WithoutCancel(ctx))
	d.stop = cancel
	d.closed.Go(func() { d.keepLogs(keep) })
	return nil
}

// MakeFolders opens the machines' folder for passing through: QEMU's own user
// reaches its sockets and disks there, and nothing else of the cloud's.
func MakeFolders(cfg Config) error {
	for dir, mode := range map[string]os.FileMode{
		imagesDir(cfg): 0o700, logsDir(cfg): 0o700, recordsDir(cfg): 0o700, machinesDir(cfg): 0o711,
	} {
		if err := os.MkdirAll(dir, mode); err != nil {
			return fmt.Errorf("make folder: %w", err)
		}
		if err := os.Chmod(dir, mode); err != nil {
			return fmt.Errorf("set mode of folder: %w", err)
		}
	}
	return nil
}

func lookupUser(name string) (ids, error) {
	u, err := user.Lookup(name)
	if err != nil {
		return ids{}, fmt.Errorf("find QEMU's user: %w: install libvirt-daemon-system", err)
	}
	uid, err := strconv.Atoi(u.Uid)
	if err != nil {
		return ids{}, fmt.Errorf("find QEMU's user: %w", err)
	}
	gid, err := strconv.Atoi(u.Gid)
	if g, gerr := user.LookupGroup(name); gerr == nil {
		gid, err = strconv.Atoi(g.Gid)
	}
	if err != nil {
		return ids{}, fmt.Errorf("find QEMU's group: %w", err)
	}
	found := ids{uid: uid, gid: gid}
	more, _ := u.GroupIds()
	for _, id := range more {
		if n, err := strconv.ParseUint(id, 10, 32); err == nil {
			found.more = append(found.more, uint32(n))
		}
	}
	return found, nil
}

// Close implements hypervisor.Driver.
func (d *Driver) Close() error {
	d.mu.Lock()
	stop := d.stop
	d.mu.Unlock()
	if stop != nil {
		stop()
	}
	d.closed.Wait()
	d.consoles.closeAll()
	d.net.Close()
	d.conn.close()
	return nil
}

// within bounds a call to the daemon, which may be stopped or hang.
const within = 20 * time.Second

// slowly is for what makes it start QEMU, at first to ask what it can do.
const slowly = 2 * time.Minute
