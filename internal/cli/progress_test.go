package cli

import (
	"encoding/binary"
	"io"
	"log"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"

	"github.com/tenon-cloud/tenon/api"
)

// TestAnUploadIntoALogIsAFewLines uploads a disk where nobody watches.
func TestAnUploadIntoALogIsAFewLines(t *testing.T) {
	t.Parallel()
	disk := make([]byte, 24<<20)
	copy(disk, "QFI\xfb")
	binary.BigEndian.PutUint32(disk[4:], 3)
	binary.BigEndian.PutUint64(disk[24:], 1<<30)
	binary.BigEndian.PutUint32(disk[100:], 104)
	path := filepath.Join(t.TempDir(), "disk.qcow2")
	if err := os.WriteFile(path, disk, 0o600); err != nil {
		t.Fatal(err)
	}
	cloud := newFakeCloud(t, map[string]any{"POST /v1/images": api.Image{Name: "mine", Kind: "vm"}})
	inner, reg := cloud.Config.Handler, registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	cloud.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/v2/") {
			reg.ServeHTTP(w, r)
			return
		}
		inner.ServeHTTP(w, r)
	})
	r := tenon(t, cloud.URL, "image", "upload", "mine", path, "--to", "acme/default/mine:latest")
	lines := strings.Split(strings.TrimSuffix(r.err, "\n"), "\n")
	if r.code != 0 || len(lines) > 10 || strings.ContainsAny(r.err, "\r\x1b") || lines[len(lines)-1] != "Uploading 24 of 24 MiB" {
		t.Errorf("code %d, %d lines: %q", r.code, len(lines), r.err)
	}
}
