package agent

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tenon-cloud/tenon/internal/hypervisor"
	"github.com/tenon-cloud/tenon/internal/nodewire"
	"github.com/tenon-cloud/tenon/internal/tunnel"
)

// maxStreams bounds those of one instance, so that none takes the node's
// descriptors from the others.
const maxStreams = 512

// sshPort is the one port whose streams are somebody's session.
const sshPort = 22

// streams counts what is joined to each instance.
type streams struct {
	mu       sync.Mutex
	open     map[string]int
	sessions map[string]int
}

// join counts a stream until the function that it gives is called.
func (s *streams) join(id string, session bool) (leave func()) {
	add := func(n int) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.open == nil {
			s.open, s.sessions = map[string]int{}, map[string]int{}
		}
		if s.open[id] += n; s.open[id] == 0 {
			delete(s.open, id)
		}
		if !session {
			return
		}
		if s.sessions[id] += n; s.sessions[id] == 0 {
			delete(s.sessions, id)
		}
	}
	add(1)
	return sync.OnceFunc(func() { add(-1) })
}

func (s *streams) count(id string) (open, sessions int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open[id], s.sessions[id]
}

// getPort joins a TCP port inside a guest.
func (a *Agent) getPort(w http.ResponseWriter, r *http.Request) {
	port, err := strconv.Atoi(r.PathValue("port"))
	if err != nil || port < 1 || port > 65535 {
		refuse(w, http.StatusBadRequest, "a port is a number from 1 to 65535")
		return
	}
	a.serveStream(w, r, nodewire.UpgradePort, port == sshPort, func(ctx context.Context, d hypervisor.Driver, id string) (io.ReadWriteCloser, error) {
		dialer, ok := d.(hypervisor.Dialer)
		if !ok {
			return nil, errNoSuchStream
		}
		return dialer.Dial(ctx, id, port)
	})
}

// getConsole joins a VM's serial port.
func (a *Agent) getConsole(w http.ResponseWriter, r *http.Request) {
	a.serveStream(w, r, nodewire.UpgradeConsole, true, func(ctx context.Context, d hypervisor.Driver, id string) (io.ReadWriteCloser, error) {
		c, ok := d.(hypervisor.Consoler)
		if !ok {
			return nil, errNoSuchStream
		}
		return c.Console(ctx, id)
	})
}

// getScreen joins a VM's screen.
func (a *Agent) getScreen(w http.ResponseWriter, r *http.Request) {
	a.serveStream(w, r, nodewire.UpgradeScreen, true, func(ctx context.Context, d hypervisor.Driver, id string) (io.ReadWriteCloser, error) {
		c, ok := d.(hypervisor.Consoler)
		if !ok {
			return nil, errNoSuchStream
		}
		return c.Screen(ctx, id)
	})
}

var errNoSuchStream = errors.New("instances of this kind have none")

// serveStream opens the guest's end, then joins it to the connection. The answers
// before that say why not: 404 the node doesn't know it, 409 it does not run or
// has no such thing, 502 nothing answers inside, 503 too many are open.
func (a *Agent) serveStream(w http.ResponseWriter, r *http.Request, protocol string, session bool,
	open func(context.Context, hypervisor.Driver, string) (io.ReadWriteCloser, error)) {
	id, d := a.guestDriver(w, r)
	if d == nil {
		return
	}
	if !a.runs(id) {
		refuse(w, http.StatusConflict, "the instance is not running")
		return
	}
	if n, _ := a.streams.count(id); n >= maxStreams {
		refuse(w, http.StatusServiceUnavailable, "too many streams to this instance are open")
		return
	}
	defer a.streams.join(id, session)()
	// The request's own context ends with the hijack; the agent's must do.
	ctx, cancel := context.WithCancel(a.context())
	defer cancel()
	asked := context.AfterFunc(r.Context(), cancel) // until then its leaving ends it
	guest, err := open(ctx, d, id)
	if err != nil {
		a.log.Debug("open stream", "instance", id, "protocol", protocol, "error", err)
		switch {
		case errors.Is(err, errNoSuchStream):
			refuse(w, http.StatusConflict, err.Error())
		case errors.Is(err, hypervisor.ErrNoGuest):
			refuse(w, http.StatusConflict, "the instance is not running")
		default:
			refuse(w, http.StatusBadGateway, "nothing answers there inside the instance")
		}
		return
	}
	defer func() { _ = guest.Close() }()
	asked()
	conn, err := tunnel.Accept(w, r, protocol)
	if err != nil {
		return
	}
	defer func() { _ = conn.Close() }()
	patience := halfOpenFor
	if protocol != nodewire.UpgradePort {
		patience = 0 // a screen or a serial port has no halves
	}
	join(ctx, conn, guest, patience)
}

// runs reports that an instance was last seen to run as it is assigned. A stray of
// the same id is somebody else's.
func (a *Agent) runs(id string) bool {
	a.mu.Lock()
	w := a.workers[id]
	a.mu.Unlock()
	if w == nil {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.pub.state == nodewire.GuestRunning
}

// halfOpenFor is how long one direction may be silent once the other has ended: a
// peer that has left looks like one that has only said its last.
const halfOpenFor = 2 * time.Minute

// join copies both ways until both have ended, one has failed, or ctx ends. The
// end of one direction is passed on and leaves the other open, while anything
// comes.
func join(ctx context.Context, x, y io.ReadWriteCloser, patience time.Duration) {
	end := func() {
		_ = x.Close()
		_ = y.Close()
	}
	defer context.AfterFunc(ctx, end)()
	var half atomic.Pointer[time.Timer]
	var both sync.WaitGroup
	one := func(to, from io.ReadWriteCloser) {
		_, err := io.Copy(alarmed{to, &half, patience}, from)
		if err != nil || patience == 0 || !halfClose(to) || !half.CompareAndSwap(nil, time.AfterFunc(patience, end)) {
			end()
		}
	}
	both.Go(func() { one(x, y) })
	both.Go(func() { one(y, x) })
	both.Wait()
	if t := half.Load(); t != nil {
		t.Stop()
	}
}

// alarmed puts off the end of a half-open stream with each write.
type alarmed struct {
	io.Writer
	half     *atomic.Pointer[time.Timer]
	patience time.Duration
}

func (w alarmed) Write(p []byte) (int, error) {
	if t := w.half.Load(); t != nil {
		t.Reset(w.patience)
	}
	return w.Writer.Write(p)
}

func halfClose(c io.ReadWriteCloser) bool {
	h, ok := c.(interface{ CloseWrite() error })
	return ok && h.CloseWrite() == nil
}
