package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// ticksPerSecond is USER_HZ, which Linux fixes for every program.
const ticksPerSecond = 100

// cost is what a process and its children have taken.
type cost struct {
	cpu    time.Duration
	memory int64 // bytes; of Postgres's processes, what they share is counted once
}

// watched runs something and prints what the parts of the cloud took meanwhile.
func (c *changer) watched(ctx context.Context, what string, f func(context.Context) error) error {
	parts := []string{"serve", "postgres", "fleet"}
	before := map[string]cost{}
	for _, p := range parts {
		before[p] = c.cost(p)
	}
	commits, err := c.commits(ctx)
	if err != nil {
		return err
	}
	watching, stop := context.WithCancel(ctx)
	late := c.watchLate(watching)
	began := time.Now()
	ran := f(ctx)
	took := time.Since(began)
	stop()
	worst := <-late
	after, err := c.commits(context.WithoutCancel(ctx))
	if err != nil {
		return err
	}
	fmt.Printf("%s, %s:\n", what, took.Round(time.Second))
	for _, p := range parts {
		now := c.cost(p)
		fmt.Printf("  %-10s %5.1f %% of a core, %4d MiB\n", p, 100*float64(now.cpu-before[p].cpu)/float64(took), now.memory>>20)
	}
	fmt.Printf("  %.0f commits/s; nodes that were not ready at any moment: %d\n", float64(after-commits)/took.Seconds(), worst)
	return ran
}

func (c *changer) commits(ctx context.Context) (int, error) {
	return c.cloud.Number(ctx, "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()")
}

// watchLate gives the most simulated nodes that were ever seen not to be ready.
func (c *changer) watchLate(ctx context.Context) <-chan int {
	out := make(chan int, 1)
	go func() {
		worst := 0
		for wait(ctx, time.Second) == nil {
			n, err := c.cloud.Number(ctx, "SELECT count(*) FROM node n JOIN pool p ON p.id = n.pool_id WHERE p.name = 'simulated' AND n.state <> 'ready' AND n.forgotten_at IS NULL")
			if err == nil {
				worst = max(worst, n)
			}
		}
		out <- worst
	}()
	return out
}

// cost reads what a child of the supervisor and its own children took.
func (c *changer) cost(child string) cost {
	pid, err := c.cloud.PID(child)
	if err != nil {
		return cost{}
	}
	var out cost
	for _, p := range append(children(pid), pid) {
		s := stat(p)
		if len(s) < 16 {
			continue
		}
		fields := s[11:13] // utime, stime
		if p == pid {
			fields = s[11:15] // and those of children that have ended
		}
		for _, field := range fields {
			n, _ := strconv.ParseInt(field, 10, 64)
			out.cpu += time.Duration(n) * time.Second / ticksPerSecond
		}
		out.memory += proportional(p)
	}
	return out
}

// stat is the fields of /proc/PID/stat after the name.
func stat(pid int) []string {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil
	}
	_, rest, _ := strings.Cut(string(raw), ") ")
	return strings.Fields(rest)
}

func children(pid int) []int {
	var out []int
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		if n, err := strconv.Atoi(e.Name()); err == nil {
			if s := stat(n); len(s) > 1 && s[1] == strconv.Itoa(pid) {
				out = append(out, n)
			}
		}
	}
	return out
}

// proportional is a process's memory, with what it shares divided among those
// who share it.
func proportional(pid int) int64 {
	raw, _ := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	for line := range strings.Lines(string(raw)) {
		if rest, ok := strings.CutPrefix(line, "Pss:"); ok {
			kib, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			return kib << 10
		}
	}
	return 0
}
