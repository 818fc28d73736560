package image

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"testing"

	"github.com/containerd/containerd/v2/core/mount"
	"github.com/google/go-cmp/cmp"

	"github.com/tenon-cloud/tenon/internal/hypervisor"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

const someDigest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

func TestStaysInside(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"etc/passwd": true, "./etc": true, "./": true, ".": true, "/etc": true, "/": true, "a/../b": true, "a/b/": true, "..data": true,
		"..": false, "../x": false, "/../x": false, "a/../../x": false, "//../x": false,
	} {
		if got := staysInside(name); got != want {
			t.Errorf("%q stays inside: %v", name, got)
		}
	}
}

func TestSources(t *testing.T) {
	t.Parallel()
	p := New(nil, Config{Embedded: func() (Endpoint, error) { return Endpoint{URL: "https://10.0.0.1:7481/door"}, nil }})
	for _, tc := range []struct {
		img                  nodewire.Image
		scheme, host, base   string
		repository, cacheKey string
	}{
		{nodewire.Image{Ref: "busybox"}, "https", "registry-1.docker.io", "", "library/busybox", "docker.io/library/busybox"},
		{nodewire.Image{Ref: "ghcr.io/a/b:v1"}, "https", "ghcr.io", "", "a/b", "ghcr.io/a/b"},
		{nodewire.Image{Ref: "127.0.0.1:5000/a"}, "http", "127.0.0.1:5000", "", "a", "127.0.0.1:5000/a"},
		{nodewire.Image{Ref: "localhost:5000/a"}, "http", "localhost:5000", "", "a", "localhost:5000/a"},
		{nodewire.Image{Ref: "10.0.0.9:5000/a"}, "https", "10.0.0.9:5000", "", "a", "10.0.0.9:5000/a"},
		{nodewire.Image{Ref: "tenon/debian-12:latest", Embedded: true}, "https", "10.0.0.1:7481", "/door", "tenon/debian-12", "embedded.invalid/tenon/debian-12"},
	} {
		tc.img.Digest = someDigest
		s, err := p.source(tc.img)
		if err != nil || s.scheme != tc.scheme || s.host != tc.host || s.base != tc.base || s.repository != tc.repository {
			t.Errorf("%+v comes from %+v, %v", tc.img, s, err)
		}
		if k, err := key(tc.img); err != nil || k != tc.cacheKey+"@"+someDigest {
			t.Errorf("%+v is kept as %q, %v", tc.img, k, err)
		}
	}
	plain := New(nil, Config{Embedded: func() (Endpoint, error) { return Endpoint{URL: "http://10.0.0.1:7481"}, nil }})
	if _, err := plain.source(nodewire.Image{Ref: "a/b", Digest: someDigest, Embedded: true}); err == nil {
		t.Error("images would cross a network in the clear")
	}
}

func TestMessagesAreForATenant(t *testing.T) {
	t.Parallel()
	s := source{host: "reg.example", repository: "a/b", digest: someDigest}
	refused := &url.Error{Op: "Get", URL: "https://reg.example/v2/secret?token=x", Err: &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}}
	if got, final := describe(s, fmt.Errorf("do: %w", refused)); got != "reg.example: dial tcp: connection refused" || final {
		t.Errorf("%q, %v", got, final)
	}
	// Neither the node's addresses nor its folders.
	door := source{scheme: "https", host: "10.0.0.1:7481", base: "/door", repository: "tenon/a", digest: someDigest, embedded: true}
	reset := &net.OpError{Op: "read", Net: "tcp", Source: &net.TCPAddr{IP: net.IPv4(10, 0, 0, 7), Port: 4242}, Addr: &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 7481}, Err: errors.New("connection reset by peer")}
	for _, tc := range []struct {
		from source
		err  error
		want string
	}{
		{s, reset, "reg.example: read tcp: connection reset by peer"},
		{s, &net.OpError{Op: "proxyconnect", Net: "tcp", Err: reset}, "reg.example: read tcp: connection reset by peer"},
		{door, refused, "the cloud's registry: dial tcp: connection refused"},
		{door, &url.Error{Op: "Get", URL: "x", Err: errors.New("certificate is not valid for 10.0.0.1:7481")}, "the cloud's registry: certificate is not valid for the cloud's registry"},
		{door, errors.New("get https://10.0.0.1:7481/door/v2/tenon/a: open /var/lib/tenon/node/tls.pem: no such file"), "the cloud's registry: get the cloud's registry/v2/tenon/a: open …: no such file"},
		{door, &unpackError{errors.New(`unpack: apply layer error for "tenon/embedded.invalid/tenon/a@sha256:01": failed to extract: mount callback failed on /srv/var/node/containerd/tmpmounts/1: archive/tar: invalid tar header`)}, "the image could not be unpacked: invalid tar header"},
		{door, &unpackError{errors.New("unpack: failed: open /srv/var/node/x")}, "the image could not be unpacked: open …"},
	} {
		if f := (&hypervisor.Failure{}); !errors.As(explain(t.Context(), tc.from, tc.err), &f) || f.Message != tc.want {
			t.Errorf("%v:\n got %s\nwant %s", tc.err, f.Message, tc.want)
		}
	}
	long := printable("a\x1b[31m\nb" + strings.Repeat("x", 1000))
	if len(long) > 310 || strings.ContainsAny(long, "\x1b\n") {
		t.Errorf("%q", long)
	}
}

func TestLowerDirs(t *testing.T) {
	t.Parallel()
	got, err := lowerDirs([]mount.Mount{{Type: "overlay", Options: []string{"index=off", "lowerdir=/b:/a"}}})
	if diff := cmp.Diff([]string{"/b", "/a"}, got); err != nil || diff != "" {
		t.Error(err, diff)
	}
	got, err = lowerDirs([]mount.Mount{{Type: "bind", Source: "/a", Options: []string{"ro", "rbind"}}})
	if diff := cmp.Diff([]string{"/a"}, got); err != nil || diff != "" {
		t.Error(err, diff)
	}
	if _, err := lowerDirs([]mount.Mount{{Type: "btrfs", Source: "/dev/loop0"}}); err == nil {
		t.Error("another snapshotter's mount was taken")
	}
}
