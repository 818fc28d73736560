package containerd

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/tenon-cloud/tenon/internal/image"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

const registryPassword = "corr3ct-horse-battery"

// locked lets nobody at a shelf without the password, by HTTP's own way or by a
// token service, and sends blobs elsewhere.
type locked struct {
	shelf     *shelf
	tokens    bool
	url       string
	elsewhere string // blobs are there; empty: here

	mu     sync.Mutex
	leaked []string // places that saw the password or a token and should not
}

func (l *locked) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	user, word, basic := r.BasicAuth()
	right := basic && user == "ci" && word == registryPassword
	if r.URL.Path == "/token" {
		form, _ := io.ReadAll(r.Body)
		if !right && !strings.Contains(string(form), registryPassword) {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = io.WriteString(w, `{"token":"opened","access_token":"opened"}`)
		return
	}
	if l.tokens {
		right = r.Header.Get("Authorization") == "Bearer opened"
	}
	if !right {
		w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
		if l.tokens {
			w.Header().Set("WWW-Authenticate", `Bearer realm="`+l.url+`/token",service="x"`)
		}
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	if l.elsewhere != "" && strings.Contains(r.URL.Path, "/blobs/") {
		http.Redirect(w, r, l.elsewhere+r.URL.Path, http.StatusTemporaryRedirect)
		return
	}
	l.shelf.ServeHTTP(w, r)
}

// TestPrivateImagesArePulledWithTheirPassword: by both ways in which registries
// ask for one; it stays with that registry, in memory.
func TestPrivateImagesArePulledWithTheirPassword(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	for _, tokens := range []bool{false, true} {
		s := newShelf(t)
		l := &locked{shelf: s, tokens: tokens}
		server := httptest.NewServer(l)
		t.Cleanup(server.Close)
		l.url = server.URL
		blobs := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "" {
				l.mu.Lock()
				l.leaked = append(l.leaked, r.URL.Path)
				l.mu.Unlock()
			}
			s.ServeHTTP(w, r)
		}))
		t.Cleanup(blobs.Close)
		l.elsewhere = blobs.URL
		host := strings.TrimPrefix(server.URL, "http://")
		img := s.image(nil, archive(t, entry{name: "secret", body: server.URL}))
		img.Ref, img.Private = host+"/acme/private", true
		give := func(host, password string) image.Secrets {
			return func(context.Context) (nodewire.Secrets, error) {
				return nodewire.Secrets{Registry: &nodewire.RegistryPassword{Host: host, Username: "ci", Password: password}}, nil
			}
		}
		for what, tc := range map[string]struct {
			secrets image.Secrets
			want    string
		}{
			"a wrong password":            {give(host, "guess"), "401"},
			"none":                        {nil, "was given none"},
			"another registry's":          {give("ghcr.io", registryPassword), "the image lies at " + host},
			"a control plane that is out": {func(context.Context) (nodewire.Secrets, error) { return nodewire.Secrets{}, errors.New("no answer") }, "password"},
		} {
			_, err := c.images.EnsurePrivate(context.Background(), img, tc.secrets, nil)
			if err == nil {
				t.Fatalf("tokens %v: pulled with %s", tokens, what)
			}
			if f := failureOf(t, err); !strings.Contains(f.Message, tc.want) || strings.Contains(f.Error(), registryPassword) {
				t.Errorf("tokens %v, %s: %+v", tokens, what, f)
			}
		}
		if left := c.holdings(t); !tokens && len(left) > 0 {
			t.Errorf("refused, it left %v", left)
		}
		if _, err := c.images.EnsurePrivate(context.Background(), img, give(host, registryPassword), nil); err != nil {
			t.Errorf("tokens %v: with the right password: %v", tokens, err)
		}
		l.mu.Lock()
		if len(l.leaked) > 0 {
			t.Errorf("tokens %v: where the blobs lie was shown the authorisation for %v", tokens, l.leaked)
		}
		l.mu.Unlock()
	}
	err := filepath.WalkDir(c.state, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil // it may go away
		}
		if text, err := os.ReadFile(path); err == nil && bytes.Contains(text, []byte(registryPassword)) {
			t.Errorf("the password is in %s", path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
