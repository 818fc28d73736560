package gateway

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
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
type Terminal struct{ joint }

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
	return &Terminal{joint{gateway: g, call: c, action: authz.InstanceExec, instance: i, node: conn, release: release}}, nil
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

func clip(s string, n int) string {
	if len(s) > n {
		s = strings.ToValidUTF8(s[:n], "")
	}
	return s
}
