package tunnel

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func get(ctx context.Context, rt http.RoundTripper, path string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://node"+path, nil)
	if err != nil {
		return "", err
	}
	resp, err := rt.RoundTrip(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	return string(b), err
}

func testCtx(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func TestStalledDownloadLeavesOthersAlone(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	d := openDoor(t, ca, "127.0.0.1:0")
	mux := http.NewServeMux()
	mux.HandleFunc("/big", func(w http.ResponseWriter, r *http.Request) {
		chunk := make([]byte, 1<<20)
		for r.Context().Err() == nil {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	})
	mux.HandleFunc("/small", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })
	startNode(t, ca, d.addr, 2, mux)
	eventually(t, "two idle connections", func() bool { return d.Idle(testNode) == 2 })

	ctx := testCtx(t)
	rt := d.Transport(testNode)
	for range 3 { // three downloads that nobody reads: more than there were idle connections
		req, _ := http.NewRequestWithContext(ctx, http.MethodGet, "http://node/big", nil)
		resp, err := rt.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
	}
	for i := range 50 {
		body, err := get(ctx, rt, "/small") // one that stalls too meets ctx's end
		if err != nil || body != "ok" {
			t.Fatalf("request %d beside stalled downloads: %q, %v", i, body, err)
		}
	}
	eventually(t, "replacements", func() bool { return d.Idle(testNode) == 2 })
}

func TestRawStreamHalfClosesBothWays(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	d := openDoor(t, ca, "127.0.0.1:0")
	startNode(t, ca, d.addr, 1, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := Accept(w, r, "sum/1")
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		all, err := io.ReadAll(conn) // until the other side half-closes
		if err != nil {
			return
		}
		_, _ = conn.Write(bytes.ToUpper(all))
		_ = conn.(closeWriter).CloseWrite()
		_, _ = io.Copy(io.Discard, conn)
	}))
	eventually(t, "a connection", func() bool { return d.Has(testNode) })

	ctx := testCtx(t)
	sent := bytes.Repeat([]byte("tenon "), 300_000)
	for range 3 {
		req, _ := http.NewRequestWithContext(ctx, http.MethodGet, "http://node/x", nil)
		conn, err := d.Upgrade(ctx, testNode, req, "sum/1")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write(sent); err != nil {
			t.Fatal(err)
		}
		if err := conn.(closeWriter).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(conn)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, bytes.ToUpper(sent)) {
			t.Fatalf("%d bytes came back of %d", len(got), len(sent))
		}
		_ = conn.Close()
	}
}

func TestUpgradeRefusedCarriesTheAnswer(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	d := openDoor(t, ca, "127.0.0.1:0")
	startNode(t, ca, d.addr, 1, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "no such instance", http.StatusNotFound)
	}))
	eventually(t, "a connection", func() bool { return d.Has(testNode) })
	ctx := testCtx(t)
	req, _ := http.NewRequestWithContext(ctx, http.MethodGet, "http://node/x", nil)
	_, err := d.Upgrade(ctx, testNode, req, "sum/1")
	var se *StatusError
	if !errors.As(err, &se) || se.StatusCode != 404 || !strings.Contains(se.Body, "no such instance") {
		t.Fatalf("got %v", err)
	}
}

func TestNodeComesBackAfterTheDoorDies(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	d := openDoor(t, ca, "127.0.0.1:0")
	startNode(t, ca, d.addr, 3, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }))
	eventually(t, "connections", func() bool { return d.Idle(testNode) == 3 })

	addr := d.addr
	d.stop()
	eventually(t, "the pool notices dead idle connections", func() bool { return !d.Has(testNode) })
	if _, err := get(testCtx(t), d.Transport(testNode), "/"); !errors.Is(err, ErrNotConnected) {
		t.Fatalf("a request to an absent node: %v", err)
	}

	d2 := openDoor(t, ca, addr)
	eventually(t, "reconnection", func() bool { return d2.Idle(testNode) == 3 })
	if body, err := get(testCtx(t), d2.Transport(testNode), "/"); err != nil || body != "ok" {
		t.Fatalf("after reconnection: %q, %v", body, err)
	}
}

func TestCloseNodeEndsStreamsInUse(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	d := openDoor(t, ca, "127.0.0.1:0")
	startNode(t, ca, d.addr, 1, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}))
	eventually(t, "a connection", func() bool { return d.Has(testNode) })
	req, err := http.NewRequestWithContext(testCtx(t), http.MethodGet, "http://node/", nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := d.Transport(testNode).RoundTrip(req) // with the answer begun, nothing tries again
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	ended := make(chan error, 1)
	go func() { _, err := io.ReadAll(res.Body); ended <- err }()
	d.CloseNode(testNode)
	select {
	case err := <-ended:
		if err == nil {
			t.Fatal("the stream ended without an error")
		}
	case <-time.After(5 * time.Second):
		t.Fatal("the stream lived on")
	}
}

// TestStaleConnectionRetriedOnlyWhenSafe: a node's end that takes the request
// and dies without an answer. A GET goes to another connection; a POST, which
// may have been carried out, does not.
func TestStaleConnectionRetriedOnlyWhenSafe(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		method string
		body   bool
		retry  bool
	}{
		{http.MethodGet, false, true},
		{http.MethodPut, true, true},
		{http.MethodPost, true, false},
	} {
		t.Run(tc.method, func(t *testing.T) {
			t.Parallel()
			var p Pool
			var seen atomic.Int32
			serve := func(answer bool) {
				a, b := net.Pipe()
				if err := p.Add(testNode, a); err != nil {
					t.Fatal(err)
				}
				go func() {
					buf := make([]byte, 64<<10)
					if n, _ := b.Read(buf); n > 0 {
						seen.Add(1)
					}
					if answer {
						_, _ = fmt.Fprint(b, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
						_, _ = io.Copy(io.Discard, b)
						return
					}
					_ = b.Close()
				}()
			}
			serve(true)
			serve(false) // the newest is taken first
			var body io.Reader
			if tc.body {
				body = strings.NewReader("payload")
			}
			req, _ := http.NewRequestWithContext(testCtx(t), tc.method, "http://node/", body)
			resp, err := p.Transport(testNode).RoundTrip(req)
			if tc.retry {
				if err != nil {
					t.Fatalf("not retried: %v", err)
				}
				_ = resp.Body.Close()
				if n := seen.Load(); n != 2 {
					t.Fatalf("sent %d times, want 2", n)
				}
				return
			}
			if err == nil {
				t.Fatal("an unsafe request was sent twice")
			}
			if n := seen.Load(); n != 1 {
				t.Fatalf("sent %d times, want 1", n)
			}
		})
	}
}

func TestRefreshReplacesIdleConnections(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	d := openDoor(t, ca, "127.0.0.1:0")
	n := startNode(t, ca, d.addr, 2, http.NotFoundHandler())
	eventually(t, "connections", func() bool { return d.Idle(testNode) == 2 })
	d.mu.Lock()
	before := len(d.conns)
	d.mu.Unlock()
	n.Refresh()
	eventually(t, "replacements", func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		return len(d.conns) >= before+2
	})
	eventually(t, "two idle again", func() bool { return d.Idle(testNode) == 2 })
}

func TestPoolNoticesConnectionsThatSpeakUnasked(t *testing.T) {
	t.Parallel()
	var p Pool
	a, b := net.Pipe()
	if err := p.Add(testNode, a); err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = b.Write([]byte("!")) }()
	eventually(t, "it is dropped", func() bool { return !p.Has(testNode) })
}
