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

// mostFaults is how many are put down to the emulator in a run, and one more for
// every so many kills of the agent, each few of which start a machine.
const mostFaults, killsPerFault = 3, 40

// watched is a context that ends with a fault of the emulator: when the host's
// console tells of a panic, or with what a check blames on it.
func (h *host) watched(ctx context.Context) (context.Context, func() error) {
	ctx, cancel := context.WithCancelCause(ctx)
	h.blame = cancel
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
	return ctx, func() error {
		defer cancel(nil)
		if cause := context.Cause(ctx); errors.Is(cause, errPanic) || errors.Is(cause, errSilent) {
			return cause
		}
		return nil
	}
}

// part makes a part of the checks, and again where the emulator failed in it.
func (l *lab) part(ctx context.Context, name string, do func(context.Context) error) error {
	for {
		passed, failed := l.passed, l.failed
		on, fault := l.host.watched(ctx)
		err := l.phase(on, name, do)
		cause := fault()
		if cause == nil || ctx.Err() != nil {
			return err
		}
		if l.faults++; l.faults > mostFaults+l.kills/killsPerFault {
			l.failed++
			fmt.Printf("FAILED the emulator does its work: %d faults, the last: %v\n", l.faults, cause)
			return cause
		}
		fmt.Printf("       -- %v (%s): %s is made again on a host booted anew\n", cause, l.host.console(), name)
		l.passed, l.failed = passed, failed
		if err := l.revive(ctx, name == firstPart); err != nil {
			l.failed++
			fmt.Printf("FAILED after it all is as it was: %v\n", err)
			return err
		}
	}
}

// revive boots a host on which the emulator failed as it was, and frees what ran there.
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
