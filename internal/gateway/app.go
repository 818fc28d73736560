package gateway

import (
	"context"
	"crypto/sha256"
	"errors"
	"net/http"
	"net/url"
	pathlib "path"
	"strings"
	"time"

	"github.com/tenon-cloud/tenon/internal/app"
	"github.com/tenon-cloud/tenon/internal/cloud"
)

// PassCookie keeps a browser's pass on an instance's own host. Its prefix makes
// browsers refuse one that is set for a whole domain or by plain HTTP (they take
// *.localhost for secure).
const PassCookie = "__Host-tenon-app"

// ownPaths are the gateway's on every app host; everything else is the app's.
const ownPaths = "/.tenon/"

// EnterPath is where a ticket becomes a pass.
const EnterPath = ownPaths + "enter"

const (
	visitKept   = time.Second // how long an answer about a pass is remembered
	visitsKept  = 10_000
	appsPerUser = 256 // requests to web servers that a user may have under way
)

// Apps tells where web servers inside instances are reached.
func (g *Gateway) Apps() Apps { return g.apps }

// ServeApp answers a request to a host below the apps domain: it passes it on to
// the port that the host names, if the browser has a pass for it. Without one,
// every host is the same page, whether there is such an instance or not.
func (g *Gateway) ServeApp(w http.ResponseWriter, r *http.Request) {
	instance, port, ok := g.apps.Parse(r.Host)
	if !ok {
		g.nothingHere(w, r)
		return
	}
	if own := pathlib.Clean("/" + r.URL.Path); own+"/" == ownPaths || strings.HasPrefix(own, ownPaths) {
		g.own(w, r, instance, port)
		return
	}
	var v app.Visit
	var err error
	patiently(r.Context(), patienceFor, func() bool {
		v, err = g.visit(r.Context(), passOf(r), instance, port)
		return err != nil && !over(err) && partOfPage(r)
	})
	switch {
	case over(err):
		g.nothingHere(w, r)
	case err != nil:
		g.log.WarnContext(r.Context(), "look up a visit", "error", err)
		page(w, r, http.StatusServiceUnavailable, pageText{Title: "The cloud can't answer now", Text: "Whether you may see this could not be looked up. Try again in a moment.", Again: true})
	case foreign(r):
		page(w, r, http.StatusForbidden, pageText{Title: "Refused", Text: "Another site's page made this request."})
	case v.Instance.NodeID.IsZero() || v.Instance.State != cloud.StateRunning:
		g.notRunning(w, r, v)
	default:
		g.pass(w, r, v)
	}
}

// passOf is the browser's pass; empty: none. The package net/http reads none where
// there are thousands.
func passOf(r *http.Request) string {
	for _, line := range r.Header["Cookie"] {
		for pair := range strings.SplitSeq(line, ";") {
			if name, value, ok := strings.Cut(strings.TrimSpace(pair), "="); ok && name == PassCookie {
				return value
			}
		}
	}
	return ""
}

// own answers what is the gateway's own on an app host.
func (g *Gateway) own(w http.ResponseWriter, r *http.Request, instance cloud.InstanceID, port int) {
	if r.Method != http.MethodGet || r.URL.Path != EnterPath {
		g.nothingHere(w, r)
		return
	}
	q := r.URL.Query()
	pass, until, err := g.app.VisitBegin(r.Context(), q.Get("ticket"), instance, port)
	if err != nil {
		if !over(err) {
			g.log.WarnContext(r.Context(), "begin a visit", "error", err)
		}
		// A link that was followed twice is no harm to whoever is in already.
		if _, err := g.visit(r.Context(), passOf(r), instance, port); err != nil {
			g.nothingHere(w, r)
			return
		}
	} else {
		http.SetCookie(w, &http.Cookie{Name: PassCookie, Value: pass, Path: "/", MaxAge: int(time.Until(until).Seconds()), Secure: true, HttpOnly: true, SameSite: http.SameSiteLaxMode})
	}
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Location", relative(q.Get("path")))
	w.WriteHeader(http.StatusSeeOther)
}

