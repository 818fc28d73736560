package gateway

import (
	"context"
	"crypto/tls"
	"net"
	"syscall"
	"time"
)

// goneAfter is how long a peer's kernel may say nothing to what waits for it. One
// whose program reads nothing still answers probes, at least every two minutes.
const goneAfter = 150 * time.Second

type connKey struct{}

// WithConn keeps a request's connection, for a server's ConnContext: a terminal
// asks it whether its reader is slow or gone.
func WithConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// peer is what the kernel knows of the other end.
type peer struct {
	waiting bool          // something sent has not arrived there
	silent  time.Duration // since it was last heard of
}

func (p peer) gone() bool { return p.waiting && p.silent > goneAfter }

// peerOf asks the kernel; ok is false where it can't be asked.
func peerOf(ctx context.Context) (p peer, ok bool) {
	conn, _ := ctx.Value(connKey{}).(net.Conn)
	if t, is := conn.(*tls.Conn); is {
		conn = t.NetConn()
	}
	c, is := conn.(syscall.Conn)
	if !is {
		return p, false
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return p, false
	}
	if err := raw.Control(func(fd uintptr) { p, ok = peerOfSocket(int(fd)) }); err != nil {
		return p, false
	}
	return p, ok
}
