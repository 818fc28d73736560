package watchdog

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const boot = "boot-1"

// TestMain lets the test binary be the processes that the tests are about.
func TestMain(m *testing.M) {
	switch os.Getenv("WATCHDOG_TEST") {
	case "watchdog":
		if err := Run(context.Background(), Config{Dir: os.Args[1], BootID: boot, Interval: 50 * time.Millisecond}); err != nil {
			log.Fatal(err)
		}
		return
	case "agent": // renews a lease of half a second for as long as it can
		k, err := NewKeeper(os.Args[1], boot, SinceBoot)
		if err != nil {
			log.Fatal(err)
		}
		var guests []Guest
		if err := json.Unmarshal([]byte(os.Args[2]), &guests); err != nil {
			log.Fatal(err)
		}
		for range time.Tick(50 * time.Millisecond) {
			for i := range guests {
				guests[i].Deadline = SinceBoot() + 500*time.Millisecond
			}
			if err := k.Renew(guests); err != nil {
				log.Fatal(err)
			}
		}
	}
	os.Exit(m.Run())
}

// process starts this binary, or another program, and ends it with the test.
func process(t *testing.T, role string, argv ...string) *exec.Cmd {
	t.Helper()
	if role != "" {
		argv = append([]string{must(os.Executable())}, argv...)
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), "WATCHDOG_TEST="+role)
	if role != "" {
		cmd.Stderr = os.Stderr
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(done)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGCONT)
		_ = cmd.Process.Kill()
		<-done
	})
	return cmd
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func running(cmd *exec.Cmd) bool {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", cmd.Process.Pid))
	return err == nil && !strings.Contains(string(raw), ") Z ")
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	limit := time.After(20 * time.Second)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-limit:
			t.Fatalf("waited in vain for %s", what)
		case <-tick.C:
		}
	}
}

// stays looks again and again for a while.
func stays(t *testing.T, what string, d time.Duration, ok func() bool) {
	t.Helper()
	limit := time.After(d)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-limit:
			return
		case <-tick.C:
			if !ok() {
				t.Fatalf("%s did not last", what)
			}
		}
	}
}

// cgroup makes a control group with a process and its child in it.
func cgroup(t *testing.T) (path string, guest *exec.Cmd) {
	t.Helper()
	path = fmt.Sprintf("/tenon-test-%d/inst_%s", os.Getpid(), strings.ToLower(strings.ReplaceAll(t.Name(), "/", "-")))
	root := "/sys/fs/cgroup"
	var st unix.Statfs_t
	if unix.Statfs(root, &st) != nil || st.Type != unix.CGROUP2_SUPER_MAGIC {
		root += "/pids"
	}
	dir := filepath.Join(root, path)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Skipf("control groups can't be made here: %v", err)
	}
	t.Cleanup(func() {
		eventually(t, "the control group to be empty", func() bool { return os.Remove(dir) == nil || os.IsNotExist(os.Remove(dir)) })
		_ = os.Remove(filepath.Dir(dir))
	})
	hold := filepath.Join(t.TempDir(), "hold") // its child must begin in the group
	if err := syscall.Mkfifo(hold, 0o600); err != nil {
		t.Fatal(err)
	}
	guest = process(t, "", "sh", "-c", "trap '' TERM; cat "+hold+"; sleep 1000 & echo $! >"+hold+"; wait")
	if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(guest.Process.Pid)), 0); err != nil {
		t.Skipf("control groups can't be used here: %v", err)
	}
	if err := os.WriteFile(hold, nil, 0); err != nil {
		t.Fatal(err)
	}
	child := strings.TrimSpace(string(must(os.ReadFile(hold))))
	t.Cleanup(func() {
		if pid, err := strconv.Atoi(child); err == nil {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	return path, guest
}

func encode(guests ...Guest) string { return string(must(json.Marshal(guests))) }

// TestAStoppedOrDeadAgentsGuestsEnd: they live while the agent renews their lease,
// and end when it can't, whatever keeps it from that.
func TestAStoppedOrDeadAgentsGuestsEnd(t *testing.T) {
	t.Parallel()
	for name, signal := range map[string]syscall.Signal{"stopped": syscall.SIGSTOP, "killed": syscall.SIGKILL} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			path, inGroup := cgroup(t)
			alone, other := process(t, "", "sleep", "1000"), process(t, "", "sleep", "1000")
			p := must(processOf(alone.Process.Pid))
			process(t, "watchdog", dir)
			agent := process(t, "agent", dir, encode(Guest{ID: "inst_1", Epoch: 1, Cgroup: path}, Guest{ID: "inst_2", Epoch: 1, Process: &p}))
			eventually(t, "an acknowledgement", func() bool { var a ack; return read(ackFile(dir), &a) == nil && a.Sequence > 3 })
			stays(t, "the guests' life under a renewed lease", 1500*time.Millisecond, func() bool { return running(inGroup) && running(alone) })
			if err := agent.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			eventually(t, "the guests to end", func() bool { return !running(inGroup) && !running(alone) })
			if took := time.Since(began); took > 3*time.Second {
				t.Errorf("it took %s", took)
			}
			if !running(other) {
				t.Error("a process that nobody named was ended")
			}
		})
	}
}

