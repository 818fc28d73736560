package image

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/containerd/containerd/v2/core/remotes"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/tenon-cloud/tenon/internal/nodewire"
)

// Disks is a node's cache of VM images: one file each, named by where it comes
// from and its digest, and never written once it is there.
type Disks struct {
	puller *Puller
	dir    string
	check  func(path string) error // refuses a file before it is kept

	mu    sync.Mutex
	locks map[string]*sync.Mutex
	known map[string]bool // whose content this process has compared with its digest
}

// NewDisks keeps VM images in dir.
func NewDisks(cfg Config, dir string, check func(path string) error) *Disks {
	return &Disks{puller: New(nil, cfg), dir: dir, check: check, locks: map[string]*sync.Mutex{}, known: map[string]bool{}}
}

// diskRecord says what a cached file must hold.
type diskRecord struct {
	Digest string `json:"digest"`
	Size   int64  `json:"size"`
}

// DiskName is the file of an image in the cache.
func DiskName(img nodewire.Image) (string, error) {
	k, err := key(img)
	if err != nil {
		return "", refuse("the image reference can't be used: "+err.Error(), err)
	}
	sum := sha256.Sum256([]byte(k))
	return hex.EncodeToString(sum[:16]) + ".qcow2", nil
}

// Ensure returns the path of an image's disk, pulling it if it is not here.
func (d *Disks) Ensure(ctx context.Context, img nodewire.Image, secrets Secrets, progress Progress) (string, error) {
	name, err := DiskName(img)
	if err != nil {
		return "", err
	}
	path := filepath.Join(d.dir, name)
	defer d.lock(name)()
	if d.intact(path) {
		now := time.Now() // whoever asks for it may use it soon
		return path, os.Chtimes(path, now, now)
	}
	if err := os.MkdirAll(d.dir, 0o700); err != nil {
		return "", fmt.Errorf("make image folder: %w", err)
	}
	s, err := d.puller.source(img)
	if err != nil && img.Embedded {
		return "", refuse("this node has no way to the cloud's registry", err)
	}
	if err != nil {
		return "", refuse("the image reference can't be used: "+err.Error(), err)
	}
	if err := s.signIn(ctx, img, secrets); err != nil {
		return "", explain(ctx, s, err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if err := d.pull(ctx, cancel, s, path, progress); err != nil {
		return "", explain(ctx, s, err)
	}
	return path, nil
}

// lock lets one call at a time pull an image.
func (d *Disks) lock(name string) func() {
	d.mu.Lock()
	l := d.locks[name]
	if l == nil {
		l = &sync.Mutex{}
		d.locks[name] = l
	}
	d.mu.Unlock()
	l.Lock()
	return l.Unlock
}

// intact compares a cached file with its digest, once in a process's life.
func (d *Disks) intact(path string) bool {
	raw, err := os.ReadFile(path + ".json")
	var want diskRecord
	if err != nil || json.Unmarshal(raw, &want) != nil {
		return false
	}
	info, err := os.Stat(path)
	if err != nil || info.Size() != want.Size {
		return false
	}
	d.mu.Lock()
	known := d.known[path]
	d.mu.Unlock()
	if known {
		return true
	}
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil || "sha256:"+hex.EncodeToString(sum.Sum(nil)) != want.Digest {
		return false
	}
	d.remember(path)
	return true
}

func (d *Disks) remember(path string) {
	d.mu.Lock()
	d.known[path] = true
	d.mu.Unlock()
}

// pull brings the manifest and its one layer, and keeps nothing that it refuses.
func (d *Disks) pull(ctx context.Context, cancel context.CancelCauseFunc, s source, path string, progress Progress) (err error) {
	idle := time.AfterFunc(d.puller.cfg.StallAfter, func() { cancel(errStalled) })
	defer idle.Stop()
	resolver := s.resolver()
	name, target, err := resolver.Resolve(ctx, s.ref())
	if err != nil {
		return err
	}
	fetcher, err := resolver.Fetcher(ctx, name)
	if err != nil {
		return err
	}
	layer, err := diskOf(ctx, fetcher, target)
	if err != nil {
		return err
	}
	if layer.Size > d.puller.cfg.Room() {
		return errNoRoom
	}
	part := path + ".part"
	if err := os.Remove(part); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove part of an image: %w", err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(part)
		}
	}()
	err = download(ctx, fetcher, layer, part, func(done int64) {
		idle.Reset(d.puller.cfg.StallAfter)
		if progress != nil {
			progress("pulling the image", int(done*100/max(1, layer.Size)))
		}
	})
	if err != nil {
		return err
	}
	idle.Stop()
	if err := d.check(part); err != nil {
		return err
	}
	raw, err := json.Marshal(diskRecord{layer.Digest.String(), layer.Size})
	if err != nil {
		return fmt.Errorf("encode image record: %w", err)
	}
	if err := os.WriteFile(path+".json", raw, 0o600); err != nil {
		return fmt.Errorf("write image record: %w", err)
	}
	if err := os.Rename(part, path); err != nil {
		return fmt.Errorf("keep image: %w", err)
	}
	d.remember(path)
	return nil
}

