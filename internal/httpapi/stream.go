package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humachi"

	"github.com/tenon-cloud/tenon/api"
	"github.com/tenon-cloud/tenon/internal/app"
	"github.com/tenon-cloud/tenon/internal/authn"
	"github.com/tenon-cloud/tenon/internal/authz"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

const (
	heartbeatEvery = 15 * time.Second
	slowReader     = 20 * time.Second // a write that takes longer ends the stream
)

func (s *server) streamOperations() {
	const tag, one = "Streams", "/v1/projects/{project}/instances/{instance}"
	register(s, operation{method: "GET", path: one + "/logs", action: authz.InstanceLogs, tag: tag, summary: "Read what an instance wrote", stream: true,
		description: "Plain text. With follow=true it goes on until the instance ends. An instance that is no longer on a node gives the last lines that were kept."}, s.logs)
	register(s, operation{method: "GET", path: one + "/metrics", action: authz.InstanceMetrics, tag: tag, summary: "Read what its node measured of an instance lately"}, s.metrics)
	register(s, operation{method: "POST", path: one + "/exec-tickets", action: authz.InstanceExecTicket, tag: tag, summary: "Make a ticket for one stream", status: 201,
		description: "Good once, within 30 seconds, for this instance and what it was made for: a terminal when the body is absent. For browsers, which can't send a header with a WebSocket."}, s.execTicket)
	register(s, operation{method: "GET", path: one + "/exec", action: authz.InstanceExec, tag: tag, summary: "Run a process inside an instance", stream: true,
		description: "A WebSocket (subprotocol tenon-exec.v1) of binary messages: one byte of type, then the payload. To the guest: 0 input, 3 resize (columns and rows, two big-endian 16-bit numbers), 5 end of input. From it: 1 output, 2 error output, 4 exit code (big-endian 32-bit, the last message), 6 why there is none (text, the last message). A close carries the reason."}, s.exec)
	register(s, operation{method: "GET", path: "/v1/projects/{project}/events", action: authz.ProjectEvents, tag: tag, summary: "Follow a project's changes", stream: true,
		description: "Server-sent events: each `change` carries an event as JSON and an id; send the last one as Last-Event-ID to go on from there. No event is passed over; of two changes of one resource at the same moment the later may come first, which seq tells. A comment every 15 seconds keeps the connection alive. An `end` says why the stream is over."}, s.events)
}

type logsInput struct {
	Strict
	InstancePath
	Tail   int  `query:"tail" minimum:"0" maximum:"100000" doc:"Last lines; 0: all that is kept"`
	Follow bool `query:"follow" doc:"Go on until the instance ends"`
}

func (s *server) logs(ctx context.Context, in *logsInput) (*huma.StreamResponse, error) {
	body, err := s.cfg.Gateway.Logs(ctx, call(ctx, ""), in.Project, in.Instance, in.Tail, in.Follow)
	if err != nil {
		return nil, err
	}
	return &huma.StreamResponse{Body: func(hctx huma.Context) {
		defer body.Close()
		_, w := humachi.Unwrap(hctx)
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("X-Accel-Buffering", "no")
		w.WriteHeader(http.StatusOK)
		copyFlushing(w, body)
	}}, nil
}

// copyFlushing passes each piece on as it comes and gives up on a reader that
// doesn't take it.
func copyFlushing(w http.ResponseWriter, r io.Reader) {
	rc := http.NewResponseController(w)
	_ = rc.Flush()
	buf := make([]byte, 32<<10)
	for {
		n, err := r.Read(buf)
		if n > 0 {
			_ = rc.SetWriteDeadline(time.Now().Add(slowReader))
			if _, werr := w.Write(buf[:n]); werr != nil {
				return
			}
			if rc.Flush() != nil {
				return
			}
		}
		if err != nil {
			_ = rc.SetWriteDeadline(time.Time{})
			return
		}
	}
}

func (s *server) metrics(ctx context.Context, in *struct {
	Strict
	InstancePath
}) (*out[api.InstanceMetrics], error) {
	m, err := s.cfg.Gateway.Metrics(ctx, call(ctx, ""), in.Project, in.Instance)
	if err != nil {
		return nil, err
	}
	return &out[api.InstanceMetrics]{Body: m}, nil
}

func (s *server) execTicket(ctx context.Context, in *struct {
	Strict
	InstancePath
	Body *api.TicketCreate
}) (*out[api.ExecTicket], error) {
	asked := api.TicketCreate{}
	if in.Body != nil {
		asked = *in.Body
	}
	t, err := s.app.TicketCreate(ctx, call(ctx, ""), in.Project, in.Instance, asked.For, asked.Port)
	return oneOf(t, err, func(t app.ExecTicket) api.ExecTicket {
		return api.ExecTicket{Ticket: t.Ticket, ExpiresAt: t.ExpiresAt.UTC()}
	})
}

