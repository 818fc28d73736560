// Package loop runs one idempotent step over and over: at the start, when
// something woke it, and on an interval, only while this process leads. The
// step looks at the world and moves it one way; a lost wake-up costs one
// interval and nothing else.
//
//	idle ──wake, interval──► tick ──ok──────────────► idle
//	  ▲                        ├──woken meanwhile────► tick
//	  │                        └──error, panic──► wait, longer each time ──► tick
//	  └── not the leader: every interval it asks again
//
// Imports: the standard library only. It knows no SQL: waking and leadership
// are a channel and an interface.
package loop

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime/debug"
	"time"
)

// Leader says whether this process may tick now. It may block to find out; an
// error means not now.
type Leader interface {
	Lead(ctx context.Context) (bool, error)
}

// Observer counts ticks. It is called from the loop's own goroutine.
type Observer interface {
	// Ticked is called after each tick with how long it took and how it ended.
	Ticked(loop string, took time.Duration, err error)
	// Led is called when leadership was asked about.
	Led(loop string, leading bool)
}

// Runner is one loop. Name, Tick and Interval must be set.
type Runner struct {
	Name     string
	Tick     func(ctx context.Context) error
	Interval time.Duration   // between ticks when nothing wakes it; ± 10 % so that replicas drift apart
	Wake     <-chan struct{} // nil: never woken
	Leader   Leader          // nil: always leads
	Log      *slog.Logger    // nil: slog.Default
	Observer Observer        // nil: none
	BackOff  BackOff         // zero: 100 ms to the interval, at most 30 s
}

// BackOff bounds the wait after failures, which doubles from First to Last.
type BackOff struct{ First, Last time.Duration }

func (b BackOff) after(failures int, interval time.Duration) time.Duration {
	first, last := b.First, b.Last
	if first <= 0 {
		first = 100 * time.Millisecond
	}
	if last <= 0 {
		last = max(first, min(interval, 30*time.Second))
	}
	d := first
	for i := 1; i < failures && d < last; i++ {
		d *= 2
	}
	return min(d, last)
}

// Run ticks until ctx ends and returns its error. A wake-up that comes during a
// tick causes one more; any number of them cause one. A failing tick is retried
// after a wait that wake-ups don't shorten.
func (r *Runner) Run(ctx context.Context) error {
	log := r.Log
	if log == nil {
		log = slog.Default()
	}
	log = log.With("loop", r.Name)
	wake := r.Wake
	failures := 0
	leading := r.Leader == nil
	for {
		if r.Leader != nil {
			leading = r.lead(ctx, log, leading)
		}
		pause := jitter(r.Interval)
		listen := wake
		if leading {
			// Wake-ups up to here are answered by the tick that follows.
			wake = drain(wake)
			listen = wake
			if err := r.tick(ctx); err != nil && ctx.Err() == nil {
				failures++
				pause, listen = jitter(r.BackOff.after(failures, r.Interval)), nil
				log.Error("loop tick failed", "error", err, "failures", failures, "retry_in", pause.Round(time.Millisecond))
			} else {
				failures = 0
			}
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-timer.C:
		case _, open := <-listen:
			timer.Stop()
			if !open {
				wake = nil // whoever woke us is gone: the interval remains
			}
		}
	}
}

func (r *Runner) lead(ctx context.Context, log *slog.Logger, was bool) bool {
	leading, err := r.Leader.Lead(ctx)
	if err != nil && ctx.Err() == nil {
		log.Warn("loop can't tell whether it leads", "error", err)
	}
	leading = leading && err == nil
	if leading != was {
		log.Info("loop leadership changed", "leading", leading)
	}
	if r.Observer != nil {
		r.Observer.Led(r.Name, leading)
	}
	return leading
}

func (r *Runner) tick(ctx context.Context) (err error) {
	start := time.Now()
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("tick %s: panic: %v\n%s", r.Name, p, debug.Stack())
		}
		if r.Observer != nil {
			r.Observer.Ticked(r.Name, time.Since(start), err)
		}
	}()
	return r.Tick(ctx)
}

// drain takes what is waiting; a closed channel becomes nil.
func drain(wake <-chan struct{}) <-chan struct{} {
	for {
		select {
		case _, open := <-wake:
			if !open {
				return nil
			}
		default:
			return wake
		}
	}
}

// jitter spreads a duration over ± 10 %.
func jitter(d time.Duration) time.Duration {
	if d <= 0 {
		d = time.Second
	}
	return d - d/10 + rand.N(d/5+1)
}
