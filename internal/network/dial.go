package network

import (
	"context"
	"fmt"
	"net"
	"os"
	"runtime"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// dialTimeout bounds how long a guest's own service may take to accept.
const dialTimeout = 3 * time.Second

// Dial reaches a TCP port on a guest's own loopback: 127.0.0.1, or [::1] where
// nothing listens there. It reaches nothing else, whatever the guest does: the
// socket is made in the guest's network namespace and the address is ours.
func (n *Network) Dial(ctx context.Context, id string, port int) (net.Conn, error) {
	if port < 1 || port > 65535 {
		return nil, fmt.Errorf("dial guest: %d is no port", port)
	}
	a, ok := n.Lookup(id)
	if !ok {
		return nil, fmt.Errorf("dial guest: %s has no network", id)
	}
	ns, err := os.Open(a.NetNS)
	if err != nil {
		return nil, fmt.Errorf("open network namespace: %w", err)
	}
	defer ns.Close()
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	type answer struct {
		conn net.Conn
		err  error
	}
	done := make(chan answer, 1)
	go func() {
		// Never unlocked: the thread ends with this goroutine, so none that has been
		// in a guest's namespace runs anything else.
		runtime.LockOSThread()
		if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
			done <- answer{nil, fmt.Errorf("enter network namespace: %w", err)}
			return
		}
		// A literal address is dialled by the calling goroutine, on this thread.
		var d net.Dialer
		conn, err := d.DialContext(ctx, "tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil && ctx.Err() == nil {
			if six, err6 := d.DialContext(ctx, "tcp6", net.JoinHostPort("::1", strconv.Itoa(port))); err6 == nil {
				conn, err = six, nil
			}
		}
		done <- answer{conn, err}
	}()
	got := <-done
	if got.err != nil {
		return nil, fmt.Errorf("dial guest: %w", got.err)
	}
	return got.conn, nil
}
