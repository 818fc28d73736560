package tunnel

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"
)

// Dialer is the node's side: it keeps Idle unused connections at the door and
// serves Handler on each. The zero values of the optional fields are usable.
type Dialer struct {
	URL      string       // of the door with its path: https://host:port/v1/connect
	Protocol string       // of the Upgrade header
	TLS      *tls.Config  // with the node's certificate
	Handler  http.Handler // what the control plane may ask
	Idle     int          // unused connections to keep; 0: 2
	Log      *slog.Logger // optional
	Source   net.Addr     // address of ours to dial from; nil: whichever

	// MinBackoff and MaxBackoff bound the wait after a failed dial; 0: 100 ms
	// and 5 s.
	MinBackoff, MaxBackoff time.Duration

	mu      sync.Mutex
	conns   map[*reverseConn]struct{}
	refresh int // grows with each Refresh
}

// Run dials until ctx ends; then it closes every connection, used ones too.
func (d *Dialer) Run(ctx context.Context) error {
	door, err := url.Parse(d.URL)
	if err != nil || door.Scheme != "https" || door.Host == "" {
		return fmt.Errorf("dial door: %q is not an https address", d.URL)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	ln := &connListener{conns: make(chan net.Conn), done: ctx.Done(), addr: door.Host}
	srv := &http.Server{
		Handler:     d.Handler,
		BaseContext: func(net.Listener) context.Context { return ctx },
		ErrorLog:    slog.NewLogLogger(d.log().Handler(), slog.LevelDebug),
		ConnState: func(c net.Conn, s http.ConnState) {
			rc, ok := c.(*reverseConn)
			if ok && s == http.StateActive {
				rc.use()
			}
		},
	}
	var wg sync.WaitGroup
	idle := d.Idle
	if idle <= 0 {
		idle = 2
	}
	for range idle {
		wg.Go(func() { d.keepOne(ctx, door, ln) })
	}
	wg.Go(func() { _ = srv.Serve(ln) })

	<-ctx.Done()
	_ = srv.Close()
	d.closeAll(false)
	wg.Wait()
	return ctx.Err()
}

// Refresh drops the unused connections, so that their replacements present the
// present certificate. Streams in use go on.
func (d *Dialer) Refresh() {
	d.mu.Lock()
	d.refresh++
	d.mu.Unlock()
	d.closeAll(true)
}

// keepOne keeps one unused connection at the door.
func (d *Dialer) keepOne(ctx context.Context, door *url.URL, ln *connListener) {
	low, high := d.MinBackoff, d.MaxBackoff
	if low <= 0 {
		low = 100 * time.Millisecond
	}
	if high <= 0 {
		high = 5 * time.Second
	}
	wait := low
	for ctx.Err() == nil {
		conn, err := d.dial(ctx, door)
		if err != nil {
			if ctx.Err() != nil {
				return
			}
			d.log().Warn("dial door", "address", door.Host, "error", err, "retry_in", wait)
			if !sleep(ctx, jitter(wait)) {
				return
			}
			wait = min(wait*2, high)
			continue
		}
		began := time.Now()
		select {
		case ln.conns <- conn:
		case <-ctx.Done():
			_ = conn.Close()
			return
		}
		select {
		case <-conn.used:
			wait = low
		case <-conn.closed:
			// A door that drops what it has just taken is not asked again at once.
			if time.Since(began) > high {
				wait = low
			}
			if !sleep(ctx, jitter(wait)) {
				return
			}
			wait = min(wait*2, high)
		case <-ctx.Done():
			return
		}
	}
}

// dial makes one connection and waits until the door has taken it.
func (d *Dialer) dial(ctx context.Context, door *url.URL) (*reverseConn, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	d.mu.Lock()
	refresh := d.refresh
	d.mu.Unlock()
	addr := door.Host
	if door.Port() == "" {
		addr = net.JoinHostPort(door.Hostname(), "443")
	}
	cfg := &tls.Config{}
	if d.TLS != nil {
		cfg = d.TLS.Clone()
	}
	cfg.NextProtos = []string{"http/1.1"} // an Upgrade needs it
	td := tls.Dialer{NetDialer: &net.Dialer{KeepAliveConfig: keepAlive, LocalAddr: d.Source}, Config: cfg}
	raw, err := td.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, door.String(), nil)
	if err != nil {
		_ = raw.Close()
		return nil, err
	}
	up, err := Upgrade(ctx, raw, req, d.Protocol)
	if err != nil {
		return nil, err
	}
	rc := &reverseConn{Conn: up, used: make(chan struct{}), closed: make(chan struct{}), owner: d}
	d.mu.Lock()
	if d.conns == nil {
		d.conns = map[*reverseConn]struct{}{}
	}
	d.conns[rc] = struct{}{}
	outdated := refresh != d.refresh
	d.mu.Unlock()
	if outdated { // it was on its way with the certificate of before
		_ = rc.Close()
	}
	return rc, nil
}

func (d *Dialer) closeAll(unusedOnly bool) {
	d.mu.Lock()
	all := make([]*reverseConn, 0, len(d.conns))
	for c := range d.conns {
		if unusedOnly && c.isUsed() {
			continue
		}
		all = append(all, c)
	}
	d.mu.Unlock()
	for _, c := range all {
		_ = c.Close()
	}
}

func (d *Dialer) log() *slog.Logger {
	if d.Log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return d.Log
}

// reverseConn is a connection that the node dialled and serves.
type reverseConn struct {
	net.Conn
	owner            *Dialer
	used, closed     chan struct{}
	useOnce, endOnce sync.Once
}

func (c *reverseConn) use() { c.useOnce.Do(func() { close(c.used) }) }

func (c *reverseConn) isUsed() bool {
	select {
	case <-c.used:
		return true
	default:
		return false
	}
}

// Close ends the connection and lets its keeper dial another.
func (c *reverseConn) Close() error {
	c.endOnce.Do(func() {
		close(c.closed)
		c.owner.mu.Lock()
		delete(c.owner.conns, c)
		c.owner.mu.Unlock()
	})
	return c.Conn.Close()
}

// CloseWrite ends the node's direction only.
func (c *reverseConn) CloseWrite() error { return closeWrite(c.Conn) }

// connListener hands dialled connections to an http.Server.
type connListener struct {
	conns chan net.Conn
	done  <-chan struct{}
	addr  string
}

func (l *connListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *connListener) Close() error   { return nil }
func (l *connListener) Addr() net.Addr { return doorAddr(l.addr) }

type doorAddr string

func (doorAddr) Network() string  { return "tenon-reverse" }
func (a doorAddr) String() string { return string(a) }

// jitter spreads a wait over [d/2, d], so that a fleet doesn't return at once.
func jitter(d time.Duration) time.Duration {
	return d/2 + time.Duration(rand.Int64N(int64(d/2)+1))
}

func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
