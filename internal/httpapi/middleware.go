package httpapi

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"regexp"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"

	"github.com/tenon-cloud/tenon/internal/app"
	"github.com/tenon-cloud/tenon/internal/authz"
	"github.com/tenon-cloud/tenon/internal/cloud"
)

type contextKey int

const (
	keyRequest contextKey = iota
	keyActor
	keyTicket
	keyPlace
)

// request is what the access log learns of a request on its way.
type request struct {
	id      string
	address string
	actor   cloud.Actor
}

func requestOf(ctx context.Context) *request {
	if r, ok := ctx.Value(keyRequest).(*request); ok {
		return r
	}
	return &request{}
}

func requestID(ctx context.Context) string { return requestOf(ctx).id }

// call is who asks, and how, for package app.
func call(ctx context.Context, idempotencyKey string) app.Call {
	actor, _ := ctx.Value(keyActor).(cloud.Actor)
	return app.Call{Actor: actor, Address: requestOf(ctx).address, IdempotencyKey: idempotencyKey}
}

var requestIDForm = regexp.MustCompile(`^[A-Za-z0-9._-]{8,64}$`)

// identify gives each request an id; a caller's own is kept if it is harmless.
func (s *server) identify(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := r.Header.Get("X-Request-Id")
		if !requestIDForm.MatchString(id) {
			var b [12]byte
			_, _ = rand.Read(b[:])
			id = hex.EncodeToString(b[:])
		}
		w.Header().Set("X-Request-Id", id)
		ctx := context.WithValue(r.Context(), keyRequest, &request{id: id, address: remoteHost(r)})
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// record writes the access log and the metrics. Paths are logged without their
// query, which may carry a ticket.
func (s *server) record(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		ww := middleware.NewWrapResponseWriter(w, r.ProtoMajor)
		defer func() {
			status := ww.Status()
			if status == 0 {
				status = http.StatusOK
				if r.Header.Get("Upgrade") != "" {
					status = http.StatusSwitchingProtocols
				}
			}
			route := chi.RouteContext(r.Context()).RoutePattern()
			s.requests.WithLabelValues(s.countedAs(r.Method, route), statusClass(status)).Observe(time.Since(began).Seconds())
			level := slog.LevelInfo
			if status >= 500 {
				level = slog.LevelError
			} else if !strings.HasPrefix(route, "/v1") {
				level = slog.LevelDebug
			}
			req := requestOf(r.Context())
			attrs := []slog.Attr{
				slog.String("method", r.Method), slog.String("path", r.URL.Path), slog.String("route", route),
				slog.Int("status", status), slog.Int("bytes", ww.BytesWritten()),
				slog.Float64("ms", float64(time.Since(began).Microseconds())/1000),
				slog.String("address", req.address), slog.String("request_id", req.id),
			}
			if !req.actor.UserID.IsZero() {
				attrs = append(attrs, slog.String("user", req.actor.UserID.String()), slog.String("organisation", req.actor.OrgID.String()))
			}
			s.log.LogAttrs(r.Context(), level, "request", attrs...)
		}()
		next.ServeHTTP(ww, r)
	})
}

// recordApp does the same for a host of an instance, all of which count as one;
// its paths are a tenant's own and go to the log only when asked for.
func (s *server) recordApp(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		ww := middleware.NewWrapResponseWriter(w, r.ProtoMajor)
		defer func() {
			status := ww.Status()
			if status == 0 {
				status = http.StatusSwitchingProtocols
			}
			s.requests.WithLabelValues("app", statusClass(status)).Observe(time.Since(began).Seconds())
			s.log.LogAttrs(r.Context(), slog.LevelDebug, "app request", slog.String("method", r.Method), slog.String("host", r.Host), slog.Int("status", status),
				slog.Int("bytes", ww.BytesWritten()), slog.Float64("ms", float64(time.Since(began).Microseconds())/1000), slog.String("request_id", requestID(r.Context())))
		}()
		next.ServeHTTP(ww, r)
	})
}

// countedAs names a request for its metric: an operation's id, or the part of the
// door; a client can't invent one.
func (s *server) countedAs(method, route string) string {
	if method == http.MethodHead {
		method = http.MethodGet
	}
	if id := s.named[method+" "+route]; id != "" {
		return id
	}
	switch {
	case route == "":
		return "none"
	case strings.HasPrefix(route, "/v2"):
		return "registry"
	case route == "/*" || route == "/assets/*":
		return "console"
	}
	return strings.Trim(route, "/") // healthz, readyz, metrics, openapi.yaml, docs/api
}

func statusClass(status int) string { return strconv.Itoa(status/100) + "xx" }

