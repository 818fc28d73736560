package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/tenon-cloud/tenon/internal/proof/target"
)

// The kinds of faults.
const (
	faultKill    = "kill"    // -9 of one process
	faultStop    = "stop"    // SIGSTOP of one process, SIGCONT later
	faultCut     = "cut"     // the network between a node and the control plane
	faultRestart = "restart" // Postgres, in an orderly way
	faultDisk    = "disk"    // no space left
	faultClock   = "clock"   // the host's clock jumps, and jumps back
)

func faultNames() []string {
	return []string{faultKill, faultStop, faultCut, faultRestart, faultDisk, faultClock}
}

// breaker injects faults and takes back those that last.
type breaker struct {
	cloud   *target.Target
	long    int
	refused map[string]string

	mu    sync.Mutex
	clock time.Duration // by which the host's clock is off, by us
	cuts  int
	ours  *exec.Cmd // the supervisor that we started
}

// allowed is what this host lets us do.
func (b *breaker) allowed(ctx context.Context) []string {
	b.refused = map[string]string{}
	out := []string{faultKill, faultStop, faultRestart}
	if err := b.cutProbe(ctx); err != nil {
		b.refused[faultCut] = err.Error()
	} else {
		out = append(out, faultCut)
	}
	if err := b.diskProbe(); err != nil {
		b.refused[faultDisk] = err.Error()
	} else {
		out = append(out, faultDisk)
	}
	if err := b.clockProbe(); err != nil {
		b.refused[faultClock] = err.Error()
	} else {
		out = append(out, faultClock)
	}
	return out
}

// inject does one fault and returns when it is over, with what was done.
func (b *breaker) inject(ctx context.Context, r *rand.Rand, kind string) (string, error) {
	switch kind {
	case faultKill:
		name, pid, err := b.victim(r)
		if err != nil {
			return "", err
		}
		if name == "supervisor" { // nobody above it starts it again but whoever typed `make run`
			return "kill " + name, b.again(pid)
		}
		return "kill " + name, ignoreGone(syscall.Kill(pid, syscall.SIGKILL))
	case faultStop:
		name, pid, err := b.victim(r)
		if err != nil {
			return "", err
		}
		return "stop " + name, b.pause(ctx, name, pid, between(r, 200*time.Millisecond, 8*time.Second))
	case faultRestart:
		pid, err := b.cloud.PID("postgres")
		if err != nil {
			return "", err
		}
		return "restart postgres", ignoreGone(syscall.Kill(pid, syscall.SIGINT))
	case faultCut:
		return b.cut(ctx, r)
	case faultDisk:
		return "disk full", b.fill(ctx, between(r, time.Second, 6*time.Second))
	case faultClock:
		by := between(r, 2*time.Second, 10*time.Minute)
		if r.IntN(2) == 0 {
			by = -by
		}
		return fmt.Sprintf("clock %+.0f s", by.Seconds()), b.jump(ctx, by, between(r, 500*time.Millisecond, 4*time.Second))
	}
	return "", fmt.Errorf("no fault %q", kind)
}

// victim is one of the supervisor's children, each as likely.
func (b *breaker) victim(r *rand.Rand) (string, int, error) {
	notes, err := filepath.Glob(filepath.Join(b.cloud.Run, "*.pid"))
	if err != nil || len(notes) == 0 {
		return "", 0, fmt.Errorf("find the cloud's processes: %d notes, %v", len(notes), err)
	}
	slices.Sort(notes)
	r.Shuffle(len(notes), func(i, j int) { notes[i], notes[j] = notes[j], notes[i] })
	for _, n := range notes {
		name := strings.TrimSuffix(filepath.Base(n), ".pid")
		if pid, err := b.cloud.PID(name); err == nil && syscall.Kill(pid, 0) == nil {
			return name, pid, nil
		}
	}
	return "", 0, fmt.Errorf("none of %d processes lives", len(notes))
}

// pause stops a process, and with Postgres all that it has started: its backends
// do the work.
func (b *breaker) pause(ctx context.Context, name string, pid int, d time.Duration) error {
	all := []int{pid}
	if name == "postgres" {
		all = append(all, childrenOf(pid)...)
	}
	for _, p := range all {
		_ = syscall.Kill(p, syscall.SIGSTOP)
	}
	wait(ctx, d)
	for _, p := range all {
		_ = syscall.Kill(p, syscall.SIGCONT)
	}
	return nil
}

func childrenOf(pid int) []int {
	var out []int
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		var child, parent int
		var comm string
		var state byte
		if _, err := fmt.Sscanf(e.Name(), "%d", &child); err != nil {
			continue
		}
		text, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err != nil {
			continue
		}
		if _, err := fmt.Sscanf(string(text), "%d %s %c %d", &child, &comm, &state, &parent); err == nil && parent == pid {
			out = append(out, child)
		}
	}
	return out
}

// mend takes back whatever still lasts.
func (b *breaker) mend() {
	b.uncut("")
	b.unfill()
	b.unjump()
	if b.ours != nil && b.ours.ProcessState == nil {
		_ = b.ours.Process.Signal(syscall.SIGTERM)
		_ = b.ours.Wait()
	}
	notes, _ := filepath.Glob(filepath.Join(b.cloud.Run, "*.pid"))
	for _, n := range notes {
		if pid, err := b.cloud.PID(strings.TrimSuffix(filepath.Base(n), ".pid")); err == nil {
			_ = syscall.Kill(pid, syscall.SIGCONT)
		}
	}
}

func ignoreGone(err error) error {
	if err == syscall.ESRCH { // it has died meanwhile
		return nil
	}
	return err
}

func between(r *rand.Rand, low, high time.Duration) time.Duration {
	return low + time.Duration(r.Int64N(int64(high-low)))
}

func wait(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// again kills the supervisor and starts it anew, as a person would; it adopts
// what still runs.
func (b *breaker) again(pid int) error {
	command, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return err
	}
	environment, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		return err
	}
	folder, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid))
	if err != nil {
		return err
	}
	console, err := os.OpenFile(filepath.Join(b.cloud.State, "console.txt"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer func() { _ = console.Close() }()
	if err := ignoreGone(syscall.Kill(pid, syscall.SIGKILL)); err != nil {
		return err
	}
	if b.ours != nil {
		_ = b.ours.Wait()
	}
	argv := strings.Split(strings.TrimSuffix(string(command), "\x00"), "\x00")
	b.ours = exec.Command(argv[0], argv[1:]...)
	b.ours.Dir, b.ours.Env = folder, strings.Split(strings.TrimSuffix(string(environment), "\x00"), "\x00")
	b.ours.Stdout, b.ours.Stderr = console, console
	b.ours.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return b.ours.Start()
}
