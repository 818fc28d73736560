package registry

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
)

// trouble keeps why the authoriser could not answer. The library would say 400,
// by which clients, nodes among them, give an image up for good.
type trouble struct{ err error }

type troubleKey struct{}

// withTrouble has what the authoriser could not answer told as 503.
func withTrouble(w http.ResponseWriter, r *http.Request) (http.ResponseWriter, *http.Request) {
	t := &trouble{}
	return &troubleAnswer{ResponseWriter: w, trouble: t}, r.WithContext(context.WithValue(r.Context(), troubleKey{}, t))
}

// noteTrouble keeps an error for the answer.
func noteTrouble(ctx context.Context, err error) {
	if t, ok := ctx.Value(troubleKey{}).(*trouble); ok {
		t.err = err
	}
}

type troubleAnswer struct {
	http.ResponseWriter
	trouble  *trouble
	answered bool
}

func (a *troubleAnswer) WriteHeader(status int) {
	if status < 400 || a.trouble.err == nil || a.answered {
		a.ResponseWriter.WriteHeader(status)
		return
	}
	a.answered = true
	a.Header().Del("Content-Length")
	a.Header().Set("Content-Type", "application/json; charset=utf-8")
	a.Header().Set("Retry-After", "2")
	a.ResponseWriter.WriteHeader(http.StatusServiceUnavailable)
	_ = json.NewEncoder(a.ResponseWriter).Encode(map[string]any{"errors": []any{map[string]string{
		"code": "UNAVAILABLE", "message": "the control plane can't say just now who may do this: try again in a moment",
	}}})
}

func (a *troubleAnswer) Write(p []byte) (int, error) {
	if a.answered {
		return len(p), nil
	}
	return a.ResponseWriter.Write(p)
}

// ReadFrom leaves a blob's way to the connection as short as it was.
func (a *troubleAnswer) ReadFrom(src io.Reader) (int64, error) {
	if a.answered {
		return io.Copy(io.Discard, src)
	}
	return io.Copy(a.ResponseWriter, src)
}

// Unwrap lets http.ResponseController reach the connection.
func (a *troubleAnswer) Unwrap() http.ResponseWriter { return a.ResponseWriter }
