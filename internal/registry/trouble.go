package registry

import (
	"context"
	"net/http"
)

// trouble keeps why the authoriser could not answer. The library would say 400,
// by which clients, nodes among them, give an image up for good.
type trouble struct{ err error }

type troubleKey struct{}

// withTrouble has what the authoriser could not answer told as 503.
func withTrouble(w http.ResponseWriter, r *http.Request) (http.ResponseWriter, *http.Request) {
	t := &trouble{}
	return &better{ResponseWriter: w, than: func(status int) *reply {
		if status < 400 || t.err == nil {
			return nil
		}
		w.Header().Set("Retry-After", "2")
		return &reply{http.StatusServiceUnavailable, "UNAVAILABLE", "the control plane can't say just now who may do this: try again in a moment", ""}
	}}, r.WithContext(context.WithValue(r.Context(), troubleKey{}, t))
}

// noteTrouble keeps an error for the answer.
func noteTrouble(ctx context.Context, err error) {
	if t, ok := ctx.Value(troubleKey{}).(*trouble); ok {
		t.err = err
	}
}
