package gateway

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestAPagesPartsAreAskedForAgain: a script that an app's end failed to give once
// would leave its page blank for ever.
func TestAPagesPartsAreAskedForAgain(t *testing.T) {
	t.Parallel()
	ask := func(method, dest string, failures int) (asked int, err error) {
		p := patient{limit: time.Minute, next: roundTrip(func(*http.Request) (*http.Response, error) {
			if asked++; asked <= failures {
				return nil, errors.New("the node did not answer")
			}
			return &http.Response{StatusCode: http.StatusOK}, nil
		})}
		r := httptest.NewRequest(method, "/static/main.min.js", nil)
		r.Header.Set("Sec-Fetch-Dest", dest)
		_, err = p.RoundTrip(r)
		return asked, err
	}
	for _, dest := range []string{"script", "style", "worker"} {
		if asked, err := ask(http.MethodGet, dest, 2); err != nil || asked != 3 {
			t.Errorf("a %s: asked %d times, %v", dest, asked, err)
		}
	}
	// A page says itself that there is no answer yet; what scripts ask for is theirs to
	// ask for again; and what may change something is asked for once.
	for _, c := range [][2]string{{http.MethodGet, "document"}, {http.MethodGet, "empty"}, {http.MethodGet, ""}, {http.MethodPost, "script"}} {
		if asked, err := ask(c[0], c[1], 1); err == nil || asked != 1 {
			t.Errorf("%s for %q: asked %d times, %v", c[0], c[1], asked, err)
		}
	}
}

func TestPatienceEndsWithItsTimeAndItsVisitor(t *testing.T) {
	t.Parallel()
	failing := roundTrip(func(*http.Request) (*http.Response, error) { return nil, errors.New("the node did not answer") })
	r := httptest.NewRequest(http.MethodGet, "/static/main.min.js", nil)
	r.Header.Set("Sec-Fetch-Dest", "script")
	if _, err := (patient{next: failing, limit: time.Millisecond}).RoundTrip(r); err == nil {
		t.Error("an answer came from nowhere")
	}
	left, leave := context.WithCancel(t.Context())
	leave()
	if _, err := (patient{next: failing, limit: time.Hour}).RoundTrip(r.WithContext(left)); err == nil {
		t.Error("an answer came from nowhere")
	}
}
