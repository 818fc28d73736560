package containerd

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/tenon-cloud/tenon/internal/image"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

// shelf is a registry that serves whatever was put on it, true or not.
type shelf struct {
	things map[string]thing // by digest as it is asked for
	url    string
}

type thing struct {
	kind string
	body []byte
	say  int // announced length; 0: the true one
}

func newShelf(t *testing.T) *shelf {
	t.Helper()
	s := &shelf{things: map[string]thing{}}
	server := httptest.NewServer(s)
	t.Cleanup(server.CloseClientConnections)
	t.Cleanup(server.Close)
	s.url = strings.TrimPrefix(server.URL, "http://")
	return s
}

func (s *shelf) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x, ok := s.things[r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]]
	if !ok {
		http.NotFound(w, r)
		return
	}
	length := len(x.body)
	if x.say != 0 {
		length = x.say
	}
	w.Header().Set("Content-Type", x.kind)
	w.Header().Set("Content-Length", fmt.Sprint(length))
	if r.Method == http.MethodGet {
		_, _ = w.Write(x.body)
	}
}

// put lays something down and describes it.
func (s *shelf) put(kind string, body []byte) ocispec.Descriptor {
	d := digest.FromBytes(body)
	s.things[d.String()] = thing{kind: kind, body: body}
	return ocispec.Descriptor{MediaType: kind, Digest: d, Size: int64(len(body))}
}

func (s *shelf) json(kind string, v any) ocispec.Descriptor {
	return s.put(kind, must(json.Marshal(v)))
}

// image puts an image together; the layers are plain archives, which are packed.
func (s *shelf) image(change func(m *ocispec.Manifest, c *ocispec.Image), layers ...[]byte) nodewire.Image {
	c := ocispec.Image{Platform: ocispec.Platform{OS: "linux", Architecture: "amd64"}, RootFS: ocispec.RootFS{Type: "layers"}}
	m := ocispec.Manifest{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest}
	for _, plain := range layers {
		c.RootFS.DiffIDs = append(c.RootFS.DiffIDs, digest.FromBytes(plain))
		m.Layers = append(m.Layers, s.put(ocispec.MediaTypeImageLayerGzip, packed(plain)))
	}
	if change != nil {
		change(&m, &c)
	}
	if m.Config.Digest == "" {
		m.Config = s.json(ocispec.MediaTypeImageConfig, c)
	}
	return s.named(s.json(ocispec.MediaTypeImageManifest, m))
}

func (s *shelf) named(d ocispec.Descriptor) nodewire.Image {
	return nodewire.Image{Ref: s.url + "/a/b", Digest: d.Digest.String()}
}

func packed(plain []byte) []byte {
	var buf bytes.Buffer
	w := gzip.NewWriter(&buf)
	_, _ = w.Write(plain)
	_ = w.Close()
	return buf.Bytes()
}

func archive(t *testing.T, entries ...entry) []byte {
	t.Helper()
	rc, err := layer(t, entries...).Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer rc.Close()
	return must(io.ReadAll(rc))
}

// holdings is everything that an image can leave on a node.
func (c *cloudUnderTest) holdings(t *testing.T) (out []string) {
	t.Helper()
	ctx := context.Background()
	add := func(what, name string) { out = append(out, what+" "+name) }
	if err := c.client.SnapshotService("overlayfs").Walk(ctx, func(_ context.Context, i snapshots.Info) error { add("snapshot", i.Name); return nil }); err != nil {
		t.Fatal(err)
	}
	if err := c.client.ContentStore().Walk(ctx, func(i content.Info) error { add("content", i.Digest.String()); return nil }); err != nil {
		t.Fatal(err)
	}
	for _, s := range must(c.client.ContentStore().ListStatuses(ctx)) {
		add("ingest", s.Ref)
	}
	for _, i := range must(c.client.ImageService().List(ctx)) {
		add("image", i.Name)
	}
	for _, l := range must(c.client.LeasesService().List(ctx)) {
		add("lease", l.ID)
	}
	for _, pattern := range []string{"io.containerd.content.v1.content/blobs/sha256/*", "io.containerd.content.v1.content/ingest/*", "io.containerd.snapshotter.v1.overlayfs/snapshots/*", "tmpmounts/*"} {
		found, _ := filepath.Glob(filepath.Join(c.state, "containerd", pattern))
		for _, f := range found {
			add("file", strings.TrimPrefix(f, c.state))
		}
	}
	return out
}

