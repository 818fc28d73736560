package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tenon-cloud/tenon/api"
	"github.com/tenon-cloud/tenon/internal/proof/target"
)

const (
	node        = "local"
	sliceFlavor = "proof-slice"
	hostFlavor  = "proof-host"
	// patience is how long anything may take before the measurement is given up.
	patience = 10 * time.Minute
)

// world is a node whose cards are cut and the instances on it.
type world struct {
	cloud *target.Target
	cards int
	have  int
	tag   string   // of its names
	made  []string // ids
}

// cut has every card in MIG mode and gives how many of the smallest slices there
// are. The node sells its few vCPUs often enough, since nobody computes.
func (w *world) cut(ctx context.Context) (slices int, err error) {
	list, err := w.cloud.Client.GPUList(ctx, api.GPUListOptions{PageOptions: api.PageOptions{Limit: 200}, Node: node})
	if err != nil {
		return 0, fmt.Errorf("list the node's cards: %w", err)
	}
	if w.cards = len(list.Items); w.cards == 0 {
		return 0, errors.New("the local node has no cards")
	}
	for _, g := range list.Items {
		if g.Mode != "mig" {
			if _, err := w.cloud.Client.GPUUpdate(ctx, g.ID, api.GPUUpdate{Mode: "mig"}, false); err != nil {
				return 0, fmt.Errorf("cut card %s: %w", g.ID, err)
			}
		}
	}
	if _, err := w.cloud.SQL(ctx, "UPDATE node SET cpu_overcommit = 512 WHERE name = '"+node+"'"); err != nil {
		return 0, err
	}
	limits := api.QuotaUpdate{}
	for _, r := range []string{"gpu_milli", "instances", "memory_mib", "vcpu"} {
		limits.Items = append(limits.Items, api.QuotaLimit{Resource: r})
	}
	if _, err := w.cloud.Client.QuotaUpdate(ctx, target.Project, limits); err != nil {
		return 0, fmt.Errorf("lift the limits: %w", err)
	}
	small := api.FlavorCreate{VCPU: 1, MemoryMiB: 64, DiskMiB: 64}
	slice := small
	small.Name, slice.Name = hostFlavor, sliceFlavor
	slice.GPUCount, slice.GPUModel, slice.GPUMode, slice.GPUProfile = 1, list.Items[0].Model, "mig", "1g"
	for _, f := range []api.FlavorCreate{small, slice} {
		if _, err := w.cloud.Client.FlavorCreate(ctx, f); err != nil && !errors.Is(err, &api.Problem{Code: "name_taken"}) {
			return 0, fmt.Errorf("make the flavor %s: %w", f.Name, err)
		}
	}
	return 7 * w.cards, w.until(ctx, "all cards are cut", func() (bool, error) {
		n, err := w.cloud.Number(ctx, `SELECT count(*) FROM gpu g JOIN node n ON n.id = g.node_id WHERE n.name = '`+node+`' AND g.mode = 'mig' AND g.state = 'ready'`)
		return n == w.cards, err
	})
}

// fill adds instances until there are n, and waits until all of them run.
func (w *world) fill(ctx context.Context, n int, flavor string) error {
	began := time.Now()
	ids, errs := make([]string, max(0, n-w.have)), make([]error, max(0, n-w.have))
	var making sync.WaitGroup
	turns := make(chan struct{}, 4)
	for i := range ids {
		making.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			in := api.InstanceCreate{Name: fmt.Sprintf("%s-%d", w.tag, w.have+i), Image: "debian-12", Flavor: flavor, Command: []string{"sleep", "infinity"}}
			inst, err := w.cloud.Client.InstanceCreate(ctx, target.Project, in)
			if err != nil {
				errs[i] = fmt.Errorf("create %s: %w", in.Name, err)
				return
			}
			ids[i] = inst.ID
		})
	}
	making.Wait()
	for _, id := range ids {
		if id != "" {
			w.made = append(w.made, id)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	w.have = len(w.made)
	err := w.until(ctx, "all instances run", func() (bool, error) {
		failed, err := w.cloud.Number(ctx, "SELECT count(*) FROM instance WHERE name LIKE '"+w.tag+"-%' AND state = 'failed'")
		if err == nil && failed > 0 {
			return false, fmt.Errorf("%d instances have failed", failed)
		}
		running, err := w.cloud.Number(ctx, "SELECT count(*) FROM instance WHERE name LIKE '"+w.tag+"-%' AND state = 'running'")
		return running == w.have, err
	})
	if err == nil {
		fmt.Printf("%d more run after %s\n", len(ids), time.Since(began).Round(100*time.Millisecond))
	}
	return err
}

func (w *world) clear(ctx context.Context) error {
	var errs []error
	for _, id := range w.made {
		if _, err := w.cloud.Client.InstanceDelete(ctx, target.Project, id); err != nil && !errors.Is(err, &api.Problem{Code: "not_found"}) {
			errs = append(errs, fmt.Errorf("delete %s: %w", id, err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	err := w.until(ctx, "all instances are gone", func() (bool, error) {
		left, err := w.cloud.Number(ctx, "SELECT count(*) FROM instance WHERE name LIKE '"+w.tag+"-%' AND state <> 'deleted'")
		return left == 0, err
	})
	for _, f := range []string{sliceFlavor, hostFlavor} {
		err = errors.Join(err, w.cloud.Client.FlavorDelete(ctx, f))
	}
	return err
}

func (w *world) until(ctx context.Context, what string, so func() (bool, error)) error {
	for end := time.Now().Add(patience); ; {
		yes, err := so()
		if err != nil {
			return fmt.Errorf("wait until %s: %w", what, err)
		}
		if yes {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("wait until %s: not so after %s", what, patience)
		}
		if err := wait(ctx, 250*time.Millisecond); err != nil {
			return err
		}
	}
}
