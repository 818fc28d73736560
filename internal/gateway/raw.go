package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"

	"github.com/coder/websocket"

	"github.com/tenon-cloud/tenon/api"
	"github.com/tenon-cloud/tenon/internal/app"
	"github.com/tenon-cloud/tenon/internal/authz"
	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

// screenSubprotocol is what noVNC asks for; the bytes are the same.
const screenSubprotocol = "binary"

// rawMessage bounds one message of a client; what comes from the node is cut
// into pieces of rawPiece.
const (
	rawMessage = 1 << 20
	rawPiece   = 32 << 10
)

// rawKind is one kind of raw stream.
type rawKind struct {
	action   authz.Action
	path     string // at the node
	upgrade  string
	accepts  []string // subprotocols
	goodbye  string
	vmTicket string // what only a VM has
}

var (
	consoleKind = rawKind{authz.InstanceConsole, nodewire.PathConsole, nodewire.UpgradeConsole, []string{api.RawSubprotocol}, "the VM's serial port was closed", app.TicketConsole}
	screenKind  = rawKind{authz.InstanceScreen, nodewire.PathScreen, nodewire.UpgradeScreen, []string{api.RawSubprotocol, screenSubprotocol}, "the VM's screen was closed", app.TicketScreen}
	portKind    = rawKind{authz.InstancePort, nodewire.PathPort, nodewire.UpgradePort, []string{api.RawSubprotocol}, "the instance closed the connection", ""}
)

// Raw is a stream of bytes of an instance, begun on its node and not yet joined
// to whoever asked for it.
type Raw struct {
	*joint
	kind rawKind
}

// Console joins a VM's serial port.
func (g *Gateway) Console(ctx context.Context, c app.Call, project, instance string, ticketFor cloud.InstanceID) (*Raw, error) {
	return g.raw(ctx, c, consoleKind, project, instance, ticketFor, 0)
}

// Screen joins a VM's screen.
func (g *Gateway) Screen(ctx context.Context, c app.Call, project, instance string, ticketFor cloud.InstanceID) (*Raw, error) {
	return g.raw(ctx, c, screenKind, project, instance, ticketFor, 0)
}

// Port joins a TCP port inside an instance.
func (g *Gateway) Port(ctx context.Context, c app.Call, project, instance string, ticketFor cloud.InstanceID, number int) (*Raw, error) {
	return g.raw(ctx, c, portKind, project, instance, ticketFor, number)
}

func (g *Gateway) raw(ctx context.Context, c app.Call, kind rawKind, project, instance string, ticketFor cloud.InstanceID, number int) (*Raw, error) {
	i, err := g.instanceFor(ctx, c, kind.action, project, instance, ticketFor, false)
	if err != nil {
		return nil, err
	}
	if err := app.MustBeVM(i, kind.vmTicket); err != nil {
		return nil, err
	}
	if i.NodeID.IsZero() || i.State == cloud.StateStopped {
		return nil, cloud.E(cloud.KindConflict, "not_running", "instance %q is %s", i.Name, i.State).
			WithHint("start it, and wait until it runs").With("state", string(i.State))
	}
	j, err := g.join(c, kind.action, i, func() (net.Conn, error) { return g.dial(ctx, kind, i, number) })
	if err != nil {
		return nil, err
	}
	return &Raw{j, kind}, nil
}

// dial opens a raw stream at the instance's node: only its id and a port's number
// travel, never an address.
func (g *Gateway) dial(ctx context.Context, kind rawKind, i cloud.Instance, number int) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	target := strings.Replace(path(kind.path, i.ID), "{port}", strconv.Itoa(number), 1)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://node"+target, nil)
	if err != nil {
		return nil, fmt.Errorf("ask node: %w", err)
	}
	conn, err := g.pool.Upgrade(ctx, i.NodeID.String(), req, kind.upgrade)
	if err != nil {
		return nil, portless(unreachable(err), kind, number)
	}
	return conn, nil
}

// portless says of a port that the node could not reach which one it is.
func portless(err error, kind rawKind, number int) error {
	var e *cloud.Error
	if kind.action == authz.InstancePort && errors.As(err, &e) && e.Code == "node_refused" {
		return cloud.E(cloud.KindConflict, "port_closed", "nothing answers on port %d of the instance", number).
			WithHint("start a server there that listens on the instance's own address or on 127.0.0.1, then try again").With("port", number).Wrap(e.Unwrap())
	}
	return err
}

// Serve joins the stream to a WebSocket until either ends. Messages are binary
// and carry bytes as they are; an empty one from the client ends its direction.
func (t *Raw) Serve(w http.ResponseWriter, r *http.Request) {
	t.serve(w, r, speech{
		accepts: t.kind.accepts, limit: rawMessage, open: t.gateway.raws, again: "connect again",
		toNode: t.toNode, fromNode: t.fromNode,
	})
}

// toNode passes on what the client sends.
func (t *Raw) toNode(ctx context.Context, ws *websocket.Conn) error {
	for {
		kind, message, err := ws.Read(ctx)
		if err != nil {
			return err
		}
		if kind != websocket.MessageBinary {
			return &ending{status: websocket.StatusUnsupportedData, reason: "messages are binary"}
		}
		if len(message) == 0 {
			if half, ok := t.node.(interface{ CloseWrite() error }); ok {
				_ = half.CloseWrite()
			}
			continue
		}
		// What the node no longer takes is dropped: its last bytes may still be on
		// their way, and fromNode reads them.
		_, _ = t.node.Write(message)
	}
}

// fromNode passes on what the instance sends, to its end.
func (t *Raw) fromNode(ctx context.Context, ws *websocket.Conn) error {
	buf := make([]byte, rawPiece)
	for {
		n, err := t.node.Read(buf)
		if n > 0 {
			if err := t.send(ctx, ws, buf[:n]); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			if why := t.mayGoOn(ctx); why != nil {
				return why
			}
			return &ending{status: websocket.StatusNormalClosure, reason: t.kind.goodbye, exited: true}
		case err != nil:
			return t.lost(ctx, err)
		}
	}
}
