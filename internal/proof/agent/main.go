// Command agent measures the agent of a node with eight cards, all of them cut
// into slices: its memory and CPU while every slice is held and nothing happens,
// each beside a bare program on the same libraries, and how long it takes until
// all instances are known again after it, and after containerd, was killed.
//
// It drives a cloud that `tenond dev --board hgx-h100` runs (--state), as root,
// and deletes what it made. The instances are containers that sleep.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/tenon-cloud/tenon/internal/proof/target"
)

type options struct {
	state     string
	instances int
	rest      time.Duration
	calm      time.Duration
	rounds    int
	keep      bool
}

func main() {
	var o options
	flag.StringVar(&o.state, "state", "var", "state folder of a cloud that `tenond dev --board hgx-h100` runs")
	flag.IntVar(&o.instances, "instances", 100, "how many are there to be recovered; the first hold a slice each, as many as there are")
	flag.DurationVar(&o.rest, "rest", 3*time.Minute, "how long the agent is watched at rest")
	flag.DurationVar(&o.calm, "calm", time.Minute, "how long after the last change it counts as at rest")
	flag.IntVar(&o.rounds, "rounds", 3, "kills of each kind")
	flag.BoolVar(&o.keep, "keep", false, "leave the instances there, for a look or another run")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "agent:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) (err error) {
	if err := hostBoard(ctx, 200); err != nil {
		return fmt.Errorf("measure the code for real cards: %w", err)
	}
	cloud, err := target.Open(o.state)
	if err != nil {
		return err
	}
	w := &world{cloud: cloud, tag: fmt.Sprintf("a%x", time.Now().UnixNano()&0xffffff)}
	defer func() {
		if !o.keep {
			err = errors.Join(err, w.clear(context.WithoutCancel(ctx)))
		}
	}()
	slices, err := w.cut(ctx)
	if err != nil {
		return err
	}
	if err := w.fill(ctx, min(slices, o.instances), sliceFlavor); err != nil {
		return err
	}
	fmt.Printf("%d cards, %d slices held by as many containers that sleep; load of the machine: %s\n", w.cards, w.have, load())
	if err := w.atRest(ctx, o.calm, o.rest); err != nil {
		return err
	}
	if err := w.fill(ctx, o.instances, hostFlavor); err != nil {
		return err
	}
	return w.recover(ctx, o.rounds)
}

func load() string {
	raw, _ := os.ReadFile("/proc/loadavg")
	return strings.Join(strings.Fields(string(raw))[:3], " ")
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