// TestRefusedImagesLeaveNothing: each kind of image that is refused is refused for
// good, with a reason that names it, and leaves no trace on the node.
func TestRefusedImagesLeaveNothing(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	good := func(name string) []byte { return archive(t, entry{name: name, body: "fine"}) }
	s := newShelf(t)
	for _, tc := range []struct {
		name, want string
		again      bool // worth another try
		make       func() nodewire.Image
	}{
		{"a layer that is another than its digest", "does not match its digest", false, func() nodewire.Image {
			return s.image(func(m *ocispec.Manifest, _ *ocispec.Image) {
				x := s.things[m.Layers[1].Digest.String()]
				x.body = bytes.Repeat([]byte{7}, len(x.body))
				s.things[m.Layers[1].Digest.String()] = x
			}, good("digest-1"), good("digest-2"))
		}},
		{"a manifest that is another than its digest", "does not match its digest", false, func() nodewire.Image {
			img := s.image(nil, good("manifest"))
			s.things[img.Digest] = thing{kind: ocispec.MediaTypeImageManifest, body: bytes.ReplaceAll(s.things[img.Digest].body, []byte("linux"), []byte("minix")), say: 0}
			x := s.things[img.Digest]
			x.body = append(bytes.Clone(x.body[:len(x.body)-1]), ' ', '}')
			s.things[img.Digest] = x
			return img
		}},
		{"a layer that the configuration does not name", "configuration names", false, func() nodewire.Image {
			return s.image(func(_ *ocispec.Manifest, c *ocispec.Image) { c.RootFS.DiffIDs[0] = digest.FromString("another") }, good("diff"))
		}},
		{"an entry above the root", "leaves the image's root", false, func() nodewire.Image {
			return s.image(nil, good("first"), archive(t, entry{name: "a/../../escape", body: "x"}))
		}},
		{"a hard link to outside", "leaves the image's root", false, func() nodewire.Image {
			return s.image(nil, archive(t, entry{name: "hard", kind: tar.TypeLink, link: "../../../etc/passwd"}))
		}},
		{"a device node", `the device node "dev/sda"`, false, func() nodewire.Image {
			return s.image(nil, good("before"), archive(t, entry{name: "dev/", kind: tar.TypeDir}, entry{name: "dev/sda", kind: tar.TypeBlock}))
		}},
		{"a character device", `the device node "mem"`, false, func() nodewire.Image {
			return s.image(nil, archive(t, entry{name: "mem", kind: tar.TypeChar}))
		}},
		{"a bomb", "made to fill a disk", false, func() nodewire.Image {
			return s.image(nil, bomb(t, 600<<20))
		}},
		{"a sparse file beyond any disk", "made to fill a disk", false, func() nodewire.Image {
			return s.image(nil, truncatedHeader(t, 1<<40))
		}},
		{"zeros after the archive", "goes on after its archive", false, func() nodewire.Image {
			return s.image(nil, append(good("tail"), make([]byte, 32<<20)...))
		}},
		{"what is no archive", "not a readable archive", false, func() nodewire.Image {
			return s.image(nil, bytes.Repeat([]byte("no tar "), 2000))
		}},
		{"too many layers", "at most 127", false, func() nodewire.Image {
			return s.image(func(m *ocispec.Manifest, c *ocispec.Image) {
				for range 200 {
					m.Layers, c.RootFS.DiffIDs = append(m.Layers, m.Layers[0]), append(c.RootFS.DiffIDs, c.RootFS.DiffIDs[0])
				}
			}, good("many"))
		}},
		{"a layer that lies elsewhere", "lies elsewhere", false, func() nodewire.Image {
			return s.image(func(m *ocispec.Manifest, _ *ocispec.Image) { m.Layers[0].URLs = []string{"http://127.0.0.1:1/blob"} }, good("urls"))
		}},
		{"a foreign layer", "lies elsewhere", false, func() nodewire.Image {
			return s.image(func(m *ocispec.Manifest, _ *ocispec.Image) {
				m.Layers[0].MediaType = "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip"
			}, good("foreign"))
		}},
		{"a layer of an unknown kind", "no container is made of", false, func() nodewire.Image {
			return s.image(func(m *ocispec.Manifest, _ *ocispec.Image) { m.Layers[0].MediaType = "application/x-shockwave-flash" }, good("kind"))
		}},
		{"something that is no image", "not a container image", false, func() nodewire.Image {
			return s.image(func(m *ocispec.Manifest, _ *ocispec.Image) {
				m.Config = s.put("application/vnd.tenon.vm.config.v1+json", []byte("{}"))
			}, good("vm"))
		}},
		{"a huge configuration", "at most 4194304 are read", false, func() nodewire.Image {
			return s.image(func(_ *ocispec.Manifest, c *ocispec.Image) {
				c.Config.Labels = map[string]string{"x": strings.Repeat("x", 5<<20)}
			}, good("config"))
		}},
		{"an announced size below zero", "impossible size", false, func() nodewire.Image {
			return s.image(func(m *ocispec.Manifest, _ *ocispec.Image) { m.Layers[0].Size = -1 }, good("negative"))
		}},
		{"no variant for this platform", "no variant for linux", false, func() nodewire.Image {
			arm := s.json(ocispec.MediaTypeImageManifest, ocispec.Manifest{Versioned: specs.Versioned{SchemaVersion: 2}})
			arm.Platform = &ocispec.Platform{OS: "linux", Architecture: "arm64"}
			return s.named(s.json(ocispec.MediaTypeImageIndex, ocispec.Index{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex, Manifests: []ocispec.Descriptor{arm}}))
		}},
		{"indexes of indexes", "index of indexes", false, func() nodewire.Image {
			img := s.image(nil, good("deep"))
			d := ocispec.Descriptor{MediaType: ocispec.MediaTypeImageManifest, Digest: digest.Digest(img.Digest), Size: int64(len(s.things[img.Digest].body))}
			for range 6 {
				d.Platform = &ocispec.Platform{OS: "linux", Architecture: "amd64"}
				d = s.json(ocispec.MediaTypeImageIndex, ocispec.Index{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex, Manifests: []ocispec.Descriptor{d}})
			}
			return s.named(d)
		}},
		{"a registry that breaks off", s.url, true, func() nodewire.Image {
			return s.image(func(m *ocispec.Manifest, _ *ocispec.Image) {
				x := s.things[m.Layers[0].Digest.String()]
				x.say, x.body = len(x.body), x.body[:len(x.body)/2]
				s.things[m.Layers[0].Digest.String()] = x
			}, archive(t, entry{name: "cut", body: strings.Repeat("cut off in the middle", 5000)}))
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before := c.holdings(t)
			begin := time.Now()
			_, err := c.images.Ensure(context.Background(), tc.make(), nil)
			if err == nil {
				t.Fatal("it was taken")
			}
			f := failureOf(t, err)
			t.Logf("%s: %s (final %v)", time.Since(begin).Round(time.Millisecond), f.Message, f.Final)
			if f.Reason != nodewire.ReasonImagePull || f.Final == tc.again || !strings.Contains(f.Message, tc.want) {
				t.Errorf("refused as %+v; want %q", f, tc.want)
			}
			if after := c.holdings(t); strings.Join(after, "\n") != strings.Join(before, "\n") {
				t.Errorf("it left:\n%s\nbefore:\n%s", strings.Join(after, "\n"), strings.Join(before, "\n"))
			}
		})
	}
	// The same node takes a good one, and a link that points out of it is only a
	// name inside.
	img := s.image(nil, archive(t, entry{name: "out", kind: tar.TypeSymlink, link: c.state}, entry{name: "out/written", body: "x"}, entry{name: "su", body: "x", mode: 0o4755}))
	got, err := c.images.Ensure(context.Background(), img, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(c.state, "written")); err == nil {
		t.Error("a layer wrote through a link to the host")
	}
	if info, err := os.Stat(filepath.Join(got.Lower[0], "su")); err != nil || info.Mode()&os.ModeSetuid == 0 {
		t.Errorf("a file that runs as its owner: %v, %v", info, err)
	}
}

