package gateway

import (
	"context"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

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
