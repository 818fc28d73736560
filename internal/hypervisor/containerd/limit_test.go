package containerd

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sys/unix"

	"github.com/tenon-cloud/tenon/internal/device"
	"github.com/tenon-cloud/tenon/internal/hypervisor"
)

func failureOf(t *testing.T, err error) *hypervisor.Failure {
	t.Helper()
	var f *hypervisor.Failure
	if !errors.As(err, &f) {
		t.Fatalf("not a failure with a reason: %v", err)
	}
	return f
}

func TestLimitsHoldInATerminal(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	s := spec("inst_limits", c.push(t, v1.Config{}), "sleep", "1000")
	s.MemoryMiB, s.DiskMiB, s.PidsMax = 160, 64, 32
	c.start(t, s)

	if out, code := c.sh(t, s.ID, "tail -c 300000000 /dev/zero >/dev/null"); code != 137 {
		t.Errorf("300 MB in 160 MiB of memory: exit code %d, %s", code, out)
	}
	out, code := c.sh(t, s.ID, "dd if=/dev/zero of=/big bs=1M count=100")
	size, _ := c.sh(t, s.ID, "stat -c %s /big")
	wrote, _ := strconv.Atoi(strings.TrimSpace(size))
	if wrote == 0 || wrote > 64<<20 || code == 0 || !strings.Contains(out, "uota") {
		t.Errorf("100 MiB to a disk of 64: exit code %d, %d bytes, %s", code, wrote, out)
	}
	if out, _ := c.sh(t, s.ID, "df -m /dev/shm | tail -1"); !strings.Contains(out, " 80 ") {
		t.Errorf("/dev/shm is not half of the memory: %s", out)
	}
	for path, want := range map[string]string{
		"cpu/%s/cpu.cfs_quota_us": "100000", "memory/%s/memory.memsw.limit_in_bytes": "167772160", "pids/%s/pids.max": "32", // v1
		"%s/cpu.max": "100000 100000", "%s/memory.swap.max": "0", // v2
	} {
		raw, err := os.ReadFile(filepath.Join(cgroupRoot, strings.ReplaceAll(path, "%s", c.cgroupPath(s.ID))))
		if err == nil && strings.TrimSpace(string(raw)) != want {
			t.Errorf("%s is %s, not %s", path, raw, want)
		}
	}
	usage, err := c.Stats(context.Background(), s.ID)
	if err != nil || usage.CPUNanoseconds == 0 || usage.MemoryBytes == 0 || usage.Pids == 0 || usage.NetTxBytes < 0 {
		t.Errorf("counters: %+v, %v", usage, err)
	}
	eventually(t, 40*time.Second, "the disk's counter", func() bool {
		fd, err := unix.Open(c.disks.pool.Dir(), unix.O_RDONLY, 0)
		if err != nil {
			return false
		}
		defer unix.Close(fd)
		_ = unix.Syncfs(fd)
		usage, err := c.Stats(context.Background(), s.ID)
		return err == nil && usage.DiskBytes > 32<<20
	})
	if out, code := c.sh(t, s.ID, "for i in $(seq 1 60); do sleep 5 & done; echo all"); code == 0 || strings.Contains(out, "all") {
		t.Errorf("60 processes under a limit of 32: exit code %d, %s", code, out)
	}
	// The guest's own process lives under the same limits: it survived.
	if g, err := c.find(context.Background(), s.ID); err != nil || g.State != hypervisor.Running {
		t.Errorf("guest afterwards: %+v, %v", g, err)
	}
}

