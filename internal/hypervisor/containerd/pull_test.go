package containerd

import (
	"archive/tar"
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/tenon-cloud/tenon/internal/image"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

// paced serves a registry whose blobs come at a chosen pace.
type paced struct {
	http.Handler
	pace  func(w http.ResponseWriter, r *http.Request, body []byte)
	blobs atomic.Int64
}

func (p *paced) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet || !strings.Contains(r.URL.Path, "/blobs/") {
		p.Handler.ServeHTTP(w, r)
		return
	}
	p.blobs.Add(1)
	rec := httptest.NewRecorder()
	p.Handler.ServeHTTP(rec, r)
	for k, v := range rec.Header() {
		w.Header()[k] = v
	}
	if p.pace == nil {
		w.Write(rec.Body.Bytes())
		return
	}
	p.pace(w, r, rec.Body.Bytes())
}

// serve runs a registry with the test image behind h.
func (c *cloudUnderTest) serve(t *testing.T, h *paced) nodewire.Image {
	t.Helper()
	h.Handler = registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	server := httptest.NewServer(h)
	t.Cleanup(server.CloseClientConnections)
	t.Cleanup(server.Close)
	c.registry = strings.TrimPrefix(server.URL, "http://")
	return c.push(t, v1.Config{Cmd: []string{"sleep", "1000"}})
}

func (c *cloudUnderTest) pullWith(cfg image.Config) *image.Puller { return image.New(c.client, cfg) }

func TestPullFailuresCarryTheRegistrysReason(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	good := c.push(t, v1.Config{})
	absent := "sha256:" + strings.Repeat("ab", 32)
	refusing := func(status int, code, message string) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			fmt.Fprintf(w, `{"errors":[{"code":%q,"message":%q}]}`, code, message)
		}))
		t.Cleanup(s.Close)
		return strings.TrimPrefix(s.URL, "http://")
	}
	lying := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/vnd.oci.image.manifest.v1+json")
		w.Header().Set("Docker-Content-Digest", absent)
		io.WriteString(w, `{"schemaVersion":2}`)
	}))
	t.Cleanup(lying.Close)
	for i, tc := range []struct {
		name, ref, digest string
		want              []string
		final             bool
	}{
		{"unknown host", "registry.no-such-host.invalid/a/b", absent, []string{"registry.no-such-host.invalid"}, false},
		{"nothing listens", "127.0.0.1:1/a/b", absent, []string{"127.0.0.1:1", "refused"}, false},
		{"404", c.registry + "/test/other", absent, []string{"404"}, true},
		{"401", refusing(401, "UNAUTHORIZED", "who are you") + "/a/b", absent, []string{"401"}, true},
		{"403", refusing(403, "DENIED", "not for you") + "/a/b", absent, []string{"403"}, true},
		{"wrong digest", strings.TrimPrefix(lying.URL, "http://") + "/a/b", absent, []string{"digest"}, true},
		{"not a reference", "A//b", good.Digest, []string{"reference"}, true},
		{"not a digest", good.Ref, "latest", []string{"digest"}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			begin := time.Now()
			err := c.Prepare(context.Background(), spec(fmt.Sprintf("inst_pull%d", i), nodewire.Image{Ref: tc.ref, Digest: tc.digest}), nil)
			f := failureOf(t, err)
			t.Logf("%s: %s (%v)", time.Since(begin).Round(time.Millisecond), f.Message, f.Final)
			if f.Reason != nodewire.ReasonImagePull || f.Final != tc.final || time.Since(begin) > 50*time.Second {
				t.Errorf("failure after %s: %+v", time.Since(begin), f)
			}
			for _, want := range tc.want {
				if !strings.Contains(f.Message, want) {
					t.Errorf("message %q lacks %q", f.Message, want)
				}
			}
		})
	}
}

func TestStalledPullFailsAndSlowOneDoesNot(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	stalls := c.serve(t, &paced{pace: func(w http.ResponseWriter, r *http.Request, body []byte) {
		w.Header().Set("Content-Length", fmt.Sprint(len(body)))
		w.Write(body[:len(body)/2])
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}})
	const limit = 700 * time.Millisecond
	begin := time.Now()
	_, err := c.pullWith(image.Config{StallAfter: limit}).Ensure(context.Background(), stalls, nil)
	if f := failureOf(t, err); f.Reason != nodewire.ReasonImagePull || !strings.Contains(f.Message, "nothing for too long") {
		t.Errorf("stalled pull: %+v", f)
	}
	if took := time.Since(begin); took < limit || took > 10*limit {
		t.Errorf("the stall was noticed after %s", took)
	}

	slow := c.serve(t, &paced{pace: func(w http.ResponseWriter, r *http.Request, body []byte) {
		w.Header().Set("Content-Length", fmt.Sprint(len(body)))
		tick := time.NewTicker(limit / 5)
		defer tick.Stop()
		for part := len(body)/12 + 1; len(body) > 0; {
			n := min(part, len(body))
			w.Write(body[:n])
			w.(http.Flusher).Flush()
			body = body[n:]
			select {
			case <-tick.C:
			case <-r.Context().Done():
				return
			}
		}
	}})
	var mu sync.Mutex
	var seen []int
	begin = time.Now()
	_, err = c.pullWith(image.Config{StallAfter: limit}).Ensure(context.Background(), slow, func(_ string, percent int) {
		mu.Lock()
		seen = append(seen, percent)
		mu.Unlock()
	})
	if err != nil || time.Since(begin) < 2*limit {
		t.Fatalf("slow pull after %s: %v", time.Since(begin), err)
	}
	moved := 0
	for i, p := range seen {
		if p > 0 && p < 100 {
			moved++
		}
		if i > 0 && p < seen[i-1] {
			t.Errorf("progress went back: %v", seen)
		}
	}
	if moved < 2 {
		t.Errorf("progress did not move: %v", seen)
	}
}

