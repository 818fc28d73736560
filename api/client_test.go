package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func serve(t *testing.T, h http.HandlerFunc) *Client {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return NewClient(srv.URL+"/", "tenon_x")
}

func TestProblemTellsEverything(t *testing.T) {
	t.Parallel()
	c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(422)
		_, _ = w.Write([]byte(`{"title": "t", "status": 422, "detail": "no", "code": "invalid", "hint": "do", "errors": [{"location": "body.name", "message": "is missing"}], "request_id": "r-1", "limit": 2}`))
	})
	_, err := c.InstanceGet(t.Context(), "default", "a b/c")
	var p *Problem
	if !errors.As(err, &p) || *p.Limit != 2 || !errors.Is(err, &Problem{Code: "invalid"}) || errors.Is(err, &Problem{Code: "other"}) {
		t.Fatalf("%v", err)
	}
	if diff := cmp.Diff("no; body.name: is missing (do) [request r-1]", err.Error()); diff != "" {
		t.Error(diff)
	}
}

// TestForeignErrorPage is a proxy's answer: still a problem, and short.
func TestForeignErrorPage(t *testing.T) {
	t.Parallel()
	c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Request-Id", "r-2")
		w.WriteHeader(502)
		_, _ = w.Write([]byte("<html>" + strings.Repeat("x", 5000)))
	})
	_, err := c.Me(t.Context())
	var p *Problem
	if !errors.As(err, &p) || p.Status != 502 || p.Code != "unexpected_answer" || p.RequestID != "r-2" || len(p.Detail) > 500 {
		t.Errorf("%+v", p)
	}
}

func TestRequestsCarryWhatTheyMust(t *testing.T) {
	t.Parallel()
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		got := fmt.Sprint(r.Method, " ", r.URL.EscapedPath(), " ", r.Header["Authorization"], r.Header["Tenon-Org"], r.Header["If-Match"], r.Header["Idempotency-Key"])
		want := `POST /v1/projects/default/instances/a%20b%2Fc/stop [Bearer tenon_x] [acme] ["3"] [k]`
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
		_, _ = w.Write([]byte(`{"name": "x", "future_field": 1}`))
	})
	c.Organisation = "acme"
	if i, err := c.InstanceStop(t.Context(), "default", "a b/c", IfGeneration(3), IdempotencyKey("k")); err != nil || i.Name != "x" {
		t.Errorf("%v %+v", err, i)
	}
}

func TestListAllReadsEveryPageOnce(t *testing.T) {
	t.Parallel()
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		next := map[string]string{"": "2", "2": "3", "3": ""}[r.URL.Query().Get("page_token")]
		_, _ = fmt.Fprintf(w, `{"items": [{"name": "p%s"}], "next_page_token": %q}`, r.URL.Query().Get("page_token"), next)
	})
	got, err := ListAll(t.Context(), func(o PageOptions) (*Page[Project], error) { return c.ProjectList(t.Context(), o) })
	if err != nil || len(got) != 3 || got[2].Name != "p3" {
		t.Errorf("%v %+v", err, got)
	}
}

// TestEventsGoOnWhereTheyWere drops the connection in the middle of an event.
func TestEventsGoOnWhereTheyWere(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch n := asked.Add(1); {
		case n == 1:
			_, _ = w.Write([]byte(": hello\n\nid: 1\nevent: change\ndata: {\"id\": \"evt_1\"}\n\nid: 2\nevent: change\ndata: {\"id\""))
		case r.Header.Get("Last-Event-ID") == "1":
			_, _ = w.Write([]byte("id: 2\nevent: change\ndata: {\"id\": \"evt_2\"}\n\nevent: end\ndata: {}\n\n"))
		default:
			w.WriteHeader(404)
			_, _ = w.Write([]byte(`{"status": 404, "code": "not_found", "detail": "gone"}`))
		}
	})
	var got []string
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	err := c.Events(ctx, "default", "", func(e Event) error { got = append(got, e.ID); return nil })
	if !errors.Is(err, &Problem{Code: "not_found"}) {
		t.Errorf("%v", err)
	}
	if diff := cmp.Diff([]string{"evt_1", "evt_2"}, got); diff != "" {
		t.Error(diff)
	}
	stop := errors.New("enough")
	asked.Store(0)
	if err := c.Events(ctx, "default", "", func(Event) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("%v", err)
	}
}
