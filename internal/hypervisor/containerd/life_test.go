package containerd

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/tenon-cloud/tenon/internal/device"
	"github.com/tenon-cloud/tenon/internal/hypervisor"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

// trapped is a program that ends by itself when it is asked to.
const trapped = "trap 'exit 7' TERM; while :; do sleep 0.05; done"

func TestGuestLife(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	ctx := context.Background()
	img := c.push(t, v1.Config{Env: []string{"FROM_IMAGE=yes", "COLOUR=red"}, Cmd: []string{"sh", "-c", trapped}})
	s := spec("inst_life", img)
	s.Env = map[string]string{"COLOUR": "blue"}
	s.Devices = []nodewire.Device{{GPUUUID: "GPU-1", Mode: "mig", Profile: "1g", SlotStart: 3, SlotEnd: 4}}

	g := c.start(t, s)
	if g.State != hypervisor.Running || g.PID == 0 || g.Address == "" || g.Epoch != 1 || g.StartedAt.IsZero() {
		t.Fatalf("guest after start: %+v", g)
	}
	if diff := cmp.Diff(s.Devices, g.Devices); diff != "" {
		t.Errorf("devices of the guest: %s", diff)
	}
	again, err := c.Driver.Start(ctx, s)
	if err != nil || again.PID != g.PID {
		t.Errorf("a second start made another process: %+v, %v", again, err)
	}

	// What the guest sees of itself, and nothing of the host.
	out, _ := c.sh(t, s.ID, "env")
	want := "COLOUR=blue FROM_IMAGE=yes HOME=/root HOSTNAME=web-1 PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin PWD=/ SHLVL=1"
	if got := sortedWords(out); got != want {
		t.Errorf("environment inside:\n got %s\nwant %s", got, want)
	}
	out, _ = c.sh(t, s.ID, "hostname; cat /etc/hosts; cat /proc/1/status | grep -E '^(CapEff|NoNewPrivs|Seccomp):'; cat /proc/mounts")
	for _, part := range []string{"web-1\n", g.Address + "\tweb-1", "CapEff:\t00000000a80425fb", "NoNewPrivs:\t1", "Seccomp:\t2"} {
		if !strings.Contains(out, part) {
			t.Errorf("missing inside: %q in\n%s", part, out)
		}
	}
	if strings.Contains(out, c.state) || strings.Contains(out, c.run) {
		t.Errorf("host paths are visible inside:\n%s", out)
	}

	stopped, err := c.Stop(ctx, s.ID, 10*time.Second)
	if err != nil || stopped.State != hypervisor.Exited || stopped.ExitCode != 7 || stopped.ExitedAt.IsZero() {
		t.Fatalf("guest after stop: %+v, %v", stopped, err)
	}
	if again, err := c.Driver.Start(ctx, s); err != nil || again.State != hypervisor.Exited {
		t.Errorf("an ended guest was started again: %+v, %v", again, err)
	}
	for range 2 {
		if err := c.Remove(ctx, s.ID, false); err != nil {
			t.Fatalf("remove: %v", err)
		}
	}
	c.assertNothingLeft(t, s.ID)
	if _, err := c.Stop(ctx, s.ID, 0); err != nil {
		t.Errorf("stop of an absent guest: %v", err)
	}
}

func sortedWords(text string) string {
	words := strings.Fields(text)
	for i := range words {
		for j := i; j > 0 && words[j] < words[j-1]; j-- {
			words[j], words[j-1] = words[j-1], words[j]
		}
	}
	return strings.Join(words, " ")
}

