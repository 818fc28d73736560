package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/distribution/distribution/v3/configuration"
	_ "github.com/distribution/distribution/v3/registry/auth/htpasswd"
	"github.com/distribution/distribution/v3/registry/handlers"
	_ "github.com/distribution/distribution/v3/registry/storage/driver/inmemory"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"golang.org/x/crypto/bcrypt"
)

const (
	userName = "reader"
	password = "pa55 wörd"
)

// guarded is the real distribution registry, which wants a password by htpasswd.
func guarded(t *testing.T) (host string) {
	t.Helper()
	hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "htpasswd")
	if err := os.WriteFile(file, fmt.Appendf(nil, "%s:%s\n", userName, hash), 0o600); err != nil {
		t.Fatal(err)
	}
	config := &configuration.Configuration{
		Storage: configuration.Storage{"inmemory": configuration.Parameters{}},
		Auth:    configuration.Auth{"htpasswd": configuration.Parameters{"realm": "test", "path": file}},
	}
	config.HTTP.Secret, config.Log.AccessLog.Disabled, config.Log.Level = "0123456789abcdef", true, "error"
	quietLibrary()
	app := handlers.NewApp(context.Background(), config)
	server := httptest.NewServer(app)
	t.Cleanup(func() { server.Close(); _ = app.Shutdown() })
	return strings.TrimPrefix(server.URL, "http://")
}

// tokens puts a token service before a registry that is open behind it, as the
// large public registries have one.
type tokens struct {
	inner http.Handler
	realm string
	mu    sync.Mutex
	seen  []string // what was presented where
}

