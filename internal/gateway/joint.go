package gateway

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tenon-cloud/tenon/internal/app"
	"github.com/tenon-cloud/tenon/internal/authz"
	"github.com/tenon-cloud/tenon/internal/cloud"
)

// joint is a stream of an instance that a client's WebSocket is, or will be,
// joined to: what terminals, consoles, screens and ports have in common.
type joint struct {
	gateway  *Gateway
	call     app.Call
	action   authz.Action // what the caller must go on being allowed
	instance cloud.Instance
	node     net.Conn
	release  func()

	sent    atomic.Int64 // messages to the client
	sending atomic.Bool  // one of them waits for the client to take it
}

// instanceFor is the instance that a caller may act on. A ticket is good for its
// own instance alone (zero: no ticket was used).
func (g *Gateway) instanceFor(ctx context.Context, c app.Call, action authz.Action, project, instance string, ticketFor cloud.InstanceID, placed bool) (cloud.Instance, error) {
	i, err := g.app.InstanceFor(ctx, c, action, project, instance, placed)
	if err == nil && !ticketFor.IsZero() && ticketFor != i.ID {
		err = cloud.NotFound("instance", instance)
	}
	return i, err
}

// join counts a stream of its user and begins it on the instance's node.
func (g *Gateway) join(c app.Call, action authz.Action, i cloud.Instance, dial func() (net.Conn, error)) (*joint, error) {
	release, err := g.hold(c.Actor.UserID)
	if err != nil {
		return nil, err
	}
	conn, err := dial()
	if err != nil {
		release()
		return nil, err
	}
	return &joint{gateway: g, call: c, action: action, instance: i, node: conn, release: release}, nil
}

// speech is what one kind of stream has of its own.
type speech struct {
	accepts []string // subprotocols
	limit   int64    // bytes of a client's message
	open    prometheus.Gauge
	again   string // what a client can do when the control plane restarts

	toNode, fromNode func(context.Context, *websocket.Conn) error
	// refuse is the last message when the stream did not end by itself; nil: none,
	// the close frame says it.
	refuse func(reason string) []byte
}

// serve joins the stream to a WebSocket until either ends.
func (t *joint) serve(w http.ResponseWriter, r *http.Request, s speech) {
	defer t.Close()
	ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: s.accepts, CompressionMode: websocket.CompressionDisabled})
	if err != nil {
		t.gateway.log.DebugContext(r.Context(), "accept stream", "error", err)
		return // Accept has answered
	}
	defer ws.CloseNow()
	s.open.Inc()
	defer s.open.Dec()
	ws.SetReadLimit(s.limit)
	// A context that ends takes the WebSocket down at once, so it ends after the
	// reason was said.
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context()))
	defer cancel()
	over := make(chan error, 3)
	for _, run := range []func(context.Context, *websocket.Conn) error{s.toNode, s.fromNode, t.watch} {
		go func() { over <- run(ctx, ws) }()
	}
	var cause error
	select {
	case cause = <-over:
	case <-r.Context().Done():
		cause = &ending{status: websocket.StatusGoingAway, reason: "the control plane restarts; " + s.again}
	}
	_ = t.node.Close() // nothing more goes in or comes out, however slow the client is
	var why *ending
	if !errors.As(cause, &why) {
		why = &ending{status: websocket.StatusGoingAway, reason: "the connection ended"}
	}
	switch {
	case why.exited:
		t.linger(ctx, over)
	case s.refuse != nil:
		say, done := context.WithTimeout(ctx, 2*time.Second)
		_ = ws.Write(say, websocket.MessageBinary, s.refuse(why.reason))
		done()
	}
	_ = ws.Close(why.status, clip(why.reason, 120))
}

// send passes a message on to the client. One that reads slowly slows the
// instance, and loses nothing.
func (t *joint) send(ctx context.Context, ws *websocket.Conn, message []byte) error {
	t.sending.Store(true)
	err := ws.Write(ctx, websocket.MessageBinary, message)
	t.sending.Store(false)
	t.sent.Add(1)
	return err
}

// Close gives up a stream that was not served.
func (t *joint) Close() {
	_ = t.node.Close()
	t.release()
}

// ending is why a stream is over, for its last message and its close frame.
type ending struct {
	status websocket.StatusCode
	reason string
	exited bool
}

func (e *ending) Error() string { return e.reason }

// lost finds out why the node's side ended without an exit code.
func (t *joint) lost(ctx context.Context, cause error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if why := t.mayGoOn(ctx); why != nil {
		return why
	}
	if !errors.Is(cause, io.EOF) {
		t.gateway.log.InfoContext(ctx, "stream lost its node", "instance", t.instance.ID, "error", cause)
	}
	return &ending{status: websocket.StatusInternalError, reason: "the connection to the node was lost"}
}

// linger waits until what was sent has reached the client's machine, since a
// connection that is closed before keeps it only for so long.
func (t *joint) linger(ctx context.Context, over <-chan error) {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		if p, ok := peerOf(ctx); !ok || !p.waiting || p.gone() {
			return
		}
		select {
		case <-over: // the client has closed, or may no longer read
			return
		case <-tick.C:
		}
	}
}

// watch pings, and asks again and again whether the stream may go on. A ping
// keeps an idle connection open on its way; its answer is not asked for, since a
// client may be stopped, or wait for a slow reader of its own: whether it is there
// at all, its kernel tells.
func (t *joint) watch(ctx context.Context, ws *websocket.Conn) error {
	check, ping := time.NewTicker(t.gateway.watch), time.NewTicker(t.gateway.ping)
	defer check.Stop()
	defer ping.Stop()
	pinged := make(chan error, 1)
	waiting, before := false, int64(0)
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ping.C:
			p, _ := peerOf(ctx)
			if p.gone() {
				return &ending{status: websocket.StatusGoingAway, reason: "the client no longer answers"}
			}
			sent := t.sent.Load()
			// A ping that finds no room closes the connection, so it is sent only where there is some.
			if !waiting && !p.waiting && !t.sending.Load() && sent == before {
				waiting = true
				go func() { pinged <- ws.Ping(ctx) }()
			}
			before = sent
		case err := <-pinged:
			if waiting = false; err != nil {
				return err
			}
		case <-check.C:
			if why := t.mayGoOn(ctx); why != nil {
				return why
			}
		}
	}
}

// mayGoOn is nil while the session, the membership and the guest are there. A
// database that can't be asked ends nothing.
func (t *joint) mayGoOn(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if over(t.gateway.app.StillValid(ctx, t.call.Actor)) {
		return &ending{status: websocket.StatusPolicyViolation, reason: "your session has ended"}
	}
	now, err := t.gateway.app.InstanceFor(ctx, t.call, t.action, t.instance.ProjectID.String(), t.instance.ID.String(), false)
	switch {
	case over(err):
		return &ending{status: websocket.StatusPolicyViolation, reason: "the instance is no longer yours to use"}
	case err != nil:
		return nil
	case now.Epoch != t.instance.Epoch || now.State != cloud.StateRunning:
		reason := "the instance is " + string(now.State)
		if now.Message != "" {
			reason += ": " + now.Message
		}
		return &ending{status: websocket.StatusGoingAway, reason: reason}
	}
	return nil
}

// over tells an answer about the reader's rights from a fault of ours.
func over(err error) bool {
	switch cloud.KindOf(err) {
	case cloud.KindUnauthenticated, cloud.KindForbidden, cloud.KindNotFound:
		return err != nil
	}
	return false
}

func clip(s string, n int) string {
	if len(s) > n {
		s = strings.ToValidUTF8(s[:n], "")
	}
	return s
}
