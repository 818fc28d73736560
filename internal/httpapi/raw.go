package httpapi

import (
	"context"
	"net/http"
	"net/url"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humachi"

	"github.com/tenon-cloud/tenon/api"
	"github.com/tenon-cloud/tenon/internal/authz"
	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/gateway"
)

func (s *server) rawOperations() {
	const tag, one = "Streams", "/v1/projects/{project}/instances/{instance}"
	const bytes = " A WebSocket (subprotocol tenon.raw.v1) whose binary messages carry bytes as they are, in both directions; an empty message ends the client's direction. A close carries the reason."
	register(s, operation{method: "GET", path: one + "/console", action: authz.InstanceConsole, tag: tag, summary: "Join a VM's serial console", stream: true,
		description: "What it wrote before comes first. Any number may be joined: all see the same, and what each types goes in." + bytes}, s.serial)
	register(s, operation{method: "GET", path: one + "/screen", action: authz.InstanceScreen, tag: tag, summary: "Join a VM's screen", stream: true,
		description: "The RFB protocol of VNC; noVNC's subprotocol, binary, is taken too." + bytes}, s.screen)
	register(s, operation{method: "GET", path: one + "/ports/{port}", action: authz.InstancePort, tag: tag, summary: "Join a TCP port inside an instance", stream: true,
		description: "Of that instance and of nothing else: it is dialled inside the container's own network, or at the VM's own address." + bytes}, s.port)
	register(s, operation{method: "POST", path: one + "/ports/{port}/open", action: authz.InstanceOpen, tag: tag, summary: "Open a web server inside an instance", status: 201,
		description: "Gives a link to the port's own host that signs a browser in, once, within 30 seconds; add path= to arrive elsewhere than at /. Only those who may use the instance get past it."}, s.open)
}

// PortPath names a port of an instance.
type PortPath struct {
	Port int `path:"port" minimum:"1" maximum:"65535" doc:"TCP port inside the instance"`
}

func (s *server) serial(ctx context.Context, in *struct{ Joining }) (*huma.StreamResponse, error) {
	ticket, err := s.mayJoin(ctx, &in.Joining, authz.InstanceConsole, "a console", "use `tenon instance console`, or the console's own page of it")
	if err != nil {
		return nil, err
	}
	t, err := s.cfg.Gateway.Console(ctx, call(ctx, ""), in.Project, in.Instance, ticket.InstanceID)
	return served(t, err)
}

func (s *server) screen(ctx context.Context, in *struct{ Joining }) (*huma.StreamResponse, error) {
	ticket, err := s.mayJoin(ctx, &in.Joining, authz.InstanceScreen, "a screen", "use the console's page of it, or a VNC program that speaks WebSocket")
	if err != nil {
		return nil, err
	}
	t, err := s.cfg.Gateway.Screen(ctx, call(ctx, ""), in.Project, in.Instance, ticket.InstanceID)
	return served(t, err)
}

func (s *server) port(ctx context.Context, in *struct {
	Joining
	PortPath
}) (*huma.StreamResponse, error) {
	ticket, err := s.mayJoin(ctx, &in.Joining, authz.InstancePort, "a port", "use `tenon instance forward`")
	if err != nil {
		return nil, err
	}
	if ticket.Port != 0 && ticket.Port != in.Port {
		return nil, cloud.E(cloud.KindUnauthenticated, "ticket_other", "the ticket is for port %d", ticket.Port).WithHint("ask for one with port=%d", in.Port)
	}
	t, err := s.cfg.Gateway.Port(ctx, call(ctx, ""), in.Project, in.Instance, ticket.InstanceID, in.Port)
	return served(t, err)
}

func served(t *gateway.Raw, err error) (*huma.StreamResponse, error) {
	if err != nil {
		return nil, err
	}
	return &huma.StreamResponse{Body: func(hctx huma.Context) {
		r, w := humachi.Unwrap(hctx)
		t.Serve(w, r)
	}}, nil
}

func (s *server) open(ctx context.Context, in *struct {
	Strict
	InstancePath
	PortPath
}) (*out[api.Opened], error) {
	opening, err := s.app.Open(ctx, call(ctx, ""), in.Project, in.Instance, in.Port)
	if err != nil {
		return nil, err
	}
	apps := s.cfg.Gateway.Apps()
	if apps.Domain == "" {
		return nil, cloud.E(cloud.KindConflict, "apps_off", "this cloud has no domain for web servers of instances").
			WithHint("forward the port to your own machine with `tenon instance forward`; an operator can set TENON_APPS_DOMAIN")
	}
	host := apps.Authority(opening.InstanceID, opening.Port)
	link := url.URL{Scheme: apps.Console.Scheme, Host: host, Path: gateway.EnterPath, RawQuery: url.Values{"ticket": {opening.Ticket}}.Encode()}
	return &out[api.Opened]{Body: api.Opened{URL: link.String(), Host: host, ExpiresAt: opening.ExpiresAt.UTC()}}, nil
}

// byHost keeps the hosts of instances apart from the console's: nothing of one is
// ever served on the other.
func (s *server) byHost() http.Handler {
	if s.cfg.Gateway == nil || s.cfg.Gateway.Apps().Domain == "" {
		return fitting(s.mux)
	}
	console := fitting(s.mux)
	apps, door := s.cfg.Gateway.Apps(), s.identify(s.recordApp(s.rescue(http.HandlerFunc(s.cfg.Gateway.ServeApp))))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if apps.Owns(r.Host) {
			door.ServeHTTP(w, r)
			return
		}
		console.ServeHTTP(w, r)
	})
}
