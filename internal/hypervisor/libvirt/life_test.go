package libvirt

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/tenon-cloud/tenon/internal/device"
	"github.com/tenon-cloud/tenon/internal/hypervisor"
	"github.com/tenon-cloud/tenon/internal/hypervisor/hvtest"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

// tinyDisk boots a guest of 512 bytes: it says a line, echoes what it is told,
// and switches itself off at a "q".
func tinyDisk(t *testing.T) string {
	t.Helper()
	boot, err := os.ReadFile(filepath.Join("testdata", "guest.bin"))
	if err != nil {
		t.Fatal(err)
	}
	raw, disk := filepath.Join(t.TempDir(), "guest.raw"), filepath.Join(t.TempDir(), "guest.qcow2")
	if err := os.WriteFile(raw, append(boot, make([]byte, 1<<20-len(boot))...), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := tool(t.Context(), "qemu-img", "convert", "-q", "-f", "raw", "-O", "qcow2", raw, disk); err != nil {
		t.Fatal(err)
	}
	return disk
}

func (c *cloudUnderTest) tiny(t *testing.T, id string, img nodewire.Image) hypervisor.Spec {
	t.Helper()
	s := c.spec(t, id, img)
	s.MemoryMiB, s.DiskMiB = 64, 64
	return s
}

// expect reads a console until it has said a text.
func expect(t *testing.T, r io.Reader, text string) string {
	t.Helper()
	found := make(chan string, 1)
	go func() {
		var all strings.Builder
		buf := make([]byte, 1024)
		for {
			n, err := r.Read(buf)
			all.Write(buf[:n])
			if strings.Contains(all.String(), text) || err != nil {
				found <- all.String()
				return
			}
		}
	}()
	select {
	case got := <-found:
		if !strings.Contains(got, text) {
			t.Fatalf("the console ended with %q, without %q", got, text)
		}
		return got
	case <-time.After(60 * time.Second):
		t.Fatalf("the console has not said %q", text)
		return ""
	}
}

func (c *cloudUnderTest) join(t *testing.T, id string) io.ReadWriteCloser {
	t.Helper()
	port, err := c.Console(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = port.Close() })
	return port
}

