package containerd

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/tenon-cloud/tenon/internal/hypervisor"
	"github.com/tenon-cloud/tenon/internal/network"
)

func TestPurgeTakesOneCloudWhenNothingRunsAnyMore(t *testing.T) {
	t.Parallel()
	c, other := newCloud(t), newCloud(t)
	img := c.push(t, v1.Config{})
	other.registry = c.registry
	s := spec("inst_left", img, "sh", "-c", "trap '' TERM; sleep 1000 & sleep 1000")
	c.start(t, s)
	x := other.start(t, spec("inst_other", img, "sleep", "1000"))
	c.Close()
	c.killDaemon()
	cfg := c.cfg
	cfg.Network = nil // as a program that knows the folders and no more
	for range 2 {
		if err := Purge(context.Background(), cfg); err != nil {
			t.Fatal(err)
		}
	}
	if left := processes("/" + Namespace(c.id)); len(left) > 0 {
		t.Errorf("processes left: %v", left)
	}
	for _, dir := range []string{c.state, c.run} {
		if left, err := mountsBelow(dir); err != nil || len(left) > 0 {
			t.Errorf("mounts left: %v, %v", left, err)
		}
	}
	for what, command := range map[string]string{
		"shims": "ps -eo args", "loop devices": "losetup -a", "tables": "nft list tables", "links": "ip -o link", "control groups": "ls /sys/fs/cgroup /sys/fs/cgroup/*",
	} {
		out, err := exec.Command("sh", "-c", command).CombinedOutput()
		if err != nil && what != "control groups" {
			t.Fatalf("%s: %v: %s", command, err, out)
		}
		for line := range strings.Lines(string(out)) {
			if strings.Contains(line, c.id) {
				t.Errorf("%s left: %s", what, line)
			}
		}
	}
	if g, err := other.find(context.Background(), x.ID); err != nil || g.State != hypervisor.Running || g.PID != x.PID {
		t.Errorf("the other cloud's guest: %+v, %v", g, err)
	}
}

// TestKillsDuringManyCreatesAndDeletes kills the daemon again and again while
// guests come and go, as an agent retries them; in the end nothing is left over
// and nothing is lost.
func TestKillsDuringManyCreatesAndDeletes(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: the kills take a while")
	}
	c := newCloud(t)
	img := c.push(t, v1.Config{})
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	again := func(what string, step func() error) {
		var err error
		var last string
		for ctx.Err() == nil {
			if err = step(); err == nil {
				return
			}
			select { // an agent's back-off
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
			if text := err.Error(); text != last {
				last = text
				t.Logf("%s: %v", what, err)
			}
		}
		t.Errorf("%s never succeeded: %v", what, err)
	}
	var work sync.WaitGroup
	for w := range 4 {
		work.Go(func() {
			for i := range 8 {
				s := spec(fmt.Sprintf("inst_%d_%d", w, i), img, "sleep", "1000")
				again("start of "+s.ID, func() error {
					g, err := c.Driver.Start(ctx, s)
					if err == nil && g.State != hypervisor.Running {
						return c.Remove(ctx, s.ID, false) // it ended with a kill: made anew
					}
					return err
				})
				if i%4 != 3 {
					again("removal of "+s.ID, func() error { return c.Remove(ctx, s.ID, false) })
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { work.Wait(); close(done) }()
	kills := 0
	for running := true; running; {
		if kills == 12 {
			<-done
			break
		}
		select {
		case <-done:
			running = false
		case <-time.After(time.Duration(500+rand.IntN(1000)) * time.Millisecond):
			c.killDaemon()
			c.startDaemon(t)
			kills++
		}
	}
	t.Logf("%d kills", kills)
	guests, err := c.List(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range guests {
		if !strings.HasSuffix(g.ID, "_3") && !strings.HasSuffix(g.ID, "_7") {
			t.Errorf("left over: %+v", g)
		}
		if err := c.Remove(ctx, g.ID, false); err != nil {
			t.Errorf("remove %s: %v", g.ID, err)
		}
		c.assertNothingLeft(t, g.ID)
	}
	if left := processes("/" + Namespace(c.id)); len(left) > 0 {
		t.Errorf("processes left: %v", left)
	}
	if out, _ := exec.Command("sh", "-c", "ip -o link show master "+network.BridgeName(c.id)).CombinedOutput(); len(out) > 0 {
		t.Errorf("ports left: %s", out)
	}
}
