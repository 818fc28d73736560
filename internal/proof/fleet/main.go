// Command fleet measures a cloud with many simulated nodes: what the control
// plane, Postgres and the fleet cost at rest and while instances come and go, how
// long a change takes to reach its node, and whether any node was wrongly called
// late.
//
// A change has reached its node when the node's own ledger file holds it; the
// kernel tells of each new one, so nothing is asked again and again. It drives a
// cloud that `tenond dev --simulate-nodes N` runs (--state), as root, and deletes
// what it made.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"

	"github.com/tenon-cloud/tenon/api"
	"github.com/tenon-cloud/tenon/internal/proof/target"
)

const pool = "simulated"

type options struct {
	flavor       string
	rest, churn  time.Duration
	steps, width int
}

func main() {
	var o options
	state := flag.String("state", "var", "state folder of a cloud that `tenond dev` runs")
	flag.StringVar(&o.flavor, "flavor", "a100-1g-10gb", "what to ask for")
	flag.DurationVar(&o.rest, "rest", 30*time.Second, "how long to watch the cloud at rest")
	flag.DurationVar(&o.churn, "churn", 30*time.Second, "how long instances come and go")
	flag.IntVar(&o.steps, "steps", 100, "changes at rest, one after another")
	flag.IntVar(&o.width, "width", 16, "instances that come and go at once")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *state, o); err != nil {
		fmt.Fprintln(os.Stderr, "fleet:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, state string, o options) error {
	cloud, err := target.Open(state)
	if err != nil {
		return err
	}
	w, err := watchLedgers(ctx, cloud.State+"/fleet")
	if err != nil {
		return err
	}
	load, _ := os.ReadFile("/proc/loadavg")
	fmt.Printf("%d simulated nodes; load of the machine before: %s", len(w.folders), strings.Join(strings.Fields(string(load))[:3], " ")+"\n")
	limits := api.QuotaUpdate{}
	for _, r := range []string{"gpu_milli", "instances", "memory_mib", "vcpu"} {
		limits.Items = append(limits.Items, api.QuotaLimit{Resource: r})
	}
	if _, err := cloud.Client.QuotaUpdate(ctx, target.Project, limits); err != nil {
		return fmt.Errorf("lift the limits: %w", err)
	}
	c := &changer{cloud: cloud, ledgers: w, flavor: o.flavor, tag: fmt.Sprintf("f%x", time.Now().UnixNano()&0xffffff)}
	if err := c.once(ctx, nil); err != nil { // pulls, plans and pages are warm after it
		return err
	}
	if err := c.watched(ctx, "at rest", func(ctx context.Context) error { return wait(ctx, o.rest) }); err != nil {
		return err
	}
	if err := c.watched(ctx, "one change at a time", func(ctx context.Context) error { return c.oneByOne(ctx, o.steps) }); err != nil {
		return err
	}
	c.print()
	err = c.watched(ctx, fmt.Sprintf("%d at a time", o.width), func(ctx context.Context) error { return c.many(ctx, o.width, o.churn) })
	c.print()
	return err
}

func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func quantile(d []time.Duration, q float64) time.Duration {
	if len(d) == 0 {
		return 0
	}
	d = slices.Sorted(slices.Values(d))
	return d[min(int(q*float64(len(d))), len(d)-1)]
}
