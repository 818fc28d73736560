package gateway

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"github.com/tenon-cloud/tenon/api"
	"github.com/tenon-cloud/tenon/internal/app"
	"github.com/tenon-cloud/tenon/internal/authz"
	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

// Terminal is a process inside an instance, begun on its node and not yet joined
// to whoever asked for it.
type Terminal struct {
	gateway  *Gateway
	call     app.Call
	instance cloud.Instance
	node     net.Conn
	release  func()

	sent    atomic.Int64 // messages to the client
	sending atomic.Bool  // one of them waits for the client to take it
}

// Exec starts a process inside a running instance. A ticket is good for its own
// instance alone (zero: no ticket was used).
func (g *Gateway) Exec(ctx context.Context, c app.Call, project, instance string, ticketFor cloud.InstanceID, req nodewire.ExecRequest) (*Terminal, error) {
	i, err := g.app.InstanceFor(ctx, c, authz.InstanceExec, project, instance, true)
	if err != nil {
		return nil, err
	}
	if !ticketFor.IsZero() && ticketFor != i.ID {
		return nil, cloud.NotFound("instance", instance)
	}
	release, err := g.hold(c.Actor.UserID)
	if err != nil {
		return nil, err
	}
	conn, err := g.startProcess(ctx, i, req)
	if err != nil {
		release()
		return nil, err
	}
	return &Terminal{gateway: g, call: c, instance: i, node: conn, release: release}, nil
}

func (g *Gateway) startProcess(ctx context.Context, i cloud.Instance, req nodewire.ExecRequest) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	raw, err := json.Marshal(req)
	if err != nil {
		return nil, fmt.Errorf("encode exec: %w", err)
	}
	hr, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://node"+path(nodewire.PathExec, i.ID), nil)
	if err != nil {
		return nil, fmt.Errorf("ask node: %w", err)
	}
	hr.Header.Set("Tenon-Exec", base64.StdEncoding.EncodeToString(raw))
	conn, err := g.pool.Upgrade(ctx, i.NodeID.String(), hr, nodewire.UpgradeExec)
	if err != nil {
		return nil, unreachable(err)
	}
	return conn, nil
}

// Close gives up a terminal that was not served.
func (t *Terminal) Close() {
	_ = t.node.Close()
	t.release()
}

// ending is why a terminal is over, for its last message and its close frame.
type ending struct {
	status websocket.StatusCode
	reason string
	exited bool
}

func (e *ending) Error() string { return e.reason }

var errExited = &ending{status: websocket.StatusNormalClosure, reason: "the process has ended", exited: true}

// Serve joins the process to a WebSocket until either ends.
func (t *Terminal) Serve(w http.ResponseWriter, r *http.Request) {
	defer t.Close()
	ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{api.ExecSubprotocol}, CompressionMode: websocket.CompressionDisabled})
	if err != nil {
		t.gateway.log.DebugContext(r.Context(), "accept terminal", "error", err)
		return // Accept has answered
	}
	defer ws.CloseNow()
	t.gateway.terminals.Inc()
	defer t.gateway.terminals.Dec()
	ws.SetReadLimit(nodewire.MaxFrame + 1)
	// A context that ends takes the WebSocket down at once, so it ends after the
	// reason was said.
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context()))
	defer cancel()
	over := make(chan error, 3)
	go func() { over <- t.toNode(ctx, ws) }()
	go func() { over <- t.fromNode(ctx, ws) }()
	go func() { over <- t.watch(ctx, ws) }()
	var cause error
	select {
	case cause = <-over:
	case <-r.Context().Done():
		cause = &ending{status: websocket.StatusGoingAway, reason: "the control plane restarts; open the terminal again"}
	}
	_ = t.node.Close() // nothing more goes in or comes out, however slow the client is

	var why *ending
	if !errors.As(cause, &why) {
		why = &ending{status: websocket.StatusGoingAway, reason: "the connection ended"}
	}
	if why.exited {
		t.linger(ctx, over)
	} else {
		say, done := context.WithTimeout(ctx, 2*time.Second)
		_ = ws.Write(say, websocket.MessageBinary, append([]byte{nodewire.FrameError}, why.reason...))
		done()
	}
	_ = ws.Close(why.status, clip(why.reason, 120))
}

// toNode passes on what the user types; other frames are not the user's to send.
func (t *Terminal) toNode(ctx context.Context, ws *websocket.Conn) error {
	for {
		kind, message, err := ws.Read(ctx)
		if err != nil {
			return err
		}
		if kind != websocket.MessageBinary || len(message) == 0 {
			return &ending{status: websocket.StatusUnsupportedData, reason: "messages are binary: one byte of type and the payload"}
		}
		payload := message[1:]
		switch message[0] {
		case nodewire.FrameStdin, nodewire.FrameStdinClose:
		case nodewire.FrameResize:
			if len(payload) != 4 {
				return &ending{status: websocket.StatusUnsupportedData, reason: "a resize carries columns and rows"}
			}
		default:
			return &ending{status: websocket.StatusUnsupportedData, reason: fmt.Sprintf("messages of type %d are not the client's to send", message[0])}
		}
		// What the node no longer takes is dropped: its last words may still be on
		// their way, and fromNode reads them.
		_ = nodewire.WriteFrame(t.node, message[0], payload)
	}
}

// fromNode passes on what the process writes, up to its exit.
func (t *Terminal) fromNode(ctx context.Context, ws *websocket.Conn) error {
	for {
		kind, payload, err := nodewire.ReadFrame(t.node)
		if err != nil {
			return t.lost(ctx, err)
		}
		switch kind {
		case nodewire.FrameStdout, nodewire.FrameStderr, nodewire.FrameExit, nodewire.FrameError:
		default:
			return &ending{status: websocket.StatusInternalError, reason: "the node sent something that is no part of a terminal"}
		}
		// A client that reads slowly slows the guest, and loses nothing.
		t.sending.Store(true)
		err = ws.Write(ctx, websocket.MessageBinary, append([]byte{kind}, payload...))
		t.sending.Store(false)
		t.sent.Add(1)
		if err != nil {
			return err
		}
		if kind == nodewire.FrameExit || kind == nodewire.FrameError {
			return errExited
		}
	}
}

// lost finds out why the node's side ended without an exit code.
func (t *Terminal) lost(ctx context.Context, cause error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if why := t.mayGoOn(ctx); why != nil {
		return why
	}
	if !errors.Is(cause, io.EOF) {
		t.gateway.log.InfoContext(ctx, "terminal lost its node", "instance", t.instance.ID, "error", cause)
	}
	return &ending{status: websocket.StatusInternalError, reason: "the connection to the node was lost"}
}

// linger waits until what was sent has reached the client's machine, since a
// connection that is closed before keeps it only for so long.
func (t *Terminal) linger(ctx context.Context, over <-chan error) {
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

// watch pings, and asks again and again whether the terminal may go on. A ping
// keeps an idle connection open on its way; its answer is not asked for, since a
// client may be stopped, or wait for a slow reader of its own: whether it is there
// at all, its kernel tells.
func (t *Terminal) watch(ctx context.Context, ws *websocket.Conn) error {
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
func (t *Terminal) mayGoOn(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if over(t.gateway.app.StillValid(ctx, t.call.Actor)) {
		return &ending{status: websocket.StatusPolicyViolation, reason: "your session has ended"}
	}
	now, err := t.gateway.app.InstanceFor(ctx, t.call, authz.InstanceExec, t.instance.ProjectID.String(), t.instance.ID.String(), false)
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
