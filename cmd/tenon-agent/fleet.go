package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tenon-cloud/tenon/internal/agent"
	"github.com/tenon-cloud/tenon/internal/agent/watchdog"
	"github.com/tenon-cloud/tenon/internal/device/sim"
	"github.com/tenon-cloud/tenon/internal/hypervisor"
	"github.com/tenon-cloud/tenon/internal/hypervisor/fake"
)

// How a fleet works: a thousand agents share one process, and what they watch
// changes only by their own hands.
const (
	fleetResync    = 30 * time.Second
	fleetSample    = 15 * time.Second
	fleetEnrolling = 16 // at once
	fleetSpread    = 5 * time.Second
)

// fleet runs simulated nodes: real agents, over simulated cards and guests.
type fleet struct {
	cfg    fleetConfig
	ca     []byte
	tokens map[string]string
	log    *slog.Logger

	enrolling chan struct{}
	enrolled  atomic.Int64
}

func runFleet(ctx context.Context, c fleetConfig) error {
	log, err := c.logger()
	if err != nil {
		return err
	}
	unlock, err := lockState(c.stateDir)
	if err != nil {
		return err
	}
	defer unlock()
	machines, err := sim.Fleet(c.nodes)
	if err != nil {
		return err
	}
	f := &fleet{cfg: c, log: log, enrolling: make(chan struct{}, fleetEnrolling)}
	if f.tokens, err = c.joinTokens(); err != nil {
		return err
	}
	if c.caFile != "" {
		if f.ca, err = os.ReadFile(c.caFile); err != nil {
			return fmt.Errorf("read CA: %w", err)
		}
	}
	// Many small heaps in one: memory matters more than the last percent of CPU.
	debug.SetGCPercent(50)
	log.Info("simulated fleet starts", "version", version, "nodes", len(machines), "door", c.doorURL)
	began := time.Now()
	var running sync.WaitGroup
	for i, m := range machines {
		running.Go(func() {
			// A fleet that starts at one moment would report at one moment for ever.
			if !pause(ctx, fleetSpread*time.Duration(i)/time.Duration(max(len(machines), 64))) {
				return
			}
			f.keep(ctx, i, m, func() {
				if f.enrolled.Add(1) == int64(len(machines)) {
					log.Info("all simulated nodes have enrolled", "nodes", len(machines), "seconds", time.Since(began).Seconds())
				}
			})
		})
	}
	running.Wait()
	return ctx.Err()
}

// keep runs one node until ctx ends, again after a failure.
func (f *fleet) keep(ctx context.Context, n int, m sim.Machine, enrolled func()) {
	once := sync.OnceFunc(enrolled)
	for wait := time.Second; ctx.Err() == nil; wait = min(2*wait, time.Minute) {
		err := f.node(ctx, n, m, once)
		if ctx.Err() != nil {
			return
		}
		f.log.Error("a simulated node can't run", "name", m.Name, "error", err, "retry_in", wait)
		if !pause(ctx, wait) {
			return
		}
	}
}

// node is one life of one simulated node.
func (f *fleet) node(ctx context.Context, n int, m sim.Machine, enrolled func()) error {
	dir := filepath.Join(f.cfg.stateDir, m.Name)
	log := f.log.With("name", m.Name)
	host := agent.Host{VCPU: m.VCPU, MemoryMiB: m.MemoryMiB, BootID: "simulated-" + m.Name}
	id, err := f.enrol(ctx, m.Name, dir, host, log)
	if err != nil {
		return err
	}
	enrolled()
	door, err := agent.NewDoor(id, f.cfg.doorURL, m.Name, dir, log)
	if err != nil {
		return err
	}
	if from := fleetSource(f.cfg.doorURL, n); from != nil {
		door.From(from)
	}
	board, err := sim.Open(sim.Config{
		Board: m.Board, Modes: m.Modes, CloudID: id.CloudID, Log: log, StateDir: filepath.Join(dir, "board"), Seed: f.cfg.seed + m.Name,
		Change: simChange, Clean: simClean,
	})
	if err != nil {
		return err
	}
	guests, err := fake.Open(fake.Options{StateFile: filepath.Join(dir, "guests.json"), Pace: &fake.Pace{Seed: f.cfg.seed + m.Name}})
	if err != nil {
		return err
	}
	defer func() { _ = guests.Close() }()
	volumes, err := openBookedVolumes(filepath.Join(dir, "volumes.json"))
	if err != nil {
		return err
	}
	a, err := agent.New(agent.Config{
		NodeID: id.NodeID, CloudID: id.CloudID, Version: version + " (simulated)", Log: log, Host: host, Door: door,
		Drivers: []hypervisor.Driver{guests}, Board: board, Store: agent.FileStore(filepath.Join(dir, "ledger.json")),
		Volumes: volumes, Labels: m.Labels, Watchdog: watchdog.Simulated{},
		Timing: agent.Timing{Resync: fleetResync, Sample: fleetSample},
	})
	if err != nil {
		return err
	}
	return a.Run(ctx)
}

func (f *fleet) enrol(ctx context.Context, name, dir string, host agent.Host, log *slog.Logger) (*agent.Identity, error) {
	select {
	case f.enrolling <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-f.enrolling }()
	return agent.Enrol(ctx, agent.Enrolment{
		StateDir: dir, DoorURL: f.cfg.doorURL, Name: name, JoinToken: f.tokens[name], CA: f.ca, Host: host, Log: log,
	})
}

func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// fleetSource gives each simulated node an address of its own on the loopback,
// where the door is there too: a network can then be cut for one node alone.
func fleetSource(door string, n int) net.IP {
	u, err := url.Parse(door)
	if err != nil {
		return nil
	}
	if ip := net.ParseIP(u.Hostname()); ip == nil || !ip.IsLoopback() || ip.To4() == nil {
		return nil
	}
	return net.IPv4(127, 1, byte(n/250), byte(n%250+1))
}
