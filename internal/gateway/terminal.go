package gateway

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"net/http"

	"github.com/coder/websocket"

	"github.com/tenon-cloud/tenon/api"
	"github.com/tenon-cloud/tenon/internal/app"
	"github.com/tenon-cloud/tenon/internal/authz"
	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

// Terminal is a process inside an instance, begun on its node and not yet joined
// to whoever asked for it.
type Terminal struct{ *joint }

// Exec starts a process inside a running instance. A ticket is good for its own
// instance alone (zero: no ticket was used).
func (g *Gateway) Exec(ctx context.Context, c app.Call, project, instance string, ticketFor cloud.InstanceID, req nodewire.ExecRequest) (*Terminal, error) {
	i, err := g.instanceFor(ctx, c, authz.InstanceExec, project, instance, ticketFor, true)
	if err != nil {
		return nil, err
	}
	j, err := g.join(c, authz.InstanceExec, i, func() (net.Conn, error) { return g.startProcess(ctx, i, req) })
	if err != nil {
		return nil, err
	}
	return &Terminal{j}, nil
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
	t.serve(w, r, speech{
		accepts: []string{api.ExecSubprotocol}, limit: nodewire.MaxFrame + 1, open: t.gateway.terminals, again: "open the terminal again",
		toNode: t.toNode, fromNode: t.fromNode,
		refuse: func(reason string) []byte { return append([]byte{nodewire.FrameError}, reason...) },
	})
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
		if err := t.send(ctx, ws, append([]byte{kind}, payload...)); err != nil {
			return err
		}
		if kind == nodewire.FrameExit || kind == nodewire.FrameError {
			return errExited
		}
	}
}
