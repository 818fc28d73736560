package main

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/tenon-cloud/tenon/api"
	"github.com/tenon-cloud/tenon/internal/proof/target"
)

type round struct {
	cloud   checked
	breaker *breaker
	number  int
	random  *rand.Rand
	faults  int
	kinds   []string
	workers int
	vms     int
	settle  time.Duration

	offers map[string][]string // kind → flavors
	images map[string]string

	mu       sync.Mutex
	subjects []*subject
	intents  int
}

// run does one round: load with faults, rest, check, clear, check again.
func (r *round) run(ctx context.Context) (tally, error) {
	began := time.Now()
	out := tally{faults: map[string]int{}, states: map[string]int{}}
	if err := r.offered(ctx); err != nil {
		return out, err
	}
	over := make(chan struct{})
	loaded := make(chan error, 1)
	watched := make(chan tally, 1)
	watch, done := context.WithCancel(ctx)
	defer done()
	go func() { loaded <- r.load(ctx, over) }()
	go func() { watched <- r.cloud.watch(watch) }()
	r.inject(ctx, &out)
	close(over)
	err := <-loaded
	var rest []api.Instance
	if err == nil {
		rest, err = r.rest(ctx)
	}
	done()
	out.addWrong(<-watched)
	out.created, out.intents = len(r.subjects), r.intents
	if err != nil {
		return out, err
	}
	r.judge(rest, &out)
	if err := r.cloud.compare(ctx, rest, &out); err != nil {
		return out, err
	}
	if err := r.clear(ctx); err != nil {
		return out, err
	}
	err = r.cloud.empty(ctx, &out)
	out.took = time.Since(began)
	return out, err
}

// inject breaks one thing after another; cuts and pauses overlap with others.
func (r *round) inject(ctx context.Context, out *tally) {
	var mu sync.Mutex
	var lasting sync.WaitGroup
	for range r.faults {
		if !wait(ctx, between(r.random, 100*time.Millisecond, 3*time.Second)) {
			break
		}
		kind := r.kinds[r.random.IntN(len(r.kinds))]
		random := rand.New(rand.NewPCG(r.random.Uint64(), 3))
		do := func() {
			what, err := r.breaker.inject(ctx, random, kind)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				fmt.Fprintf(os.Stderr, "round %d: %s: %v\n", r.number, kind, err)
				return
			}
			out.faults[kind]++
			fmt.Fprintf(os.Stderr, "round %d: %s %s\n", r.number, time.Now().UTC().Format("15:04:05"), what)
		}
		if kind == faultCut || kind == faultStop {
			lasting.Go(do)
		} else {
			do()
		}
	}
	lasting.Wait()
}

// offered finds what can be had here: flavors small enough to have several.
func (r *round) offered(ctx context.Context) error {
	r.offers, r.images = map[string][]string{}, map[string]string{kindContainer: "debian-12", kindSimulated: "debian-12", kindVM: "debian-12-vm"}
	var flavors []api.Flavor
	err := r.insist(ctx, "list flavors", func() error {
		page, err := r.cloud.Client.FlavorList(ctx)
		if err == nil {
			flavors = page.Items
		}
		return err
	})
	if err != nil {
		return err
	}
	nodes, err := r.cloud.SQL(ctx, `SELECT n.id FROM node n JOIN pool p ON p.id = n.pool_id WHERE p.name = 'simulated' AND n.forgotten_at IS NULL`)
	if err != nil {
		return err
	}
	vmImage, err := r.cloud.Number(ctx, `SELECT count(*) FROM image WHERE name = 'debian-12-vm' AND deleted_at IS NULL`)
	if err != nil {
		return err
	}
	for _, f := range flavors {
		if f.MemoryMiB <= 2048 && f.DiskMiB <= 4096 && (f.GPUCount == 0 || f.FreeNow > 0) {
			r.offers[kindContainer] = append(r.offers[kindContainer], f.Name)
		}
		if vmImage > 0 && f.MemoryMiB <= 2048 && f.DiskMiB >= 4096 && f.GPUMode != "mig" && (f.GPUCount == 0 || f.FreeNow > 0) {
			r.offers[kindVM] = append(r.offers[kindVM], f.Name)
		}
		if len(nodes) > 0 && f.FreeSimulatedNow > 0 {
			r.offers[kindSimulated] = append(r.offers[kindSimulated], f.Name)
		}
	}
	if len(r.offers[kindContainer]) == 0 {
		return fmt.Errorf("no flavor of at most 2 GiB to try with, of %d", len(flavors))
	}
	if r.number == 1 {
		for _, k := range slices.Sorted(maps.Keys(r.offers)) {
			fmt.Printf("%s: flavors %v\n", k, r.offers[k])
		}
		fmt.Printf("%d simulated nodes\n", len(nodes))
	}
	return nil
}

