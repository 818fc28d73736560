package imagebuild

import (
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"
)

// TestRealImage builds from Debian's archive, which takes a minute and needs
// root: `make test` asks for it, `make check` doesn't.
func TestRealImage(t *testing.T) {
	if os.Getenv("TENON_TEST_IMAGE") == "" {
		t.Skip("TENON_TEST_IMAGE is not set: the image is not built from Debian's archive")
	}
	if _, err := exec.LookPath("debootstrap"); err != nil || os.Geteuid() != 0 {
		t.Skip("debootstrap and root are needed to build the image")
	}
	server := httptest.NewServer(registry.New())
	t.Cleanup(server.Close)
	o := Options{Folder: t.TempDir(), Target: strings.TrimPrefix(server.URL, "http://") + "/tenon/debian-12:latest", Insecure: true}
	digest, built, err := Ensure(t.Context(), o)
	if err != nil || !built {
		t.Fatalf("Ensure = %s, built %v, %v", digest, built, err)
	}
	if left, err := os.ReadDir(o.Folder); err != nil || len(left) != 0 {
		t.Errorf("the build left %d entries behind (%v)", len(left), err)
	}
	again, built, err := Ensure(t.Context(), o)
	if err != nil || built || again != digest {
		t.Errorf("second Ensure = %s, built %v, %v; want %s at once", again, built, err, digest)
	}
}
