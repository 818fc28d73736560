// Package containerd makes containers through a private containerd and runc.
//
// A guest is made of parts that are each found again after a crash: a user and a
// network namespace (package network), a size-limited writable layer (disk.go),
// a root file system of the image's layers under that (rootfs.go), a containerd
// container whose labels say whose it is, and a task. Nothing is kept only in
// memory, and nothing but this cloud's own folders, cgroup and containerd
// namespace is touched.
//
//	Prepare            Start                       Stop            Remove
//	image, disk,  ───► container, task running ──► task exited ──► nothing
//	network, rootfs                 └── exits by itself ──┘
//
// It imports the node packages image and network, and no control-plane package.
package containerd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/containerd/containerd/v2/client"

	"github.com/tenon-cloud/tenon/internal/hypervisor"
	"github.com/tenon-cloud/tenon/internal/image"
	"github.com/tenon-cloud/tenon/internal/network"
	"github.com/tenon-cloud/tenon/internal/volume"
)

// Config says where a cloud keeps its containers.
type Config struct {
	CloudID     string
	Socket      string // of the private daemon; default: SocketPath(RunDir)
	StateDir    string // survives a reboot: images, disks, logs
	RunDir      string // does not: sockets, namespaces, mounts
	CDISpecDirs []string
	SysDir      string // the host's /sys; default: that
	Image       image.Config
	Network     *network.Network
	LogCommand  []string     // program and first argument that run LogWriter; default: this program, "log-writer"
	Pool        *volume.Pool // the node's disk pool; default: one of its own at PoolDir
	PoolMiB     int64        // size of that one; 0: as volume.NewPool says
	Logger      *slog.Logger
}

// Driver implements hypervisor.Driver.
type Driver struct {
	cfg    Config
	client *client.Client
	images *image.Puller
	net    *network.Network
	disks  *disks
	ranges *idRanges
	log    *slog.Logger

	mu    sync.Mutex
	ready bool // this host's parts (network, disk pool, device folder) are up

	counters sync.Map // *counters by id
}

var (
	_ hypervisor.Driver = (*Driver)(nil)
	_ hypervisor.Dialer = (*Driver)(nil)
)

// Namespace is a cloud's namespace in containerd.
func Namespace(cloudID string) string { return "tenon-" + cloudID }

// New makes a driver; the daemon need not run yet.
func New(cfg Config) (*Driver, error) {
	if cfg.CloudID == "" || cfg.StateDir == "" || cfg.RunDir == "" || cfg.Network == nil {
		return nil, errors.New("the containerd driver needs a cloud id, a state and a run folder, and a network")
	}
	if cfg.Socket == "" {
		cfg.Socket = SocketPath(cfg.RunDir)
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if cfg.SysDir == "" {
		cfg.SysDir = "/sys"
	}
	if len(cfg.LogCommand) == 0 {
		self, err := os.Executable()
		if err != nil {
			return nil, fmt.Errorf("find own program: %w", err)
		}
		cfg.LogCommand = []string{self, LogWriterCommand}
	}
	if cfg.Image.Room == nil {
		cfg.Image.Room = func() int64 { return freeBytes(cfg.StateDir) }
	}
	if err := makeFolders(cfg); err != nil {
		return nil, err
	}
	c, err := client.New(cfg.Socket, client.WithDefaultNamespace(Namespace(cfg.CloudID)),
		client.WithDefaultRuntime(runtimeName), client.WithTimeout(reconnectDelay))
	if err != nil {
		return nil, fmt.Errorf("make containerd client: %w", err)
	}
	d := &Driver{
		cfg: cfg, client: c, net: cfg.Network, log: cfg.Logger,
		images: image.New(c, cfg.Image),
		disks:  newDisks(cfg),
		ranges: newIDRanges(cfg.CloudID, cfg.StateDir),
	}
	return d, nil
}

// reconnectDelay bounds how long a restarted daemon goes unnoticed.
const reconnectDelay = 2 * time.Second

// makeFolders also opens the run folder for passing through: a container's first
// process reaches its root file system as an unprivileged host user. What is bound
// into a container is opened by the host's root and stays closed.
func makeFolders(cfg Config) error {
	for dir, mode := range map[string]os.FileMode{
		cfg.StateDir: 0o700, logsDir(cfg): 0o700,
		cfg.RunDir: 0o711, rootfsDir(cfg): 0o711, viewsDir(cfg): 0o700, guestsDir(cfg): 0o700, devicesDir(cfg): 0o700,
	} {
		if err := os.MkdirAll(dir, mode); err != nil {
			return fmt.Errorf("make folder: %w", err)
		}
		if dir == cfg.StateDir {
			continue // its owner's business
		}
		if err := os.Chmod(dir, mode); err != nil {
			return fmt.Errorf("set mode of folder: %w", err)
		}
	}
	return nil
}

func logsDir(cfg Config) string    { return filepath.Join(cfg.StateDir, "logs") }
func guestsDir(cfg Config) string  { return filepath.Join(cfg.RunDir, "guests") }
func rootfsDir(cfg Config) string  { return filepath.Join(cfg.RunDir, "rootfs") }
func devicesDir(cfg Config) string { return filepath.Join(cfg.RunDir, "devices") }
func fifoDir(cfg Config) string    { return filepath.Join(cfg.RunDir, "fifo") }

// Name implements hypervisor.Driver.
func (d *Driver) Name() string { return "containerd" }

// Images gives the agent the node's image cache.
func (d *Driver) Images() *image.Puller { return d.images }

// Check implements hypervisor.Driver.
func (d *Driver) Check(ctx context.Context) (string, error) {
	v, err := d.client.Version(ctx)
	if err != nil {
		return "", fmt.Errorf("ask containerd's version: %w", err)
	}
	if err := d.ensureHost(ctx); err != nil {
		return "", err
	}
	return v.Version, nil
}

// ensureHost brings up what all guests share, and puts right what has changed.
func (d *Driver) ensureHost(ctx context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.net.Up(ctx); err != nil { // somebody else may have changed it since
		return fmt.Errorf("the guests' network is not right: %w", err)
	}
	if err := d.disks.open(ctx); err != nil { // it may have been closed to writing since
		return err
	}
	if d.ready {
		return nil
	}
	if err := mountDevices(devicesDir(d.cfg)); err != nil {
		return err
	}
	d.ready = true
	return nil
}

// Close implements hypervisor.Driver.
func (d *Driver) Close() error {
	d.net.Close()
	d.counters.Range(func(id, _ any) bool {
		d.dropCounters(id.(string))
		return true
	})
	return d.client.Close()
}

// runtimeName is the shim that both Debian's and newer daemons bring.
const runtimeName = "io.containerd.runc.v2"
