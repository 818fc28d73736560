// Package image brings OCI images onto a node by digest: it pulls through the
// node door or from a public registry, shows how far it is, and keeps what it
// has for the next guest. Only the digest is trusted.
//
// An image's layers come from tenants: an entry that leaves its layer's root
// refuses the image, as do device nodes, bombs and parts that lie elsewhere, and of
// a refused image nothing is left on the node.
package image

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/mount"
	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/errdefs"
	"github.com/containerd/platforms"
	"github.com/opencontainers/image-spec/identity"

	"github.com/tenon-cloud/tenon/internal/nodewire"
)

// Endpoint is where the embedded registry answers.
type Endpoint struct {
	URL string      // of the node door, without /v2/
	TLS *tls.Config // with the node's certificate
}

// Config says where images come from.
type Config struct {
	Embedded   func() (Endpoint, error) // asked at each pull, since certificates are renewed
	StallAfter time.Duration            // a pull that brings no byte for so long fails; default 45 s
	Room       func() int64             // free bytes for unpacked layers; default: unlimited
}

// snapshotter holds the layers; guests mount them themselves, as lower layers.
const snapshotter = "overlayfs"

// Puller is a node's images.
type Puller struct {
	client *client.Client
	cfg    Config

	mu      sync.Mutex
	flights map[string]*flight // by key
	ready   map[string]Image
}

// Image is one that lies on the node, unpacked.
type Image struct {
	client.Image
	Lower []string // unpacked layers, topmost first
}

// New makes a Puller for the daemon that c speaks to.
func New(c *client.Client, cfg Config) *Puller {
	if cfg.StallAfter == 0 {
		cfg.StallAfter = 45 * time.Second
	}
	if cfg.Room == nil {
		cfg.Room = func() int64 { return math.MaxInt64 }
	}
	return &Puller{client: c, cfg: cfg, flights: map[string]*flight{}, ready: map[string]Image{}}
}

// Progress says how far a pull is; percent is -1 when that is unknown.
type Progress func(message string, percent int)

// recordPrefix begins containerd's names of our images.
const recordPrefix = "tenon/"

// viewName is the snapshot that holds an image's layers.
func viewName(key string) string { return "tenon-lower-" + key }

// Secrets gives what a private registry wants; it is asked at each pull.
type Secrets func(ctx context.Context) (nodewire.Secrets, error)

// Ensure is EnsurePrivate for an image that anyone may pull.
func (p *Puller) Ensure(ctx context.Context, img nodewire.Image, progress Progress) (Image, error) {
	return p.EnsurePrivate(ctx, img, nil, progress)
}

// EnsurePrivate returns the image, pulling it if it is not here. Calls for one
// image join the same pull, which ends early when the last of them gives up. The
// password lives in memory, for the pull alone.
func (p *Puller) EnsurePrivate(ctx context.Context, img nodewire.Image, secrets Secrets, progress Progress) (Image, error) {
	key, err := key(img)
	if err != nil {
		return Image{}, refuse("the image reference can't be used: "+err.Error(), err)
	}
	if got, ok := p.cached(key); ok {
		return got, nil
	}
	if got, err := p.load(ctx, key); err == nil {
		return got, nil
	} else if !errdefs.IsNotFound(err) {
		return Image{}, fmt.Errorf("look up image: %w", err)
	}
	f, leave := p.join(key, img, secrets)
	got, err := f.wait(ctx, progress)
	if leave() {
		p.forget(key, f) // the next call must not join a pull that is being given up
	}
	return got, err
}

// join finds the pull of an image, or begins it.
func (p *Puller) join(key string, img nodewire.Image, secrets Secrets) (*flight, func() bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f, ok := p.flights[key]
	if !ok {
		f = newFlight()
		p.flights[key] = f
		go func() {
			got, err := p.pull(f, key, img, secrets)
			p.forget(key, f)
			f.finish(got, err)
		}()
	}
	return f, f.join()
}

