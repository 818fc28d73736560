package loop

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// seen is what an observer was told.
type seen struct {
	ticks, failures, asked int
	leading                bool
}

type counts struct {
	mu sync.Mutex
	n  seen
}

// now is what was told so far.
func (c *counts) now() seen {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n
}

func (c *counts) Ticked(_ string, _ time.Duration, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n.ticks++
	if err != nil {
		c.n.failures++
	}
}

func (c *counts) Led(_ string, leading bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n.asked++
	c.n.leading = leading
}

type switchLeader struct{ on, broken atomic.Bool }

func (s *switchLeader) Lead(context.Context) (bool, error) {
	if s.broken.Load() {
		return true, errors.New("database away")
	}
	return s.on.Load(), nil
}

// start runs the loop inside the bubble and stops it at the end.
func start(t *testing.T, r *Runner) *counts {
	t.Helper()
	c := &counts{}
	r.Name, r.Observer = "test", c
	if r.Log == nil {
		r.Log = slog.New(slog.DiscardHandler)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Run ends with %v", err)
		}
	})
	synctest.Wait()
	return c
}

// pass lets the bubble's clock go on.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, f)
}

func TestTicksAtStartAndOnTheInterval(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := start(t, &Runner{Interval: 10 * time.Second, Tick: func(context.Context) error { return nil }})
		if c.now().ticks != 1 {
			t.Fatalf("%d ticks at the start", c.now().ticks)
		}
		pass(105 * time.Second)
		if c.now().ticks < 10 || c.now().ticks > 12 {
			t.Errorf("%d ticks in 105 s of 10 s intervals", c.now().ticks)
		}
	})
}

func TestWakeTicksAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		wake := make(chan struct{}, 1)
		c := start(t, &Runner{Interval: time.Hour, Wake: wake, Tick: func(context.Context) error { return nil }})
		wake <- struct{}{}
		synctest.Wait()
		if c.now().ticks != 2 {
			t.Errorf("%d ticks after one wake-up", c.now().ticks)
		}
		close(wake)
		pass(30 * time.Minute)
		if c.now().ticks > 3 {
			t.Errorf("a closed channel keeps ticking: %d", c.now().ticks)
		}
		pass(2 * time.Hour)
		if c.now().ticks < 4 {
			t.Error("the interval ended with the channel")
		}
	})
}

func TestWakesDuringATickCauseOneMore(t *testing.T) {
	bubble(t, func(t *testing.T) {
		wake := make(chan struct{}, 8)
		busy, done := make(chan struct{}), make(chan struct{})
		c := start(t, &Runner{Interval: time.Hour, Wake: wake, Tick: func(ctx context.Context) error {
			select {
			case busy <- struct{}{}:
				<-done
			case <-ctx.Done():
			}
			return nil
		}})
		<-busy // the first tick is under way
		for range 5 {
			wake <- struct{}{}
		}
		done <- struct{}{}
		<-busy // the one that the wake-ups caused
		done <- struct{}{}
		pass(time.Minute)
		if c.now().ticks != 2 {
			t.Errorf("%d ticks, want the first and one for all wake-ups", c.now().ticks)
		}
	})
}

func TestFailuresBackOffAndAreCounted(t *testing.T) {
	bubble(t, func(t *testing.T) {
		wake := make(chan struct{}, 1)
		var fail atomic.Bool
		fail.Store(true)
		c := start(t, &Runner{Interval: time.Hour, Wake: wake, BackOff: BackOff{time.Second, 8 * time.Second},
			Tick: func(context.Context) error {
				if fail.Load() {
					return errors.New("no")
				}
				return nil
			}})
		wake <- struct{}{}
		synctest.Wait()
		if c.now().ticks != 1 {
			t.Error("a wake-up shortens the wait after a failure")
		}
		pass(20 * time.Second) // after 1, 2, 4, 8 s: four more, each ± 10 %
		if c.now().failures < 4 || c.now().failures > 6 {
			t.Errorf("%d failures in 20 s", c.now().failures)
		}
		fail.Store(false)
		pass(10 * time.Second)
		n := c.now().ticks
		if c.now().failures == n {
			t.Fatal("it does not recover")
		}
		pass(10 * time.Minute)
		if c.now().ticks != n {
			t.Errorf("after recovery the interval holds: %d more ticks", c.now().ticks-n)
		}
	})
}

func TestPanicIsLoggedAndRetried(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var log strings.Builder
		first := true
		c := start(t, &Runner{Interval: time.Hour, Log: slog.New(slog.NewTextHandler(&log, nil)), Tick: func(context.Context) error {
			if first {
				first = false
				panic("lost my slots")
			}
			return nil
		}})
		pass(time.Second)
		if c.now().ticks != 2 || c.now().failures != 1 {
			t.Errorf("%d ticks, %d failures", c.now().ticks, c.now().failures)
		}
		if !strings.Contains(log.String(), "lost my slots") || !strings.Contains(log.String(), "loop=test") {
			t.Errorf("log: %s", log.String())
		}
	})
}

func TestOnlyTheLeaderTicks(t *testing.T) {
	bubble(t, func(t *testing.T) {
		wake := make(chan struct{}, 1)
		l := &switchLeader{}
		c := start(t, &Runner{Interval: time.Second, Wake: wake, Leader: l, Tick: func(context.Context) error { return nil }})
		wake <- struct{}{}
		pass(5 * time.Second)
		if c.now().ticks != 0 || c.now().asked < 4 {
			t.Errorf("%d ticks, asked %d times, without leadership", c.now().ticks, c.now().asked)
		}
		l.on.Store(true)
		pass(5 * time.Second)
		if c.now().ticks < 4 || !c.now().leading {
			t.Errorf("%d ticks as the leader", c.now().ticks)
		}
		l.broken.Store(true)
		pass(2 * time.Second)
		n := c.now().ticks
		pass(5 * time.Second)
		if c.now().ticks != n || c.now().leading {
			t.Error("it ticks though it can't tell whether it leads")
		}
	})
}
