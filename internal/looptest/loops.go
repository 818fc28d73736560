package looptest

import (
	"context"
	"log/slog"
	"testing"

	"github.com/tenon-cloud/tenon/internal/lifecycle"
	"github.com/tenon-cloud/tenon/internal/metering"
	"github.com/tenon-cloud/tenon/internal/scheduler"
)

// Loops are the control plane's loops, taken step by step.
type Loops struct {
	Scheduler *scheduler.Scheduler
	Lifecycle *lifecycle.Lifecycle
	Metering  *metering.Metering
}

// Loops makes loops on the world that always lead.
func (w *World) Loops() Loops { return w.LoopsLed(Leader{DB: w.DB}) }

// LoopsLed makes them under a given leader.
func (w *World) LoopsLed(leader Leader) Loops {
	quiet := slog.New(slog.DiscardHandler)
	return Loops{
		Scheduler: scheduler.New(scheduler.Config{DB: w.DB, Leader: leader, Log: quiet}),
		Lifecycle: lifecycle.New(lifecycle.Config{DB: w.DB, Leader: leader, Log: quiet, ByDatabaseClock: true}),
		Metering:  metering.New(metering.Config{DB: w.DB, Leader: leader, Log: quiet}),
	}
}

// Step takes one step with each loop.
func (l Loops) Step(ctx context.Context) error {
	for _, step := range []func(context.Context) error{l.Scheduler.Tick, l.Lifecycle.Step, l.Metering.Tick} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Turn takes a step with each loop and lets each machine act.
func (l Loops) Turn(t testing.TB, machines ...*Machine) {
	t.Helper()
	if err := l.Step(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, m := range machines {
		if err := m.Act(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// Until turns until ok holds, at most 50 times.
func (l Loops) Until(t testing.TB, what string, ok func() bool, machines ...*Machine) {
	t.Helper()
	for range 50 {
		if ok() {
			return
		}
		l.Turn(t, machines...)
	}
	if !ok() {
		t.Fatalf("not within 50 turns: %s", what)
	}
}