// Joining is what every WebSocket of an instance takes.
type Joining struct {
	Strict
	InstancePath
	Ticket    string `query:"ticket" maxLength:"4096" doc:"Instead of an Authorization header"`
	Upgrade   string `header:"Upgrade" hidden:"true"`
	Origin    string `header:"Origin" hidden:"true"`
	FetchSite string `header:"Sec-Fetch-Site" hidden:"true"`
	host      string
}

// Resolve implements huma.Resolver.
func (in *Joining) Resolve(ctx huma.Context) []error {
	in.host = ctx.Host()
	return in.Strict.Resolve(ctx)
}

// mayJoin checks that one of our own pages asks, if a page does, and for a
// WebSocket. Whether one may is answered before how: the foreign and the missing
// are 404.
func (s *server) mayJoin(ctx context.Context, in *Joining, action authz.Action, what, hint string) (ticketFor authn.Ticket, err error) {
	if err := sameOrigin(in.host, in.Origin, in.FetchSite); err != nil {
		return ticketFor, err
	}
	ticketFor, _ = ctx.Value(keyTicket).(authn.Ticket)
	if in.Upgrade != "" {
		return ticketFor, nil
	}
	if _, err := s.app.InstanceFor(ctx, call(ctx, ""), action, in.Project, in.Instance, false); err != nil {
		return ticketFor, err
	}
	a := newAnswer(http.StatusUpgradeRequired, "websocket_needed", what+" is a WebSocket")
	a.Hint = hint
	return ticketFor, a
}

type execInput struct {
	Joining
	Command []string `query:"command,explode" maxItems:"256" doc:"Repeated, one word each; a login shell when absent"`
	TTY     bool     `query:"tty" doc:"Give the process a terminal"`
	Columns int      `query:"columns" minimum:"0" maximum:"1000"`
	Rows    int      `query:"rows" minimum:"0" maximum:"1000"`
}

func (s *server) exec(ctx context.Context, in *execInput) (*huma.StreamResponse, error) {
	ticket, err := s.mayJoin(ctx, &in.Joining, authz.InstanceExec, "a terminal", "use `tenon instance shell`, or the console")
	if err != nil {
		return nil, err
	}
	t, err := s.cfg.Gateway.Exec(ctx, call(ctx, ""), in.Project, in.Instance, ticket.InstanceID, nodewire.ExecRequest{
		Command: in.Command, TTY: in.TTY, Columns: in.Columns, Rows: in.Rows,
	})
	if err != nil {
		return nil, err
	}
	return &huma.StreamResponse{Body: func(hctx huma.Context) {
		r, w := humachi.Unwrap(hctx)
		t.Serve(w, r)
	}}, nil
}

func (s *server) events(ctx context.Context, in *struct {
	Strict
	ProjectPath
	LastEventID string `header:"Last-Event-ID" maxLength:"100" doc:"Go on after this one; from now when absent"`
}) (*huma.StreamResponse, error) {
	events, err := s.app.EventStream(ctx, call(ctx, ""), in.Project, in.LastEventID)
	if err != nil {
		return nil, err
	}
	return &huma.StreamResponse{Body: func(hctx huma.Context) {
		defer events.Close()
		s.streams.Inc()
		defer s.streams.Dec()
		_, w := humachi.Unwrap(hctx)
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("X-Accel-Buffering", "no")
		w.WriteHeader(http.StatusOK)
		sendEvents(ctx, w, events.Next)
	}}, nil
}

type eventBatch struct {
	events []app.StreamEvent
	err    error
}

// sendEvents writes events until the reader goes, is too slow, or may no longer
// read. At most one batch waits; whoever is dropped goes on from the last id
// that it has seen.
func sendEvents(ctx context.Context, w http.ResponseWriter, next func(context.Context) ([]app.StreamEvent, error)) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	batches := make(chan eventBatch)
	go func() {
		for {
			events, err := next(ctx)
			select {
			case batches <- eventBatch{events, err}:
			case <-ctx.Done():
				return
			}
			if err != nil {
				return
			}
		}
	}()
	rc := http.NewResponseController(w)
	send := func(format string, args ...any) bool {
		_ = rc.SetWriteDeadline(time.Now().Add(slowReader))
		_, err := fmt.Fprintf(w, format, args...)
		return err == nil
	}
	beat := time.NewTicker(heartbeatEvery)
	defer beat.Stop()
	ok := send("retry: 1000\n: connected\n\n") && rc.Flush() == nil
	for ok {
		select {
		case <-ctx.Done():
			return
		case <-beat.C:
			ok = send(": alive\n\n")
		case b := <-batches:
			for _, e := range b.events {
				wire := eventOf(e.Event)
				wire.Cursor = e.ID
				data, err := json.Marshal(wire)
				if err != nil || !send("id: %s\nevent: change\ndata: %s\n\n", e.ID, data) {
					return
				}
			}
			if b.err != nil {
				if ctx.Err() == nil {
					a := answerOf(ctx, b.err)
					data, _ := json.Marshal(a.Problem)
					send("event: end\ndata: %s\n\n", data)
					_ = rc.Flush()
				}
				return
			}
		}
		ok = ok && rc.Flush() == nil
	}
}
