package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"
)

// RawSubprotocol names the protocol of consoles, screens and ports: binary
// messages that carry bytes as they are. An empty message from the client ends
// its direction.
const RawSubprotocol = "tenon.raw.v1"

// rawMessage bounds what one message of ours carries; rawLimit what one of the
// server's may.
const (
	rawMessage = 64 << 10
	rawLimit   = 1 << 20
)

// RawConn is a stream of bytes of an instance.
type RawConn struct {
	ws     *websocket.Conn
	ctx    context.Context
	cancel context.CancelFunc
	reads  sync.Mutex
	rest   io.Reader
	ended  error
}

// StreamClosed is why a stream is over; the server's own words.
type StreamClosed struct {
	Reason string
}

func (e *StreamClosed) Error() string { return e.Reason }

// Console joins a VM's serial port: first what it wrote before, then both ways.
func (c *Client) Console(ctx context.Context, project, instance string) (*RawConn, error) {
	return c.raw(ctx, instancePath(project, instance)+"/console")
}

// Screen joins a VM's screen, in the RFB protocol of VNC.
func (c *Client) Screen(ctx context.Context, project, instance string) (*RawConn, error) {
	return c.raw(ctx, instancePath(project, instance)+"/screen")
}

// Port joins a TCP port inside an instance.
func (c *Client) Port(ctx context.Context, project, instance string, port int) (*RawConn, error) {
	return c.raw(ctx, instancePath(project, instance)+"/ports/"+strconv.Itoa(port))
}

func (c *Client) raw(ctx context.Context, path string) (*RawConn, error) {
	header := http.Header{}
	c.identify(header)
	ws, res, err := websocket.Dial(ctx, "ws"+strings.TrimPrefix(c.BaseURL, "http")+path, &websocket.DialOptions{
		HTTPClient: c.HTTP, HTTPHeader: header, Subprotocols: []string{RawSubprotocol},
	})
	if err != nil {
		if res != nil && res.StatusCode >= 400 {
			return nil, problemOf(res)
		}
		return nil, fmt.Errorf("open stream: %w", err)
	}
	ws.SetReadLimit(rawLimit)
	inner, cancel := context.WithCancel(context.WithoutCancel(ctx))
	return &RawConn{ws: ws, ctx: inner, cancel: cancel}, nil
}

// Read gives what the instance sends; io.EOF when its side came to its end, a
// *StreamClosed when the server ended the stream.
func (r *RawConn) Read(p []byte) (int, error) {
	r.reads.Lock()
	defer r.reads.Unlock()
	for {
		if r.ended != nil {
			return 0, r.ended
		}
		if r.rest == nil {
			_, message, err := r.ws.Reader(r.ctx)
			if err != nil {
				r.ended = closedAs(err)
				continue
			}
			r.rest = message
		}
		n, err := r.rest.Read(p)
		if errors.Is(err, io.EOF) {
			r.rest, err = nil, nil
		}
		if n > 0 || err != nil {
			return n, err
		}
	}
}

func closedAs(err error) error {
	var closed websocket.CloseError
	switch {
	case !errors.As(err, &closed):
		return fmt.Errorf("stream: %w", err)
	case closed.Code == websocket.StatusNormalClosure:
		return io.EOF
	}
	return &StreamClosed{Reason: closed.Reason}
}

// Write sends bytes to the instance.
func (r *RawConn) Write(p []byte) (int, error) {
	sent := 0
	for len(p) > 0 {
		piece := p[:min(len(p), rawMessage)]
		if err := r.ws.Write(r.ctx, websocket.MessageBinary, piece); err != nil {
			return sent, closedAs(err)
		}
		sent += len(piece)
		p = p[len(piece):]
	}
	return sent, nil
}

// CloseWrite ends our direction; the instance's goes on.
func (r *RawConn) CloseWrite() error {
	return r.ws.Write(r.ctx, websocket.MessageBinary, nil)
}

// Close ends the stream.
func (r *RawConn) Close() error {
	defer r.cancel()
	stop := time.AfterFunc(2*time.Second, r.cancel)
	defer stop.Stop()
	err := r.ws.Close(websocket.StatusNormalClosure, "")
	if websocket.CloseStatus(err) != -1 || errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