// rescue turns a panic into a problem with a request id.
func (s *server) rescue(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			p := recover()
			if p == nil {
				return
			}
			if p == http.ErrAbortHandler {
				panic(p)
			}
			s.log.ErrorContext(r.Context(), "panic in a request", "panic", fmt.Sprint(p), "stack", string(debug.Stack()), "request_id", requestID(r.Context()))
			if ww, ok := w.(middleware.WrapResponseWriter); ok && ww.Status() != 0 {
				panic(http.ErrAbortHandler) // an answer has begun: only cutting it off is honest
			}
			writeProblem(w, r, fmt.Errorf("panic: %v", p))
		}()
		next.ServeHTTP(w, r)
	})
}

const (
	pagePolicy = "default-src 'self'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self' data:; " +
		"connect-src 'self'; worker-src 'self'; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
	dataPolicy = "default-src 'none'; frame-ancestors 'none'"
)

// harden sets the security headers. Pages override the policy with their own.
func (s *server) harden(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Content-Security-Policy", dataPolicy)
		if s.cfg.TLS {
			h.Set("Strict-Transport-Security", "max-age=31536000")
		}
		if strings.HasPrefix(r.URL.Path, "/v1/") {
			h.Set("Cache-Control", "no-store")
		}
		next.ServeHTTP(w, r)
	})
}

// compress leaves streams alone: logs are text/plain, events text/event-stream.
func compress() func(http.Handler) http.Handler {
	return middleware.Compress(5, "application/json", "application/problem+json", "application/yaml",
		"text/html", "text/css", "text/javascript", "application/javascript", "image/svg+xml")
}

// authenticate finds out who asks. Whether they may is package app's to decide,
// where it is known whose the resource is.
func (s *server) authenticate(o operation) func(huma.Context, func(huma.Context)) {
	return func(hctx huma.Context, next func(huma.Context)) {
		ctx, err := s.actor(hctx, o)
		if err != nil {
			a := answerOf(hctx.Context(), err)
			for k, v := range a.GetHeaders() {
				hctx.SetHeader(k, v[0])
			}
			hctx.SetHeader("Content-Type", "application/problem+json")
			hctx.SetStatus(a.Status)
			_ = jsonFormat.Marshal(hctx.BodyWriter(), a)
			return
		}
		next(huma.WithContext(hctx, context.WithValue(ctx, keyPlace, placeOf(hctx))))
	}
}

// ticketed are the streams that a browser opens with a ticket, and what it must be
// for.
var ticketed = map[authz.Action]string{
	authz.InstanceExec: app.TicketExec, authz.InstanceConsole: app.TicketConsole, authz.InstanceScreen: app.TicketScreen, authz.InstancePort: app.TicketPort,
}

func (s *server) actor(hctx huma.Context, o operation) (context.Context, error) {
	ctx := hctx.Context()
	scheme, credential, _ := strings.Cut(hctx.Header("Authorization"), " ")
	credential = strings.TrimSpace(credential)
	var actor cloud.Actor
	switch {
	case ticketed[o.action] != "" && scheme == "" && hctx.Query("ticket") != "":
		ticket, err := s.app.TicketUse(ctx, hctx.Query("ticket"), ticketed[o.action])
		if err != nil {
			return nil, err
		}
		actor, ctx = ticket.Actor, context.WithValue(ctx, keyTicket, ticket)
	case scheme == "":
		return nil, cloud.E(cloud.KindUnauthenticated, "token_missing", "this needs a token").
			WithHint("send Authorization: Bearer <token>; sign in, or make one with `tenon token create`")
	case !strings.EqualFold(scheme, "Bearer") || credential == "":
		return nil, cloud.E(cloud.KindUnauthenticated, "token_malformed", "the Authorization header is not \"Bearer <token>\"")
	default:
		var err error
		if actor, err = s.app.Authenticate(ctx, credential, hctx.Header("Tenon-Org")); err != nil {
			return nil, err
		}
	}
	r := requestOf(ctx)
	actor.RequestID = r.id
	r.actor = actor
	return context.WithValue(ctx, keyActor, actor), nil
}

// sameOrigin refuses a request that another site's page makes with our cookie.
func sameOrigin(host, origin, fetchSite string) error {
	refused := cloud.E(cloud.KindForbidden, "cross_origin", "this request comes from another site's page").
		WithHint("open the console at its own address")
	if fetchSite != "" && fetchSite != "same-origin" && fetchSite != "none" {
		return refused
	}
	if origin == "" {
		return nil
	}
	u, err := url.Parse(origin)
	if err != nil || !strings.EqualFold(u.Host, host) {
		return refused
	}
	return nil
}