func TestOnlyGrantedDevicesOpen(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	image := c.push(t, v1.Config{})
	s := spec("inst_gpu", image, "sh", "-c", "while :; do if [ -e /try ]; then for n in $(cat /try); do if (: <$n); then echo $n opens; else echo $n refused; fi; done >/answer 2>/dev/null; rm /try; fi; sleep 0.05; done")
	s.Grants = []device.Grant{{CDI: c.grant(t, "a", 40)}}
	g := c.start(t, s)

	if out, _ := c.sh(t, s.ID, "ls -l /dev/tenon-gpu; echo $GPU"); !strings.Contains(out, "4,  40") || !strings.Contains(out, "\na\n") {
		t.Errorf("the granted device: %s", out)
	}
	if out, code := c.sh(t, s.ID, "mknod /own c 4 41"); code == 0 {
		t.Errorf("the guest made a device node: %s", out)
	}
	// Plant a foreign node behind the guest's back, in its root and, against the
	// device cgroup alone, on a file system that would let it open.
	root := c.rootfsPath(s.ID)
	if err := unix.Mknod(filepath.Join(root, "planted"), unix.S_IFCHR|0o666, int(unix.Mkdev(4, 41))); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(root, "planted"), 0o666); err != nil {
		t.Fatal(err)
	}
	foreign := filepath.Join(devicesDir(c.cfg), s.ID, "foreign")
	if err := unix.Mknod(foreign, unix.S_IFCHR|0o666, int(unix.Mkdev(4, 41))); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(foreign, 0o666); err != nil {
		t.Fatal(err)
	}
	c.sh(t, s.ID, "touch /dev/tenon-foreign")
	bindInto(t, g.PID, foreign, "/dev/tenon-foreign")

	const nodes = "/dev/tenon-gpu /planted /dev/tenon-foreign"
	want := "/dev/tenon-gpu opens\n/planted refused\n/dev/tenon-foreign refused\n"
	out, _ := c.sh(t, s.ID, "for n in "+nodes+"; do if (: <$n); then echo $n opens; else echo $n refused; fi; done 2>/dev/null")
	if out != want {
		t.Errorf("from a terminal:\n%s", out)
	}
	out, _ = c.sh(t, s.ID, "echo "+nodes+" >/try.new; mv /try.new /try; while [ -e /try ]; do sleep 0.05; done; cat /answer")
	if out != want {
		t.Errorf("from the guest's own process:\n%s", out)
	}
}

// bindInto puts a host file into a guest's mount namespace, as no guest could.
func bindInto(t *testing.T, pid int, source, target string) {
	t.Helper()
	tree, err := unix.OpenTree(unix.AT_FDCWD, source, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(tree)
	done := make(chan error, 1)
	go func() {
		done <- inMountNamespace(pid, func() error {
			return unix.MoveMount(tree, "", unix.AT_FDCWD, target, unix.MOVE_MOUNT_F_EMPTY_PATH)
		})
	}()
	if err := <-done; err != nil {
		t.Fatalf("bind %s into the guest: %v", target, err)
	}
}

func TestExitCodeAndMemoryKill(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	img := c.push(t, v1.Config{})
	ctx := context.Background()
	code := spec("inst_code", img, "sh", "-c", "echo bye; exit 42")
	memory := spec("inst_memory", img, "sh", "-c", "tail -c 300000000 /dev/zero >/dev/null; exit 3")
	fine := spec("inst_fine", img, "true")
	for _, s := range []hypervisor.Spec{code, memory, fine} {
		c.start(t, s)
	}
	exited := func(id string) hypervisor.Guest {
		var g hypervisor.Guest
		eventually(t, 20*time.Second, id+" to end", func() bool {
			var err error
			g, err = c.find(ctx, id)
			return err == nil && g.State == hypervisor.Exited
		})
		return g
	}
	if g := exited(code.ID); g.ExitCode != 42 || g.OOMKilled {
		t.Errorf("exit with 42: %+v", g)
	}
	if g := exited(memory.ID); g.ExitCode != 3 || !g.OOMKilled {
		t.Errorf("ended for memory: %+v", g)
	}
	if g := exited(fine.ID); g.ExitCode != 0 || g.OOMKilled {
		t.Errorf("exit with 0: %+v", g)
	}
}

// TestATerminalGoesBeforeItsGuest: when memory runs out, the kernel ends what was
// started in a terminal, not the guest.
func TestATerminalGoesBeforeItsGuest(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	// The guest's own process is the largest by far.
	s := spec("inst_bomb", c.push(t, v1.Config{}), "sh", "-c", "x=$(dd if=/dev/zero bs=1M count=16 2>/dev/null | tr '\\0' x); echo ready; sleep 1000; echo ${#x}")
	s.PidsMax = 1000
	c.start(t, s)
	c.awaitReady(t, s.ID)
	if out, _ := c.sh(t, s.ID, "sleep 0.5; cat /proc/self/oom_score_adj /proc/1/oom_score_adj"); out != "900\n0\n" {
		t.Errorf("how readily a terminal and its guest are ended: %q", out)
	}
	c.sh(t, s.ID, "sleep 0.5; for i in $(seq 1 20); do (x=$(dd if=/dev/zero bs=1M count=4 2>/dev/null | tr '\\0' x); sleep 1; : ${#x}) & done; wait")
	if c.oomKills(s.ID) == 0 {
		t.Error("the memory never ran out")
	}
	if g, err := c.find(context.Background(), s.ID); err != nil || g.State != hypervisor.Running {
		t.Errorf("guest afterwards: %+v, %v", g, err)
	}
}
