package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/tenon-cloud/tenon/internal/proof/target"
)

// The goals that the agent is held to.
const (
	goalMemory = 40 << 20
	goalCPU    = 0.5 // per cent of a core
)

// atRest watches the agent while nothing changes, and beside it a bare program.
func (w *world) atRest(ctx context.Context, calm, rest time.Duration) error {
	pid, err := w.cloud.PID("agent")
	if err != nil {
		return err
	}
	bare, err := w.startBare(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = bare.Process.Kill(); _ = bare.Wait() }()
	if err := wait(ctx, calm); err != nil {
		return err
	}
	before, began := take(pid), time.Now()
	plainBefore := take(bare.Process.Pid)
	if err := wait(ctx, rest); err != nil {
		return err
	}
	took := time.Since(began)
	after, plain := take(pid), take(bare.Process.Pid)
	if now, err := w.cloud.PID("agent"); err != nil || now != pid {
		return fmt.Errorf("the agent was restarted while it was watched (%v)", err)
	}
	ours, theirs := after.percent(before, took), plain.percent(plainBefore, took)
	fmt.Printf("at rest for %s (load of the machine: %s):\n", took.Round(time.Second), load())
	fmt.Printf("  agent     %5.2f %% of a core (of it by programs that it ran %.2f), %.1f MiB resident (%.1f of its own, peak %.1f), %.0f wake-ups/s\n",
		ours, after.ended(before, took), mib(after.Resident), mib(after.Anonymous), mib(after.Peak), float64(after.switches-before.switches)/took.Seconds())
	fmt.Printf("  bare      %5.2f %% of a core, %.1f MiB resident (%.1f of its own, peak %.1f), %.0f wake-ups/s: the same libraries, the same guests looked at as often\n",
		theirs, mib(plain.Resident), mib(plain.Anonymous), mib(plain.Peak), float64(plain.switches-plainBefore.switches)/took.Seconds())
	fmt.Printf("  ratio to the bare program: CPU %.2f, memory %.2f\n", ours/max(theirs, 0.001), float64(after.Resident)/float64(plain.Resident))
	fmt.Printf("  goals: memory below %d MiB %s, CPU below %.1f %% %s\n", goalMemory>>20, met(after.Resident < goalMemory), goalCPU, met(ours < goalCPU))
	return nil
}

func met(ok bool) string {
	if ok {
		return "met"
	}
	return "MISSED"
}

func mib(n int64) float64 { return float64(n) / (1 << 20) }

// cost is what a process has taken by a moment.
type cost struct {
	target.Memory
	cpu, children time.Duration
	switches      int64
}

func take(pid int) cost {
	own, ended := target.CPU(pid)
	return cost{Memory: target.MemoryOf(pid), cpu: own + ended, children: ended, switches: target.Switches(pid)}
}

func (c cost) percent(before cost, took time.Duration) float64 {
	return 100 * float64(c.cpu-before.cpu) / float64(took)
}

func (c cost) ended(before cost, took time.Duration) float64 {
	return 100 * float64(c.children-before.children) / float64(took)
}

// startBare runs the program that the agent is compared with, which lies beside
// this one.
func (w *world) startBare(ctx context.Context) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find own program: %w", err)
	}
	socket, err := w.cloud.ContainerdSocket()
	if err != nil {
		return nil, err
	}
	_, libvirt, _ := strings.Cut(w.cloud.LibvirtURI(), "socket=")
	cmd := exec.CommandContext(ctx, filepath.Join(filepath.Dir(self), "bare"), socket, w.cloud.Namespace(), libvirt)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start the bare program: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the bare program (`make proofs` builds it): %w", err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		return nil, fmt.Errorf("the bare program says %q: %w", line, err)
	}
	return cmd, nil
}
