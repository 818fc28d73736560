package tunnel

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptrace"
	"time"
)

// Transport sends requests to one node; the URL's host is only for the log. A
// request that met a connection which had died unnoticed is sent again on
// another one, if that is safe.
func (p *Pool) Transport(nodeID string) http.RoundTripper {
	return &nodeTransport{pool: p, nodeID: nodeID}
}

// newTransport keeps few used connections: the node's unused ones are as quick.
func newTransport(p *Pool, nodeID string) *http.Transport {
	return &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return p.DialContext(ctx, nodeID)
		},
		MaxIdleConnsPerHost: 4,
		IdleConnTimeout:     30 * time.Second,
		DisableCompression:  true,
	}
}

type nodeTransport struct {
	pool   *Pool
	nodeID string
}

// attempts bounds how many stale connections one request may meet.
const attempts = 4

// RoundTrip implements http.RoundTripper.
func (t *nodeTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	t.pool.mu.Lock()
	inner := t.pool.node(t.nodeID).transport
	t.pool.mu.Unlock()
	for try := 1; ; try++ {
		var conn *poolConn
		var before int64
		trace := &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
			if c, ok := info.Conn.(*poolConn); ok {
				conn, before = c, c.written.Load()
			}
		}}
		ctx := httptrace.WithClientTrace(req.Context(), trace)
		resp, err := inner.RoundTrip(req.WithContext(ctx))
		if err == nil || try == attempts || req.Context().Err() != nil || errors.Is(err, ErrNotConnected) {
			return resp, err
		}
		untouched := conn != nil && conn.written.Load() == before
		if !untouched && (conn == nil || !idempotent(req)) {
			return resp, err
		}
		if req.Body != nil && req.Body != http.NoBody {
			if req.GetBody == nil {
				return resp, err
			}
			body, bodyErr := req.GetBody()
			if bodyErr != nil {
				return resp, err
			}
			req = req.Clone(req.Context())
			req.Body = body
		}
	}
}

// idempotent reports whether a request may be sent twice: by its method (RFC
// 9110, section 9.2.2), and never if it asks for another protocol.
func idempotent(req *http.Request) bool {
	if req.Header.Get("Upgrade") != "" {
		return false
	}
	switch req.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodPut, http.MethodDelete:
		return true
	}
	return false
}
