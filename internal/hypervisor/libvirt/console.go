package libvirt

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/tenon-cloud/tenon/internal/hypervisor"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

// A serial port is read from its log, where its whole history lies and which any
// number may follow, and written through its socket, which QEMU opens to one: all
// who are joined share it.

// console is the shared way into one machine's serial port.
type console struct {
	conn net.Conn
	log  *spareLog

	mu      sync.Mutex
	joined  int
	recent  []byte // the last of what came, for when the log stands still
	total   int64  // bytes that came in all
	changed chan struct{}
	ended   bool
}

type consoles struct {
	mu   sync.Mutex
	held map[string]*console
	kept map[string]*console // those that the driver has joined for their logs
}

// recentBytes is how much is at hand should the log stand still.
const recentBytes = 64 << 10

// Console implements hypervisor.Consoler.
func (d *Driver) Console(ctx context.Context, id string) (io.ReadWriteCloser, error) {
	log, err := openSerialLog(d.serialLog(id))
	if err != nil {
		return nil, err
	}
	shared, err := d.joinConsole(ctx, id)
	if err != nil {
		_ = log.Close()
		return nil, err
	}
	done, cancel := context.WithCancel(context.Background())
	c := &joinedConsole{log: log, shared: shared, done: done, cancel: cancel, leave: func() { d.leaveConsole(id, shared) }}
	c.mark = shared.came()
	return c, nil
}

// joinConsole shares the one connection; a machine that is off has none, and only
// its history can be read.
func (d *Driver) joinConsole(ctx context.Context, id string) (*console, error) {
	d.consoles.mu.Lock()
	defer d.consoles.mu.Unlock()
	if c := d.consoles.held[id]; c != nil && !c.isEnded() {
		c.mu.Lock()
		c.joined++
		c.mu.Unlock()
		return c, nil
	}
	c := &console{joined: 1, changed: make(chan struct{})}
	conn, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, "unix", d.serialPath(id))
	if err != nil {
		if d.pid(id) != 0 {
			return nil, fmt.Errorf("join serial port: %w", err)
		}
		c.ended = true
		return c, nil
	}
	c.conn = conn
	pid := d.pid(id)
	c.log = &spareLog{path: d.serialLog(id), kept: func() bool { return pid == 0 || logKept(d.logKeeper(), pid) }}
	d.consoles.held[id] = c
	go c.drain()
	return c, nil
}

func (d *Driver) leaveConsole(id string, c *console) {
	d.consoles.mu.Lock()
	defer d.consoles.mu.Unlock()
	c.mu.Lock()
	c.joined--
	last := c.joined == 0
	c.mu.Unlock()
	if !last {
		return
	}
	if d.consoles.held[id] == c {
		delete(d.consoles.held, id)
	}
	if c.conn != nil {
		_ = c.conn.Close()
	}
}

func (s *consoles) close(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.held[id]; c != nil {
		_ = c.conn.Close()
		delete(s.held, id)
	}
}

func (s *consoles) closeAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, c := range s.held {
		_ = c.conn.Close()
		delete(s.held, id)
	}
}

// drain takes what comes, since QEMU would wait for a reader, and tells those who
// follow the log that it grows.
func (c *console) drain() {
	buf := make([]byte, 8<<10)
	for {
		n, err := c.conn.Read(buf)
		if werr := c.log.write(buf[:n]); werr != nil {
			slog.Debug("keep serial log", "error", werr)
		}
		c.mu.Lock()
		c.total += int64(n)
		c.recent = append(c.recent, buf[:n]...)
		if over := len(c.recent) - recentBytes; over > 0 {
			c.recent = append([]byte(nil), c.recent[over:]...)
		}
		c.ended = c.ended || err != nil
		close(c.changed)
		c.changed = make(chan struct{})
		c.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (c *console) isEnded() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ended
}

func (c *console) came() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.total
}

func (c *console) next() (changed <-chan struct{}, ended bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.changed, c.ended
}

// since is what came after a mark, as far as it is kept.
func (c *console) since(mark int64) ([]byte, int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := min(c.total-mark, int64(len(c.recent)))
	return append([]byte(nil), c.recent[int64(len(c.recent))-n:]...), c.total
}

// joinedConsole is one reader and writer of a serial port.
type joinedConsole struct {
	log    *serialLog
	shared *console
	leave  func()
	done   context.Context
	cancel context.CancelFunc
	once   sync.Once

	mark  int64     // of what came, up to which the log had it
	grew  time.Time // when the log last brought something
	spare []byte
}

const (
	logLag    = 10 * time.Millisecond // how soon a line that came is looked for in the log
	logStands = 2 * time.Second       // a log that lacks what came for so long is not written
	logPoll   = 500 * time.Millisecond
)

// Read gives the log and then what is added to it. While nobody writes the log
// (its keeper was killed), what comes is taken from the port itself.
func (c *joinedConsole) Read(p []byte) (int, error) {
	for {
		if c.done.Err() != nil {
			return 0, io.EOF
		}
		if len(c.spare) > 0 {
			n := copy(p, c.spare)
			c.spare = c.spare[n:]
			return n, nil
		}
		changed, ended := c.shared.next()
		came := c.shared.came()
		n, err := c.log.Read(p)
		if n > 0 {
			c.mark, c.grew = came, time.Now()
			return n, nil
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
		if ended {
			return 0, io.EOF
		}
		wait := logPoll
		switch {
		case came > c.mark && time.Since(c.grew) > logStands:
			c.spare, c.mark = c.shared.since(c.mark)
			continue
		case came > c.mark:
			wait = logLag
		default:
			c.grew = time.Now()
		}
		t := time.NewTimer(wait)
		select {
		case <-changed:
		case <-t.C:
		case <-c.done.Done():
		}
		t.Stop()
	}
}

func (c *joinedConsole) Write(p []byte) (int, error) {
	if c.shared.conn == nil {
		return 0, io.ErrClosedPipe
	}
	return c.shared.conn.Write(p)
}

func (c *joinedConsole) Close() error {
	c.once.Do(func() {
		c.cancel()
		c.leave()
		_ = c.log.Close()
	})
	return nil
}

// Screen implements hypervisor.Consoler.
func (d *Driver) Screen(ctx context.Context, id string) (net.Conn, error) {
	conn, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, "unix", d.screenPath(id))
	if err != nil {
		if d.pid(id) == 0 {
			return nil, hypervisor.ErrNoGuest
		}
		return nil, fmt.Errorf("join screen: %w", err)
	}
	return conn, nil
}

// Dial implements hypervisor.Dialer. The address is the one that the cloud gave
// the machine and that its port is pinned to; it is never one that anyone names.
func (d *Driver) Dial(ctx context.Context, id string, port int) (net.Conn, error) {
	if port < 1 || port > 65535 {
		return nil, fmt.Errorf("port %d is not one", port)
	}
	at, ok := d.net.LookupVM(id)
	if !ok || d.pid(id) == 0 {
		return nil, hypervisor.ErrNoGuest
	}
	return (&net.Dialer{Timeout: 10 * time.Second}).DialContext(ctx, "tcp", net.JoinHostPort(at.Address, fmt.Sprint(port)))
}

// Exec implements hypervisor.Driver: nothing of ours runs inside a machine.
func (d *Driver) Exec(context.Context, string, nodewire.ExecRequest, hypervisor.ExecIO) (int, error) {
	return 0, &hypervisor.Failure{Reason: nodewire.ReasonStart, Final: true, Message: "a virtual machine is reached by SSH or at its console; commands can't be run inside it from here"}
}