func (p *Puller) forget(key string, f *flight) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.flights[key] == f {
		delete(p.flights, key)
	}
}

func (p *Puller) cached(key string) (Image, bool) {
	p.mu.Lock()
	got, ok := p.ready[key]
	p.mu.Unlock()
	if !ok {
		return Image{}, false
	}
	for _, dir := range got.Lower {
		if _, err := os.Stat(dir); err != nil {
			p.mu.Lock()
			delete(p.ready, key)
			p.mu.Unlock()
			return Image{}, false
		}
	}
	return got, true
}

// readyLabel marks an image whose layers are unpacked.
const readyLabel = "tenon/ready"

// load finds an image of an earlier run.
func (p *Puller) load(ctx context.Context, key string) (Image, error) {
	img, err := p.client.GetImage(ctx, recordPrefix+key)
	if err != nil {
		return Image{}, err
	}
	if img.Labels()[readyLabel] == "" {
		return Image{}, fmt.Errorf("image is not unpacked: %w", errdefs.ErrNotFound)
	}
	lower, err := p.lower(ctx, key, img)
	if err != nil {
		return Image{}, err
	}
	got := Image{Image: client.NewImageWithPlatform(p.client, img.Metadata(), platforms.Default()), Lower: lower}
	p.mu.Lock()
	p.ready[key] = got
	p.mu.Unlock()
	return got, nil
}

// lower finds the unpacked layers. A read-only view holds them against garbage
// collection; it is made once an image.
func (p *Puller) lower(ctx context.Context, key string, img client.Image) ([]string, error) {
	diffs, err := img.RootFS(ctx)
	if err != nil {
		return nil, fmt.Errorf("read image layers: %w", err)
	}
	chain := identity.ChainID(diffs).String()
	service := p.client.SnapshotService(snapshotter)
	mounts, err := service.View(ctx, viewName(key), chain, snapshots.WithLabels(map[string]string{
		"containerd.io/gc.root": time.Now().UTC().Format(time.RFC3339),
	}))
	if errdefs.IsAlreadyExists(err) {
		mounts, err = service.Mounts(ctx, viewName(key))
	}
	if err != nil {
		return nil, fmt.Errorf("view image layers: %w", err)
	}
	return lowerDirs(mounts)
}

func lowerDirs(mounts []mount.Mount) ([]string, error) {
	if len(mounts) == 1 && mounts[0].Type == "bind" {
		return []string{mounts[0].Source}, nil
	}
	if len(mounts) == 1 && mounts[0].Type == "overlay" {
		for _, o := range mounts[0].Options {
			if list, ok := strings.CutPrefix(o, "lowerdir="); ok {
				return strings.Split(list, ":"), nil
			}
		}
	}
	return nil, errors.New("view image layers: the snapshotter is not overlayfs")
}

// Prune forgets every image that keep does not name; containerd frees the space.
func (p *Puller) Prune(ctx context.Context, keep func(digest string) bool) error {
	list, err := p.client.ImageService().List(ctx)
	if err != nil {
		return fmt.Errorf("list images: %w", err)
	}
	var errs []error
	for _, img := range list {
		key, ours := strings.CutPrefix(img.Name, recordPrefix)
		if !ours || keep(img.Target.Digest.String()) {
			continue
		}
		p.mu.Lock()
		delete(p.ready, key)
		p.mu.Unlock()
		errs = append(errs, p.drop(ctx, key))
	}
	return errors.Join(errs...)
}

// drop deletes the record of an image and its hold on the layers.
func (p *Puller) drop(ctx context.Context, key string) error {
	err := p.client.SnapshotService(snapshotter).Remove(ctx, viewName(key))
	if err == nil || errdefs.IsNotFound(err) {
		err = p.client.ImageService().Delete(ctx, recordPrefix+key, images.SynchronousDelete())
	}
	if err != nil && !errdefs.IsNotFound(err) {
		return fmt.Errorf("forget image %s: %w", key, err)
	}
	return nil
}