// diskOf reads a manifest that must be a VM image's.
func diskOf(ctx context.Context, fetcher remotes.Fetcher, target ocispec.Descriptor) (ocispec.Descriptor, error) {
	const most = 1 << 20
	body, err := fetcher.Fetch(ctx, target)
	if err != nil {
		return target, err
	}
	defer body.Close()
	raw, err := io.ReadAll(io.LimitReader(body, most+1))
	if err != nil {
		return target, err
	}
	if len(raw) > most || target.Digest.Validate() != nil || target.Digest.Algorithm().FromBytes(raw) != target.Digest {
		return target, refuse("the registry sent content that does not match its digest", nil)
	}
	var m ocispec.Manifest
	if err := json.Unmarshal(raw, &m); err != nil {
		return target, refuse("the image's manifest can't be read", err)
	}
	switch {
	case len(m.Layers) != 1, m.Layers[0].MediaType != nodewire.VMDiskMediaType:
		return target, refuse("it is not an image of a VM: one has a single layer of type "+nodewire.VMDiskMediaType, nil)
	case len(m.Layers[0].URLs) > 0:
		return target, refuse("the image's disk lies elsewhere", nil)
	case m.Layers[0].Digest.Validate() != nil || m.Layers[0].Size <= 0:
		return target, refuse("the image's manifest can't be read", nil)
	}
	return m.Layers[0], nil
}

// download writes a blob to a file; what is longer or other than announced fails.
func download(ctx context.Context, fetcher remotes.Fetcher, d ocispec.Descriptor, path string, moved func(int64)) error {
	body, err := fetcher.Fetch(ctx, d)
	if err != nil {
		return err
	}
	defer body.Close()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("make image file: %w", err)
	}
	sum := d.Digest.Algorithm().Hash()
	counted := &countingWriter{moved: moved}
	n, err := io.Copy(io.MultiWriter(f, sum, counted), io.LimitReader(body, d.Size+1))
	if err == nil {
		err = f.Chmod(0o644) // QEMU's own user reads it through a bind of it alone
	}
	if err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	if n != d.Size || !strings.HasSuffix(d.Digest.String(), hex.EncodeToString(sum.Sum(nil))) {
		return refuse("the registry sent content that does not match its digest", nil)
	}
	return nil
}

type countingWriter struct {
	n     int64
	moved func(int64)
	last  time.Time
}

func (w *countingWriter) Write(p []byte) (int, error) {
	w.n += int64(len(p))
	if now := time.Now(); now.Sub(w.last) > progressInterval {
		w.last = now
		w.moved(w.n)
	}
	return len(p), nil
}
