package cloudtest

import (
	"cmp"
	"context"
	"path/filepath"
	"sync"
	"time"

	"github.com/tenon-cloud/tenon/api"
	"github.com/tenon-cloud/tenon/internal/agent"
	"github.com/tenon-cloud/tenon/internal/device/sim"
	"github.com/tenon-cloud/tenon/internal/hypervisor"
	"github.com/tenon-cloud/tenon/internal/hypervisor/fake"
	"github.com/tenon-cloud/tenon/internal/pgtest"
	"github.com/tenon-cloud/tenon/internal/volume"
)

// node enrols an agent with simulated cards and guests, and waits until its
// cards can be placed on.
func (c *Cloud) node(ctx context.Context, running *sync.WaitGroup, o Options) {
	t := c.t
	t.Helper()
	join, err := c.Admin.JoinTokenCreate(ctx, api.JoinTokenCreate{Pool: "default"})
	if err != nil {
		t.Fatalf("cloudtest: join token: %v", err)
	}
	host := agent.Host{VCPU: 64, MemoryMiB: 512 << 10, BootID: "boot-1"}
	enrolling, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	id, err := agent.Enrol(enrolling, agent.Enrolment{
		StateDir: c.NodeDir, DoorURL: c.DoorURL, JoinToken: join.JoinToken, Name: "node-1", CA: []byte(c.Keys.CAPEM()), Host: host, Log: c.log,
	})
	if err != nil {
		t.Fatalf("cloudtest: %v", err)
	}
	c.NodeID = id.NodeID
	c.Guests = fake.New(o.Guests)
	cards := o.Cards
	if cards == nil {
		if c.Board, err = sim.Open(sim.Config{Board: cmp.Or(o.Board, "local"), Change: o.Change, CloudID: CloudID, StateDir: c.NodeDir, Log: c.log}); err != nil {
			t.Fatalf("cloudtest: %v", err)
		}
		cards = c.Board
	}
	driver := o.Driver
	if driver == nil {
		driver = c.Guests
	}
	kept := volume.NewMemory()
	c.boot = func(boot string) {
		t.Helper()
		door, err := agent.NewDoor(id, c.DoorURL, "node-1", c.NodeDir, c.log)
		if err != nil {
			t.Fatalf("cloudtest: %v", err)
		}
		host.BootID = boot
		a, err := agent.New(agent.Config{
			NodeID: id.NodeID, CloudID: id.CloudID, Version: "test", Drivers: []hypervisor.Driver{driver}, Board: cards, Door: door,
			Store: agent.FileStore(filepath.Join(c.NodeDir, "ledger.json")), Volumes: kept, Host: host, Log: c.log,
			Timing: agent.Timing{Probe: 300 * time.Millisecond, Report: 500 * time.Millisecond, Sample: 100 * time.Millisecond, Activity: 200 * time.Millisecond, GiveUp: 5 * time.Second},
		})
		if err != nil {
			t.Fatalf("cloudtest: %v", err)
		}
		on, off := context.WithCancel(ctx)
		ended := make(chan struct{})
		running.Go(func() {
			defer close(ended)
			_ = a.Run(on)
		})
		c.halt = func() { off(); <-ended }
	}
	c.boot("boot-1")
	pgtest.Eventually(t, "the node is ready and its cards are known", func() bool {
		n, err := c.Admin.NodeGet(ctx, id.NodeID)
		return err == nil && n.State == "ready" && len(n.GPUs) > 0
	})
}

// RestartAgent ends the node's agent wherever it is, and starts another.
func (c *Cloud) RestartAgent() {
	c.t.Helper()
	c.halt()
	c.boot("boot-1")
}

// Reboot boots the node again: its agent ends, no guest of it is left, and after a
// while another agent finds what is on disk.
func (c *Cloud) Reboot(boot string, off func()) {
	c.t.Helper()
	c.halt()
	list, err := c.Guests.List(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	for _, g := range list {
		c.Guests.Exit(g.ID, 255)
	}
	off()
	c.boot(boot)
}
