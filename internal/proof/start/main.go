// Command start compares what Tenon takes from its API's answer to a running
// container with the same made by hand, in turn, on one machine: a size-limited
// folder, an overlay, a network namespace by the CNI plugin, and `ctr run` of the
// very specification of one of Tenon's own containers.
//
// It drives a cloud that `tenond dev` runs (--state), as root.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"time"

	"github.com/tenon-cloud/tenon/api"
	"github.com/tenon-cloud/tenon/internal/proof/target"
)

func main() {
	state := flag.String("state", "var", "state folder of a cloud that `tenond dev` runs")
	runs := flag.Int("runs", 30, "how many of each")
	flavor := flag.String("flavor", "a100-1g-10gb", "what to ask for")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *state, *runs, *flavor); err != nil {
		fmt.Fprintln(os.Stderr, "start:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, state string, runs int, flavor string) error {
	cloud, err := target.Open(state)
	if err != nil {
		return err
	}
	tag := fmt.Sprintf("s%x", time.Now().UnixNano()&0xffffff)
	w := watch(ctx, cloud)
	// The first one pulls the image and stays: it is the model for the others.
	model, _, _, err := w.ours(ctx, cloud, tag+"-model", flavor)
	if err != nil {
		return err
	}
	defer func() { _, _ = cloud.Client.InstanceDelete(context.WithoutCancel(ctx), target.Project, model.ID) }()
	hand, err := newByHand(ctx, cloud, model.ID)
	if err != nil {
		return err
	}
	defer hand.close()
	var fromAnswer, fromRequest, manual []time.Duration
	for n := range runs {
		inst, answer, request, err := w.ours(ctx, cloud, fmt.Sprintf("%s-%d", tag, n), flavor)
		if err != nil {
			return err
		}
		fromAnswer, fromRequest = append(fromAnswer, answer), append(fromRequest, request)
		if err := gone(ctx, cloud, inst.ID); err != nil {
			return err
		}
		took, err := hand.start(ctx, fmt.Sprintf("%s-hand-%d", tag, n))
		if err != nil {
			return err
		}
		manual = append(manual, took)
	}
	a, r, m := median(fromAnswer), median(fromRequest), median(manual)
	fmt.Printf("median of %d, in turn: API answer to running %s (request to running %s), by hand %s\n", runs, ms(a), ms(r), ms(m))
	fmt.Printf("ratio of medians %.2f (from the request: %.2f)\n", float64(a)/float64(m), float64(r)/float64(m))
	return nil
}

// watcher follows the project's events, as the console does: asking again and
// again would load the very machine that is measured.
type watcher struct{ running chan string }

func watch(ctx context.Context, cloud *target.Target) *watcher {
	w := &watcher{running: make(chan string, 64)}
	go func() {
		_ = cloud.Client.Events(ctx, target.Project, "", func(e api.Event) error {
			if e.Verb == "running" || e.Verb == "failed" {
				w.running <- e.ResourceID
			}
			return nil
		})
	}()
	return w
}

// ours creates an instance and waits until the event says that it runs.
func (w *watcher) ours(ctx context.Context, cloud *target.Target, name, flavor string) (inst *api.Instance, fromAnswer, fromRequest time.Duration, err error) {
	asked := time.Now()
	inst, err = cloud.Client.InstanceCreate(ctx, target.Project, api.InstanceCreate{Name: name, Image: "debian-12", Flavor: flavor, Command: []string{"sleep", "infinity"}})
	if err != nil {
		return nil, 0, 0, fmt.Errorf("create %s: %w", name, err)
	}
	answered := time.Now()
	for limit := time.After(2 * time.Minute); ; {
		select {
		case <-ctx.Done():
			return nil, 0, 0, ctx.Err()
		case <-limit:
			return nil, 0, 0, fmt.Errorf("%s does not come to run", name)
		case id := <-w.running:
			if id != inst.ID {
				continue
			}
		}
		fromAnswer, fromRequest = time.Since(answered), time.Since(asked)
		if inst, err = cloud.Client.InstanceGet(ctx, target.Project, inst.ID); err != nil {
			return nil, 0, 0, err
		}
		if inst.State != api.StateRunning {
			return nil, 0, 0, fmt.Errorf("%s is %s: %s", name, inst.State, inst.Message)
		}
		return inst, fromAnswer, fromRequest, nil
	}
}

// gone deletes an instance and waits for it.
func gone(ctx context.Context, cloud *target.Target, id string) error {
	if _, err := cloud.Client.InstanceDelete(ctx, target.Project, id); err != nil {
		return fmt.Errorf("delete %s: %w", id, err)
	}
	_, err := cloud.Client.WaitInstance(ctx, target.Project, id, func(i *api.Instance) bool { return i.State == api.StateDeleted }, nil)
	return err
}

func median(d []time.Duration) time.Duration {
	d = slices.Sorted(slices.Values(d))
	return d[len(d)/2]
}

func ms(d time.Duration) string { return d.Round(time.Millisecond).String() }
