package containerd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/pkg/cio"
	"github.com/containerd/errdefs"
	"github.com/google/uuid"
	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/tenon-cloud/tenon/internal/hypervisor"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

const (
	hangupGrace = 2 * time.Second // between SIGHUP and SIGKILL of a dropped session
	drainGrace  = 2 * time.Second // for output that the process left in the pipes
)

// Exec implements hypervisor.Driver. The process joins the guest's cgroups,
// namespaces and device rules through runc. When ctx ends, it is hung up and then
// killed, with all that it started in its session.
func (d *Driver) Exec(ctx context.Context, id string, req nodewire.ExecRequest, streams hypervisor.ExecIO) (int, error) {
	c, t, err := d.task(ctx, id)
	if err != nil {
		return 0, err
	}
	if t == nil {
		return 0, fmt.Errorf("%w: it does not run", hypervisor.ErrNoGuest)
	}
	spec, err := c.Spec(ctx)
	if err != nil {
		return 0, fmt.Errorf("read container spec: %w", err)
	}
	process := d.execProcess(*spec.Process, id, req)
	stdin := &closingReader{Reader: streams.Stdin}
	calls := context.WithoutCancel(ctx) // the process must be ended even when the caller has gone
	p, err := t.Exec(calls, "exec-"+uuid.NewString(), &process, d.execIO(req.TTY, stdin, streams))
	if err != nil {
		return 0, fmt.Errorf("make process: %w", err)
	}
	defer func() {
		last, cancel := context.WithTimeout(calls, killTimeout)
		defer cancel()
		if _, err := p.Delete(last, client.WithProcessKill); err != nil && !errdefs.IsNotFound(err) {
			d.log.Warn("delete process", "instance", id, "error", err)
		}
	}()
	exited, err := p.Wait(calls)
	if err != nil {
		return 0, fmt.Errorf("wait for process: %w", err)
	}
	if err := p.Start(calls); err != nil {
		return 0, asStartFailure(err)
	}
	if err := killFirst(int(p.Pid()), d.cgroupPath(id)); err != nil { // it may have ended
		d.log.Debug("mark process", "instance", id, "error", err)
	}
	stop := make(chan struct{})
	defer close(stop)
	// Not before the start: the shim has no input to close until then, and says nothing.
	stdin.onEOF(func() { closeInput(calls, p, stop) })
	if req.TTY {
		go resize(calls, p, req, streams.Resize, stop)
	}
	select {
	case status := <-exited:
		drain(p.IO())
		code, _, err := status.Result()
		if err != nil {
			// The daemon went away: nobody else can end the process now.
			signalAll(inSession(int(p.Pid())), syscall.SIGKILL)
			return 0, fmt.Errorf("wait for process: %w", err)
		}
		return int(code), nil
	case <-ctx.Done():
		hangUp(calls, p, exited)
		return 0, context.Cause(ctx)
	}
}

// execProcess is the container's own process with another command: the same
// user, capabilities, filter and limits.
func (d *Driver) execProcess(p specs.Process, id string, req nodewire.ExecRequest) specs.Process {
	p.Args, p.Terminal = req.Command, req.TTY
	if len(p.Args) == 0 {
		p.Args = []string{d.loginShell(id), "-l"}
	}
	extra := make([]string, 0, len(req.Env)+1)
	if req.TTY {
		if _, ok := req.Env["TERM"]; !ok {
			extra = append(extra, "TERM=xterm-256color")
		}
		if req.Columns > 0 && req.Rows > 0 {
			p.ConsoleSize = &specs.Box{Width: uint(req.Columns), Height: uint(req.Rows)}
		}
	}
	for k, v := range req.Env {
		extra = append(extra, k+"="+v)
	}
	sort.Strings(extra)
	p.Env = merge(p.Env, extra)
	return p
}

// merge replaces variables by name: a program reads the first of two.
func merge(env, with []string) []string {
	merged := slices.Clone(env)
	for _, v := range with {
		name, _, _ := strings.Cut(v, "=")
		merged = slices.DeleteFunc(merged, func(old string) bool { return strings.HasPrefix(old, name+"=") })
		merged = append(merged, v)
	}
	return merged
}

// loginShell looks without following links: the root file system is the guest's.
func (d *Driver) loginShell(id string) string {
	root, err := os.OpenRoot(d.rootfsPath(id))
	if err != nil {
		return "/bin/sh"
	}
	defer root.Close()
	for _, shell := range []string{"bin/bash", "usr/bin/bash"} {
		if _, err := root.Lstat(shell); err == nil {
			return "/" + shell
		}
	}
	return "/bin/sh"
}

