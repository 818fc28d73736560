package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tenon-cloud/tenon/api"
	"github.com/tenon-cloud/tenon/internal/proof/target"
)

// changer creates and deletes instances and notes how long each change took to
// reach its node.
type changer struct {
	cloud   *target.Target
	ledgers *ledgers
	flavor  string
	tag     string
	made    atomic.Int64

	mu      sync.Mutex
	create  []time.Duration // from the API's answer to the ledger
	placed  []time.Duration // from the request
	deleted []time.Duration
	early   int // in the ledger before the answer was here
}

// patience is how long a change may take before the measurement is given up.
const patience = time.Minute

// once creates an instance, waits until its node knows, lets it live for a
// while, deletes it and waits again.
func (c *changer) once(ctx context.Context, live func(context.Context) error) error {
	name := fmt.Sprintf("%s-%d", c.tag, c.made.Add(1))
	asked := time.Now()
	inst, err := c.cloud.Client.InstanceCreate(ctx, target.Project, api.InstanceCreate{Name: name, Image: "debian-12", Flavor: c.flavor, Pool: pool, Command: []string{"sleep", "infinity"}})
	if err != nil {
		return fmt.Errorf("create %s: %w", name, err)
	}
	answered := time.Now()
	known := c.ledgers.expect(inst.ID, "")
	var at time.Time
	if c.ledgers.holds(inst.ID) { // it was quicker than the answer
		c.mu.Lock()
		c.early++
		c.mu.Unlock()
		at = answered
	} else if at, err = receive(ctx, known); err != nil {
		return fmt.Errorf("no node has come to know of %s: %w", name, err)
	}
	c.mu.Lock()
	c.create, c.placed = append(c.create, max(0, at.Sub(answered))), append(c.placed, at.Sub(asked))
	c.mu.Unlock()
	if live != nil {
		if err := live(ctx); err != nil {
			return err
		}
	}
	gone := c.ledgers.expect(inst.ID, "gone")
	if _, err := c.cloud.Client.InstanceDelete(ctx, target.Project, inst.ID); err != nil {
		return fmt.Errorf("delete %s: %w", name, err)
	}
	answered = time.Now()
	if at, err = receive(ctx, gone); err != nil {
		return fmt.Errorf("its node has not come to know that %s is deleted: %w", name, err)
	}
	c.mu.Lock()
	c.deleted = append(c.deleted, max(0, at.Sub(answered)))
	c.mu.Unlock()
	return nil
}

func receive(ctx context.Context, at <-chan time.Time) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	select {
	case t := <-at:
		return t, nil
	case <-ctx.Done():
		return time.Time{}, ctx.Err()
	}
}

// oneByOne changes one thing at a time, with a rest after each.
func (c *changer) oneByOne(ctx context.Context, steps int) error {
	rest := func(ctx context.Context) error { return wait(ctx, 150*time.Millisecond) }
	for range steps {
		if err := c.once(ctx, rest); err != nil {
			return err
		}
		if err := rest(ctx); err != nil {
			return err
		}
	}
	return nil
}

// many has so many at a time come, live for three seconds, and go.
func (c *changer) many(ctx context.Context, width int, d time.Duration) error {
	until := time.Now().Add(d)
	errs := make([]error, width)
	var all sync.WaitGroup
	for i := range width {
		all.Go(func() {
			for time.Now().Before(until) && errs[i] == nil {
				errs[i] = c.once(ctx, func(ctx context.Context) error { return wait(ctx, 3*time.Second) })
			}
		})
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// print says how the changes since the last print went.
func (c *changer) print() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, line := range []struct {
		what string
		d    []time.Duration
	}{
		{"create: API answer to the node's ledger", c.create}, {"create: request to the node's ledger", c.placed}, {"delete: API answer to the node's ledger", c.deleted},
	} {
		fmt.Printf("  %-40s p50 %s, p99 %s (n=%d)\n", line.what, quantile(line.d, 0.5).Round(100*time.Microsecond), quantile(line.d, 0.99).Round(100*time.Microsecond), len(line.d))
	}
	if c.early > 0 {
		fmt.Printf("  %d were in the ledger before the answer arrived and count as 0\n", c.early)
	}
	c.create, c.placed, c.deleted, c.early = nil, nil, nil, 0
}
