package cloudtest_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tenon-cloud/tenon/api"
	"github.com/tenon-cloud/tenon/internal/agent"
	"github.com/tenon-cloud/tenon/internal/agent/watchdog"
	"github.com/tenon-cloud/tenon/internal/cloudtest"
	"github.com/tenon-cloud/tenon/internal/device/sim"
	"github.com/tenon-cloud/tenon/internal/hypervisor"
	"github.com/tenon-cloud/tenon/internal/hypervisor/fake"
	"github.com/tenon-cloud/tenon/internal/volume"
)

// wire is the only way between a node and the control plane; it can be cut.
type wire struct {
	to   string
	ln   net.Listener
	mu   sync.Mutex
	cut  bool
	ends map[net.Conn]bool
}

func newWire(t *testing.T, to string) *wire {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{to: strings.TrimPrefix(to, "https://"), ln: ln, ends: map[net.Conn]bool{}}
	go func() {
		for {
			near, err := ln.Accept()
			if err != nil {
				return
			}
			go w.join(near)
		}
	}()
	t.Cleanup(func() { _ = ln.Close(); w.set(true) })
	return w
}

func (w *wire) join(near net.Conn) {
	far, err := net.Dial("tcp", w.to)
	w.mu.Lock()
	if err != nil || w.cut {
		w.mu.Unlock()
		_ = near.Close()
		if far != nil {
			_ = far.Close()
		}
		return
	}
	w.ends[near], w.ends[far] = true, true
	w.mu.Unlock()
	both := func(a, b net.Conn) {
		_, _ = io.Copy(a, b)
		_ = a.Close()
		_ = b.Close()
	}
	go both(near, far)
	both(far, near)
	w.mu.Lock()
	delete(w.ends, near)
	delete(w.ends, far)
	w.mu.Unlock()
}

func (w *wire) set(cut bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut = cut
	if cut {
		for c := range w.ends {
			_ = c.Close()
		}
	}
}

// outpost is a node with an agent of its own behind a wire.
type outpost struct {
	name   string
	id     string
	wire   *wire
	guests *fake.Engine
}

// outposts is a cloud with two nodes and a clock that the test moves on.
type outposts struct {
	*cloudtest.Cloud
	t     *testing.T
	ahead atomic.Int64 // of the nodes' clocks
	nodes []*outpost
	twice atomic.Pointer[string]
}

// dog is a watchdog that is there: the agent itself is never stuck here.
type dog struct{}

func (dog) Renew([]watchdog.Guest) error { return nil }
func (dog) Acknowledged() bool           { return true }

func newOutposts(t *testing.T) *outposts {
	o := &outposts{Cloud: cloudtest.StartWith(t, cloudtest.Options{NoNode: true, Listened: time.Hour}), t: t}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	t.Cleanup(func() { cancel(); running.Wait() })
	for _, name := range []string{"node-a", "node-b"} {
		o.join(ctx, &running, name)
	}
	return o
}

