package libvirt

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	golibvirt "github.com/digitalocean/go-libvirt"
)

// connection is a line to the daemon that is dialled anew when it breaks.
type connection struct {
	socket string

	mu   sync.Mutex
	lv   *golibvirt.Libvirt
	wire net.Conn
}

var errNoDaemon = errors.New("libvirtd does not answer")

// dialed hands go-libvirt a connection that we can close under it: its calls
// know no deadline.
type dialed struct{ net.Conn }

func (d dialed) Dial() (net.Conn, error) { return d.Conn, nil }

func (c *connection) get(ctx context.Context) (*golibvirt.Libvirt, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lv != nil && c.lv.IsConnected() {
		return c.lv, nil
	}
	c.drop()
	wire, err := (&net.Dialer{Timeout: 2 * time.Second}).DialContext(ctx, "unix", c.socket)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNoDaemon, err)
	}
	lv := golibvirt.NewWithDialer(dialed{wire})
	done := make(chan error, 1)
	go func() { done <- lv.ConnectToURI(golibvirt.QEMUSystem) }()
	select {
	case err = <-done:
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-time.After(5 * time.Second):
		err = errors.New("it accepts and says nothing")
	}
	if err != nil {
		_ = wire.Close()
		return nil, fmt.Errorf("%w: %w", errNoDaemon, err)
	}
	c.lv, c.wire = lv, wire
	return lv, nil
}

// drop is called with the lock held.
func (c *connection) drop() {
	if c.wire != nil {
		_ = c.wire.Close()
	}
	c.lv, c.wire = nil, nil
}

func (c *connection) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop()
}

// forget drops a line that did not answer in time, unless it is a newer one.
func (c *connection) forget(lv *golibvirt.Libvirt) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lv == lv {
		c.drop()
	}
}

// call makes one request of the daemon, with a deadline.
func call[T any](ctx context.Context, c *connection, what string, f func(lv *golibvirt.Libvirt) (T, error)) (T, error) {
	return callWithin(ctx, c, within, what, f)
}

func callWithin[T any](ctx context.Context, c *connection, limit time.Duration, what string, f func(lv *golibvirt.Libvirt) (T, error)) (T, error) {
	var zero T
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("%w within %s", errNoDaemon, limit))
	defer cancel()
	lv, err := c.get(ctx)
	if err != nil {
		return zero, fmt.Errorf("%s: %w", what, err)
	}
	type answer struct {
		value T
		err   error
	}
	done := make(chan answer, 1)
	go func() {
		v, err := f(lv)
		done <- answer{v, err}
	}()
	select {
	case a := <-done:
		var said golibvirt.Error
		if a.err != nil && !errors.As(a.err, &said) { // not libvirt's word: the line broke
			c.forget(lv)
			return a.value, fmt.Errorf("%s: %w: %w", what, errNoDaemon, a.err)
		}
		if a.err != nil {
			return a.value, fmt.Errorf("%s: %w", what, a.err)
		}
		return a.value, nil
	case <-ctx.Done():
		c.forget(lv) // closing it ends the call
		return zero, fmt.Errorf("%s: %w", what, context.Cause(ctx))
	}
}

// do is call for requests without an answer.
func do(ctx context.Context, c *connection, what string, f func(lv *golibvirt.Libvirt) error) error {
	_, err := call(ctx, c, what, func(lv *golibvirt.Libvirt) (struct{}, error) { return struct{}{}, f(lv) })
	return err
}

// version is libvirt's and QEMU's.
func (c *connection) version(ctx context.Context) (string, error) {
	return call(ctx, c, "ask libvirt's version", func(lv *golibvirt.Libvirt) (string, error) {
		lib, err := lv.ConnectGetLibVersion()
		if err != nil {
			return "", err
		}
		qemu, err := lv.ConnectGetVersion()
		if err != nil {
			return "", err
		}
		return "libvirt " + dotted(lib) + ", QEMU " + dotted(qemu), nil
	})
}

func dotted(v uint64) string { return fmt.Sprintf("%d.%d.%d", v/1_000_000, v/1000%1000, v%1000) }

// isCode tells one of libvirt's errors by its number.
func isCode(err error, code golibvirt.ErrorNumber) bool {
	var e golibvirt.Error
	return errors.As(err, &e) && e.Code == uint32(code)
}
