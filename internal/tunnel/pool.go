package tunnel

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// ErrNotConnected is returned for a node that has no connection at the door.
var ErrNotConnected = errors.New("node is not connected")

// maxIdle bounds what one node may park at the door.
const maxIdle = 32

// absence is how long a node that has just lost its last connection is waited
// for: it is dialling again.
const absence = 2 * time.Second

// lookAgain is how often another door is asked meanwhile.
const lookAgain = 250 * time.Millisecond

// Pool holds the reverse connections of every node at this door. The zero value
// is ready; Notify must be set before the first Add.
type Pool struct {
	// Notify, if set, is called when a node's first connection arrives and when
	// its last one goes; it must not block.
	Notify func(nodeID string, connected bool)
	// Remote, if set, dials a node that is not connected here through another door
	// that it is connected to; ErrNotConnected when there is none.
	Remote func(ctx context.Context, nodeID string) (net.Conn, error)

	mu    sync.Mutex
	nodes map[string]*poolNode
}

type poolNode struct {
	idle      []*poolConn            // oldest first
	all       map[*poolConn]struct{} // idle and in use
	changed   chan struct{}          // closed when a connection arrives or the last goes
	goneAt    time.Time              // when the last one went; zero: not waited for
	transport *http.Transport
}

// Add takes over a connection that the node has dialled. It is refused, and
// closed, when the node has too many idle ones already.
func (p *Pool) Add(nodeID string, conn net.Conn) error {
	setKeepAlive(conn)
	c := &poolConn{Conn: conn, pool: p, nodeID: nodeID, watched: make(chan struct{})}
	p.mu.Lock()
	n := p.node(nodeID)
	if len(n.idle) >= maxIdle {
		p.mu.Unlock()
		_ = conn.Close()
		return fmt.Errorf("add connection of %s: it has %d idle ones already", nodeID, maxIdle)
	}
	first := len(n.all) == 0
	n.idle = append(n.idle, c)
	n.all[c] = struct{}{}
	close(n.changed)
	n.changed = make(chan struct{})
	p.mu.Unlock()
	go c.watch()
	if first && p.Notify != nil {
		p.Notify(nodeID, true)
	}
	return nil
}

// Has reports whether the node has any connection here.
func (p *Pool) Has(nodeID string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := p.nodes[nodeID]
	return n != nil && len(n.all) > 0
}

// Count is how many nodes have a connection here, and how many connections there
// are, idle and in use.
func (p *Pool) Count() (nodes, connections int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, n := range p.nodes {
		if len(n.all) > 0 {
			nodes++
			connections += len(n.all)
		}
	}
	return nodes, connections
}

// Nodes lists the nodes that have a connection here.
func (p *Pool) Nodes() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make([]string, 0, len(p.nodes))
	for id, n := range p.nodes {
		if len(n.all) > 0 {
			out = append(out, id)
		}
	}
	return out
}

// Idle is the number of unused connections of a node.
func (p *Pool) Idle(nodeID string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := p.nodes[nodeID]; n != nil {
		return len(n.idle)
	}
	return 0
}

// DialContext takes a connection to the node: one of its own here, or through
// another door. It waits while the node has connections but none is unused, since
// the node dials a replacement at once, and a moment for one that has just lost
// its last, here or at a door that can't be reached any more.
func (p *Pool) DialContext(ctx context.Context, nodeID string) (net.Conn, error) {
	began := time.Now()
	for {
		conn, goneAt, changed, err := p.take(nodeID)
		if conn != nil {
			return conn, nil
		}
		var patience <-chan time.Time // nil, for ever, while there is a connection
		if err != nil {
			if p.Remote != nil {
				remote, far := p.Remote(ctx, nodeID)
				if far == nil {
					return remote, nil
				}
				if !errors.Is(far, ErrNotConnected) && goneAt.IsZero() {
					goneAt, err = began, fmt.Errorf("%w: %w", err, far)
				}
			}
			left := absence - time.Since(goneAt)
			if goneAt.IsZero() || left <= 0 {
				return nil, fmt.Errorf("reach %s: %w", nodeID, err)
			}
			patience = time.After(min(left, lookAgain))
		}
		select {
		case <-changed:
		case <-patience:
		case <-ctx.Done():
			return nil, fmt.Errorf("reach %s: no free connection: %w", nodeID, ctx.Err())
		}
	}
}