func (o *outposts) join(ctx context.Context, running *sync.WaitGroup, name string) {
	t := o.t
	t.Helper()
	n := &outpost{name: name, wire: newWire(t, o.DoorURL)}
	n.guests = fake.New(fake.Options{Hook: func(_ context.Context, step, id string) error {
		if step == "start" {
			o.elsewhere(n, id)
		}
		return nil
	}})
	join, err := o.Admin.JoinTokenCreate(ctx, api.JoinTokenCreate{Pool: "default"})
	if err != nil {
		t.Fatal(err)
	}
	dir, door := t.TempDir(), "https://"+n.wire.ln.Addr().String()
	host := agent.Host{VCPU: 64, MemoryMiB: 512 << 10, BootID: "boot-" + name}
	id, err := agent.Enrol(ctx, agent.Enrolment{StateDir: dir, DoorURL: door, JoinToken: join.JoinToken, Name: name, CA: []byte(o.Keys.CAPEM()), Host: host})
	if err != nil {
		t.Fatal(err)
	}
	n.id = id.NodeID
	at, err := agent.NewDoor(id, door, name, dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	board, err := sim.Open(sim.Config{Board: "local", CloudID: cloudtest.CloudID, StateDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	a, err := agent.New(agent.Config{
		NodeID: id.NodeID, CloudID: id.CloudID, Version: "test", Drivers: []hypervisor.Driver{n.guests}, Board: board, Door: at,
		Store: agent.FileStore(filepath.Join(dir, "ledger.json")), Volumes: volume.NewMemory(), Host: host, Watchdog: dog{},
		Clock:  func() time.Duration { return watchdog.SinceBoot() + time.Duration(o.ahead.Load()) },
		Timing: agent.Timing{Report: 300 * time.Millisecond, Sample: time.Second, MaxBackoff: 300 * time.Millisecond, Resync: time.Second},
	})
	if err != nil {
		t.Fatal(err)
	}
	running.Go(func() { _ = a.Run(ctx) })
	o.nodes = append(o.nodes, n)
	eventually(t, name+" is ready", func() bool {
		got, err := o.Admin.NodeGet(ctx, n.id)
		return err == nil && got.State == "ready" && len(got.GPUs) > 0 && got.Watchdog
	})
}

// elsewhere notes when a guest is started while another node runs it.
func (o *outposts) elsewhere(starting *outpost, id string) {
	for _, n := range o.nodes {
		if n != starting && n.runs(id) {
			what := fmt.Sprintf("%s is started on %s while it runs on %s", id, starting.name, n.name)
			o.twice.CompareAndSwap(nil, &what)
		}
	}
}

func (n *outpost) runs(id string) bool {
	list, _ := n.guests.List(context.Background())
	for _, g := range list {
		if g.ID == id && g.State == hypervisor.Running {
			return true
		}
	}
	return false
}

// pass moves everybody's clock on: the nodes', and the database's idea of when it
// last heard of each.
func (o *outposts) pass(d time.Duration) {
	o.t.Helper()
	o.ahead.Add(int64(d))
	if _, err := o.DB.Owner.Exec(o.t.Context(), `UPDATE node SET last_seen_at = last_seen_at - $1::interval, tried_at = tried_at - $1::interval`, d); err != nil {
		o.t.Fatal(err)
	}
	// What took effect by then must be so before more time passes.
	eventually(o.t, "who is connected reports", func() bool {
		for _, n := range o.nodes {
			n.wire.mu.Lock()
			cut := n.wire.cut
			n.wire.mu.Unlock()
			got, err := o.Admin.NodeGet(o.t.Context(), n.id)
			if err != nil || !cut && (got.LastSeenAt == nil || time.Since(*got.LastSeenAt) > 10*time.Second) {
				return false
			}
		}
		return true
	})
}

func (o *outposts) where(ctx context.Context, tenant *cloudtest.Tenant, id string) (here, other *outpost, i *api.Instance) {
	o.t.Helper()
	i, err := tenant.InstanceGet(ctx, "default", id)
	if err != nil {
		o.t.Fatal(err)
	}
	var node string // a tenant is not told
	if err := o.DB.Owner.QueryRow(ctx, `SELECT COALESCE(max(n.name), '') FROM instance i JOIN node n ON n.id = i.node_id WHERE i.name = $1`, i.Name).Scan(&node); err != nil {
		o.t.Fatal(err)
	}
	for _, n := range o.nodes {
		if n.name == node {
			here = n
		} else {
			other = n
		}
	}
	return here, other, i
}

// TestCutOffNodesNeverRunWhatRunsElsewhere cuts the node of an instance off and
// joins it again at different moments: before its guests' time-out, between that
// and the fence, and after it.
func TestCutOffNodesNeverRunWhatRunsElsewhere(t *testing.T) {
	t.Parallel()
	o := newOutposts(t)
	ctx := within(t, 4*time.Minute)
	acme := o.Tenant("acme")
	i := o.Running(acme.Client, api.InstanceCreate{Name: "web-1", Image: image(t, o.Cloud), Flavor: slice(t, o.Cloud), OnNodeLoss: "restart"})
	r := rand.New(rand.NewPCG(1, 2))
	for round, cut := range []time.Duration{
		time.Duration(r.IntN(80)) * time.Second,
		time.Duration(95+r.IntN(35)) * time.Second,
		time.Duration(140+r.IntN(260)) * time.Second,
	} {
		here, other, before := o.where(ctx, acme, i.ID)
		if here == nil {
			t.Fatalf("round %d: it is nowhere: %+v", round, before)
		}
		here.wire.set(true)
		eventually(t, "the node has no connection", func() bool { return !o.Pool.Has(here.id) })
		for passed := time.Duration(0); passed < cut; passed += 30 * time.Second {
			o.pass(min(30*time.Second, cut-passed))
		}
		if cut > 90*time.Second {
			eventually(t, "the node ends it by itself", func() bool { return !here.runs(i.ID) })
		} else if !here.runs(i.ID) {
			t.Errorf("round %d: it was ended after %s", round, cut)
		}
		t.Logf("round %d: cut off for %s", round, cut)
		here.wire.set(false)
		eventually(t, "it runs, once", func() bool {
			now, err := acme.InstanceGet(ctx, "default", i.ID)
			return err == nil && now.State == api.StateRunning && now.Reason == "" && here.runs(i.ID) != other.runs(i.ID)
		})
		eventually(t, "both nodes are ready and hold nothing for nobody", func() bool {
			var fenced int
			if err := o.DB.Owner.QueryRow(ctx, `SELECT count(*) FROM gpu_claim WHERE fenced`).Scan(&fenced); err != nil {
				t.Fatal(err)
			}
			for _, n := range o.nodes {
				got, err := o.Admin.NodeGet(ctx, n.id)
				if err != nil || got.State != "ready" || got.FencedAt != nil {
					return false
				}
			}
			return fenced == 0
		})
		if what := o.twice.Load(); what != nil {
			t.Fatal(*what)
		}
	}
}
