package tunnel

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// Accept answers an Upgrade request with 101 and takes the connection over. A
// request that doesn't ask for the protocol gets 426 and an error is returned.
func Accept(w http.ResponseWriter, r *http.Request, protocol string) (net.Conn, error) {
	if !headerHas(r.Header, "Connection", "upgrade") || !headerHas(r.Header, "Upgrade", protocol) {
		w.Header().Set("Upgrade", protocol)
		http.Error(w, "this path needs Upgrade: "+protocol, http.StatusUpgradeRequired)
		return nil, fmt.Errorf("accept upgrade: request does not ask for %s", protocol)
	}
	conn, buf, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, "this connection can't be upgraded; use HTTP/1.1", http.StatusHTTPVersionNotSupported)
		return nil, fmt.Errorf("accept upgrade: %w", err)
	}
	_ = conn.SetDeadline(time.Time{})
	_, err = fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n", protocol)
	if err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("accept upgrade: %w", err)
	}
	return withBuffered(conn, buf.Reader), nil
}

// StatusError is an answer other than 101 to an Upgrade request.
type StatusError struct {
	StatusCode int
	Body       string // at most 4 KiB of it
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("upgrade refused: %d %s: %s", e.StatusCode, http.StatusText(e.StatusCode), strings.TrimSpace(e.Body))
}

// Upgrade sends req over conn, asking for protocol, and returns the connection
// once the peer has switched. On an error conn is closed.
func Upgrade(ctx context.Context, conn net.Conn, req *http.Request, protocol string) (_ net.Conn, err error) {
	defer func() {
		if err != nil {
			_ = conn.Close()
		}
	}()
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	req = req.Clone(ctx)
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", protocol)
	if err := req.Write(conn); err != nil {
		return nil, fmt.Errorf("ask for %s: %w", protocol, firstError(ctx, err))
	}
	r := bufio.NewReader(conn)
	resp, err := http.ReadResponse(r, req)
	if err != nil {
		return nil, fmt.Errorf("ask for %s: %w", protocol, firstError(ctx, err))
	}
	if resp.StatusCode != http.StatusSwitchingProtocols {
		body, _ := io.ReadAll(io.LimitReader(resp.Body, 4<<10))
		return nil, &StatusError{StatusCode: resp.StatusCode, Body: string(body)}
	}
	if !headerHas(resp.Header, "Upgrade", protocol) {
		return nil, fmt.Errorf("ask for %s: the peer switched to %q", protocol, resp.Header.Get("Upgrade"))
	}
	if !stop() {
		return nil, fmt.Errorf("ask for %s: %w", protocol, ctx.Err())
	}
	return withBuffered(conn, r), nil
}

// firstError prefers the caller's reason to the deadline that it caused.
func firstError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// headerHas looks for a token in a comma-separated header, whatever its case.
func headerHas(h http.Header, name, token string) bool {
	for _, line := range h.Values(name) {
		for word := range strings.SplitSeq(line, ",") {
			if strings.EqualFold(strings.TrimSpace(word), token) {
				return true
			}
		}
	}
	return false
}
