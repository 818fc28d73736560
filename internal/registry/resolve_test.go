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