func (d *Driver) execIO(tty bool, stdin *closingReader, streams hypervisor.ExecIO) cio.Creator {
	var in io.Reader
	if stdin.Reader != nil {
		in = stdin
	}
	out, problem := streams.Stdout, streams.Stderr
	if out == nil {
		out = io.Discard
	}
	if problem == nil {
		problem = io.Discard
	}
	opts := []cio.Opt{cio.WithFIFODir(fifoDir(d.cfg))}
	if tty {
		return cio.NewCreator(append(opts, cio.WithStreams(in, out, nil), cio.WithTerminal)...)
	}
	return cio.NewCreator(append(opts, cio.WithStreams(in, out, problem))...)
}

// closeInput ends a process's input; a daemon that is away is asked again. Our end
// of the pipe and the shim's may both have been closed before they were open; then
// the shim waits for a writer that never comes, and so there is one meanwhile.
func closeInput(ctx context.Context, p client.Process, stop <-chan struct{}) {
	for {
		writer, err := os.OpenFile(p.IO().Config().Stdin, syscall.O_WRONLY|syscall.O_NONBLOCK, 0)
		if !errors.Is(err, syscall.ENXIO) { // else nobody reads it yet
			err = p.CloseIO(ctx, client.WithStdinCloser)
			if writer != nil {
				_ = writer.Close()
			}
			if err == nil || errdefs.IsNotFound(err) {
				return
			}
		}
		select {
		case <-stop:
			return
		case <-time.After(followInterval):
		}
	}
}

func resize(ctx context.Context, p client.Process, req nodewire.ExecRequest, sizes <-chan [2]uint16, stop <-chan struct{}) {
	if req.Columns > 0 && req.Rows > 0 {
		_ = p.Resize(ctx, uint32(req.Columns), uint32(req.Rows))
	}
	for {
		select {
		case <-stop:
			return
		case size, ok := <-sizes:
			if !ok {
				return
			}
			_ = p.Resize(ctx, uint32(size[0]), uint32(size[1])) // a process that just ended can't be resized
		}
	}
}

// drain waits a little for the last output: a background child may hold the
// pipes open for as long as it likes.
func drain(streams cio.IO) {
	done := make(chan struct{})
	go func() { streams.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(drainGrace):
		streams.Cancel()
	}
}

// hangUp ends a session whose client dropped.
func hangUp(ctx context.Context, p client.Process, exited <-chan client.ExitStatus) {
	session := inSession(int(p.Pid()))
	signalAll(session, syscall.SIGHUP)
	_ = p.Kill(ctx, syscall.SIGHUP)
	select {
	case <-exited:
	case <-time.After(hangupGrace):
	}
	signalAll(append(session, inSession(int(p.Pid()))...), syscall.SIGKILL)
	_ = p.Kill(ctx, syscall.SIGKILL)
	p.IO().Cancel()
}

// member is a process with its start time, so that a number that was taken anew
// is not killed.
type member struct {
	pid     int
	started string
}

// inSession lists the processes of a session by its leader's host pid; runc makes
// every process that it starts a leader.
func inSession(leader int) []member {
	entries, _ := os.ReadDir("/proc")
	var found []member
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if session, started := procStat(pid); session == leader {
			found = append(found, member{pid, started})
		}
	}
	return found
}

func procStat(pid int) (session int, started string) {
	raw, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return 0, ""
	}
	_, rest, _ := strings.Cut(string(raw[strings.LastIndexByte(string(raw), ')')+1:]), " ")
	fields := strings.Fields(rest)
	if len(fields) < 20 {
		return 0, ""
	}
	session, _ = strconv.Atoi(fields[3])
	return session, fields[19]
}

func signalAll(members []member, s syscall.Signal) {
	for _, m := range members {
		if _, started := procStat(m.pid); started == m.started {
			_ = syscall.Kill(m.pid, s)
		}
	}
}

// closingReader tells when its source has ended, so that the process sees the end
// of its input.
type closingReader struct {
	io.Reader
	mu    sync.Mutex
	ended bool
	then  func()
}

func (r *closingReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if err != nil {
		r.mu.Lock()
		r.ended = true
		then := r.then
		r.mu.Unlock()
		if then != nil {
			go then()
		}
		if !errors.Is(err, io.EOF) {
			err = io.EOF // a dropped client ends the input; ctx ends the process
		}
	}
	return n, err
}

func (r *closingReader) onEOF(then func()) {
	r.mu.Lock()
	r.then = then
	ended := r.ended
	r.mu.Unlock()
	if ended {
		go then()
	}
}