// bomb is an archive of one file of zeros.
func bomb(t *testing.T, size int64) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	if err := w.WriteHeader(&tar.Header{Name: "zeros", Mode: 0o644, Size: size}); err != nil {
		t.Fatal(err)
	}
	if _, err := io.CopyN(w, nothing{}, size); err != nil {
		t.Fatal(err)
	}
	_ = w.Close()
	return buf.Bytes()
}

type nothing struct{}

func (nothing) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// truncatedHeader announces a file that is not there.
func truncatedHeader(t *testing.T, size int64) []byte {
	t.Helper()
	var buf bytes.Buffer
	if err := tar.NewWriter(&buf).WriteHeader(&tar.Header{Name: "sparse", Mode: 0o644, Size: size, Format: tar.FormatGNU}); err != nil {
		t.Fatal(err)
	}
	return append(buf.Bytes(), make([]byte, 1024)...)
}

// TestACrawlingRegistryStalls: a byte now and then is no progress.
func TestACrawlingRegistryStalls(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	img := c.serve(t, &paced{pace: func(w http.ResponseWriter, r *http.Request, body []byte) {
		w.Header().Set("Content-Length", fmt.Sprint(len(body)))
		if len(body) < 64<<10 {
			w.Write(body)
			return
		}
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for i := range body {
			w.Write(body[i : i+1])
			w.(http.Flusher).Flush()
			select {
			case <-tick.C:
			case <-r.Context().Done():
				return
			}
		}
	}})
	begin := time.Now()
	_, err := c.pullWith(image.Config{StallAfter: 300 * time.Millisecond}).Ensure(context.Background(), img, nil)
	if f := failureOf(t, err); !strings.Contains(f.Message, "nothing for too long") || f.Final || time.Since(begin) > 10*time.Second {
		t.Errorf("after %s: %+v", time.Since(begin), f)
	}
	if left := c.holdings(t); len(left) > 0 {
		t.Errorf("it left %v", left)
	}
}
