package registry

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

func TestResolveEmbeddedAndOutside(t *testing.T) {
	t.Parallel()
	h, err := New(t.Context(), Config{Folder: t.TempDir(), Secret: []byte("0123456789abcdef"), Authorise: AllowPull})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	writable := start(t, h.folder)
	img := image(t)
	ref, err := name.ParseReference(writable+"/acme/web:1", name.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(ref, img, as("pusher")); err != nil {
		t.Fatal(err)
	}
	want, err := img.Digest()
	if err != nil {
		t.Fatal(err)
	}
	r := Resolver{Embedded: h}
	found, err := r.Resolve(t.Context(), "acme/web:1", true, nil)
	if err != nil || found.Digest != want.String() || found.SizeBytes < 3*4096 {
		t.Errorf("embedded: %+v, %v; want %s", found, err, want)
	}
	if _, err := r.Resolve(t.Context(), "acme/none:1", true, nil); err == nil || !strings.Contains(err.Error(), "is not in its registry") {
		t.Errorf("a missing image: %v", err)
	}
	if _, err := r.Resolve(t.Context(), "not a reference", false, nil); err == nil {
		t.Error("a malformed reference was resolved")
	}
}

func TestTroubleWithARegistryTellsNothingOfTheNetwork(t *testing.T) {
	t.Parallel()
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	for ref, want := range map[string]string{
		"no-such-registry.invalid/a/b:1":                     "its name",
		strings.TrimPrefix(closed.URL, "http://") + "/a/b:1": "it refuses connections",
	} {
		_, err := Resolver{Private: true}.Resolve(t.Context(), ref, false, nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", ref, err, want)
		}
		for _, inner := range []string{"dial tcp", "lookup", "no such host", "Get \"", ":53"} {
			if err != nil && strings.Contains(err.Error(), inner) {
				t.Errorf("%s: a tenant reads %v", ref, err)
			}
		}
	}
}

func TestResolveDoesNotAskPrivateAddresses(t *testing.T) {
	t.Parallel()
	var asked atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Store(true) }))
	t.Cleanup(server.Close)
	_, err := Resolver{}.Resolve(t.Context(), strings.TrimPrefix(server.URL, "http://")+"/acme/web:1", false, nil)
	if err == nil || asked.Load() || !strings.Contains(err.Error(), "private address") {
		t.Errorf("a registry on this host was asked: %v", err)
	}
}
