package devcloud

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Service is one child process and how it is kept.
type Service struct {
	Name       string
	Argv       []string // holds a path of this cloud, so that no other process has the same
	Becomes    []string // its command line once it has replaced itself by another program; empty: Argv
	Env        []string // beyond a minimal environment
	Credential *syscall.Credential
	StopSignal syscall.Signal
	StopGrace  time.Duration
	Ready      func(ctx context.Context) error // asked until it answers nil
	ReadyIn    time.Duration
	Config     []byte // what else a change of which needs a restart
}

// looks is the command line that the running process has.
func (s Service) looks() []string {
	if len(s.Becomes) > 0 {
		return s.Becomes
	}
	return s.Argv
}

// key changes with the program's file, its settings and its environment.
func (s Service) key() string {
	h := sha256.New()
	if info, err := os.Stat(s.looks()[0]); err == nil {
		_, _ = fmt.Fprintf(h, "%d %d\n", info.Size(), info.ModTime().UnixNano())
	}
	_, _ = fmt.Fprintf(h, "%q %q %q", s.Argv, s.Env, s.Config)
	return hex.EncodeToString(h.Sum(nil))[:16]
}

// Back-off of a child that ends: doubled each time, forgotten once it has lived
// for a while.
const (
	backoffFirst = 200 * time.Millisecond
	backoffMax   = 10 * time.Second
	backoffCalm  = 30 * time.Second
)

// child keeps one service running until it is told to stop.
type child struct {
	Service
	run, log string
	note     func(format string, args ...any) // a line for the person at the console

	mu      sync.Mutex
	now     process
	adopted bool
	cancel  context.CancelFunc
	done    chan struct{}
}

func newChild(s Service, run, log string, note func(string, ...any)) *child {
	return &child{Service: s, run: run, log: log, note: note}
}

// start adopts or starts the process, keeps it from then on, and returns when
// it is ready or can't be. One that is kept already is only waited for.
func (c *child) start(ctx context.Context) error {
	if c.cancel != nil {
		return c.ready(ctx)
	}
	if err := c.launch(); err != nil {
		return err
	}
	keep, cancel := context.WithCancel(context.WithoutCancel(ctx))
	c.cancel, c.done = cancel, make(chan struct{})
	go c.keep(keep)
	return c.ready(ctx)
}

// launch makes a process of the right program and settings run.
func (c *child) launch() error {
	if p, ok := survivor(c.run, c.Name, c.looks()); ok {
		if p.Key == c.key() {
			c.set(p, true)
			return nil
		}
		p.stop(c.StopSignal, c.StopGrace, nil)
	}
	log, err := openLog(c.log)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	cmd := exec.Command(c.Argv[0], c.Argv[1:]...)
	cmd.Dir = "/"
	cmd.Env = append([]string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8", "HOME=/"}, c.Env...)
	cmd.Stdout, cmd.Stderr = log, log // the file itself: a pipe would break when we are killed
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: c.Credential}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", c.Name, err)
	}
	ticks, err := startTicks(cmd.Process.Pid)
	if err != nil && !errors.Is(err, os.ErrProcessDone) {
		ticks = 0
	}
	p := process{PID: cmd.Process.Pid, StartedAt: ticks, Key: c.key()}
	c.set(p, false)
	go func() { _ = cmd.Wait() }() // reaps it; its end is seen through ended
	return p.save(c.run, c.Name)
}

func (c *child) set(p process, adopted bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now, c.adopted = p, adopted
}

func (c *child) process() process {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// keep starts the process again whenever it ends.
func (c *child) keep(ctx context.Context) {
	defer close(c.done)
	wait := backoffFirst
	for {
		began := time.Now()
		select {
		case <-ctx.Done():
			return
		case <-c.process().ended():
		}
		if time.Since(began) > backoffCalm {
			wait = backoffFirst
		}
		c.note("%s ended; starting it again in %s. Its last line: %s", c.Name, wait, lastLine(c.log))
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(wait):
			}
			wait = min(2*wait, backoffMax)
			err := c.launch()
			if err == nil {
				break
			}
			c.note("%v; trying again in %s", err, wait)
		}
		go c.announce(ctx, c.process())
	}
}

// announce says that a restarted process answers, unless it has ended by then.
func (c *child) announce(ctx context.Context, p process) {
	if err := c.ready(ctx); err == nil && c.process() == p {
		c.note("%s is back", c.Name)
	}
}

// ready waits until the service answers.
func (c *child) ready(ctx context.Context) error {
	if c.Ready == nil {
		return nil
	}
	limit, cancel := context.WithTimeout(ctx, c.ReadyIn)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	var last error
	for {
		if last = c.Ready(limit); last == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-limit.Done():
			return fmt.Errorf("%s is not ready after %s: %w\n%s says:\n%s", c.Name, c.ReadyIn, last, c.log, strings.Join(tailLines(c.log, 6), "\n"))
		case <-tick.C:
		}
	}
}

// stop ends the keeping and then the process.
func (c *child) stop(hurry <-chan struct{}) {
	if c.cancel == nil {
		return
	}
	c.cancel()
	<-c.done
	c.process().stop(c.StopSignal, c.StopGrace, hurry)
	_ = os.Remove(pidFile(c.run, c.Name))
}
