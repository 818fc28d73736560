package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tenon-cloud/tenon/internal/hypervisor"
	"github.com/tenon-cloud/tenon/internal/hypervisor/fake"
	"github.com/tenon-cloud/tenon/internal/nodewire"
	"github.com/tenon-cloud/tenon/internal/tunnel"
)

// inside is a driver whose guests' ports are this process's.
type inside struct {
	*fake.Engine
	ports map[int]string
}

func (d inside) Dial(ctx context.Context, id string, port int) (net.Conn, error) {
	if list, _ := d.List(ctx); len(list) == 0 || list[0].ID != id {
		return nil, hypervisor.ErrNoGuest
	}
	if d.ports[port] == "" {
		return nil, errors.New("connection refused")
	}
	return net.Dial("tcp", d.ports[port])
}

// server listens and gives each connection to a function.
func server(t *testing.T, serve func(*net.TCPConn)) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go serve(c.(*net.TCPConn))
		}
	}()
	return ln.Addr().String()
}

// streamed is an agent with a running instance, and what joins its ports.
func streamed(t *testing.T, ports map[int]string) (a *Agent, dial func(path, protocol string) (net.Conn, error)) {
	t.Helper()
	door := &fakeDoor{}
	a, err := New(Config{
		NodeID: "node_1", CloudID: "c1", Door: door, Store: &MemoryStore{}, Host: Host{VCPU: 2, MemoryMiB: 512, BootID: "b"},
		Drivers: []hypervisor.Driver{inside{fake.New(fake.Options{}), ports}},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = a.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	if _, err := a.Assign(assignment("e", 1, container("inst_1", 1), desired(container("inst_2", 1), nodewire.DesiredStopped))); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it runs", func() bool { return a.runs("inst_1") })
	srv := httptest.NewServer(a.Handler())
	t.Cleanup(srv.Close)
	return a, func(path, protocol string) (net.Conn, error) {
		conn, err := net.Dial("tcp", strings.TrimPrefix(srv.URL, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
		t.Cleanup(func() { _ = conn.Close() })
		req, _ := http.NewRequest(http.MethodGet, srv.URL+path, nil)
		up, err := tunnel.Upgrade(context.Background(), conn, req, protocol)
		if err == nil {
			_ = up.SetDeadline(time.Now().Add(20 * time.Second))
		}
		return up, err
	}
}

func TestAPortIsARawStreamWithTwoHalves(t *testing.T) {
	t.Parallel()
	total := server(t, func(c *net.TCPConn) { // answers when its peer has said all
		defer c.Close()
		n, _ := io.Copy(io.Discard, c)
		_, _ = fmt.Fprintf(c, "%d bytes", n)
	})
	first := server(t, func(c *net.TCPConn) { // says all at once, then listens
		defer c.Close()
		_, _ = io.WriteString(c, "hello")
		_ = c.CloseWrite()
		_, _ = io.Copy(io.Discard, c)
	})
	a, dial := streamed(t, map[int]string{8888: total, 22: first})
	conn, err := dial("/instances/inst_1/ports/8888", nodewire.UpgradePort)
	if err != nil {
		t.Fatal(err)
	}
	if _, sessions := a.streams.count("inst_1"); sessions != 0 {
		t.Error("a page is no session")
	}
	if _, err := conn.Write(bytes.Repeat([]byte{0, 255, 13, 10}, 1<<19)); err != nil {
		t.Fatal(err)
	}
	if err := conn.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if raw, err := io.ReadAll(conn); err != nil || string(raw) != "2097152 bytes" {
		t.Errorf("after the end of our half: %q, %v", raw, err)
	}
	ssh, err := dial("/instances/inst_1/ports/22", nodewire.UpgradePort)
	if err != nil {
		t.Fatal(err)
	}
	if raw, err := io.ReadAll(ssh); err != nil || string(raw) != "hello" {
		t.Errorf("%q, %v", raw, err)
	}
	eventually(t, "one stream and one session while the guest listens", func() bool { open, sessions := a.streams.count("inst_1"); return open == 1 && sessions == 1 })
	_ = ssh.Close()
	eventually(t, "nothing is joined any more", func() bool { open, sessions := a.streams.count("inst_1"); return open == 0 && sessions == 0 })
}

func TestWhyThereIsNoStream(t *testing.T) {
	t.Parallel()
	_, dial := streamed(t, nil)
	for path, want := range map[string]int{
		"/instances/inst_9/ports/80": 404, "/instances/inst_2/ports/80": 409, "/instances/inst_1/ports/80": 502,
		"/instances/inst_1/ports/0": 400, "/instances/inst_1/ports/65536": 400, "/instances/inst_1/ports/x": 400, "/instances/inst_9/console": 404, "/instances/inst_2/screen": 409,
	} {
		_, err := dial(path, nodewire.UpgradePort)
		var status *tunnel.StatusError
		if !errors.As(err, &status) || status.StatusCode != want {
			t.Errorf("%s: %v, want %d", path, err, want)
		}
	}
}

// TestOneInstanceTakesNoMoreThanItsStreams, and those that stall hold up nobody.
func TestOneInstanceTakesNoMoreThanItsStreams(t *testing.T) {
	t.Parallel()
	stalled := make(chan struct{})
	t.Cleanup(func() { close(stalled) })
	deaf := server(t, func(c *net.TCPConn) { <-stalled; c.Close() })
	echo := server(t, func(c *net.TCPConn) { defer c.Close(); _, _ = io.Copy(c, c) })
	a, dial := streamed(t, map[int]string{1: deaf, 2: echo})
	var waiting sync.WaitGroup
	for range maxStreams - 1 {
		conn, err := dial("/instances/inst_1/ports/1", nodewire.UpgradePort)
		if err != nil {
			t.Fatal(err)
		}
		waiting.Go(func() { _, _ = conn.Write(make([]byte, 64<<10)) })
	}
	conn, err := dial("/instances/inst_1/ports/2", nodewire.UpgradePort)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	_, _ = io.WriteString(conn, "quick")
	got := make([]byte, 5)
	if _, err := io.ReadFull(conn, got); err != nil || string(got) != "quick" || time.Since(began) > 2*time.Second {
		t.Errorf("beside %d that stall: %q, %v after %s", maxStreams-1, got, err, time.Since(began))
	}
	_, err = dial("/instances/inst_1/ports/2", nodewire.UpgradePort)
	var status *tunnel.StatusError
	if !errors.As(err, &status) || status.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("one more: %v", err)
	}
	if open, _ := a.streams.count("inst_1"); open != maxStreams {
		t.Errorf("%d are open", open)
	}
	waiting.Wait()
}

// TestAHalfOpenStreamEndsWhenNothingComes: a peer that has left looks like one that
// has only said its last.
func TestAHalfOpenStreamEndsWhenNothingComes(t *testing.T) {
	t.Parallel()
	ours, agents := tcpPair(t)
	guests, guest := tcpPair(t)
	done := make(chan struct{})
	go func() { defer close(done); join(context.Background(), agents, guests, 300*time.Millisecond) }()
	_ = ours.CloseWrite()
	if _, err := guest.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the guest sees %v", err)
	}
	for range 10 { // while something comes it stays open
		<-time.After(100 * time.Millisecond)
		if _, err := guest.Write([]byte("x")); err != nil {
			t.Fatalf("it ended under an answer: %v", err)
		}
	}
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Error("it never ended")
	}
	if raw, _ := io.ReadAll(ours); string(raw) != "xxxxxxxxxx" {
		t.Errorf("%q", raw)
	}
}

func tcpPair(t *testing.T) (x, y *net.TCPConn) {
	t.Helper()
	got := make(chan *net.TCPConn, 1)
	conn, err := net.Dial("tcp", server(t, func(c *net.TCPConn) { got <- c }))
	if err != nil {
		t.Fatal(err)
	}
	x, y = conn.(*net.TCPConn), <-got
	t.Cleanup(func() { _ = x.Close(); _ = y.Close() })
	_ = x.SetDeadline(time.Now().Add(20 * time.Second))
	_ = y.SetDeadline(time.Now().Add(20 * time.Second))
	return x, y
}