func (c *cloudUnderTest) start(t *testing.T, s hypervisor.Spec) hypervisor.Guest {
	t.Helper()
	g, err := c.Start(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	if g.State != hypervisor.Running || g.Epoch != s.Epoch || g.PID == 0 || g.Address == "" || g.StartedAt.IsZero() {
		t.Fatalf("it was started and is %+v", g)
	}
	return g
}

// nothingLeft compares the host with what no machine holds.
func (c *cloudUnderTest) nothingLeft(t *testing.T, id string) {
	t.Helper()
	list, err := c.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range list {
		if g.ID == id {
			t.Errorf("it is still listed: %+v", g)
		}
	}
	if _, err := netlink.LinkByName(c.net.TapName(id)); err == nil {
		t.Error("its tap is left")
	}
	// Its address is kept with its disk, and only with it.
	_, err = os.Stat(filepath.Join(c.state, "volumes", "vol_"+id))
	kept := err == nil
	leases, _ := filepath.Glob(filepath.Join(c.state, "network", "leases", "*", "*"))
	for _, path := range leases {
		if raw, _ := os.ReadFile(path); strings.HasPrefix(string(raw), id) && !kept {
			t.Errorf("its address is left: %s", path)
		}
	}
	for _, path := range []string{c.machineDir(id), c.seedWork(id), c.recordPath(id)} {
		if _, err := os.Lstat(path); err == nil {
			t.Errorf("%s is left", path)
		}
	}
	if pid := c.pid(id); pid != 0 {
		t.Errorf("process %d is left", pid)
	}
}

func TestLifeOfAMachine(t *testing.T) {
	c := newCloud(t)
	img := c.pushDisk(t, tinyDisk(t))
	spec := c.tiny(t, "inst_a", img)
	spec.Devices = []nodewire.Device{{GPUUUID: "GPU-a", Mode: "whole", Profile: "whole", SlotEnd: 8}, {GPUUUID: "GPU-b", Mode: "whole", Profile: "whole", SlotEnd: 8}}
	spec.Grants = []device.Grant{{Emulated: true}, {Emulated: true}}
	g := c.start(t, spec)
	if again := c.start(t, spec); again.PID != g.PID {
		t.Errorf("a second start made another process: %d, then %d", g.PID, again.PID)
	}

	// Everything that it says is there for whoever joins, however late; any number may.
	one := c.join(t, "inst_a")
	expect(t, one, "I am a guest")
	if _, err := one.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	expect(t, one, "hello")
	two := c.join(t, "inst_a")
	if got := expect(t, two, "hello"); !strings.Contains(got, "I am a guest") {
		t.Errorf("the second reader missed the history: %q", got)
	}
	if _, err := two.Write([]byte("again")); err != nil {
		t.Fatal(err)
	}
	expect(t, one, "again")
	expect(t, two, "again")

	screen, err := c.Screen(t.Context(), "inst_a")
	if err != nil {
		t.Fatal(err)
	}
	defer screen.Close()
	greeting := make([]byte, 12)
	if _, err := io.ReadFull(screen, greeting); err != nil || !strings.HasPrefix(string(greeting), "RFB 003.00") {
		t.Errorf("the screen says %q (%v)", greeting, err)
	}
	stats, err := c.Stats(t.Context(), "inst_a")
	if err != nil || stats.CPUNanoseconds == 0 || stats.MemoryBytes == 0 || stats.DiskBytes == 0 {
		t.Errorf("counters %+v (%v)", stats, err)
	}
	if _, err := c.Exec(t.Context(), "inst_a", nodewire.ExecRequest{}, hypervisor.ExecIO{}); err == nil || !strings.Contains(err.Error(), "SSH") {
		t.Errorf("a command inside: %v", err)
	}

	// The guest switches itself off: that is seen, kept, and no failure (C21).
	if _, err := one.Write([]byte("q")); err != nil {
		t.Fatal(err)
	}
	off := c.waitState(t, "inst_a", hypervisor.Exited, 30*time.Second)
	if off.ExitCode != 0 || off.ExitedAt.IsZero() {
		t.Errorf("a guest that switched itself off is %+v", off)
	}
	if len(off.Devices) != 2 {
		t.Errorf("its cards are %v", off.Devices)
	}
	log, err := c.Logs(t.Context(), "inst_a", hypervisor.LogOptions{Tail: 100})
	if err != nil {
		t.Fatal(err)
	}
	text, _ := io.ReadAll(log)
	if !strings.Contains(string(text), "I am a guest") {
		t.Errorf("its log is %q", text)
	}
	if g, err := c.Start(t.Context(), spec); err != nil || g.State != hypervisor.Exited {
		t.Errorf("an epoch that ended runs again: %+v (%v)", g, err)
	}
	for range 2 {
		if err := c.Remove(t.Context(), "inst_a", false); err != nil {
			t.Fatal(err)
		}
	}
	c.nothingLeft(t, "inst_a")
	if _, err := os.Stat(filepath.Join(spec.Folders["vol_inst_a"], diskFile)); err != nil {
		t.Errorf("its disk went with it: %v", err)
	}

	// Grown and started anew, on the disk that it had.
	spec.Epoch, spec.DiskMiB = 2, 96
	c.start(t, spec)
	if q, err := readQCOW2(filepath.Join(spec.Folders["vol_inst_a"], diskFile), true); err != nil || q.virtualBytes != 96<<20 {
		t.Errorf("the disk has %d bytes (%v)", q.virtualBytes, err)
	}
	expect(t, c.join(t, "inst_a"), "I am a guest")
	began := time.Now()
	if g, err := c.Stop(t.Context(), "inst_a", 2*time.Second); err != nil || g.State != hypervisor.Exited || g.ExitCode != exitKilled {
		t.Errorf("a guest that heeds no button is %+v (%v)", g, err)
	}
	if took := time.Since(began); took < 2*time.Second || c.pid("inst_a") != 0 {
		t.Errorf("stopped after %s, process %d", took, c.pid("inst_a"))
	}
	if err := c.Remove(t.Context(), "inst_a", false); err != nil {
		t.Fatal(err)
	}
	c.nothingLeft(t, "inst_a")
}

func TestMachinesOutliveTheDaemon(t *testing.T) {
	c := newCloud(t)
	img := c.pushDisk(t, tinyDisk(t))
	a, b := c.tiny(t, "inst_a", img), c.tiny(t, "inst_b", img)
	var wg sync.WaitGroup
	for _, s := range []hypervisor.Spec{a, b} {
		wg.Go(func() {
			if _, err := c.Start(t.Context(), s); err != nil {
				t.Errorf("start %s: %v", s.ID, err)
			}
		})
	}
	wg.Wait()
	first := c.waitState(t, "inst_a", hypervisor.Running, time.Second)
	second := c.waitState(t, "inst_b", hypervisor.Running, time.Second)
	if first.Address == second.Address || first.PID == second.PID {
		t.Fatalf("two machines share: %+v and %+v", first, second)
	}
	expect(t, c.join(t, "inst_a"), "I am a guest")

	c.killDaemon(t, "libvirtd")
	if _, err := c.List(t.Context()); !errors.Is(err, errNoDaemon) {
		t.Errorf("without its daemon the driver says %v", err)
	}
	// One ends while nobody looks; the other lives on.
	if err := Kill(c.id, "inst_b", 10*time.Second); err != nil {
		t.Fatal(err)
	}
	c.startDaemon(t, "libvirtd")
	c.open(t) // the agent was restarted as well
	if g := c.waitState(t, "inst_a", hypervisor.Running, 20*time.Second); g.PID != first.PID || g.Epoch != 1 || g.Address != first.Address {
		t.Errorf("it was %+v and is %+v", first, g)
	}
	if g := c.waitState(t, "inst_b", hypervisor.Exited, 20*time.Second); g.ExitCode != exitKilled {
		t.Errorf("one that was killed is %+v", g)
	}
	if g, err := c.Start(t.Context(), a); err != nil || g.PID != first.PID {
		t.Errorf("a start of what runs: %+v (%v)", g, err)
	}
	port := c.join(t, "inst_a")
	if _, err := port.Write([]byte("still here")); err != nil {
		t.Fatal(err)
	}
	if got := expect(t, port, "still here"); !strings.Contains(got, "I am a guest") {
		t.Errorf("the history is lost: %q", got)
	}
	// Without the log's keeper a console still shows what comes.
	c.killDaemon(t, "virtlogd")
	if _, err := port.Write([]byte("unwritten")); err != nil {
		t.Fatal(err)
	}
	expect(t, port, "unwritten")
	_ = port.Close()
	c.startDaemon(t, "virtlogd")
	// Its pipe to the machine is gone for good: the driver keeps the log from here on.
	hvtest.Eventually(t, 10*time.Second, "the driver keeps the log", func() error {
		if !c.keeps("inst_a") {
			return errors.New("it does not")
		}
		return nil
	})
	if port = c.join(t, "inst_a"); !strings.Contains(expect(t, port, "still here"), "I am a guest") {
		t.Error("the history is lost")
	}
	if _, err := port.Write([]byte("kept by the driver")); err != nil {
		t.Fatal(err)
	}
	expect(t, port, "kept by the driver")
	_ = port.Close()
	if got := expect(t, c.join(t, "inst_a"), "kept by the driver"); strings.Count(got, "kept by the driver") != 1 {
		t.Errorf("what came after its keeper's end is not in the log once: %q", got)
	}

	// QEMU is killed under a daemon that lives: a failure, not a power-off.
	if err := Kill(c.id, "inst_a", 10*time.Second); err != nil {
		t.Fatal(err)
	}
	if g := c.waitState(t, "inst_a", hypervisor.Exited, 20*time.Second); g.ExitCode != exitKilled {
		t.Errorf("one that was killed is %+v", g)
	}
	for _, id := range []string{"inst_a", "inst_b"} {
		if err := c.Remove(t.Context(), id, false); err != nil {
			t.Fatal(err)
		}
		c.nothingLeft(t, id)
	}
}

// TestEveryStepMayBeTheLast cuts a machine's making and its removal off after each
// part, as kill -9 of the agent does, and goes on with a new driver (C15).
func TestEveryStepMayBeTheLast(t *testing.T) {
	c := newCloud(t)
	img := c.pushDisk(t, tinyDisk(t))
	spec := c.tiny(t, "inst_a", img)
	for name, part := range map[string]func() error{
		"network":  func() error { _, err := c.net.AttachVM(t.Context(), "inst_a", spec.Folders["vol_inst_a"]); return err },
		"prepared": func() error { return c.Prepare(t.Context(), spec, nil) },
		"bound": func() error {
			return errors.Join(c.Prepare(t.Context(), spec, nil), c.makeMachineDir(t.Context(), spec))
		},
		"defined": func() error {
			if err := errors.Join(c.Prepare(t.Context(), spec, nil), c.makeMachineDir(t.Context(), spec)); err != nil {
				return err
			}
			at, _ := c.net.LookupVM("inst_a")
			text, err := c.domain(spec, at, c.virt)
			if err != nil {
				return err
			}
			_, err = c.define(t.Context(), "inst_a", text)
			return err
		},
		"started, not written down": func() error {
			_, err := c.Start(t.Context(), spec)
			return errors.Join(err, c.writeRecord("inst_a", record{Epoch: spec.Epoch, Generation: spec.Generation}))
		},
	} {
		for _, finish := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, then finished: %v", name, finish), func(t *testing.T) {
				if err := part(); err != nil {
					t.Fatal(err)
				}
				before := c.pid("inst_a")
				c.open(t)
				if finish {
					g := c.start(t, spec)
					if before != 0 && g.PID != before {
						t.Errorf("it was started twice: %d and %d", before, g.PID)
					}
					// Removal, cut off after the process, then after the network.
					if err := c.unplug(t.Context(), "inst_a"); err != nil {
						t.Fatal(err)
					}
					c.open(t)
					if err := c.net.DetachVM(t.Context(), "inst_a"); err != nil {
						t.Fatal(err)
					}
					c.open(t)
				}
				c.waitListed(t, "inst_a")
				if err := c.Remove(t.Context(), "inst_a", false); err != nil {
					t.Fatal(err)
				}
				c.nothingLeft(t, "inst_a")
			})
		}
	}
}

