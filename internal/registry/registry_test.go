package registry

import (
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// house lets "pusher" do everything under acme/, "reader" pull there, and
// nobody anything elsewhere.
func house(_ context.Context, cred Credential, repository string, actions []string) error {
	if cred.Password == "" {
		return ErrUnauthenticated
	}
	if cred.Password != "pusher" && cred.Password != "reader" {
		return ErrUnauthenticated
	}
	if repository == "" {
		if len(actions) == 0 {
			return nil
		}
		return ErrForbidden
	}
	if !strings.HasPrefix(repository, "acme/") {
		return ErrForbidden
	}
	if cred.Password == "reader" && slices.ContainsFunc(actions, func(a string) bool { return a != ActionPull }) {
		return ErrForbidden
	}
	return nil
}

func start(t *testing.T, folder string) string {
	t.Helper()
	h, err := New(t.Context(), Config{Folder: folder, Secret: []byte("0123456789abcdef"), Authorise: house})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(h)
	t.Cleanup(func() { server.Close(); _ = h.Close() })
	return strings.TrimPrefix(server.URL, "http://")
}

func image(t *testing.T) v1.Image {
	t.Helper()
	img, err := random.Image(4096, 3)
	if err != nil {
		t.Fatal(err)
	}
	return img
}

func as(password string) remote.Option {
	return remote.WithAuth(&authn.Basic{Username: "any", Password: password})
}

func TestPushedImageSurvivesRestartAndIsPulled(t *testing.T) {
	t.Parallel()
	folder, img := t.TempDir(), image(t)
	host := start(t, folder)
	ref, err := name.ParseReference(host+"/acme/web:1", name.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(ref, img, as("pusher")); err != nil {
		t.Fatalf("push: %v", err)
	}
	want, err := img.Digest()
	if err != nil {
		t.Fatal(err)
	}
	again, err := name.ParseReference(start(t, folder)+"/acme/web:1", name.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	pulled, err := remote.Image(again, as("reader"))
	if err != nil {
		t.Fatalf("pull after a restart: %v", err)
	}
	if got, err := pulled.Digest(); err != nil || got != want {
		t.Fatalf("pulled digest %s (%v), pushed %s", got, err, want)
	}
	layers, err := pulled.Layers()
	if err != nil {
		t.Fatal(err)
	}
	for _, layer := range layers {
		rc, err := layer.Compressed()
		if err != nil {
			t.Fatalf("read layer: %v", err)
		}
		_ = rc.Close()
	}
}

func TestAuthoriserDecides(t *testing.T) {
	t.Parallel()
	host, img := start(t, t.TempDir()), image(t)
	for _, c := range []struct {
		why, repository string
		option          remote.Option
	}{
		{"a reader must not push", "acme/web", as("reader")},
		{"another tenant's repository must not be pushed to", "other/web", as("pusher")},
		{"a wrong token must not push", "acme/web", as("guess")},
		{"nobody must not push", "acme/web", remote.WithAuth(authn.Anonymous)},
	} {
		ref, err := name.ParseReference(host+"/"+c.repository+":1", name.Insecure)
		if err != nil {
			t.Fatal(err)
		}
		if err := remote.Write(ref, img, c.option); err == nil {
			t.Errorf("%s, but the push went through", c.why)
		}
	}
}

func TestCrossMountNeedsPullOfItsSource(t *testing.T) {
	t.Parallel()
	host := start(t, t.TempDir())
	req, err := http.NewRequest(http.MethodPost, "http://"+host+"/v2/acme/web/blobs/uploads/?mount=sha256:"+strings.Repeat("a", 64)+"&from=other/secret", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.SetBasicAuth("any", "pusher")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusUnauthorized {
		t.Fatalf("mounting a blob of a repository that the caller may not read: %s, want 401", res.Status)
	}
}

func TestChallengeAndBearer(t *testing.T) {
	t.Parallel()
	host := start(t, t.TempDir())
	ask := func(path, authorization string) *http.Response {
		t.Helper()
		req, err := http.NewRequest(http.MethodGet, "http://"+host+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if authorization != "" {
			req.Header.Set("Authorization", authorization)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		return res
	}
	res := ask("/v2/", "")
	if res.StatusCode != http.StatusUnauthorized || !strings.HasPrefix(res.Header.Get("WWW-Authenticate"), "Basic ") {
		t.Errorf("no credential: %s, challenge %q", res.Status, res.Header.Get("WWW-Authenticate"))
	}
	if res := ask("/v2/", "Bearer reader"); res.StatusCode != http.StatusOK {
		t.Errorf("bearer token: %s", res.Status)
	}
	if res := ask("/v2/_catalog", "Basic "+base64.StdEncoding.EncodeToString([]byte("u:pusher"))); res.StatusCode != http.StatusUnauthorized {
		t.Errorf("the catalogue of every tenant's repositories: %s, want 401", res.Status)
	}
}

func TestSkopeoPushesAndPulls(t *testing.T) {
	t.Parallel()
	skopeo, err := exec.LookPath("skopeo")
	if err != nil {
		t.Skip("skopeo is not installed: the push with another tool's client is not tried")
	}
	host := start(t, t.TempDir())
	local := filepath.Join(t.TempDir(), "layout")
	path, err := layout.Write(local, empty.Index)
	if err != nil {
		t.Fatal(err)
	}
	if err := path.AppendImage(mutate.ConfigMediaType(mutate.MediaType(image(t), types.OCIManifestSchema1), types.OCIConfigJSON), layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": "one"})); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), skopeo, append([]string{"--insecure-policy"}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("skopeo %v: %v\n%s", args, err, out)
		}
	}
	run("copy", "--dest-tls-verify=false", "--dest-creds", "any:pusher", "oci:"+local+":one", "docker://"+host+"/acme/tool:1")
	run("copy", "--src-tls-verify=false", "--src-creds", "any:reader", "docker://"+host+"/acme/tool:1", "oci:"+filepath.Join(t.TempDir(), "back")+":one")
}

func TestNewRefusesWhatCannotWork(t *testing.T) {
	t.Parallel()
	if _, err := New(t.Context(), Config{Folder: t.TempDir(), Secret: []byte("short"), Authorise: house}); err == nil {
		t.Error("a short secret was accepted")
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := New(t.Context(), Config{Folder: file, Secret: []byte("0123456789abcdef"), Authorise: house}); err == nil {
		t.Error("a folder that is a file was accepted")
	}
	if !errors.Is(challenge{ErrForbidden}, ErrForbidden) {
		t.Error("a challenge hides its cause")
	}
}

// TestAnAuthoriserInTroubleIsNoRefusal: whoever is told 4xx gives the image up.
func TestAnAuthoriserInTroubleIsNoRefusal(t *testing.T) {
	t.Parallel()
	h, err := New(t.Context(), Config{Folder: t.TempDir(), Secret: []byte("0123456789abcdef"),
		Authorise: func(context.Context, Credential, string, []string) error { return errors.New("the database is away") }})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range [][2]string{{"GET", "/v2/"}, {"GET", "/v2/tenon/debian/manifests/latest"}, {"POST", "/v2/tenon/debian/blobs/uploads/"}} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(c[0], c[1], nil))
		if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" || !strings.Contains(w.Body.String(), "UNAVAILABLE") {
			t.Errorf("%v: %d, %v, %s", c, w.Code, w.Header(), w.Body)
		}
	}
}
