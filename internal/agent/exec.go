package agent

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tenon-cloud/tenon/internal/hypervisor"
	"github.com/tenon-cloud/tenon/internal/nodewire"
	"github.com/tenon-cloud/tenon/internal/tunnel"
)

// getExec joins a process inside a guest to the connection.
func (a *Agent) getExec(w http.ResponseWriter, r *http.Request) {
	id, d := a.guestDriver(w, r)
	if d == nil {
		return
	}
	var req nodewire.ExecRequest
	raw, err := base64.StdEncoding.DecodeString(r.Header.Get("Tenon-Exec"))
	if err == nil {
		err = json.Unmarshal(raw, &req)
	}
	if err != nil {
		refuse(w, http.StatusBadRequest, "Tenon-Exec is not an exec request in base64 JSON")
		return
	}
	conn, err := tunnel.Accept(w, r, nodewire.UpgradeExec)
	if err != nil {
		return
	}
	defer func() { _ = conn.Close() }()
	// The request's own context ends with the hijack; the agent's must do.
	ctx, cancel := context.WithCancel(a.context())
	defer cancel()
	defer a.streams.join(id, true)()
	a.serveExec(ctx, cancel, conn, id, d, req)
}

func (a *Agent) context() context.Context {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.runCtx == nil {
		return context.Background()
	}
	return a.runCtx
}

func (a *Agent) serveExec(ctx context.Context, cancel context.CancelFunc, conn net.Conn, id string, d hypervisor.Driver, req nodewire.ExecRequest) {
	// The agent's end must not wait for a peer that is silent.
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	out := &frameWriter{conn: conn, broken: cancel}
	stdin, feed := io.Pipe()
	resize := make(chan [2]uint16, 1)
	if req.TTY && req.Columns > 0 && req.Rows > 0 {
		resize <- [2]uint16{uint16(min(req.Columns, 0xffff)), uint16(min(req.Rows, 0xffff))}
	}
	left := make(chan struct{})
	input := &slowInput{PipeWriter: feed}
	go input.probe(ctx, out)
	go func() {
		defer close(left)
		err := readFrames(conn, input, resize)
		_ = feed.CloseWithError(err)
		cancel() // the peer has left or talks nonsense; the end of stdin alone is a frame
	}()
	code, err := d.Exec(ctx, id, req, hypervisor.ExecIO{
		Stdin: stdin, Stdout: out.stream(nodewire.FrameStdout), Stderr: out.stream(nodewire.FrameStderr), Resize: resize,
	})
	_ = stdin.Close()
	// Input that nobody read would turn our close into a reset, and the reset
	// would overtake the exit code: let the peer close first.
	defer func() {
		if c, ok := conn.(interface{ CloseWrite() error }); ok && c.CloseWrite() == nil {
			select {
			case <-left:
			case <-time.After(2 * time.Second):
			}
		}
	}()
	if err != nil {
		a.log.Debug("exec", "instance", id, "error", err)
		message := "the command could not be started"
		var f *hypervisor.Failure
		switch {
		case errors.Is(err, hypervisor.ErrNoGuest):
			message = "the instance is not running"
		case errors.As(err, &f):
			message = f.Message
		}
		if code, ok := shellCode(message); ok {
			_ = out.write(nodewire.FrameStderr, []byte(message+"\n"))
			out.last(nodewire.FrameExit, binary.BigEndian.AppendUint32(nil, uint32(code)))
			return
		}
		out.last(nodewire.FrameError, []byte(message))
		return
	}
	out.last(nodewire.FrameExit, binary.BigEndian.AppendUint32(nil, uint32(int32(code))))
}

// shellCode is what a shell exits with for a command that could not be run, by the
// runtime's own words: 127 it is not there, 126 it can't be executed.
func shellCode(message string) (code int32, ok bool) {
	switch {
	case !strings.HasPrefix(message, `exec: "`):
		return 0, false
	case strings.Contains(message, "not found"), strings.Contains(message, "no such file"):
		return 127, true
	}
	return 126, true
}

// probeInterval is how long input may wait for the process before the peer is
// asked whether it is still there.
const probeInterval = time.Second

// slowInput is the process's input, which it may never read. While a write waits,
// nobody reads the connection and sees the peer leave, but a peer that has left
// resets what it is sent; so it is sent empty output.
type slowInput struct {
	*io.PipeWriter
	steps atomic.Int64 // odd while a write waits
}

func (s *slowInput) Write(p []byte) (int, error) {
	s.steps.Add(1)
	defer s.steps.Add(1)
	return s.PipeWriter.Write(p)
}

func (s *slowInput) probe(ctx context.Context, out *frameWriter) {
	tick := time.NewTicker(probeInterval)
	defer tick.Stop()
	before := int64(0)
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := s.steps.Load()
		if now%2 == 1 && now == before {
			_ = out.write(nodewire.FrameStdout, nil) // a failure ends the process
		}
		before = now
	}
}

// readFrames feeds the process until the peer has left.
func readFrames(conn net.Conn, feed *slowInput, resize chan [2]uint16) error {
	for {
		kind, payload, err := nodewire.ReadFrame(conn)
		if err != nil {
			return err
		}
		switch kind {
		case nodewire.FrameStdin:
			// A process that reads no more makes this fail; what follows is dropped.
			_, _ = feed.Write(payload)
		case nodewire.FrameStdinClose:
			_ = feed.Close()
		case nodewire.FrameResize:
			if len(payload) != 4 {
				return errors.New("resize frame of a wrong size")
			}
			size := [2]uint16{binary.BigEndian.Uint16(payload), binary.BigEndian.Uint16(payload[2:])}
			select { // only the last size matters
			case <-resize:
			default:
			}
			resize <- size
		}
	}
}

// frameWriter sends the frames of several streams over one connection.
type frameWriter struct {
	mu     sync.Mutex
	conn   net.Conn
	broken context.CancelFunc
	over   bool
}

// last writes the frame that nothing follows.
func (f *frameWriter) last(kind byte, p []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.over = true
	_ = nodewire.WriteFrame(f.conn, kind, p)
}

func (f *frameWriter) write(kind byte, p []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.over {
		return io.ErrClosedPipe
	}
	err := nodewire.WriteFrame(f.conn, kind, p)
	if err != nil {
		f.broken()
	}
	return err
}

func (f *frameWriter) stream(kind byte) io.Writer { return frameStream{f, kind} }

type frameStream struct {
	f    *frameWriter
	kind byte
}

func (s frameStream) Write(p []byte) (int, error) {
	n := 0
	for len(p) > 0 {
		chunk := p[:min(len(p), 64<<10)]
		if err := s.f.write(s.kind, chunk); err != nil {
			return n, err
		}
		n += len(chunk)
		p = p[len(chunk):]
	}
	return n, nil
}
