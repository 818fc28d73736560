package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/tenon-cloud/tenon/internal/agent"
	"github.com/tenon-cloud/tenon/internal/agent/watchdog"
	"github.com/tenon-cloud/tenon/internal/device"
	"github.com/tenon-cloud/tenon/internal/device/sim"
	"github.com/tenon-cloud/tenon/internal/hypervisor"
	"github.com/tenon-cloud/tenon/internal/hypervisor/containerd"
	"github.com/tenon-cloud/tenon/internal/hypervisor/libvirt"
	"github.com/tenon-cloud/tenon/internal/image"
	"github.com/tenon-cloud/tenon/internal/network"
	"github.com/tenon-cloud/tenon/internal/volume"
)

// collectAt is how far the heap of what is in use may grow before it is collected,
// in per cent: a node's memory is for its guests, and the agent's heap is so small
// that to collect it often costs next to nothing.
const collectAt = 50

// processorsAtMost bounds the threads that run Go at once: on a server of a
// hundred cores each would keep memory of its own.
const processorsAtMost = 4

func run(ctx context.Context, c config) error {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(collectAt)
	}
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(min(processorsAtMost, runtime.GOMAXPROCS(0)))
	}
	log, err := c.logger()
	if err != nil {
		return err
	}
	if !strings.HasPrefix(c.doorURL, "https://") {
		return errors.New("the node door's address is needed: -door https://HOST:PORT")
	}
	unlock, err := lockState(c.stateDir)
	if err != nil {
		return err
	}
	defer unlock()
	host, err := agent.ReadHost(c.reserveVCPU, c.reserveMiB)
	if err != nil {
		return err
	}
	id, err := enrol(ctx, c, host, log)
	if err != nil {
		return err
	}
	if c.cloudID != "" && c.cloudID != id.CloudID {
		return fmt.Errorf("this node belongs to cloud %s, not %s: give it a state folder of its own for another cloud", id.CloudID, c.cloudID)
	}
	c.cloudID = id.CloudID
	log = log.With("node", id.NodeID)
	door, err := agent.NewDoor(id, c.doorURL, c.name, c.stateDir, log)
	if err != nil {
		return err
	}
	board, err := openBoard(ctx, c, host.BootID, log)
	if err != nil {
		return err
	}
	pool := diskPool(c)
	net, err := openNetwork(c, log)
	if err != nil {
		return err
	}
	driver, err := openContainerd(c, door, pool, net, log)
	if err != nil {
		return err
	}
	defer func() { _ = driver.Close() }()
	machines, err := openLibvirt(c, door, net, log)
	if err != nil {
		return err
	}
	defer func() { _ = machines.Close() }()
	dog, err := watchdog.NewKeeper(watchdogDir(c), host.BootID, watchdog.SinceBoot)
	if err != nil {
		return err
	}
	a, err := agent.New(agent.Config{
		NodeID: id.NodeID, CloudID: id.CloudID, Version: version, Log: log, Host: host, Door: door,
		Drivers: []hypervisor.Driver{driver, machines}, Board: board,
		Store:   agent.FileStore(filepath.Join(c.stateDir, "ledger.json")),
		Volumes: volume.NewStore(pool), Watchdog: dog, Labels: c.labels, Leaving: hostLeaves,
	})
	if err != nil {
		return err
	}
	log.Info("agent starts", "version", version, "cloud", id.CloudID, "door", c.doorURL, "board", c.board,
		"vcpu", host.VCPU, "memory_mib", host.MemoryMiB, "reserved_memory_mib", c.reserveMiB)
	return a.Run(ctx)
}

