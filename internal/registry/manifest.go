package registry

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
)

const manifestMaximum = 4 << 20 // the library's own

// manifestPut answers for a pushed manifest what the library leaves as an unknown
// error of the server's: what is no manifest, and layers that lie elsewhere, which
// it never takes.
func manifestPut(next http.Handler, w http.ResponseWriter, r *http.Request) {
	var sent bytes.Buffer
	r.Body = struct {
		io.Reader
		io.Closer
	}{io.TeeReader(r.Body, &limited{&sent, manifestMaximum}), r.Body}
	next.ServeHTTP(&better{ResponseWriter: w, than: func(status int) *reply {
		if status != http.StatusInternalServerError {
			return nil
		}
		detail := wrongWith(sent.Bytes())
		if detail == "" {
			return nil
		}
		return &reply{http.StatusBadRequest, "MANIFEST_INVALID", "manifest invalid", detail}
	}}, r)
}

func isManifestPut(r *http.Request) bool {
	return r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/manifests/")
}

// limited keeps the beginning of what it is given.
type limited struct {
	*bytes.Buffer
	left int
}

func (l *limited) Write(p []byte) (int, error) {
	keep := p[:min(len(p), l.left)]
	l.left -= len(keep)
	_, _ = l.Buffer.Write(keep)
	return len(p), nil
}

// wrongWith says why the library can't take a manifest; empty: that is not known.
func wrongWith(manifest []byte) string {
	var m struct {
		SchemaVersion int              `json:"schemaVersion"`
		Config        *json.RawMessage `json:"config"`
		Manifests     *json.RawMessage `json:"manifests"`
	}
	switch err := json.Unmarshal(manifest, &m); {
	case err != nil:
		return "it is not JSON of a manifest's form"
	case layersElsewhere(manifest):
		return "a layer lies at another address: this registry takes only images whose layers are all in it"
	case m.SchemaVersion != 2 || m.Config == nil && m.Manifests == nil:
		return "it is neither an image nor an index of schema version 2"
	}
	return ""
}

func layersElsewhere(manifest []byte) bool {
	type descriptor struct {
		MediaType string   `json:"mediaType"`
		URLs      []string `json:"urls"`
	}
	var m struct {
		Config    descriptor   `json:"config"`
		Layers    []descriptor `json:"layers"`
		Manifests []descriptor `json:"manifests"`
	}
	if json.Unmarshal(manifest, &m) != nil {
		return false
	}
	for _, d := range append(append(m.Layers, m.Manifests...), m.Config) {
		if len(d.URLs) > 0 || strings.Contains(d.MediaType, ".foreign.") {
			return true
		}
	}
	return false
}
