package cloudtest_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/tenon-cloud/tenon/api"
	"github.com/tenon-cloud/tenon/internal/cloudtest"
)

func TestPortsOfAnInstance(t *testing.T) {
	t.Parallel()
	c := appCloud(t)
	acme := c.Tenant("acme")
	i := c.Running(acme.Client, api.InstanceCreate{Name: "web-1", Image: image(t, c), Flavor: flavor(t, c, "small")})
	ctx := within(t, 60*time.Second)

	conn, err := acme.Port(ctx, "default", "web-1", 5432)
	if err != nil {
		t.Fatal(err)
	}
	// Whoever ends their direction still hears the rest.
	if _, err := io.WriteString(conn, "GET /hello HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if err := conn.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	all, err := io.ReadAll(conn)
	if err != nil || !strings.Contains(string(all), `"Port":5432`) || !strings.Contains(string(all), i.ID) {
		t.Errorf("%v: %s", err, all)
	}
	_ = conn.Close()

	if _, err := acme.Port(ctx, "default", "web-1", 9); err == nil || problemOf(t, err).Code != "port_closed" {
		t.Errorf("a port that nothing listens on: %v", err)
	}
	for _, path := range []string{"/ports/0", "/ports/65536", "/ports/-1", "/ports/169.254.169.254:80", "/ports/80@10.0.0.1"} {
		if a := request(t, c, acme.Token, "GET", "/v1/projects/default/instances/web-1"+path, ""); a.status != http.StatusUnprocessableEntity {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
	if a := request(t, c, acme.Token, "GET", "/v1/projects/default/instances/web-1/ports/80", ""); a.status != http.StatusUpgradeRequired || a.problem.Code != "websocket_needed" {
		t.Errorf("without an upgrade: %d %s", a.status, a.body)
	}
	for name, join := range map[string]func() error{
		"console": func() error { _, err := acme.Console(ctx, "default", "web-1"); return err },
		"screen":  func() error { _, err := acme.Screen(ctx, "default", "web-1"); return err },
		"ticket": func() error {
			_, err := acme.Ticket(ctx, "default", "web-1", api.TicketCreate{For: "screen"})
			return err
		},
	} {
		if err := join(); err == nil || problemOf(t, err).Code != "not_a_vm" {
			t.Errorf("a container's %s: %v", name, err)
		}
	}

	ticket := func(in api.TicketCreate) string {
		got, err := acme.Ticket(ctx, "default", "web-1", in)
		if err != nil {
			t.Fatal(err)
		}
		return got.Ticket
	}
	dial := func(path, ticket, origin string) (*websocket.Conn, error) {
		ws, _, err := websocket.Dial(ctx, "ws"+strings.TrimPrefix(c.URL, "http")+"/v1/projects/default/instances/web-1/"+path+"?ticket="+ticket,
			&websocket.DialOptions{Subprotocols: []string{api.RawSubprotocol}, HTTPHeader: http.Header{"Origin": {origin}}})
		return ws, err
	}
	port80 := ticket(api.TicketCreate{For: "port", Port: 80})
	for what, try := range map[string]func() error{
		"another site's page": func() error {
			_, err := dial("ports/80", ticket(api.TicketCreate{For: "port", Port: 80}), "https://evil.test")
			return err
		},
		"a terminal's ticket": func() error { _, err := dial("ports/80", ticket(api.TicketCreate{}), c.URL); return err },
		"a port's for a terminal": func() error {
			_, err := dial("exec", ticket(api.TicketCreate{For: "port", Port: 80}), c.URL)
			return err
		},
		"another port's": func() error {
			_, err := dial("ports/81", ticket(api.TicketCreate{For: "port", Port: 80}), c.URL)
			return err
		},
	} {
		if try() == nil {
			t.Errorf("%s opened a port", what)
		}
	}
	ws, err := dial("ports/80", port80, c.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer ws.CloseNow()
	if ws.Subprotocol() != api.RawSubprotocol {
		t.Errorf("subprotocol %q", ws.Subprotocol())
	}
	if _, err := dial("ports/80", port80, c.URL); err == nil {
		t.Error("a ticket was used twice")
	}
}

func TestRawStreamsEndWithTheirReason(t *testing.T) {
	t.Parallel()
	c := appCloud(t)
	acme, globex := c.Tenant("acme"), c.Tenant("globex")
	i := c.Running(acme.Client, api.InstanceCreate{Name: "web-1", Image: image(t, c), Flavor: flavor(t, c, "small")})
	ctx := within(t, 60*time.Second)
	if _, err := globex.Port(ctx, "default", i.ID, 80); err == nil || problemOf(t, err).Status != http.StatusNotFound {
		t.Errorf("another organisation's port: %v", err)
	}
	second, err := acme.TokenCreate(ctx, api.TokenCreate{Name: "second"})
	if err != nil {
		t.Fatal(err)
	}
	conn, err := c.Client(second.Secret).Port(ctx, "default", "web-1", 80)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := acme.TokenRevoke(ctx, second.ID); err != nil {
		t.Fatal(err)
	}
	var closed *api.StreamClosed
	if _, err := io.ReadAll(conn); !errors.As(err, &closed) || !strings.Contains(closed.Reason, "session") {
		t.Errorf("after the token was revoked: %v", err)
	}
	conn, err = acme.Port(ctx, "default", "web-1", 80)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := acme.InstanceStop(ctx, "default", "web-1"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(conn); ctx.Err() != nil {
		t.Errorf("the stream outlived its instance: %v", err)
	}
}

func TestAVMsConsole(t *testing.T) {
	t.Parallel()
	c := cloudtest.Start(t)
	acme := c.Tenant("acme")
	img, err := c.Admin.ImageCreate(t.Context(), api.ImageCreate{Name: "vm-image", Kind: "vm", Ref: "tenon/vm-image:latest", Offered: true})
	if err != nil {
		t.Fatal(err)
	}
	f, err := c.Admin.FlavorCreate(t.Context(), api.FlavorCreate{Name: "vm", VCPU: 1, MemoryMiB: 2048, DiskMiB: 8192})
	if err != nil {
		t.Fatal(err)
	}
	c.Running(acme.Client, api.InstanceCreate{Name: "vm-1", Image: img.Name, Flavor: f.Name})
	ctx := within(t, 60*time.Second)
	conn, err := acme.Console(ctx, "default", "vm-1")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	var seen strings.Builder
	buf := make([]byte, 4096)
	for !strings.Contains(seen.String(), "login:") {
		n, err := conn.Read(buf)
		if err != nil {
			t.Fatalf("%v after %q", err, seen.String())
		}
		seen.Write(buf[:n])
	}
}
