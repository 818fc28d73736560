package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/tenon-cloud/tenon/api"
	"github.com/tenon-cloud/tenon/internal/proof/target"
)

// tally counts what must be zero, and what is worth knowing.
type tally struct {
	killed                           []string
	created, running, queued, failed int
	doubled, lost, orphans, overlaps int
	unexplained, leftovers           int
	findings                         []string
}

func (t *tally) add(o tally) {
	t.killed = append(t.killed, o.killed...)
	t.created += o.created
	t.running += o.running
	t.queued += o.queued
	t.failed += o.failed
	t.doubled += o.doubled
	t.lost += o.lost
	t.orphans += o.orphans
	t.overlaps += o.overlaps
	t.unexplained += o.unexplained
	t.leftovers += o.leftovers
	t.findings = append(t.findings, o.findings...)
}

func (t *tally) bad() bool {
	return t.doubled+t.lost+t.orphans+t.overlaps+t.unexplained+t.leftovers > 0
}

func (t *tally) verdict() string {
	if !t.bad() {
		return "all in order"
	}
	return fmt.Sprintf("WRONG: %v", t.findings)
}

type round struct {
	cloud   checked
	number  int
	random  *rand.Rand
	ops     int
	workers int
	kills   int
	victims []string
	settle  time.Duration

	mu      sync.Mutex
	asked   map[string]string // name → id, of what was accepted
	deleted map[string]bool   // id → its deletion was accepted
}

// run does one round: load with kills, rest, check, clear, check again.
func (r *round) run(ctx context.Context) (tally, error) {
	r.asked, r.deleted = map[string]string{}, map[string]bool{}
	flavors, err := r.flavors(ctx)
	if err != nil {
		return tally{}, err
	}
	loadDone := make(chan struct{})
	killed := make(chan []string, 1)
	go func() { killed <- r.killAround(ctx, loadDone) }()
	err = r.load(ctx, flavors)
	close(loadDone)
	out := tally{killed: <-killed}
	if err != nil {
		return out, err
	}
	out.created = len(r.asked)
	rest, err := r.rest(ctx)
	if err != nil {
		return out, err
	}
	r.count(rest, &out)
	if err := r.cloud.compare(ctx, rest, &out); err != nil {
		return out, err
	}
	if err := r.clear(ctx); err != nil {
		return out, err
	}
	return out, r.cloud.empty(ctx, &out)
}

// flavors are the small ones: cpu only, and slices.
func (r *round) flavors(ctx context.Context) ([]string, error) {
	list, err := r.cloud.Client.FlavorList(ctx)
	if err != nil {
		return nil, fmt.Errorf("list flavors: %w", err)
	}
	var names []string
	for _, f := range list.Items {
		if f.MemoryMiB <= 2048 {
			names = append(names, f.Name)
		}
	}
	if len(names) == 0 {
		return nil, errors.New("no flavor of at most 2 GiB to try with")
	}
	return names, nil
}

// load creates ops instances and deletes all but a few of them; the rest live
// until the round is checked.
func (r *round) load(ctx context.Context, flavors []string) error {
	type op struct {
		name, flavor string
		delete       bool
		after        time.Duration // some are deleted as they wait, some as they start, some as they run
	}
	work := make(chan op)
	errs := make(chan error, r.workers)
	for range r.workers {
		go func() {
			var first error
			for o := range work {
				if first == nil {
					first = r.one(ctx, o.name, o.flavor, o.delete, o.after)
				}
			}
			errs <- first
		}()
	}
	for n := range r.ops {
		// All but the last dozen are deleted again, so the board keeps turning over.
		work <- op{fmt.Sprintf("r%d-%d-%d", r.number, n, r.random.Uint32()), flavors[r.random.IntN(len(flavors))], n < r.ops-12 || n%2 == 0,
			time.Duration(r.random.IntN(4)) * time.Duration(r.random.IntN(1000)) * time.Millisecond}
	}
	close(work)
	var err error
	for range r.workers {
		err = errors.Join(err, <-errs)
	}
	return err
}

