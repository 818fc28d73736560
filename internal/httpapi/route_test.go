package httpapi

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/tenon-cloud/tenon/api"
)

// bare is the door without anything behind it.
func bare(t *testing.T) http.Handler {
	t.Helper()
	h, err := New(Config{NotBuilt: "<p>not built</p>", Console: fstest.MapFS{
		"index.html":           {Data: []byte("<!doctype html><title>Tenon</title>")},
		"favicon.svg":          {Data: []byte("<svg/>")},
		"assets/app-abc123.js": {Data: []byte("export {}")},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func ask(h http.Handler, method, target string, body string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func problemIn(t *testing.T, w *httptest.ResponseRecorder) api.Problem {
	t.Helper()
	if got := w.Header().Get("Content-Type"); got != "application/problem+json" {
		t.Fatalf("content type %q, body %s", got, w.Body)
	}
	var p api.Problem
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
		t.Fatal(err)
	}
	if p.Status != w.Code || p.Title == "" || p.Detail == "" || p.Code == "" || p.RequestID == "" || p.RequestID != w.Header().Get("X-Request-Id") {
		t.Errorf("incomplete problem: %d %+v", w.Code, p)
	}
	return p
}

func TestRoutesThatAreNotThere(t *testing.T) {
	t.Parallel()
	h := bare(t)
	for _, c := range []struct {
		method, target string
		status         int
		code, allow    string
	}{
		{"GET", "/v1/nothing", 404, "no_such_route", ""},
		{"POST", "/v1/nothing", 404, "no_such_route", ""},
		{"GET", "/v1/", 404, "no_such_route", ""},
		{"PUT", "/v1/tokens", 405, "method_not_allowed", "GET, POST"},
		{"GET", "/v1/auth/login", 405, "method_not_allowed", "POST"},
		{"DELETE", "/healthz", 405, "method_not_allowed", "GET"},
		{"GET", "/assets/gone-000.js", 404, "no_such_route", ""},
		{"GET", "/robots.txt", 404, "no_such_route", ""},
		{"BREW", "/v1/tokens", 405, "method_not_allowed", "GET, POST"},
	} {
		w := ask(h, c.method, c.target, "")
		if w.Code != c.status {
			t.Errorf("%s %s: %d, want %d: %s", c.method, c.target, w.Code, c.status, w.Body)
			continue
		}
		if p := problemIn(t, w); p.Code != c.code || w.Header().Get("Allow") != c.allow {
			t.Errorf("%s %s: code %s, Allow %q", c.method, c.target, p.Code, w.Header().Get("Allow"))
		}
	}
}

func TestConsoleIsServedEverywhereElse(t *testing.T) {
	t.Parallel()
	h := bare(t)
	for _, target := range []string{"/", "/projects/default/instances/web-1", "/docs", "/docs/tour"} {
		w := ask(h, "GET", target, "")
		if w.Code != 200 || !strings.Contains(w.Body.String(), "<title>Tenon</title>") || w.Header().Get("Cache-Control") != "no-cache" {
			t.Errorf("GET %s: %d %v %s", target, w.Code, w.Header(), w.Body)
		}
		if csp := w.Header().Get("Content-Security-Policy"); !strings.Contains(csp, "script-src 'self'") || !strings.Contains(csp, "frame-ancestors 'none'") {
			t.Errorf("GET %s: policy %q", target, csp)
		}
	}
	if w := ask(h, "GET", "/assets/app-abc123.js", ""); w.Code != 200 || !strings.Contains(w.Header().Get("Cache-Control"), "immutable") {
		t.Errorf("asset: %d %v", w.Code, w.Header())
	} else if csp := w.Header().Get("Content-Security-Policy"); !strings.Contains(csp, "connect-src 'self'") {
		t.Errorf("asset: a worker under policy %q may not ask the API", csp)
	}
	if w := ask(h, "GET", "/favicon.svg", ""); w.Code != 200 || w.Header().Get("Cache-Control") != "no-cache" {
		t.Errorf("favicon: %d %v", w.Code, w.Header())
	}
}

func TestOperationsNeedAToken(t *testing.T) {
	t.Parallel()
	s, err := build(Config{})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range s.operations {
		if o.public != "" {
			continue
		}
		target := strings.NewReplacer("{project}", "default", "{instance}", "web-1", "{", "", "}", "").Replace(o.path)
		w := ask(s.mux, o.method, target, "")
		if w.Code != http.StatusUnauthorized {
			t.Errorf("%s: %d without a token: %s", o.id(), w.Code, w.Body)
			continue
		}
		if p := problemIn(t, w); p.Code != "token_missing" || w.Header().Get("WWW-Authenticate") != `Bearer realm="tenon"` {
			t.Errorf("%s: %s %q", o.id(), p.Code, w.Header().Get("WWW-Authenticate"))
		}
		if p := problemIn(t, ask(s.mux, o.method, target, "", "Authorization", "Basic abc")); p.Code != "token_malformed" {
			t.Errorf("%s: %s for a foreign scheme", o.id(), p.Code)
		}
	}
}

// TestPanicIsAProblem asks an operation that has nothing behind it.
func TestPanicIsAProblem(t *testing.T) {
	t.Parallel()
	w := ask(bare(t), "GET", "/v1/me", "", "Authorization", "Bearer tenon_x")
	if p := problemIn(t, w); w.Code != 500 || p.Code != "internal" || strings.Contains(w.Body.String(), "nil pointer") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestBodiesThatCanNotBeRead(t *testing.T) {
	t.Parallel()
	h := bare(t)
	const target = "/v1/auth/login"
	for _, c := range []struct {
		name, body, contentType string
		status                  int
		code, detail            string
	}{
		{"cut off", `{"email": "a@b.c"`, "application/json", 400, "malformed_json", "line 1"},
		{"third line", "{\n\"email\": \"a@b.c\",\n\"password\" 1}", "application/json", 400, "malformed_json", "line 3, column 12"},
		{"wrong content type", `email=a`, "application/x-www-form-urlencoded", 415, "wrong_content_type", ""},
		{"none", "", "application/json", 422, "body_missing", ""},
		{"too large", `{"email": "` + strings.Repeat("a", 1<<20) + `"}`, "application/json", 413, "body_too_large", "1024 KiB"},
	} {
		w := ask(h, "POST", target, c.body, "Content-Type", c.contentType)
		p := problemIn(t, w)
		if w.Code != c.status || p.Code != c.code || !strings.Contains(p.Detail, c.detail) {
			t.Errorf("%s: %d %+v", c.name, w.Code, p)
		}
	}
}

func TestEverythingWrongIsToldAtOnce(t *testing.T) {
	t.Parallel()
	w := ask(bare(t), "POST", "/v1/auth/login?lmit=1", `{"emial": "x@y.z", "password": 5}`)
	p := problemIn(t, w)
	got := map[string]string{}
	for _, f := range p.Errors {
		got[f.Location] = f.Message
		if f.Location == "body.password" && f.Value != nil {
			t.Errorf("the password comes back: %v", f.Value)
		}
	}
	want := map[string]string{
		"body.emial":    `unknown field; did you mean "email"?`,
		"body.email":    "is missing",
		"body.password": "must be a string",
		"query.lmit":    "unknown query parameter; none is allowed here",
	}
	for k, v := range want {
		if got[k] != v {
			t.Errorf("%s: %q, want %q", k, got[k], v)
		}
	}
	if w.Code != 422 || len(got) != len(want) {
		t.Errorf("%d %v", w.Code, got)
	}
}

func TestOtherSitesAreRefused(t *testing.T) {
	t.Parallel()
	h := bare(t)
	for _, target := range []string{"/v1/auth/refresh", "/v1/auth/logout"} {
		for _, header := range [][]string{{"Origin", "https://evil.test"}, {"Sec-Fetch-Site", "cross-site"}, {"Origin", "null"}} {
			w := ask(h, "POST", target, "", header...)
			if p := problemIn(t, w); w.Code != 403 || p.Code != "cross_origin" {
				t.Errorf("%s with %v: %d %s", target, header, w.Code, p.Code)
			}
		}
		if w := ask(h, "POST", target, "", "Origin", "http://example.com", "Sec-Fetch-Site", "same-origin"); w.Code == 403 {
			t.Errorf("%s from our own page: %s", target, w.Body)
		}
	}
}

func TestReferenceIsOnePage(t *testing.T) {
	t.Parallel()
	w := ask(bare(t), "GET", "/docs/api", "")
	page := w.Body.String()
	if w.Code != 200 || strings.Contains(page, "<script") || strings.Contains(page, "http://") || strings.Contains(page, "https://") {
		t.Errorf("%d: the reference must need nothing from elsewhere", w.Code)
	}
	for _, want := range []string{"instance.create", "/v1/projects/{project}/instances:dry-run", "gpu_profile"} {
		if !strings.Contains(page, want) {
			t.Errorf("the reference does not tell of %s", want)
		}
	}
}

func TestAnswersAreCompressedAndStreamsAreNot(t *testing.T) {
	t.Parallel()
	h := bare(t)
	for target, want := range map[string]string{"/openapi.yaml": "gzip", "/docs/api": "gzip", "/assets/app-abc123.js": "gzip", "/v1/nothing": "gzip", "/metrics": "gzip"} {
		w := ask(h, "GET", target, "", "Accept-Encoding", "gzip")
		if got := w.Header().Get("Content-Encoding"); got != want {
			t.Errorf("%s: encoding %q, want %q", target, got, want)
		}
	}
	if w := ask(h, "GET", "/openapi.yaml", ""); w.Header().Get("Content-Encoding") != "" {
		t.Errorf("compressed unasked")
	}
}

// TestAccessLogHasNoSecrets sends secrets in every place that a request has.
func TestAccessLogHasNoSecrets(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	h, err := New(Config{Log: slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	if err != nil {
		t.Fatal(err)
	}
	ask(h, "GET", "/v1/projects/default/instances/web-1/exec?ticket=s3cret", "", "Authorization", "Basic s3cret", "Cookie", "tenon_refresh=s3cret")
	ask(h, "POST", "/v1/auth/login", `{"email": "a@b.c", "password": "s3cret", "oops": 1}`)
	ask(h, "POST", "/v1/auth/refresh", "", "Cookie", "tenon_refresh=s3cret", "Origin", "https://evil.test")
	if !strings.Contains(log.String(), `"route":"/v1/projects/{project}/instances/{instance}/exec"`) || !strings.Contains(log.String(), `"status":403`) {
		t.Errorf("requests are missing: %s", log.String())
	}
	if strings.Contains(log.String(), "s3cret") {
		t.Errorf("a secret is logged: %s", log.String())
	}
}
