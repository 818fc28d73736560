package fake

import (
	"bufio"
	"context"
	"fmt"
	"html"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"

	"github.com/tenon-cloud/tenon/internal/hypervisor"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

var (
	_ hypervisor.Dialer   = (*Engine)(nil)
	_ hypervisor.Consoler = (*Engine)(nil)
)

// Dial reaches a port of a guest: a page that says that it is simulated.
func (e *Engine) Dial(_ context.Context, id string, port int) (net.Conn, error) {
	g, err := e.running(id)
	if err != nil {
		return nil, err
	}
	if e.opts.Port != nil {
		return e.opts.Port(id, port)
	}
	ours, theirs := net.Pipe()
	go serve(ours, g, port)
	go func() {
		<-g.ended
		_ = ours.Close()
	}()
	return theirs, nil
}

// serve answers HTTP/1.1 requests on one connection.
func serve(c net.Conn, g *guest, port int) {
	defer func() { _ = c.Close() }()
	in := bufio.NewReader(c)
	for {
		req, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, req.Body)
		body := fmt.Sprintf("<!doctype html><html lang=\"en\"><title>%[1]s (simulated)</title><h1>%[1]s</h1><p>%[2]s This is port %[3]d.</p></html>\n",
			html.EscapeString(g.name), banner, port)
		res := http.Response{
			StatusCode: http.StatusOK, ProtoMajor: 1, ProtoMinor: 1, Request: req, ContentLength: int64(len(body)), Body: io.NopCloser(strings.NewReader(body)),
			Header: http.Header{"Content-Type": {"text/html; charset=utf-8"}, "X-Tenon-Simulated": {"true"}, "Content-Length": {strconv.Itoa(len(body))}},
		}
		if res.Write(c) != nil || req.Close {
			return
		}
	}
}

// Console is a serial port with a shell that says that it is simulated.
func (e *Engine) Console(ctx context.Context, id string) (io.ReadWriteCloser, error) {
	g, err := e.running(id)
	if err != nil {
		return nil, err
	}
	ours, theirs := net.Pipe()
	go func() {
		defer func() { _ = ours.Close() }()
		_, _ = fmt.Fprintf(ours, "[    0.000000] Linux version 6.1.0 (simulated)\r\n[    0.412000] %d GPU devices (simulated)\r\n[    2.870000] %s login: root (automatic login)\r\n", len(g.Devices), g.name)
		e.shell(ctx, g, nodewire.ExecRequest{TTY: true}, hypervisor.ExecIO{Stdin: ours, Stdout: ours, Stderr: ours})
	}()
	go func() {
		<-g.ended
		_ = ours.Close()
	}()
	return theirs, nil
}

// Screen is not simulated.
func (e *Engine) Screen(_ context.Context, id string) (net.Conn, error) {
	if _, err := e.running(id); err != nil {
		return nil, err
	}
	return nil, &hypervisor.Failure{Reason: nodewire.ReasonStart, Message: "a simulated machine has no screen; its serial console answers", Final: true}
}
