package cloudtest_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/tenon-cloud/tenon/api"
	"github.com/tenon-cloud/tenon/internal/app"
	"github.com/tenon-cloud/tenon/internal/cloudtest"
	"github.com/tenon-cloud/tenon/internal/nodeapi"
	"github.com/tenon-cloud/tenon/internal/registry"
)

// TestNodePullsWhatItsAssignmentNames and nothing else, by its certificate.
func TestNodePullsWhatItsAssignmentNames(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	open := func(authorise registry.Authoriser) http.Handler {
		h, err := registry.New(t.Context(), registry.Config{Folder: folder, Secret: []byte("a secret of sixteen or more"), Authorise: authorise})
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	all := httptest.NewServer(open(func(context.Context, registry.Credential, string, []string) error { return nil }))
	t.Cleanup(all.Close)
	for _, repository := range []string{"tenon/test-image", "globex/default/private"} {
		ref, err := name.ParseReference(strings.TrimPrefix(all.URL, "http://") + "/" + repository + ":latest")
		if err != nil {
			t.Fatal(err)
		}
		made, err := random.Image(512, 1)
		if err == nil {
			err = remote.Write(ref, made)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	c := cloudtest.StartWith(t, cloudtest.Options{NodeRegistry: func(a *app.App) http.Handler { return open(nodeapi.RegistryAuthoriser(a)) }})
	acme := c.Tenant("acme")
	ctx := within(t, 60*time.Second)
	img, flv := image(t, c), flavor(t, c, "small")

	node := doorClient(t, c, identityOf(t, c))
	intruderCert, _ := nodeCertificate(ctx, t, c, "intruder")
	intruder := doorClient(t, c, intruderCert)
	get := func(client *http.Client, method, path string) int {
		req, err := http.NewRequestWithContext(ctx, method, c.DoorURL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Accept", "*/*")
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		return res.StatusCode
	}
	const assigned, foreign = "/v2/tenon/test-image/manifests/latest", "/v2/globex/default/private/manifests/latest"
	if got := get(node, "GET", assigned); got != 401 {
		t.Errorf("before anything is assigned: %d", got)
	}
	c.Running(acme.Client, api.InstanceCreate{Name: "web-1", Image: img, Flavor: flv})
	for _, tc := range []struct {
		who          *http.Client
		method, path string
		want         int
	}{
		{node, "GET", "/v2/", 200},
		{node, "GET", assigned, 200},
		{node, "HEAD", assigned, 200},
		{node, "GET", foreign, 401},
		{node, "GET", "/v2/_catalog", 401},
		{node, "PUT", assigned, 403},
		{node, "DELETE", assigned, 403},
		{intruder, "GET", assigned, 401},
		{doorClient(t, c, nil), "GET", assigned, 401},
	} {
		if got := get(tc.who, tc.method, tc.path); got != tc.want {
			t.Errorf("%s %s: %d, want %d", tc.method, tc.path, got, tc.want)
		}
	}
}

// identityOf reads the certificate of the cloud's own node from its folder.
func identityOf(t *testing.T, c *cloudtest.Cloud) *tls.Certificate {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(c.NodeDir, "identity.json"))
	if err != nil {
		t.Fatal(err)
	}
	var id struct{ Certificate, Key string }
	if err := json.Unmarshal(raw, &id); err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair([]byte(id.Certificate), []byte(id.Key))
	if err != nil {
		t.Fatal(err)
	}
	return &pair
}

// TestReadyNamesWhatIsMissing: without loops nobody leads.
func TestReadyNamesWhatIsMissing(t *testing.T) {
	t.Parallel()
	without := cloudtest.StartWith(t, cloudtest.Options{NoNode: true, NoLoops: true})
	if a := request(t, without, "", "GET", "/readyz", ""); a.status != 503 || !strings.Contains(string(a.body), `{"name":"leader","status":"failed"}`) {
		t.Errorf("%d %s", a.status, a.body)
	}
	if a := request(t, without, "", "GET", "/healthz", ""); a.status != 200 {
		t.Errorf("%d %s", a.status, a.body)
	}
	with := cloudtest.StartWith(t, cloudtest.Options{NoNode: true})
	if a := request(t, with, "", "GET", "/readyz", ""); a.status != 200 {
		t.Errorf("%d %s", a.status, a.body)
	}
	if a := request(t, with, "", "GET", "/metrics", ""); a.status != 200 || !strings.Contains(string(a.body), "tenon_http_request_duration_seconds_bucket") {
		t.Errorf("%d %s", a.status, a.body)
	}
}
