package fake

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/tenon-cloud/tenon/internal/hypervisor"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

// Exec answers a few commands: cat, echo, exit N, size (the terminal's, after
// each resize) and sleep (until the stream ends). Anything else, a login shell
// too, says that there is no guest and exits 127. With a Pace a shell answers.
func (e *Engine) Exec(ctx context.Context, id string, req nodewire.ExecRequest, streams hypervisor.ExecIO) (int, error) {
	g, err := e.running(id)
	if err != nil {
		return 0, err
	}
	done := make(chan int, 1)
	e.processes.Add(1)
	defer e.processes.Add(-1)
	go func() {
		if e.opts.Pace != nil && isShell(req.Command) {
			done <- e.shell(ctx, g, req, streams)
			return
		}
		done <- command(ctx, req, streams)
	}()
	select {
	case code := <-done:
		return code, nil
	case <-g.ended:
		return 137, nil
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// Processes is how many processes Exec has not ended yet.
func (e *Engine) Processes() int { return int(e.processes.Load()) }

func command(ctx context.Context, req nodewire.ExecRequest, s hypervisor.ExecIO) int {
	name, args := "", []string(nil)
	if len(req.Command) > 0 {
		name, args = req.Command[0], req.Command[1:]
	}
	switch name {
	case "cat":
		_, _ = io.Copy(s.Stdout, s.Stdin)
		return 0
	case "echo":
		_, _ = fmt.Fprintln(s.Stdout, strings.Join(args, " "))
		return 0
	case "exit":
		code, _ := strconv.Atoi(strings.Join(args, ""))
		return code
	case "size":
		select {
		case size := <-s.Resize:
			_, _ = fmt.Fprintf(s.Stdout, "%d %d\n", size[0], size[1])
			return 0
		case <-ctx.Done():
			return 1
		}
	case "sleep":
		<-ctx.Done()
		return 0
	}
	_, _ = fmt.Fprintln(s.Stderr, "This instance is simulated: it books resources and runs nothing.")
	return 127
}

// Logs streams the guest's lines.
func (e *Engine) Logs(ctx context.Context, id string, opts hypervisor.LogOptions) (io.ReadCloser, error) {
	e.mu.Lock()
	g := e.guests[id]
	if g == nil {
		e.mu.Unlock()
		return nil, fmt.Errorf("read log of simulated guest %s: %w", id, hypervisor.ErrNoGuest)
	}
	from := 0
	if opts.Tail > 0 {
		from = max(0, len(e.written(g))-opts.Tail)
	}
	e.mu.Unlock()
	r, w := io.Pipe()
	go func() {
		for {
			e.mu.Lock()
			all := e.written(g)
			lines, more := all[from:], g.logged
			from = len(all)
			ended := g.State != hypervisor.Running
			e.mu.Unlock()
			for _, l := range lines {
				if _, err := fmt.Fprintln(w, l); err != nil {
					return
				}
			}
			if !opts.Follow || ended {
				_ = w.Close()
				return
			}
			var tick <-chan time.Time
			if e.opts.Pace != nil {
				tick = time.After(stepEvery / 2)
			}
			select {
			case <-more:
			case <-tick:
			case <-g.ended:
			case <-ctx.Done():
				_ = w.CloseWithError(ctx.Err())
				return
			}
		}
	}()
	return r, nil
}

// Say makes a guest write a line.
func (e *Engine) Say(id, line string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if g := e.guests[id]; g != nil {
		g.log(line)
	}
}

func (e *Engine) running(id string) (*guest, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	g := e.guests[id]
	if g == nil || g.State != hypervisor.Running {
		return nil, fmt.Errorf("simulated guest %s: %w", id, hypervisor.ErrNoGuest)
	}
	return g, nil
}