// TestWhatALeaseMustNotEnd: another boot's, a number that was taken anew, and
// anything that is no guest's.
func TestWhatALeaseMustNotEnd(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, guest := cgroup(t)
	alone := process(t, "", "sleep", "1000")
	p := must(processOf(alone.Process.Pid))
	process(t, "watchdog", dir)
	if err := write(leaseFile(dir), Lease{BootID: "boot-0", Sequence: 9, Guests: []Guest{{ID: "a", Deadline: 1, Cgroup: path}, {ID: "b", Deadline: 1, Process: &p}}}); err != nil {
		t.Fatal(err)
	}
	stays(t, "what another boot's lease names", time.Second, func() bool { return running(guest) && running(alone) })
	anew := Process{PID: p.PID, Start: p.Start - 1}
	k := must(NewKeeper(dir, boot, SinceBoot))
	if err := k.Renew([]Guest{
		{ID: "a", Deadline: 1, Process: &anew}, {ID: "b", Deadline: 1, Process: &Process{PID: 1, Start: 1}}, {ID: "c", Deadline: 1, Process: &Process{PID: p.PID}},
		{ID: "d", Deadline: 1, Cgroup: "/"}, {ID: "e", Deadline: 1, Cgroup: filepath.Dir(path)}, {ID: "f", Deadline: 1, Cgroup: "/tenon-x/../" + filepath.Base(filepath.Dir(path)) + "/x/.."},
		{ID: "g", Deadline: SinceBoot() + time.Hour, Cgroup: path},
	}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "an acknowledgement", k.Acknowledged)
	stays(t, "what no lease may end", time.Second, func() bool { return running(guest) && running(alone) })
	// A lease that can't be read leaves the last one in force, which ends this.
	if err := k.Renew([]Guest{{ID: "a", Deadline: SinceBoot() + time.Second, Cgroup: path}}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "an acknowledgement", func() bool { var a ack; return read(ackFile(dir), &a) == nil && a.Sequence == k.sequence })
	if err := os.WriteFile(leaseFile(dir), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the end by the last lease", func() bool { return !running(guest) })
	if !running(alone) {
		t.Error("a process that nobody named was ended")
	}
}

// TestAWatchdogCountsOnlyWhileItLives: dead, stopped, or another's word for it.
func TestAWatchdogCountsOnlyWhileItLives(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	k := must(NewKeeper(dir, boot, SinceBoot))
	if k.Acknowledged() {
		t.Error("nobody is there")
	}
	if err := k.Renew(nil); err != nil {
		t.Fatal(err)
	}
	dog := process(t, "watchdog", dir)
	eventually(t, "an acknowledgement", k.Acknowledged)
	second := exec.Command(must(os.Executable()), dir)
	second.Env = append(os.Environ(), "WATCHDOG_TEST=watchdog")
	if out, err := second.CombinedOutput(); err == nil || !strings.Contains(string(out), "another watchdog") {
		t.Errorf("a second watchdog: %v, %s", err, out)
	}
	if again := must(NewKeeper(dir, boot, SinceBoot)); again.Renew(nil) != nil {
		t.Error("an agent that was restarted can't renew")
	} else {
		eventually(t, "an acknowledgement of the agent's next life", again.Acknowledged)
	}
	if err := dog.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if err := k.Renew(nil); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a stopped one to count no more", func() bool { return !k.Acknowledged() })
	_ = dog.Process.Signal(syscall.SIGCONT)
	eventually(t, "it to count again", k.Acknowledged)
	_ = dog.Process.Kill()
	eventually(t, "a dead one to count no more", func() bool { return !k.Acknowledged() })
}
