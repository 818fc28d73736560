package registry

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// TestLayersElsewhereAreTheClientsFault, and are said to be.
func TestLayersElsewhereAreTheClientsFault(t *testing.T) {
	t.Parallel()
	host, img := start(t, t.TempDir()), image(t)
	ref, err := name.ParseReference(host+"/acme/web:1", name.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(ref, img, as("pusher")); err != nil {
		t.Fatal(err)
	}
	raw, err := img.RawManifest()
	if err != nil {
		t.Fatal(err)
	}
	kind, _ := img.MediaType()
	elsewhere := strings.Replace(string(raw), `"layers":[{`, `"layers":[{"urls":["https://elsewhere.example/x"],`, 1)
	elsewhere = strings.Replace(elsewhere, "application/vnd.docker.image.rootfs.diff.tar.gzip", "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip", 1)
	for password, want := range map[string]int{"pusher": 400, "reader": 401} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://"+host+"/v2/acme/web/manifests/2", strings.NewReader(elsewhere))
		if err != nil {
			t.Fatal(err)
		}
		req.SetBasicAuth("any", password)
		req.Header.Set("Content-Type", string(kind))
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if res.StatusCode != want || want == 400 && !strings.Contains(string(body), "MANIFEST_INVALID") {
			t.Errorf("%s: %d %s", password, res.StatusCode, body)
		}
	}
}

func TestWhatIsNoManifestIsTheClientsFault(t *testing.T) {
	t.Parallel()
	host := start(t, t.TempDir())
	for _, sent := range []string{`{}`, ``, `[]`, `no JSON`, `{"schemaVersion":1,"name":"x"}`} {
		for _, kind := range []string{"", "application/json", "application/vnd.oci.image.manifest.v1+json", "application/vnd.docker.distribution.manifest.v2+json", "application/vnd.oci.image.index.v1+json"} {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://"+host+"/v2/acme/web/manifests/latest", strings.NewReader(sent))
			if err != nil {
				t.Fatal(err)
			}
			req.SetBasicAuth("any", "pusher")
			req.Header.Set("Content-Type", kind)
			res, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			body, _ := io.ReadAll(res.Body)
			_ = res.Body.Close()
			if res.StatusCode != http.StatusBadRequest || !strings.Contains(string(body), "MANIFEST_") {
				t.Errorf("%q as %q: %d %s", sent, kind, res.StatusCode, body)
			}
		}
	}
}
