package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/tenon-cloud/tenon/api"
)

// errPanic: the host's kernel gave up. QEMU emulates the processor's own
// virtualisation, and about one start of a machine in it in twenty breaks the
// kernel that starts it ("TASK stack guard page was hit"). No program on a node
// can bring that about, so it is told, and the part is made again.
var errPanic = errors.New("the emulated host's kernel panicked")

// mostPanics is how many are put down to the emulator.
const mostPanics = 3

// watched is a context that ends when the host's console tells of a panic.
func (h *host) watched(ctx context.Context) (context.Context, func() (panicked bool)) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			if raw, err := os.ReadFile(h.console()); err == nil && bytes.Contains(raw, []byte("Kernel panic")) {
				cancel(errPanic)
				return
			}
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	}()
	return ctx, func() bool {
		defer cancel(nil)
		return errors.Is(context.Cause(ctx), errPanic)
	}
}

// part makes a part of the checks, and again where the host panicked in it.
func (l *lab) part(ctx context.Context, name string, do func(context.Context) error) error {
	for {
		passed, failed := l.passed, l.failed
		on, panicked := l.host.watched(ctx)
		err := l.phase(on, name, do)
		if !panicked() || ctx.Err() != nil {
			return err
		}
		if l.panics++; l.panics > mostPanics {
			l.failed++
			return fmt.Errorf("%w %d times", errPanic, l.panics)
		}
		fmt.Printf("       -- %v (%s): %s is made again on a host booted anew\n", errPanic, l.host.console(), name)
		l.passed, l.failed = passed, failed
		if err := l.revive(ctx, name == firstPart); err != nil {
			l.failed++
			fmt.Printf("FAILED after the panic all is as it was: %v\n", err)
			return err
		}
	}
}

// revive boots a host that has panicked as it was, and frees what ran there.
func (l *lab) revive(ctx context.Context, first bool) error {
	if err := l.host.stop(ctx, false); err != nil || first {
		return err
	}
	l.joined = true
	if err := l.host.start(ctx); err != nil {
		return err
	}
	if err := l.ready(ctx, 5*time.Minute); err != nil {
		return err
	}
	if err := l.sweep(ctx); err != nil {
		return err
	}
	all, err := l.cards(ctx)
	if err != nil {
		return err
	}
	for address, g := range all {
		if g.State == "quarantined" && g.Mode == "whole" {
			if _, err := l.cloud.Client.GPURecover(ctx, g.ID); err != nil && !errors.Is(err, &api.Problem{Code: "gpu_not_out"}) {
				return err
			}
			if _, err := l.cardIs(ctx, address, "ready", time.Minute); err != nil {
				return err
			}
		}
	}
	return nil
}
