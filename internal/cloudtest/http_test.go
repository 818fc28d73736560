package cloudtest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tenon-cloud/tenon/api"
	"github.com/tenon-cloud/tenon/internal/cloudtest"
)

// answer is what a raw request got.
type answer struct {
	status  int
	header  http.Header
	body    []byte
	problem api.Problem
}

// request sends raw bytes, so that a test can say what a client would not.
func request(t *testing.T, c *cloudtest.Cloud, token, method, path, body string, header ...string) answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, c.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	a := answer{status: res.StatusCode, header: res.Header}
	if a.body, err = io.ReadAll(res.Body); err != nil {
		t.Fatal(err)
	}
	if strings.HasPrefix(res.Header.Get("Content-Type"), "application/problem+json") {
		if err := json.Unmarshal(a.body, &a.problem); err != nil {
			t.Fatal(err)
		}
		if a.problem.Status != a.status || a.problem.Code == "" || a.problem.Detail == "" || a.problem.RequestID == "" {
			t.Errorf("%s %s: incomplete problem %s", method, path, a.body)
		}
	} else if a.status >= 400 && !strings.HasPrefix(path, "/readyz") {
		t.Errorf("%s %s: %d is not problem+json: %s", method, path, a.status, a.body)
	}
	return a
}

// withoutID is a body with the request's own id taken out.
func (a answer) withoutID() string {
	return string(bytes.ReplaceAll(a.body, []byte(a.problem.RequestID), []byte("…")))
}

// facts is what requests can change, as one text. What a node writes by itself
// and when a token was last used are left out.
func facts(t *testing.T, c *cloudtest.Cloud) string {
	t.Helper()
	var out string
	err := c.DB.Owner.QueryRow(t.Context(), `
		SELECT concat_ws(E'\n',
			(SELECT string_agg(r::text, E'\n' ORDER BY r::text) FROM organisation r),
			(SELECT string_agg(r::text, E'\n' ORDER BY r::text) FROM app_user r),
			(SELECT string_agg(r::text, E'\n' ORDER BY r::text) FROM membership r),
			(SELECT string_agg(r::text, E'\n' ORDER BY r::text) FROM project r),
			(SELECT string_agg(r::text, E'\n' ORDER BY r::text) FROM project_quota r),
			(SELECT string_agg(r::text, E'\n' ORDER BY r::text) FROM instance r),
			(SELECT string_agg(r::text, E'\n' ORDER BY r::text) FROM image r),
			(SELECT string_agg(r::text, E'\n' ORDER BY r::text) FROM flavor r),
			(SELECT string_agg(r::text, E'\n' ORDER BY r::text) FROM price r),
			(SELECT string_agg(r::text, E'\n' ORDER BY r::text) FROM event r),
			(SELECT string_agg(r::text, E'\n' ORDER BY r::text) FROM gpu_claim r),
			(SELECT string_agg(r::text, E'\n' ORDER BY r::text) FROM segment r),
			(SELECT string_agg(r::text, E'\n' ORDER BY r::text) FROM idempotency r),
			(SELECT string_agg(id::text || coalesce(revoked_at::text, ''), E'\n' ORDER BY id) FROM api_token),
			(SELECT string_agg(id::text || drained, E'\n' ORDER BY id) FROM node))`).Scan(&out)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}
