package main

import (
	"context"
	"fmt"
	"time"

	"github.com/tenon-cloud/tenon/internal/proof/target"
)

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
	own, ended := target.CPU(pid)
	out := cost{cpu: own + ended, memory: target.MemoryOf(pid).Proportional}
	for _, p := range target.Children(pid) {
		own, _ := target.CPU(p)
		out.cpu += own
		out.memory += target.MemoryOf(p).Proportional
	}
	return out
}
