package httpapi

import (
	"context"
	"encoding/json"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/tenon-cloud/tenon/internal/cloud"
)

func (s *server) healthz(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_ = json.NewEncoder(w).Encode(map[string]string{"status": "ok", "version": s.cfg.Version, "cloud_id": s.cfg.CloudID})
}

// readyz asks every check and says which one fails.
func (s *server) readyz(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), 3*time.Second)
	defer cancel()
	type result struct {
		Name   string `json:"name"`
		Status string `json:"status"`
	}
	status, code, results := "ready", http.StatusOK, []result{}
	for _, c := range s.cfg.Ready {
		said := "ok"
		if err := c.Check(ctx); err != nil {
			s.log.WarnContext(ctx, "not ready", "check", c.Name, "error", err)
			said, status, code = "failed", "not ready", http.StatusServiceUnavailable
		}
		results = append(results, result{c.Name, said})
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(map[string]any{"status": status, "checks": results})
}

func (s *server) fixed(contentType string, body []byte) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.Header().Set("Cache-Control", "no-cache")
		if strings.HasPrefix(contentType, "text/html") {
			w.Header().Set("Content-Security-Policy", pagePolicy)
		}
		_, _ = w.Write(body)
	})
}

// asset serves a file whose name carries a hash of its content.
func (s *server) asset(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(path.Clean(r.URL.Path), "/")
	if s.cfg.Console == nil || !isFile(s.cfg.Console, name) {
		s.noRoute(w, r)
		return
	}
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	// A worker lives under the policy of its own script: without this it may ask for nothing.
	w.Header().Set("Content-Security-Policy", pagePolicy)
	http.ServeFileFS(w, r, s.cfg.Console, name)
}

// console serves the console's other files, and its page for every address that
// is the console's own to route.
func (s *server) console(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(path.Clean(r.URL.Path), "/")
	w.Header().Set("Cache-Control", "no-cache")
	w.Header().Set("Content-Security-Policy", pagePolicy)
	switch {
	case s.cfg.Console != nil && name != "" && name != "index.html" && isFile(s.cfg.Console, name):
		http.ServeFileFS(w, r, s.cfg.Console, name)
	case strings.HasPrefix(name, "v1/"), name == "v1", name != "" && strings.Contains(path.Base(name), ".") && !strings.HasPrefix(name, "open/"): // open/ is followed by a host
		w.Header().Set("Content-Security-Policy", dataPolicy)
		s.noRoute(w, r)
	case s.cfg.Console == nil:
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write([]byte(s.cfg.NotBuilt))
	default:
		page, err := fs.ReadFile(s.cfg.Console, "index.html")
		if err != nil {
			writeProblem(w, r, err)
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write(page)
	}
}

func isFile(f fs.FS, name string) bool {
	info, err := fs.Stat(f, name)
	return err == nil && info.Mode().IsRegular()
}

func (s *server) noRoute(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, "/v1/") {
		if r.Method == http.MethodGet && len(s.allowed(r.URL.Path)) > 0 {
			s.noMethod(w, r) // the console's catch-all takes any GET
			return
		}
	}
	writeProblem(w, r, cloud.E(cloud.KindNotFound, "no_such_route", "there is nothing at %s %s", r.Method, clip(r.URL.Path, 200)).
		WithHint("the API is described at /docs/api and in /openapi.yaml"))
}

func (s *server) noMethod(w http.ResponseWriter, r *http.Request) {
	allowed := s.allowed(r.URL.Path)
	if len(allowed) == 0 {
		s.noRoute(w, r)
		return
	}
	w.Header().Set("Allow", strings.Join(allowed, ", "))
	a := newAnswer(http.StatusMethodNotAllowed, "method_not_allowed", r.Method+" is not possible here")
	a.Hint = "possible are " + strings.Join(allowed, ", ")
	writeProblem(w, r, a)
}

// allowed lists the methods that a path takes; the console's catch-all is none.
func (s *server) allowed(path string) []string {
	var out []string
	for _, m := range []string{"GET", "POST", "PUT", "PATCH", "DELETE"} {
		rctx := chi.NewRouteContext()
		if s.mux.Match(rctx, m, path) && (m != "GET" || !strings.HasPrefix(path, "/v1/") || rctx.RoutePattern() != "/*") {
			out = append(out, m)
		}
	}
	return out
}

func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}