func TestPullsOfOneImageJoin(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	h := &paced{pace: func(w http.ResponseWriter, r *http.Request, body []byte) {
		select {
		case <-time.After(300 * time.Millisecond):
		case <-r.Context().Done():
		}
		w.Write(body)
	}}
	img := c.serve(t, h)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if _, err := c.images.Ensure(context.Background(), img, nil); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if got := h.blobs.Load(); got != 2 { // one layer, one configuration
		t.Errorf("%d blobs were fetched for eight waiters", got)
	}
	// A second agent finds it without asking the registry.
	h.blobs.Store(0)
	if _, err := c.pullWith(image.Config{}).Ensure(context.Background(), img, nil); err != nil {
		t.Errorf("cached image: %v", err)
	}
	if got := h.blobs.Load(); got != 0 {
		t.Errorf("%d blobs were fetched again", got)
	}
	// Another repository must have it too, whatever lies on the node.
	img.Ref = c.registry + "/someone/else"
	if _, err := c.images.Ensure(context.Background(), img, nil); err == nil {
		t.Error("an image came from a repository that does not hold it")
	}
}

func TestEmbeddedRegistryThroughTheNodeDoor(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	inner := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	door := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.TLS == nil {
			t.Error("a plain request reached the door")
		}
		inner.ServeHTTP(w, r)
	}))
	t.Cleanup(door.Close)
	img := c.push(t, v1.Config{})
	// The same image again, at the door, under a name without a host.
	pulled, err := remote.Image(must(name.NewDigest(img.Ref+"@"+img.Digest, name.Insecure)))
	if err != nil {
		t.Fatal(err)
	}
	to := must(name.ParseReference(strings.TrimPrefix(door.URL, "https://") + "/tenon/busybox:1"))
	if err := remote.Write(to, pulled, remote.WithTransport(door.Client().Transport)); err != nil {
		t.Fatal(err)
	}
	p := c.pullWith(image.Config{Embedded: func() (image.Endpoint, error) {
		return image.Endpoint{URL: door.URL, TLS: door.Client().Transport.(*http.Transport).TLSClientConfig}, nil
	}})
	got, err := p.Ensure(context.Background(), nodewire.Image{Ref: "tenon/busybox:1", Digest: img.Digest, Embedded: true}, nil)
	if err != nil || len(got.Lower) != 1 {
		t.Fatalf("embedded image: %+v, %v", got, err)
	}
	if _, err := c.images.Ensure(context.Background(), nodewire.Image{Ref: "a/b", Digest: "sha256:" + strings.Repeat("01", 32), Embedded: true}, nil); err == nil {
		t.Error("a node without a door pulled an embedded image")
	}
	// What is not kept is forgotten, and can be pulled again.
	if err := p.Prune(context.Background(), func(string) bool { return false }); err != nil {
		t.Fatal(err)
	}
	eventually(t, 10*time.Second, "the layer to be freed", func() bool { _, err := os.Stat(got.Lower[0]); return err != nil })
	if _, err := p.Ensure(context.Background(), img, nil); err != nil {
		t.Errorf("pull after it was forgotten: %v", err)
	}
}

func TestHostileLayers(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	for _, e := range []entry{
		{name: "../../escape", body: "x"},
		{name: "a/../../escape", body: "x"},
		{name: "hard", kind: tar.TypeLink, link: "../../../etc/passwd"},
	} {
		img := c.push(t, v1.Config{}, layer(t, e))
		_, err := c.images.Ensure(context.Background(), img, nil)
		if f := failureOf(t, err); f.Reason != nodewire.ReasonImagePull || !f.Final || !strings.Contains(f.Message, "leaves the image's root") {
			t.Errorf("%+v: %+v", e, f)
		}
	}
	// A layer that unpacks to more than there is room for is not begun.
	img0 := c.push(t, v1.Config{}, layer(t, entry{name: "big", body: strings.Repeat("0", 8<<20)}))
	_, err := c.pullWith(image.Config{Room: func() int64 { return 4 << 20 }}).Ensure(context.Background(), img0, nil)
	if f := failureOf(t, err); f.Reason != nodewire.ReasonDiskFull {
		t.Errorf("no room: %+v", f)
	}
	// A link may point anywhere, but nothing is written through it.
	img := c.push(t, v1.Config{}, layer(t, entry{name: "out", kind: tar.TypeSymlink, link: c.state}, entry{name: "out/written", body: "x"}))
	_, _ = c.images.Ensure(context.Background(), img, nil)
	if _, err := os.Stat(filepath.Join(c.state, "written")); err == nil {
		t.Error("a layer wrote through a link to the host")
	}
	// A file that a later layer deletes stays deleted.
	img = c.push(t, v1.Config{}, layer(t, entry{name: "keep", body: "k"}),
		layer(t, entry{name: ".wh.keep"}))
	s := spec("inst_layers", img, "sleep", "1000")
	c.start(t, s)
	if out, _ := c.sh(t, s.ID, "ls /keep 2>&1"); !strings.Contains(out, "/keep: No such file") {
		t.Errorf("layers inside: %s", out)
	}
}

