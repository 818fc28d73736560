package tunnel

import (
	"bufio"
	"errors"
	"net"
	"time"
)

// keepAlive finds a dead peer within about seven seconds. TCP_USER_TIMEOUT is
// left alone on purpose: on Linux it also ends a connection whose reader merely
// pauses.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 3 * time.Second, Interval: time.Second, Count: 4}

// setKeepAlive turns keepalive on under any wrapping of a TCP connection.
func setKeepAlive(conn net.Conn) {
	for range 4 {
		switch c := conn.(type) {
		case *net.TCPConn:
			_ = c.SetKeepAliveConfig(keepAlive)
			return
		case interface{ NetConn() net.Conn }: // tls.Conn
			conn = c.NetConn()
		default:
			return
		}
	}
}

// closeWriter is what TCP and TLS connections add to net.Conn.
type closeWriter interface{ CloseWrite() error }

// closeWrite half-closes a connection that can.
func closeWrite(conn net.Conn) error {
	if c, ok := conn.(closeWriter); ok {
		return c.CloseWrite()
	}
	return errors.New("close write: not supported by this connection")
}

// prefixConn is a connection whose first bytes were already read into a buffer.
type prefixConn struct {
	net.Conn
	r *bufio.Reader
}

// withBuffered gives the connection back its read-ahead bytes.
func withBuffered(conn net.Conn, r *bufio.Reader) net.Conn {
	if r == nil || r.Buffered() == 0 {
		return conn
	}
	return &prefixConn{Conn: conn, r: r}
}

func (c *prefixConn) Read(p []byte) (int, error) { return c.r.Read(p) }

// CloseWrite ends our direction only.
func (c *prefixConn) CloseWrite() error { return closeWrite(c.Conn) }
