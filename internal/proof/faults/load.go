package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/tenon-cloud/tenon/api"
	"github.com/tenon-cloud/tenon/internal/proof/target"
)

// subject is one instance as its owner remembers it.
type subject struct {
	name, id string
	kind     string // container, vm, simulated
	want     string // running, stopped, deleted: what was last accepted
}

const (
	kindContainer = "container"
	kindVM        = "vm"
	kindSimulated = "simulated"
)

// load works until enough faults were injected: each worker makes an instance,
// changes its mind about it a few times, and mostly deletes it again.
func (r *round) load(ctx context.Context, over <-chan struct{}) error {
	errs := make(chan error, r.workers+r.vms)
	n := 0
	work := func(kind string) {
		seed := rand.NewPCG(r.random.Uint64(), uint64(n))
		n++
		go func() {
			random := rand.New(seed)
			var err error
			for err == nil && ctx.Err() == nil {
				select {
				case <-over:
					errs <- nil
					return
				default:
					err = r.life(ctx, random, kind, over)
				}
			}
			errs <- err
		}()
	}
	for i := range r.workers {
		if i%2 == 0 && r.offers[kindSimulated] != nil {
			work(kindSimulated)
		} else {
			work(kindContainer)
		}
	}
	for range r.vms {
		if r.offers[kindVM] != nil {
			work(kindVM)
		}
	}
	var err error
	for range n {
		err = errors.Join(err, <-errs)
	}
	return err
}

// life is one instance from its creation on.
func (r *round) life(ctx context.Context, random *rand.Rand, kind string, over <-chan struct{}) error {
	offer := r.offers[kind][random.IntN(len(r.offers[kind]))]
	s := &subject{kind: kind, name: fmt.Sprintf("f%d-%s-%08x", r.number, kind[:1], random.Uint32())}
	in := api.InstanceCreate{Name: s.name, Image: r.images[kind], Flavor: offer, Pool: "default"}
	if kind == kindSimulated {
		in.Pool = "simulated"
	}
	if kind != kindVM && random.IntN(2) == 0 {
		in.OnNodeLoss = "restart"
	}
	if kind == kindVM && random.IntN(2) == 0 {
		in.OnStop = "hold"
	}
	var made *api.Instance
	err := r.insist(ctx, "create "+s.name, func() (err error) {
		// The same key each time: however often the answer was lost, one instance.
		made, err = r.cloud.Client.InstanceCreate(ctx, target.Project, in, api.IdempotencyKey(s.name))
		return err
	})
	var p *api.Problem
	if errors.As(err, &p) && (p.Code == "quota_exceeded" || p.Status == 507) {
		wait(ctx, time.Second)
		return nil
	}
	if err != nil {
		return err
	}
	s.id, s.want = made.ID, "running"
	r.remember(s)
	for step := range 2 + random.IntN(4) {
		pause := between(random, 0, 4*time.Second)
		if kind == kindVM {
			pause *= 3
		}
		t := time.NewTimer(pause)
		select {
		case <-over:
			t.Stop()
			return nil // what is left is what is checked
		case <-ctx.Done():
			return ctx.Err()
		case <-t.C:
		}
		if err := r.change(ctx, random, s, step); err != nil {
			return err
		}
	}
	if random.IntN(6) == 0 {
		return nil // one that stays
	}
	return r.ask(ctx, s, "delete", "deleted", func(key api.CallOption) error {
		_, err := r.cloud.Client.InstanceDelete(ctx, target.Project, s.id, key)
		return err
	})
}

// change is a tenant's change of mind.
func (r *round) change(ctx context.Context, random *rand.Rand, s *subject, step int) error {
	c, key := r.cloud.Client, fmt.Sprintf("%s-%d", s.name, step)
	switch random.IntN(4) {
	case 0, 1:
		if s.want == "running" {
			stop := api.InstanceStop{}
			if s.kind == kindVM && random.IntN(3) == 0 {
				stop.GPU = "release"
			}
			return r.ask(ctx, s, "stop "+key, "stopped", func(key api.CallOption) error {
				_, err := c.InstanceStopAs(ctx, target.Project, s.id, stop, key)
				return err
			})
		}
		return r.ask(ctx, s, "start "+key, "running", func(key api.CallOption) error {
			_, err := c.InstanceStart(ctx, target.Project, s.id, key)
			return err
		})
	case 2:
		return r.ask(ctx, s, "restart "+key, s.want, func(key api.CallOption) error {
			_, err := c.InstanceRestart(ctx, target.Project, s.id, key)
			return err
		})
	}
	return nil
}

// ask carries an intent to the cloud, however often it must be said, and
// remembers it if it was accepted.
func (r *round) ask(ctx context.Context, s *subject, what, want string, call func(api.CallOption) error) error {
	err := r.insist(ctx, what+" "+s.name, func() error { return call(api.IdempotencyKey(what + "-" + s.id)) })
	var p *api.Problem
	if errors.As(err, &p) && (p.Status == 409 || p.Status == 403 || p.Status == 404) {
		return nil // not possible in its state, or over the limit: nothing has changed
	}
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	s.want = want
	r.intents++
	return nil
}

func (r *round) remember(s *subject) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.subjects = append(r.subjects, s)
}

// insist repeats a call while the cloud is down, as a sensible client does.
func (r *round) insist(ctx context.Context, what string, call func() error) error {
	deadline := time.Now().Add(r.settle)
	pause := 50 * time.Millisecond
	for {
		err := call()
		var p *api.Problem
		known := errors.As(err, &p)
		switch {
		case err == nil:
			return nil
		case known && p.Status == 401 && time.Now().Before(deadline):
			r.cloud.Reload()
		case known && p.Status == 500:
			return fmt.Errorf("%s: a bare 500: %w", what, err)
		case known && p.Status < 500 && p.Status != 429:
			return fmt.Errorf("%s: %w", what, err)
		case known && p.Status == 507:
			return fmt.Errorf("%s: %w", what, err)
		case time.Now().After(deadline):
			return fmt.Errorf("%s: still failing after %s: %w", what, r.settle, err)
		}
		if !wait(ctx, pause) {
			return ctx.Err()
		}
		pause = min(2*pause, time.Second)
	}
}