// TestAnImageBringsItsOwnLayers: who knows the name of another's layers has not
// shown that he may read them.
func TestAnImageBringsItsOwnLayers(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	ctx := context.Background()
	victim := c.push(t, v1.Config{}, layer(t, entry{name: "secret", body: "of another"}))
	if _, err := c.images.Ensure(ctx, victim, nil); err != nil {
		t.Fatal(err)
	}
	theirs, err := must(remote.Image(must(name.NewDigest(victim.Ref+"@"+victim.Digest, name.Insecure)))).ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	held := func() (n int) {
		if err := c.client.SnapshotService("overlayfs").Walk(ctx, func(context.Context, snapshots.Info) error { n++; return nil }); err != nil {
			t.Fatal(err)
		}
		return n + len(must(c.client.ImageService().List(ctx)))
	}
	before := held()
	for what, diffs := range map[string][]v1.Hash{
		"another's":        theirs.RootFS.DiffIDs,
		"fewer":            theirs.RootFS.DiffIDs[:1],
		"in another order": {theirs.RootFS.DiffIDs[1], theirs.RootFS.DiffIDs[0]},
	} {
		own := must(mutate.AppendLayers(empty.Image, layer(t, entry{name: "dummy", body: "1"}), layer(t, entry{name: "dummy", body: "2"})))
		config := must(own.ConfigFile()).DeepCopy()
		config.Architecture, config.OS, config.RootFS.DiffIDs = "amd64", "linux", diffs
		own = must(mutate.ConfigFile(own, config))
		ref := c.registry + "/attacker/image"
		if err := remote.Write(must(name.ParseReference(ref, name.Insecure)), own); err != nil {
			t.Fatal(err)
		}
		_, err := c.images.Ensure(ctx, nodewire.Image{Ref: ref, Digest: must(own.Digest()).String()}, nil)
		if err == nil {
			t.Errorf("layers that are %s were given away", what)
			continue
		}
		if f := failureOf(t, err); f.Reason != nodewire.ReasonImagePull || !f.Final || !strings.Contains(f.Message, "configuration names") {
			t.Errorf("layers that are %s: %+v", what, f)
		}
	}
	eventually(t, 10*time.Second, "nothing to be left of the refused", func() bool { return held() == before })
}

// TestASourceShowsThatItHoldsALayer: what lies on the node already, from another
// source, is given to nobody for the mere name of it.
func TestASourceShowsThatItHoldsALayer(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	ctx := context.Background()
	if _, err := c.images.Ensure(ctx, c.push(t, v1.Config{}), nil); err != nil {
		t.Fatal(err)
	}
	isLayer := func(body []byte) bool { return len(body) > 64<<10 }
	claims := c.serve(t, &paced{pace: func(w http.ResponseWriter, _ *http.Request, body []byte) {
		if isLayer(body) {
			body = make([]byte, len(body))
		}
		w.Write(body)
	}})
	if _, err := c.images.Ensure(ctx, claims, nil); err == nil {
		t.Error("a layer was given to a registry that sent zeros for it")
	} else if f := failureOf(t, err); f.Reason != nodewire.ReasonImagePull || !strings.Contains(f.Message, "does not match its digest") {
		t.Errorf("a registry that sent zeros: %+v", f)
	}
	lacks := c.serve(t, &paced{pace: func(w http.ResponseWriter, r *http.Request, body []byte) {
		if isLayer(body) {
			http.NotFound(w, r)
			return
		}
		w.Write(body)
	}})
	lacks.Ref, lacks.Embedded = "test/busybox", true
	p := c.pullWith(image.Config{Embedded: func() (image.Endpoint, error) { return image.Endpoint{URL: "http://" + c.registry}, nil }})
	if _, err := p.Ensure(ctx, lacks, nil); err == nil {
		t.Error("a layer was given to a repository that lacks it")
	} else if f := failureOf(t, err); f.Reason != nodewire.ReasonImagePull || !strings.Contains(f.Message, "404") {
		t.Errorf("a repository that lacks a layer: %+v", f)
	}
}
