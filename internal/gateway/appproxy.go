package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tenon-cloud/tenon/internal/app"
	"github.com/tenon-cloud/tenon/internal/cloud"
)

type visitContextKey struct{}

// pass sends a request on to the port that the visit is for.
func (g *Gateway) pass(w http.ResponseWriter, r *http.Request, v app.Visit) {
	release, err := g.requests.hold(v.Call.Actor.UserID)
	if err != nil {
		w.Header().Set("Retry-After", "1")
		page(w, r, http.StatusTooManyRequests, pageText{Title: "Too many requests at once", Text: fmt.Sprintf("%d of your requests to instances are under way, which is the limit.", appsPerUser)})
		return
	}
	defer release()
	ctx, done := g.watchVisit(withCookies(r), passOf(r), v)
	defer done()
	if !isWebSocket(r) {
		// Only WebSockets are passed through; after any other switch the rest of
		// the connection would be nobody's to check.
		r.Header.Del("Upgrade")
	}
	g.proxy.ServeHTTP(w, r.WithContext(context.WithValue(ctx, visitContextKey{}, v)))
}

func visitOf(ctx context.Context) app.Visit {
	v, _ := ctx.Value(visitContextKey{}).(app.Visit)
	return v
}

// newProxy makes the proxy of all apps. Connections are kept per (instance,
// epoch, port), which is what the address of each request is made of.
func (g *Gateway) newProxy() *httputil.ReverseProxy {
	return &httputil.ReverseProxy{
		Rewrite: g.rewrite,
		Transport: patient{limit: patienceFor, next: &http.Transport{
			DialContext: g.dialApp, DisableCompression: true, MaxIdleConnsPerHost: 16, IdleConnTimeout: time.Minute,
			ExpectContinueTimeout: time.Second, MaxResponseHeaderBytes: 256 << 10,
		}},
		FlushInterval:  -1, // each piece at once
		BufferPool:     &pieces{},
		ModifyResponse: g.answered,
		ErrorHandler:   g.failed,
		ErrorLog:       slog.NewLogLogger(g.log.Handler(), slog.LevelDebug),
	}
}

// rewrite makes the request that the app sees: as its browser sent it, without
// what is ours.
func (g *Gateway) rewrite(p *httputil.ProxyRequest) {
	v := visitOf(p.In.Context())
	out := p.Out
	out.URL.Scheme, out.URL.Host = "http", appAddress(v.Instance, v.Port)
	out.URL.RawQuery = p.In.URL.RawQuery
	out.Host = strings.ToLower(p.In.Host)
	h := out.Header
	h.Del("Authorization")
	h.Del("Proxy-Authorization")
	for name := range h {
		if n := strings.ToLower(name); n == "x-real-ip" || strings.HasPrefix(n, "x-forwarded") || n == "forwarded" || strings.HasPrefix(n, "tenon-") {
			delete(h, name)
		}
	}
	h.Del("Cookie")
	if own := cookiesOf(p.In.Context()).guest; own != "" {
		h.Set("Cookie", own)
	}
	if client, _, err := net.SplitHostPort(p.In.RemoteAddr); err == nil {
		h.Set("X-Forwarded-For", client)
	}
	h.Set("X-Forwarded-Host", out.Host)
	h.Set("X-Forwarded-Proto", g.apps.Console.Scheme)
}

// answered takes out of an app's answer what reaches beyond its own host.
func (g *Gateway) answered(res *http.Response) error {
	h := res.Header
	h.Del("Clear-Site-Data") // it clears a whole domain's
	h.Del("Alt-Svc")
	h.Del("Set-Cookie2")
	lines := setCookies(h["Set-Cookie"], res.Request.URL.Path)
	if opensPage(res.Request) {
		lines = append(expire(cookiesOf(res.Request.Context()).loose, g.apps.Domain, res.Request.URL.Path), lines...)
	}
	h.Del("Set-Cookie")
	for _, line := range lines {
		h.Add("Set-Cookie", line)
	}
	if res.StatusCode == http.StatusSwitchingProtocols {
		if both, ok := res.Body.(readWriteCloser); ok {
			res.Body = newSocketTap(res.Request.Context(), both, g.ping)
		}
	}
	return nil
}

// failed answers when the app did not.
func (g *Gateway) failed(w http.ResponseWriter, r *http.Request, err error) {
	switch {
	case errors.Is(context.Cause(r.Context()), errVisitOver):
		g.nothingHere(w, r)
	case r.Context().Err() != nil:
		panic(http.ErrAbortHandler) // the browser has gone
	default:
		g.log.DebugContext(r.Context(), "app did not answer", "instance", visitOf(r.Context()).Instance.ID, "error", err)
		g.unanswered(w, r, visitOf(r.Context()), err)
	}
}

// appAddress names a run of an instance and a port in it. It is never resolved:
// dialApp takes it apart again.
func appAddress(i cloud.Instance, port int) string {
	return net.JoinHostPort(i.ID.String()+"."+strconv.FormatInt(i.Epoch, 10)+"."+i.NodeID.String(), strconv.Itoa(port))
}

func (g *Gateway) dialApp(ctx context.Context, _, address string) (net.Conn, error) {
	name, number, err := net.SplitHostPort(address)
	parts := strings.Split(name, ".")
	n, perr := strconv.Atoi(number)
	if err != nil || perr != nil || len(parts) != 3 {
		return nil, fmt.Errorf("dial app: %q is none", address)
	}
	var i cloud.Instance
	if err := errors.Join(i.ID.UnmarshalText([]byte(parts[0])), i.NodeID.UnmarshalText([]byte(parts[2]))); err != nil {
		return nil, fmt.Errorf("dial app: %w", err)
	}
	return g.dial(ctx, portKind, i, n)
}

func asCloud(err error, e **cloud.Error) bool { return errors.As(err, e) }

// pieces lends out buffers for copying.
type pieces struct{ pool sync.Pool }

func (p *pieces) Get() []byte {
	if b, ok := p.pool.Get().(*[]byte); ok {
		return *b
	}
	return make([]byte, rawPiece)
}

func (p *pieces) Put(b []byte) { p.pool.Put(&b) }