// waitListed: whatever is left of a machine must be seen, or it is never removed.
func (c *cloudUnderTest) waitListed(t *testing.T, id string) {
	t.Helper()
	list, err := c.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range list {
		if g.ID == id {
			return
		}
	}
	t.Errorf("what is left of %s is not listed: %+v", id, list)
}

func TestImagesThatAreRefusedLeaveNothing(t *testing.T) {
	c := newCloud(t)
	dir := t.TempDir()
	secret := filepath.Join(dir, "secret")
	if err := os.WriteFile(secret, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	make := func(name string, argv ...string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := tool(t.Context(), append(append([]string{"qemu-img", "create", "-q"}, argv...), path, "32M")...); err != nil {
			t.Fatal(err)
		}
		return path
	}
	raw := filepath.Join(dir, "raw")
	if err := os.WriteFile(raw, bytes512(), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct{ path, says string }{
		"backing file":  {make("backed", "-f", "qcow2", "-b", secret, "-F", "raw"), "based on another file"},
		"data file":     {make("data", "-f", "qcow2", "-o", "data_file="+filepath.Join(dir, "elsewhere")), "lies in another file"},
		"vmdk":          {make("vmdk", "-f", "vmdk"), "not a qcow2"},
		"raw":           {raw, "not a qcow2"},
		"larger disk":   {emptyDisk(t, "1G"), "more than the flavor's"},
		"encrypted":     {make("aes", "-f", "qcow2", "--object", "secret,id=s,data=x", "-o", "encrypt.format=aes,encrypt.key-secret=s"), "encrypted"},
		"broken header": {brokenDisk(t, emptyDisk(t, "32M")), "refused"},
	} {
		spec := c.tiny(t, "inst_a", c.pushDisk(t, tc.path))
		_, err := c.Start(t.Context(), spec)
		var f *hypervisor.Failure
		if !errors.As(err, &f) || !f.Final || !strings.Contains(f.Message, tc.says) {
			t.Errorf("%s: %v, want a final refusal that says %q", name, err, tc.says)
		}
		if _, err := os.Stat(filepath.Join(spec.Folders["vol_inst_a"], diskFile)); err == nil {
			t.Errorf("%s: a disk was made of it", name)
		}
		c.nothingLeft(t, "inst_a")
	}
	kept, _ := os.ReadDir(imagesDir(c.cfg))
	for _, e := range kept {
		if strings.HasSuffix(e.Name(), ".part") {
			t.Errorf("%s is left", e.Name())
		}
	}
}

func bytes512() []byte { b := make([]byte, 1<<20); b[510], b[511] = 0x55, 0xaa; return b }

// brokenDisk names a table far beyond the file's end.
func brokenDisk(t *testing.T, path string) string {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte{0x7f, 0xff, 0xff, 0xff}, 36); err != nil { // the number of entries
		t.Fatal(err)
	}
	return path
}

func TestPortsAreTheMachinesOwn(t *testing.T) {
	c := newCloud(t)
	spec := c.tiny(t, "inst_a", c.pushDisk(t, tinyDisk(t)))
	c.start(t, spec) // and left running: the clean-up must end it
	host, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	port := host.Addr().(*net.TCPAddr).Port
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if conn, err := c.Dial(ctx, "inst_a", port); err == nil {
		conn.Close()
		t.Error("a port of the host answered for the machine's")
	}
	if _, err := c.Dial(t.Context(), "inst_b", 22); !errors.Is(err, hypervisor.ErrNoGuest) {
		t.Errorf("a machine that is not there: %v", err)
	}
}

func TestANodeWithoutLibvirtIsNoRiddle(t *testing.T) {
	t.Parallel()
	d := testDriver(t)
	d.cfg.RunDir, d.cfg.CloudID = t.TempDir(), "none0000"
	d.conn.socket = SocketPath(d.cfg.RunDir)
	if list, err := d.List(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("it lists %v (%v): a node's other guests would not be looked at", list, err)
	}
	if version, err := d.Check(t.Context()); err == nil {
		t.Errorf("it is usable: %s", version)
	}
	// A machine that was made here makes it a riddle.
	if err := os.MkdirAll(recordsDir(d.cfg), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := d.writeRecord("inst_a", record{Epoch: 1}); err != nil {
		t.Fatal(err)
	}
	if list, err := d.List(t.Context()); err == nil {
		t.Errorf("without an answer it lists %v", list)
	}
}