func enrol(ctx context.Context, c config, host agent.Host, log *slog.Logger) (*agent.Identity, error) {
	e := agent.Enrolment{StateDir: c.stateDir, DoorURL: c.doorURL, Name: c.name, CAFingerprint: c.caFingerprint, Host: host, Log: log}
	if c.joinTokenFile != "" {
		raw, err := os.ReadFile(c.joinTokenFile)
		if err != nil && !errors.Is(err, os.ErrNotExist) { // it may have been removed after its use
			return nil, fmt.Errorf("read join token: %w", err)
		}
		e.JoinToken = strings.TrimSpace(string(raw))
	}
	if c.caFile != "" {
		var err error
		if e.CA, err = os.ReadFile(c.caFile); err != nil {
			return nil, fmt.Errorf("read CA: %w", err)
		}
	}
	return agent.Enrol(ctx, e)
}

// What takes a while on hardware takes one on simulated cards.
const (
	simChange = 2 * time.Second
	simClean  = time.Second
)

// openBoard finds the GPUs where the configuration says that they are.
func openBoard(ctx context.Context, c config, bootID string, log *slog.Logger) (device.Board, error) {
	source, name, _ := strings.Cut(c.board, ":")
	switch source {
	case "none":
		return nil, nil //nolint:nilnil // a node without GPUs
	case "host":
		b, err := openHostBoard(c, bootID, log)
		if err != nil {
			return nil, err
		}
		go b.Watch(ctx)
		return b, nil
	case "sim":
		return sim.Open(sim.Config{
			Board: name, Modes: c.gpuModes, CloudID: c.cloudID, Log: log,
			StateDir: filepath.Join(c.stateDir, "sim"), CDIDir: cdiDir(c), Change: simChange, Clean: simClean,
		})
	}
	return nil, fmt.Errorf("no board %q: there are none, host and sim:NAME", c.board)
}

func cdiDir(c config) string { return filepath.Join(c.runDir, "cdi") }

// diskPool holds the writable layers of containers and all volumes.
func diskPool(c config) *volume.Pool {
	return volume.NewPool(containerd.PoolDir(c.engineDir), c.poolMiB)
}

// openNetwork is the one bridge that containers and VMs share.
func openNetwork(c config, log *slog.Logger) (*network.Network, error) {
	return network.New(network.Config{
		CloudID: c.cloudID, Logger: log,
		StateDir: filepath.Join(c.engineDir, "network"), RunDir: filepath.Join(c.runDir, "network"),
	})
}

func openContainerd(c config, door *agent.RemoteDoor, pool *volume.Pool, net *network.Network, log *slog.Logger) (*containerd.Driver, error) {
	return containerd.New(containerd.Config{
		CloudID: c.cloudID, Socket: c.socket, StateDir: c.engineDir, RunDir: c.runDir, CDISpecDirs: []string{cdiDir(c)},
		Network: net, Pool: pool, Logger: log,
		Image: image.Config{
			Embedded: func() (image.Endpoint, error) { return image.Endpoint{URL: door.URL(), TLS: door.TLS()}, nil },
			Room:     func() int64 { return room(c.engineDir) },
		},
	})
}

// room is what may be filled below a folder; a gibibyte is left to the host.
func room(dir string) int64 {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return 0
	}
	return max(0, int64(st.Bavail)*st.Bsize-1<<30)
}

// purge needs neither door nor identity, only which cloud is meant.
func purge(ctx context.Context, c config) error {
	if c.cloudID == "" {
		return errors.New("purge which cloud? -cloud-id is needed")
	}
	unlock, err := lockState(c.stateDir)
	if err != nil {
		return err
	}
	defer unlock()
	net, err := openNetwork(c, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	// VMs first: their disks lie in the pool that is taken away with the containers.
	machines := libvirtConfig(c)
	machines.Network = net
	return errors.Join(
		libvirt.Purge(ctx, machines),
		containerd.Purge(ctx, containerd.Config{CloudID: c.cloudID, StateDir: c.engineDir, RunDir: c.runDir, Network: net}),
	)
}

// lockState keeps two agents off one state folder.
func lockState(dir string) (unlock func(), err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make state folder: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, "agent.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock state folder: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("lock state folder: another agent works in %s", dir)
	}
	return func() { _ = f.Close() }, nil
}