// relative is a path on this host, and nothing else: "/" for whatever could lead
// away or back into our own.
func relative(to string) string {
	if to == "" || to[0] != '/' {
		to = "/" + to
	}
	if strings.HasPrefix(to, "//") || strings.ContainsAny(to, "\\\x7f") || strings.IndexFunc(to, func(r rune) bool { return r < ' ' }) >= 0 {
		return "/"
	}
	u, err := url.Parse(to)
	if err != nil || u.IsAbs() || u.Host != "" || u.User != nil || strings.HasPrefix(pathlib.Clean(u.Path)+"/", ownPaths) {
		return "/"
	}
	return u.String()
}

// foreign reports a request that another host's page makes with this browser's
// pass: the hosts of one apps domain are one site to a browser, so that its
// SameSite cookies alone keep none from another.
func foreign(r *http.Request) bool {
	if origin := r.Header.Get("Origin"); origin != "" {
		u, err := url.Parse(origin)
		same := err == nil && strings.EqualFold(u.Host, r.Host)
		if !same && (isWebSocket(r) || !safe(r.Method)) {
			return true
		}
	}
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none":
		return false
	}
	// Following a link from elsewhere is what links are for; a frame is not.
	return !safe(r.Method) || r.Header.Get("Sec-Fetch-Mode") != "navigate" || r.Header.Get("Sec-Fetch-Dest") != "document"
}

func safe(method string) bool {
	return method == http.MethodGet || method == http.MethodHead || method == http.MethodOptions
}

func isWebSocket(r *http.Request) bool {
	return strings.EqualFold(r.Header.Get("Upgrade"), "websocket")
}

type visitKey struct {
	pass     [sha256.Size]byte
	instance cloud.InstanceID
	port     int
}

type visitKnown struct {
	visit app.Visit
	err   error
	until time.Time
}

// visit asks whether the bearer of a pass may be here now. An answer is kept for
// a moment: a page is a burst of requests. That an instance does not run is not
// kept: whoever has just started it would be told that it is stopped.
func (g *Gateway) visit(ctx context.Context, pass string, instance cloud.InstanceID, port int) (app.Visit, error) {
	if pass == "" {
		return app.Visit{}, cloud.E(cloud.KindUnauthenticated, "pass_missing", "this browser has no pass")
	}
	key := visitKey{sha256.Sum256([]byte(pass)), instance, port}
	g.mu.Lock()
	known, ok := g.visits[key]
	g.mu.Unlock()
	if ok && time.Now().Before(known.until) {
		return known.visit, known.err
	}
	v, err := g.app.VisitGoesOn(ctx, pass, instance, port)
	if err != nil && !over(err) {
		return v, err // not an answer
	}
	if err == nil && v.Instance.State != cloud.StateRunning {
		return v, nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.visits) >= visitsKept {
		clear(g.visits)
	}
	g.visits[key] = visitKnown{v, err, time.Now().Add(visitKept)}
	return v, err
}

// errVisitOver is why a request that lasted was ended.
var errVisitOver = errors.New("the visit is over")

// watchVisit ends a request that lasts when its visitor may no longer be here, or
// the instance has gone; the function ends the watch.
func (g *Gateway) watchVisit(ctx context.Context, pass string, v app.Visit) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	var timer *time.Timer
	timer = time.AfterFunc(time.Hour, func() {
		if ctx.Err() != nil {
			return
		}
		asking, done := context.WithTimeout(ctx, 5*time.Second)
		now, err := g.visit(asking, pass, v.Instance.ID, v.Port)
		done()
		switch {
		case over(err):
			cancel(errVisitOver)
		case err == nil && (now.Instance.Epoch != v.Instance.Epoch || now.Instance.State != cloud.StateRunning):
			cancel(errVisitOver)
		default:
			timer.Reset(g.watch)
		}
	})
	timer.Reset(g.watch)
	return ctx, func() { timer.Stop(); cancel(nil) }
}