// still is how long the same answers must come before they count as rest: a
// queue whose leader was killed needs a moment to be looked at again.
const still = 8 * time.Second

// rest waits until nothing is on its way any more and returns what there is.
func (r *round) rest(ctx context.Context) ([]api.Instance, error) {
	deadline := time.Now().Add(r.settle)
	var before string
	since := time.Now()
	for {
		var all []api.Instance
		err := r.insist(ctx, "list instances", func() (err error) {
			all, err = r.cloud.Client.InstanceListAll(ctx, target.Project, api.InstanceListOptions{})
			return err
		})
		if err != nil {
			return nil, err
		}
		busy, err := r.cloud.busy(ctx)
		if err != nil {
			return nil, err
		}
		moving, states := []string{}, ""
		for _, i := range all {
			states += i.ID + i.State + i.DesiredState
			switch i.State {
			case api.StateStarting, api.StateStopping, api.StateDeleting:
				moving = append(moving, i.Name+" "+i.State)
			case api.StateQueued:
				if len(i.Reasons) == 0 && time.Until(deadline) > r.settle/2 {
					moving = append(moving, i.Name+" not looked at") // if it stays so, judge says it
				}
			case api.StateRunning:
				if i.Reason == "node_lost" {
					moving = append(moving, i.Name+" on a lost node")
				}
			}
		}
		moving = append(moving, busy...)
		if states != before {
			before, since = states, time.Now()
		}
		if len(moving) == 0 && time.Since(since) > still {
			return all, nil
		}
		if time.Now().After(deadline) {
			return all, fmt.Errorf("after %s still on their way: %v", r.settle, moving)
		}
		if !wait(ctx, 500*time.Millisecond) {
			return nil, ctx.Err()
		}
	}
}

// judge holds what each instance became against what was asked of it.
func (r *round) judge(rest []api.Instance, out *tally) {
	there := map[string]api.Instance{}
	for _, i := range rest {
		there[i.ID] = i
	}
	for _, s := range r.subjects {
		i, ok := there[s.id]
		if ok {
			out.states[i.State]++
		}
		switch {
		case !ok && s.want != "deleted":
			out.find(&out.lost, "%s is lost", s.name)
		case ok && s.want == "deleted":
			out.find(&out.leftovers, "%s was deleted and is %s", s.name, i.State)
		case !ok:
		case i.State == api.StateQueued && (i.Message == "" || len(i.Reasons) == 0):
			out.find(&out.unexplained, "%s is queued without a reason", s.name)
		case s.want == "stopped" && i.State != api.StateStopped && i.State != api.StateFailed:
			out.find(&out.lost, "%s was stopped and is %s: %s", s.name, i.State, i.Message)
		case (i.State == api.StateFailed || i.State == api.StateStopped) && (i.Reason == "" || i.Message == ""):
			out.find(&out.unexplained, "%s is %s without a reason", s.name, i.State)
		}
	}
}

// clear deletes everything and waits until it is gone.
func (r *round) clear(ctx context.Context) error {
	deadline := time.Now().Add(r.settle)
	for {
		all, err := r.rest(ctx)
		if err != nil {
			return err
		}
		if len(all) == 0 {
			return nil
		}
		for _, i := range all {
			s := &subject{name: i.Name, id: i.ID}
			err := r.ask(ctx, s, fmt.Sprintf("clear %d", time.Now().UnixNano()), "deleted", func(key api.CallOption) error {
				_, err := r.cloud.Client.InstanceDelete(ctx, target.Project, i.ID, key)
				return err
			})
			if err != nil {
				return err
			}
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("after %s %d instances can't be deleted", r.settle, len(all))
		}
	}
}
