package gateway

import (
	"context"
	"net/http"
	"time"
)

const (
	patienceFor = 30 * time.Second       // longer than a dial that fails of a busy node
	patienceTry = 250 * time.Millisecond // between two tries
)

// partOfPage tells a request for what a page that has come is made of. A browser
// asks for that once: without a script of its own the page stays blank, and says
// nothing of why. So these wait where others are told at once.
func partOfPage(r *http.Request) bool {
	if r.Method != http.MethodGet || isWebSocket(r) || r.ContentLength != 0 {
		return false
	}
	switch r.Header.Get("Sec-Fetch-Dest") {
	case "script", "style", "worker", "sharedworker":
		return true
	}
	return false
}

// patiently tries again while there is time and it may help.
func patiently(ctx context.Context, limit time.Duration, try func() (again bool)) {
	late := time.NewTimer(limit)
	defer late.Stop()
	tick := time.NewTicker(patienceTry)
	defer tick.Stop()
	for try() {
		select {
		case <-ctx.Done():
			return
		case <-late.C:
			return
		case <-tick.C:
		}
	}
}

// patient is a transport that asks again for a part of a page when the app's end
// did not answer.
type patient struct {
	next  http.RoundTripper
	limit time.Duration
}

// RoundTrip implements http.RoundTripper.
func (p patient) RoundTrip(r *http.Request) (res *http.Response, err error) {
	patiently(r.Context(), p.limit, func() bool {
		res, err = p.next.RoundTrip(r)
		return err != nil && partOfPage(r)
	})
	return res, err
}
