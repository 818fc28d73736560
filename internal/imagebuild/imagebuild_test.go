package imagebuild

import (
	"archive/tar"
	"errors"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// plant makes a small tree with what debootstrap leaves behind.
func plant(t *testing.T) (tree string, released time.Time) {
	t.Helper()
	tree, released = t.TempDir(), time.Date(2026, 9, 5, 8, 0, 0, 0, time.UTC)
	files := map[string]os.FileMode{
		"usr/bin/su": 0o755 | os.ModeSetuid, "usr/bin/newgrp": 0o755 | os.ModeSetuid, "usr/bin/python3.11": 0o755, "usr/sbin/sshd": 0o755,
		"usr/local/sbin/.keep": 0o644, "etc/ssh/ssh_host_ed25519_key": 0o600, "etc/ssh/sshd_config.d/.keep": 0o644, "etc/default/x": 0o644,
		"etc/apt/sources.list": 0o644, "etc/resolv.conf": 0o644, "etc/hostname": 0o644, "etc/shadow": 0o640, "etc/machine-id": 0o444,
		"var/cache/apt/archives/bash.deb": 0o644, "var/log/bootstrap.log": 0o644, "usr/lib/python3/x.py": 0o644, "dev/planted": 0o644,
	}
	for rel, mode := range files {
		path := filepath.Join(tree, rel)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("this-host sshd:!:20787:0:99999:7:::\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	for _, rel := range []string{"usr/bin/su", "usr/bin/newgrp", "usr/bin/python3.11", "usr/sbin/sshd"} {
		if err := os.Chtimes(filepath.Join(tree, rel), released, released); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Link(filepath.Join(tree, "usr/bin/python3.11"), filepath.Join(tree, "usr/bin/python3.12")); err != nil {
		t.Fatal(err)
	}
	return tree, released
}

func build(t *testing.T, tree string, o Options) (v1.Image, string) {
	t.Helper()
	if err := o.fill(); err != nil {
		t.Fatal(err)
	}
	stamp, err := tidy(tree, o)
	if err != nil {
		t.Fatal(err)
	}
	layer, err := pack(t.Context(), tree, filepath.Join(t.TempDir(), "layer.tar.gz"), stamp, o.Progress)
	if err != nil {
		t.Fatal(err)
	}
	img, err := assemble(layer, o, stamp)
	if err != nil {
		t.Fatal(err)
	}
	digest, err := img.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return img, digest.String()
}

func TestImageCarriesNothingOfItsBuild(t *testing.T) {
	t.Parallel()
	tree, released := plant(t)
	img, _ := build(t, tree, Options{Folder: t.TempDir(), Target: "registry.invalid/tenon/debian-12:latest"})
	layers, err := img.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%d layers (%v), want one", len(layers), err)
	}
	rc, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rc.Close() }()
	seen := map[string]*tar.Header{}
	for archive := tar.NewReader(rc); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		seen[h.Name] = h
		if h.ModTime.After(released) {
			t.Errorf("%s is dated %s, after the release", h.Name, h.ModTime)
		}
		body, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		if h.Name == "etc/hostname" && strings.Contains(string(body), "this-host") {
			t.Error("the image knows the name of the host it was built on")
		}
		if h.Name == "etc/shadow" && strings.Contains(string(body), "20787") {
			t.Error("the image's shadow file is dated today, so no two builds are alike")
		}
	}
	for _, gone := range []string{"etc/ssh/ssh_host_ed25519_key", "etc/resolv.conf", "var/cache/apt/archives/bash.deb", "var/log/bootstrap.log", "dev/planted"} {
		if seen[gone] != nil {
			t.Errorf("%s is in the image", gone)
		}
	}
	for _, there := range []string{"dev/", "usr/local/sbin/tenon-init", "usr/lib/python3/x.py"} {
		if seen[there] == nil {
			t.Errorf("%s is missing", there)
		}
	}
	if m := seen["usr/bin/su"].Mode; m&0o4000 == 0 {
		t.Errorf("su lost its set-user bit: %o", m)
	}
	if m := seen["usr/bin/newgrp"].Mode; m&0o6000 != 0 {
		t.Errorf("newgrp keeps its set-user bit: %o", m)
	}
	if h := seen["usr/bin/python3.12"]; h.Typeflag != tar.TypeLink || h.Linkname != "usr/bin/python3.11" {
		t.Errorf("a hard link became %c to %q", h.Typeflag, h.Linkname)
	}
}

func TestSameTreeSameDigest(t *testing.T) {
	t.Parallel()
	o := Options{Folder: t.TempDir(), Target: "registry.invalid/tenon/debian-12:latest"}
	one, _ := plant(t)
	two, _ := plant(t)
	_, first := build(t, one, o)
	_, second := build(t, two, o)
	if first != second {
		t.Errorf("two builds of one release differ: %s and %s", first, second)
	}
}

func TestEnsureSkipsWhatIsThere(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(registry.New())
	t.Cleanup(server.Close)
	o := Options{Folder: t.TempDir(), Target: strings.TrimPrefix(server.URL, "http://") + "/tenon/debian-12:latest", Insecure: true}
	tree, _ := plant(t)
	img, want := build(t, tree, o)
	ref, err := name.ParseReference(o.Target, name.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(ref, img); err != nil {
		t.Fatal(err)
	}
	digest, built, err := Ensure(t.Context(), o)
	if err != nil || built || digest != want {
		t.Errorf("Ensure = %s, built %v, %v; want %s without a build", digest, built, err, want)
	}
}

func TestFollowCountsAndKeepsTheEnd(t *testing.T) {
	t.Parallel()
	var steps []string
	last := follow(strings.NewReader("I: Retrieving bash 5\nI: Retrieving curl 7\nI: Configuring bash...\nE: no space left\n"), func(step string, done, total int64) {
		steps = append(steps, step)
	})
	if want := []string{"fetch Debian packages", "fetch Debian packages", "install packages"}; !slices.Equal(steps, want) {
		t.Errorf("steps %q, want %q", steps, want)
	}
	if last[len(last)-1] != "E: no space left" {
		t.Errorf("the last line, which says why, is lost: %q", last)
	}
}