func (r *round) one(ctx context.Context, name, flavor string, remove bool, after time.Duration) error {
	var inst *api.Instance
	// The same key each time: however often the answer was lost, one instance.
	err := r.insist(ctx, "create "+name, func() (err error) {
		inst, err = r.cloud.Client.InstanceCreate(ctx, target.Project, api.InstanceCreate{Name: name, Image: "debian-12", Flavor: flavor}, api.IdempotencyKey(name))
		return err
	})
	if err != nil {
		return err
	}
	r.mu.Lock()
	r.asked[name] = inst.ID
	r.mu.Unlock()
	if !remove {
		return nil
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(after):
	}
	err = r.insist(ctx, "delete "+name, func() error {
		_, err := r.cloud.Client.InstanceDelete(ctx, target.Project, inst.ID)
		var p *api.Problem
		if errors.As(err, &p) && (p.Status == 404 || p.Status == 409 && p.Code != "name_taken") {
			return nil // an answer that was lost: it is on its way out already
		}
		return err
	})
	if err == nil {
		r.mu.Lock()
		r.deleted[inst.ID] = true
		r.mu.Unlock()
	}
	return err
}

// insist repeats a call while the cloud is down, as a sensible client does.
func (r *round) insist(ctx context.Context, what string, call func() error) error {
	deadline := time.Now().Add(r.settle)
	wait := 50 * time.Millisecond
	for {
		err := call()
		var p *api.Problem
		if err == nil || errors.As(err, &p) && p.Status < 500 && p.Status != 429 {
			if err != nil {
				return fmt.Errorf("%s: %w", what, err)
			}
			return nil
		}
		if errors.As(err, &p) && p.Status == 500 {
			return fmt.Errorf("%s: a bare 500: %w", what, err)
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s: still failing after %s: %w", what, r.settle, err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
		wait = min(2*wait, time.Second)
	}
}

// still is how long the same answers must come before they count as rest: a
// queue whose leader was killed needs a moment to be looked at again.
const still = 5 * time.Second

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
		moving, queued, states := 0, 0, ""
		for _, i := range all {
			states += i.ID + i.State
			switch i.State {
			case api.StateStarting, api.StateStopping, api.StateDeleting:
				moving++
			case api.StateQueued:
				queued++
				if len(i.Reasons) == 0 && time.Until(deadline) > r.settle/2 {
					moving++ // not looked at yet; if it stays so, count says it
				}
			}
		}
		if states != before {
			before, since = states, time.Now()
		}
		if moving == 0 && (queued == 0 || time.Since(since) > still) {
			return all, nil
		}
		if time.Now().After(deadline) {
			return all, fmt.Errorf("after %s %d instances are still on their way", r.settle, moving)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// count looks at each instance that was accepted.
func (r *round) count(rest []api.Instance, out *tally) {
	there := map[string]api.Instance{}
	for _, i := range rest {
		there[i.ID] = i
	}
	for name, id := range r.asked {
		i, ok := there[id]
		switch {
		case !ok && !r.deleted[id]:
			out.lost++
			out.findings = append(out.findings, name+" is lost")
		case ok && r.deleted[id]:
			out.leftovers++
			out.findings = append(out.findings, fmt.Sprintf("%s was deleted and is %s", name, i.State))
		case !ok:
		case i.State == api.StateRunning:
			out.running++
		case i.State == api.StateQueued:
			out.queued++
			if i.Message == "" || len(i.Reasons) == 0 {
				out.unexplained++
				out.findings = append(out.findings, name+" is queued without a reason")
			}
		case i.State == api.StateFailed, i.State == api.StateStopped:
			out.failed++
			if i.Reason == "" || i.Message == "" {
				out.unexplained++
				out.findings = append(out.findings, fmt.Sprintf("%s is %s without a reason", name, i.State))
			}
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
			err := r.insist(ctx, "delete "+i.Name, func() error {
				_, err := r.cloud.Client.InstanceDelete(ctx, target.Project, i.ID)
				var p *api.Problem
				if errors.As(err, &p) && (p.Status == 404 || p.Status == 409) {
					return nil
				}
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