// assertNothingLeft looks for each part that a guest can hold.
func (c *cloudUnderTest) assertNothingLeft(t *testing.T, id string) {
	t.Helper()
	guests, err := c.List(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range guests {
		if g.ID == id {
			t.Errorf("the guest is still listed: %+v", g)
		}
	}
	if left := processes(c.cgroupPath(id)); len(left) > 0 {
		t.Errorf("processes left: %v", left)
	}
	for _, path := range []string{
		c.rootfsPath(id), c.disks.path(id), c.guestDir(id), c.logDir(id),
		cgroupRoot + "/pids" + c.cgroupPath(id), cgroupRoot + c.cgroupPath(id),
	} {
		if _, err := os.Stat(path); err == nil {
			t.Errorf("left: %s", path)
		}
	}
	if left := c.net.Attached(); contains(left, id) {
		t.Errorf("its network is left")
	}
}

func contains(list []string, want string) bool {
	for _, v := range list {
		if v == want {
			return true
		}
	}
	return false
}

// awaitReady waits for a guest to say that it handles signals: until its program
// runs, a signal ends runc's own first process.
func (c *cloudUnderTest) awaitReady(t *testing.T, id string) {
	t.Helper()
	eventually(t, 10*time.Second, "the guest to be ready", func() bool {
		return strings.Contains(c.logs(t, id, hypervisor.LogOptions{}), "ready")
	})
}

func TestStopKillsAfterTheGrace(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	s := spec("inst_deaf", c.push(t, v1.Config{}), "sh", "-c", "trap '' TERM; echo ready; sleep 1000 & while :; do sleep 0.05; done")
	c.start(t, s)
	c.awaitReady(t, s.ID)
	begin := time.Now()
	g, err := c.Stop(context.Background(), s.ID, 300*time.Millisecond)
	if err != nil || g.ExitCode != 137 {
		t.Fatalf("guest after stop: %+v, %v, wrote %q", g, err, c.logs(t, s.ID, hypervisor.LogOptions{}))
	}
	if took := time.Since(begin); took < 300*time.Millisecond { // it sleeps a thousand seconds if nobody kills it
		t.Errorf("killed after %s, before its grace was over", took)
	}
	if left := processes(c.cgroupPath(s.ID)); len(left) > 0 {
		t.Errorf("processes left: %v", left)
	}
}

func TestStopUsesTheImagesSignal(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	s := spec("inst_signal", c.push(t, v1.Config{StopSignal: "SIGQUIT"}), "sh", "-c", "trap 'exit 9' QUIT; echo ready; while :; do sleep 0.05; done")
	c.start(t, s)
	c.awaitReady(t, s.ID)
	if g, err := c.Stop(context.Background(), s.ID, 10*time.Second); err != nil || g.ExitCode != 9 {
		t.Errorf("guest after stop: %+v, %v", g, err)
	}
}

func TestStartFailureSaysWhy(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	s := spec("inst_bad", c.push(t, v1.Config{}), "/no/such/program")
	if err := c.Prepare(context.Background(), s, nil); err != nil {
		t.Fatal(err)
	}
	_, err := c.Driver.Start(context.Background(), s)
	f := failureOf(t, err)
	if f.Reason != nodewire.ReasonStart || !f.Final || !strings.Contains(f.Message, "/no/such/program") || strings.Contains(f.Message, c.run) {
		t.Errorf("failure: %+v", f)
	}
	s = spec("inst_empty", c.push(t, v1.Config{}))
	_, err = c.Driver.Start(context.Background(), s)
	if f := failureOf(t, err); f.Reason != nodewire.ReasonStart || !strings.Contains(f.Message, "no command") {
		t.Errorf("failure: %+v", f)
	}
	for _, id := range []string{"inst_bad", "inst_empty"} {
		if err := c.Remove(context.Background(), id, false); err != nil {
			t.Error(err)
		}
		c.assertNothingLeft(t, id)
	}
}

func TestANewEpochReplacesTheGuest(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	s := spec("inst_epoch", c.push(t, v1.Config{}), "sh", "-c", "touch /mark; sleep 1000")
	first := c.start(t, s)
	s.Epoch, s.Generation = 2, 5
	second := c.start(t, s)
	if second.Epoch != 2 || second.Generation != 5 || second.PID == first.PID || second.State != hypervisor.Running {
		t.Errorf("guest of the new epoch: %+v", second)
	}
	guests, err := c.List(context.Background())
	if err != nil || len(guests) != 1 {
		t.Errorf("guests: %+v, %v", guests, err)
	}
}

func TestImageUserKeepsItsRights(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	s := spec("inst_user", c.push(t, v1.Config{User: "app", WorkingDir: "/tmp"}), "sh", "-c", "id -u >/dev/stdout; pwd; sleep 1000")
	s.Grants = []device.Grant{{CDI: c.grant(t, "u", 40)}}
	c.start(t, s)
	eventually(t, 10*time.Second, "its output", func() bool { return c.logs(t, s.ID, hypervisor.LogOptions{}) == "1000\n/tmp\n" })
	out, _ := c.sh(t, s.ID, "id -u; (: </dev/tenon-gpu) && echo opens; touch /etc/x 2>/dev/null || echo refused; touch /tmp/x && echo writes")
	if out != "1000\nopens\nrefused\nwrites\n" {
		t.Errorf("as the image's user: %s", out)
	}
}

func TestAnUnknownDeviceIsNotStartedWithout(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	s := spec("inst_nodev", c.push(t, v1.Config{}), "sleep", "1000")
	s.Grants = []device.Grant{{CDI: "tenon.test/gpu=missing"}}
	_, err := c.Driver.Start(context.Background(), s)
	if f := failureOf(t, err); f.Reason != nodewire.ReasonDevice || !strings.Contains(f.Message, "missing") {
		t.Errorf("failure: %+v", f)
	}
	if g, err := c.find(context.Background(), s.ID); err != nil || g.State != hypervisor.Prepared {
		t.Errorf("guest afterwards: %+v, %v", g, err)
	}
}

func TestCheckTellsWhenTheDaemonIsAway(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	ctx := context.Background()
	eventually(t, 10*time.Second, "a first answer", func() bool { v, err := c.Check(ctx); return err == nil && v != "" })
	c.killDaemon()
	begin := time.Now()
	if v, err := c.Check(ctx); err == nil || time.Since(begin) > 5*time.Second {
		t.Errorf("a killed daemon of version %q answered after %s: %v", v, time.Since(begin), err)
	}
	c.startDaemon(t)
	eventually(t, 10*time.Second, "the new daemon", func() bool { _, err := c.Check(ctx); return err == nil })
}