// DialLocal takes a connection that the node has here, without waiting for one
// that has none: it is what other doors ask for.
func (p *Pool) DialLocal(ctx context.Context, nodeID string) (net.Conn, error) {
	for {
		conn, _, changed, err := p.take(nodeID)
		if conn != nil || err != nil {
			return conn, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, fmt.Errorf("reach %s: no free connection: %w", nodeID, ctx.Err())
		}
	}
}

// take gives an unused connection of the node; neither a connection nor an error
// while all of them are in use. changed tells when to look again.
func (p *Pool) take(nodeID string) (conn net.Conn, goneAt time.Time, changed <-chan struct{}, err error) {
	for {
		p.mu.Lock()
		n := p.node(nodeID)
		changed = n.changed
		if len(n.all) == 0 {
			goneAt = n.goneAt
			p.mu.Unlock()
			return nil, goneAt, changed, ErrNotConnected
		}
		k := len(n.idle)
		if k == 0 {
			p.mu.Unlock()
			return nil, goneAt, changed, nil
		}
		c := n.idle[k-1] // the newest is the least likely to be stale
		n.idle = n.idle[:k-1]
		p.mu.Unlock()
		if c.take() {
			return c, goneAt, changed, nil
		}
	}
}

// Upgrade takes a connection, asks the node for a protocol on it and returns the
// raw stream; CloseWrite on it half-closes. It is not retried: the node may
// have begun.
func (p *Pool) Upgrade(ctx context.Context, nodeID string, req *http.Request, protocol string) (net.Conn, error) {
	conn, err := p.DialContext(ctx, nodeID)
	if err != nil {
		return nil, err
	}
	return Upgrade(ctx, conn, req, protocol)
}

// CloseNode ends every connection of a node, in use or not: its certificate was
// revoked, or it is gone.
func (p *Pool) CloseNode(nodeID string) {
	p.mu.Lock()
	var all []*poolConn
	if n := p.nodes[nodeID]; n != nil {
		for c := range n.all {
			all = append(all, c)
		}
	}
	p.mu.Unlock()
	for _, c := range all {
		_ = c.Close()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := p.nodes[nodeID]; n != nil {
		n.goneAt = time.Time{}
	}
}

// node must be called with mu held.
func (p *Pool) node(id string) *poolNode {
	if p.nodes == nil {
		p.nodes = map[string]*poolNode{}
	}
	n := p.nodes[id]
	if n == nil {
		n = &poolNode{all: map[*poolConn]struct{}{}, changed: make(chan struct{})}
		n.transport = newTransport(p, id)
		p.nodes[id] = n
	}
	return n
}

// drop forgets a connection; it is idempotent.
func (p *Pool) drop(c *poolConn) {
	p.mu.Lock()
	n := p.nodes[c.nodeID]
	if n == nil {
		p.mu.Unlock()
		return
	}
	if _, ok := n.all[c]; !ok {
		p.mu.Unlock()
		return
	}
	delete(n.all, c)
	for i, o := range n.idle {
		if o == c {
			n.idle = append(n.idle[:i:i], n.idle[i+1:]...)
			break
		}
	}
	last := len(n.all) == 0
	if last {
		n.goneAt = time.Now()
		close(n.changed)
		n.changed = make(chan struct{})
	}
	p.mu.Unlock()
	if last && p.Notify != nil {
		p.Notify(c.nodeID, false)
	}
}

// poolConn is a connection of the pool; closing it forgets it.
type poolConn struct {
	net.Conn
	pool    *Pool
	nodeID  string
	watched chan struct{} // closed when the watcher has let go
	dead    bool          // valid once watched is closed
	written atomic.Int64  // bytes handed to the kernel
}

// watch reads while the connection is idle. The node says nothing unasked, so
// anything but our own interruption means that it is of no use.
func (c *poolConn) watch() {
	var b [1]byte
	n, err := c.Conn.Read(b[:])
	var ne net.Error
	interrupted := n == 0 && errors.As(err, &ne) && ne.Timeout()
	c.dead = !interrupted
	close(c.watched)
	if c.dead {
		_ = c.Close()
	}
}

// take ends the watch and reports whether the connection is usable.
func (c *poolConn) take() bool {
	_ = c.Conn.SetReadDeadline(time.Unix(1, 0))
	<-c.watched
	if c.dead {
		return false
	}
	return c.Conn.SetReadDeadline(time.Time{}) == nil
}

func (c *poolConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.written.Add(int64(n))
	return n, err
}

// CloseWrite ends the control plane's direction only.
func (c *poolConn) CloseWrite() error { return closeWrite(c.Conn) }

// Close ends the connection.
func (c *poolConn) Close() error {
	c.pool.drop(c)
	return c.Conn.Close()
}
