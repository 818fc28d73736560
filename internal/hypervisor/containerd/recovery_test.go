package containerd

import (
	"context"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/tenon-cloud/tenon/internal/hypervisor"
)

func TestGuestsSurviveKilledDaemonAndAgent(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	img := c.push(t, v1.Config{})
	stays := spec("inst_stays", img, "sleep", "1000")
	ends := spec("inst_ends", img, "sh", "-c", "while [ ! -e /go ]; do sleep 0.05; done; exit 11")
	stays.Epoch, stays.Generation = 3, 9
	before := c.start(t, stays)
	c.start(t, ends)
	if err := c.Prepare(ctx, spec("inst_prepared", img, "sleep", "1"), nil); err != nil {
		t.Fatal(err)
	}
	changes := c.Changes(ctx)
	c.sh(t, stays.ID, "true")

	c.killDaemon()
	// It ends while neither the daemon nor an agent can see it.
	if err := touchInside(c.rootfsPath(ends.ID)); err != nil {
		t.Fatal(err)
	}
	eventually(t, 10*time.Second, "the guest to end", func() bool { return len(processes(c.cgroupPath(ends.ID))) == 0 })
	c.startDaemon(t)

	want := map[string]bool{stays.ID: true, ends.ID: true}
	deadline := time.After(20 * time.Second)
	for len(want) > 0 {
		select {
		case id := <-changes:
			delete(want, id)
		case <-deadline:
			t.Fatalf("not named after the daemon came back: %v", want)
		}
	}
	cancel()
	c.reopen(t)
	guests, err := c.List(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	byID := map[string]hypervisor.Guest{}
	for _, g := range guests {
		byID[g.ID] = g
	}
	if g := byID[stays.ID]; g.State != hypervisor.Running || g.PID != before.PID || g.Epoch != 3 || g.Generation != 9 || g.Address != before.Address {
		t.Errorf("the guest that stays: %+v, before %+v", g, before)
	}
	if g := byID[ends.ID]; g.State != hypervisor.Exited || g.ExitCode != 11 {
		t.Errorf("the guest that ended unseen: %+v", g)
	}
	if g := byID["inst_prepared"]; g.State != hypervisor.Prepared || g.Epoch != 1 {
		t.Errorf("the prepared guest: %+v", g)
	}
	if out, code := c.sh(t, stays.ID, "echo hello"); out != "hello\n" || code != 0 {
		t.Errorf("exec after recovery: %q, %d", out, code)
	}
	for id := range byID {
		if err := c.Remove(context.Background(), id, false); err != nil {
			t.Errorf("remove %s: %v", id, err)
		}
		c.assertNothingLeft(t, id)
	}
}

func TestChangesNameAnExit(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	changes := c.Changes(ctx)
	s := spec("inst_brief", c.push(t, v1.Config{}), "sh", "-c", "sleep 0.3")
	c.start(t, s)
	deadline := time.After(10 * time.Second)
	for {
		select {
		case id := <-changes:
			if g, err := c.find(ctx, id); err == nil && g.State == hypervisor.Exited {
				return
			}
		case <-deadline:
			t.Fatal("the exit was not named")
		}
	}
}

func TestLostShimIsAnExit(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	s := spec("inst_shim", c.push(t, v1.Config{}), "sleep", "1000")
	c.start(t, s)
	if err := killShims(context.Background(), c.id, s.ID); err != nil {
		t.Fatal(err)
	}
	eventually(t, 20*time.Second, "the guest to be found ended", func() bool {
		g, err := c.find(context.Background(), s.ID)
		return err == nil && g.State == hypervisor.Exited && g.ExitCode == exitUnknown
	})
	if err := c.Remove(context.Background(), s.ID, false); err != nil {
		t.Fatal(err)
	}
	c.assertNothingLeft(t, s.ID)
}