func (s *tokens) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.seen = append(s.seen, r.URL.Path+" "+strings.SplitN(r.Header.Get("Authorization"), " ", 2)[0])
	s.mu.Unlock()
	if r.URL.Path == "/token" {
		if user, word, ok := r.BasicAuth(); !ok || user != userName || word != password {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]string{"token": "let-me-in"})
		return
	}
	if r.Header.Get("Authorization") != "Bearer let-me-in" {
		w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm=%q,service="test"`, s.realm))
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	s.inner.ServeHTTP(w, r)
}

func TestLoginIsCheckedAndUsed(t *testing.T) {
	t.Parallel()
	basic := guarded(t)
	open, err := New(t.Context(), Config{Folder: t.TempDir(), Secret: []byte("0123456789abcdef"), Authorise: func(context.Context, Credential, string, []string) error { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = open.Close() })
	service := &tokens{inner: open}
	server := httptest.NewServer(service)
	t.Cleanup(server.Close)
	service.realm = server.URL + "/token"

	r := Resolver{Private: true}
	for what, host := range map[string]string{"htpasswd": basic, "a token service": strings.TrimPrefix(server.URL, "http://")} {
		good, wrong := &Login{userName, password}, &Login{userName, "guess"}
		if err := r.CheckLogin(t.Context(), host, *good); err != nil {
			t.Errorf("%s: the right password: %v", what, err)
		}
		if err := r.CheckLogin(t.Context(), host, *wrong); !errors.Is(err, ErrLoginRefused) {
			t.Errorf("%s: a wrong password: %v", what, err)
		}
		ref, err := name.ParseReference(host+"/acme/web:1", name.Insecure)
		if err != nil {
			t.Fatal(err)
		}
		img := image(t)
		if err := remote.Write(ref, img, remote.WithAuth(&authn.Basic{Username: good.Username, Password: good.Password})); err != nil {
			t.Fatalf("%s: push: %v", what, err)
		}
		want, err := img.Digest()
		if err != nil {
			t.Fatal(err)
		}
		if found, err := r.Resolve(t.Context(), host+"/acme/web:1", false, good); err != nil || found.Digest != want.String() {
			t.Errorf("%s: resolved with the password: %+v, %v", what, found, err)
		}
		for why, login := range map[string]*Login{"without": nil, "with a wrong": wrong} {
			if _, err := r.Resolve(t.Context(), host+"/acme/web:1", false, login); err == nil || strings.Contains(err.Error(), "guess") {
				t.Errorf("%s: resolved %s password: %v", what, why, err)
			}
		}
	}
	if err := r.CheckLogin(t.Context(), "127.0.0.1:1", Login{userName, password}); err == nil || errors.Is(err, ErrLoginRefused) || strings.Contains(err.Error(), password) {
		t.Errorf("a registry that is not there: %v", err)
	}
	if err := (Resolver{}).CheckLogin(t.Context(), basic, Login{userName, password}); err == nil || !strings.Contains(err.Error(), "private address") {
		t.Errorf("a registry on this host was asked: %v", err)
	}
}

// TestAPasswordStaysWithItsRegistry: neither another host nor plain HTTP gets it,
// whatever the registry says.
func TestAPasswordStaysWithItsRegistry(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var leaked []string
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.Header.Get("Authorization") != "" || strings.Contains(string(body), "pa55") {
			mu.Lock()
			leaked = append(leaked, r.URL.Path)
			mu.Unlock()
		}
	}))
	t.Cleanup(elsewhere.Close)
	home := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "" {
			w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		http.Redirect(w, r, elsewhere.URL+"/stolen"+r.URL.Path, http.StatusTemporaryRedirect)
	}))
	t.Cleanup(home.Close)
	host := strings.TrimPrefix(home.URL, "http://")
	r := Resolver{Private: true}
	_ = r.CheckLogin(t.Context(), host, Login{userName, password})
	_, _ = r.Resolve(t.Context(), host+"/acme/web:1", false, &Login{userName, password})
	mu.Lock()
	defer mu.Unlock()
	if len(leaked) > 0 {
		t.Errorf("another host was shown the password at %v", leaked)
	}
	c := closed{http.DefaultTransport, true}
	req, _ := http.NewRequest(http.MethodGet, "http://registry.example/v2/", nil)
	req.SetBasicAuth(userName, password)
	if _, err := c.RoundTrip(req); !errors.Is(err, errPlain) {
		t.Errorf("over plain HTTP: %v", err)
	}
}

func TestPushesAreBounded(t *testing.T) {
	t.Parallel()
	begin := func(c Config) (url, upload string, status int) {
		c.Folder, c.Secret, c.Authorise = t.TempDir(), []byte("0123456789abcdef"), house
		h, err := New(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		server := httptest.NewServer(h)
		t.Cleanup(func() { server.Close(); _ = h.Close() })
		status, location := send(t, http.MethodPost, server.URL+"/v2/acme/web/blobs/uploads/", nil, nil)
		return server.URL, location, status
	}
	url, upload, status := begin(Config{MaxBlob: 64 << 10})
	if status != http.StatusAccepted {
		t.Fatalf("begin an upload: %d", status)
	}
	half := strings.NewReader(strings.Repeat("x", 40<<10))
	status, upload = send(t, http.MethodPatch, url+upload, half, map[string]string{"Content-Range": "0-40959"})
	if status != http.StatusAccepted {
		t.Fatalf("the first chunk: %d", status)
	}
	if status, _ := send(t, http.MethodPatch, url+upload, strings.NewReader(strings.Repeat("x", 40<<10)), map[string]string{"Content-Range": "40960-81919"}); status != http.StatusRequestEntityTooLarge {
		t.Errorf("a chunk beyond the limit: %d", status)
	}
	// Without a length, as a client that streams sends it.
	_, upload = send(t, http.MethodPost, url+"/v2/acme/web/blobs/uploads/", nil, nil)
	if status, _ := send(t, http.MethodPatch, url+upload, io.MultiReader(strings.NewReader(strings.Repeat("x", 100<<10))), nil); status != http.StatusRequestEntityTooLarge {
		t.Errorf("a stream beyond the limit: %d", status)
	}
	if _, _, status := begin(Config{KeepFree: 1 << 62}); status != http.StatusInsufficientStorage {
		t.Errorf("a push to a disk that is nearly full: %d", status)
	}
}

func send(t *testing.T, method, url string, body io.Reader, header map[string]string) (int, string) {
	t.Helper()
	req, err := http.NewRequest(method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	req.SetBasicAuth("any", "pusher")
	for k, v := range header {
		req.Header.Set(k, v)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	return res.StatusCode, res.Header.Get("Location")
}
