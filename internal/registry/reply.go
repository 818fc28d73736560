package registry

import (
	"encoding/json"
	"io"
	"net/http"
)

// reply is an error in the registry protocol's form.
type reply struct {
	status                int
	code, message, detail string
}

func (a reply) write(w http.ResponseWriter) {
	h := w.Header()
	h.Del("Content-Length")
	h.Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(a.status)
	told := map[string]string{"code": a.code, "message": a.message}
	if a.detail != "" {
		told["detail"] = a.detail
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"errors": []any{told}})
}

// better puts an answer of our own in the place of the library's, where we know
// more than it does.
type better struct {
	http.ResponseWriter
	than    func(status int) *reply // nil: the library's stands
	replied bool
}

func (b *better) WriteHeader(status int) {
	if b.replied {
		return
	}
	if a := b.than(status); a != nil {
		b.replied = true
		a.write(b.ResponseWriter)
		return
	}
	b.ResponseWriter.WriteHeader(status)
}

func (b *better) Write(p []byte) (int, error) {
	if b.replied {
		return len(p), nil
	}
	return b.ResponseWriter.Write(p)
}

// ReadFrom leaves a blob's way to the connection as short as it was.
func (b *better) ReadFrom(src io.Reader) (int64, error) {
	if b.replied {
		return io.Copy(io.Discard, src)
	}
	return io.Copy(b.ResponseWriter, src)
}

// Unwrap lets http.ResponseController reach the connection.
func (b *better) Unwrap() http.ResponseWriter { return b.ResponseWriter }
