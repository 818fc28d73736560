package image

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"sync/atomic"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/pkg/archive/compression"
	"github.com/containerd/platforms"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

var errNoRoom = errors.New("the unpacked layers are larger than the free space")

// layer is what a scan found out about one.
type layer struct {
	diffID digest.Digest // of what is unpacked from it
}

// Bounds of an image, beyond which it is made to do harm.
const (
	maxPadding     = 16 << 20  // may follow a layer's archive; tar itself pads to 10 KiB
	maxLayers      = 127       // what overlayfs can lie on each other
	maxEntries     = 2_000_000 // of all layers
	maxConfig      = 4 << 20
	maxManifest    = 4 << 20
	maxImage       = 1 << 40 // announced bytes of all layers
	unpackedRatio  = 200     // text packs to a twentieth, an archive of zeros to a thousandth
	unpackedAlways = 128 << 20
)

// budget is what all layers of one image may use together.
type budget struct {
	room    atomic.Int64 // bytes that the node has for what is unpacked
	entries atomic.Int64
}

// scanLayer reads a layer whole before anything is unpacked. It refuses entries
// that leave the layer's root, device nodes and bombs, and takes the files' sizes
// from the budget, while it reads and not after.
func scanLayer(ctx context.Context, store content.Provider, d ocispec.Descriptor, left *budget) (found layer, err error) {
	blob, err := store.ReaderAt(ctx, d)
	if err != nil {
		return found, fmt.Errorf("open layer: %w", err)
	}
	defer blob.Close()
	plain, err := compression.DecompressStream(content.NewReader(blob))
	if err != nil {
		return found, refuse("a layer is not in a known format", err)
	}
	defer plain.Close()
	sum := digest.Canonical.Digester()
	whole := &bounded{r: io.TeeReader(plain, sum.Hash()), left: unpackedMaximum(d.Size)}
	r := tar.NewReader(whole)
	for {
		if err := ctx.Err(); err != nil {
			return found, err
		}
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return found, archiveError("a layer is not a readable archive", err)
		}
		if err := left.take(h, unpackedMaximum(d.Size)); err != nil {
			return found, err
		}
	}
	switch n, err := io.CopyN(io.Discard, whole, maxPadding+1); {
	case err == nil:
		return found, refuse("a layer goes on after its archive", nil)
	case !errors.Is(err, io.EOF):
		return found, archiveError(fmt.Sprintf("a layer ends badly, %d bytes after its archive", n), err)
	}
	found.diffID = sum.Digest()
	return found, nil
}

// take refuses an entry, or counts it.
func (b *budget) take(h *tar.Header, maximum int64) error {
	leaves := !staysInside(h.Name) || h.Typeflag == tar.TypeLink && !staysInside(h.Linkname)
	// A 0:0 node is overlayfs's mark for a deleted file.
	device := h.Typeflag == tar.TypeBlock || h.Typeflag == tar.TypeChar && (h.Devmajor != 0 || h.Devminor != 0)
	switch {
	case leaves:
		return refuse(fmt.Sprintf("a layer holds the entry %q, which leaves the image's root", printable(h.Name)), nil)
	case device:
		return refuse(fmt.Sprintf("a layer holds the device node %q: a container's devices come from its flavor, never from its image", printable(h.Name)), nil)
	case b.entries.Add(1) > maxEntries:
		return refuse(fmt.Sprintf("the image has more than %d files", maxEntries), nil)
	case h.Size > maximum: // a sparse file says more than the archive holds
		return errBomb(maximum)
	case h.Size > 0 && b.room.Add(-h.Size) < 0:
		return errNoRoom
	}
	return nil
}

// bounded ends a stream that has unpacked to more than its layer may.
type bounded struct {
	r    io.Reader
	left int64
}

var errTooMuch = errors.New("unpacks to too much")

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errTooMuch
	}
	n, err := b.r.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}

// unpackedMaximum is how much a layer of a compressed size may unpack to.
func unpackedMaximum(compressed int64) int64 {
	return unpackedAlways + unpackedRatio*max(0, min(compressed, maxImage))
}

func errBomb(int64) error {
	return refuse(fmt.Sprintf("a layer unpacks to more than %d times its size, as only an archive made to fill a disk does", unpackedRatio), nil)
}

func archiveError(message string, err error) error {
	if errors.Is(err, errTooMuch) {
		return errBomb(0)
	}
	return refuse(message, err)
}

// checkDiffIDs refuses an image whose configuration names other layers than the
// manifest. Unpacked layers are found again by the configuration's word, whoever
// brought them, so a lie there would open another organisation's.
func checkDiffIDs(ctx context.Context, store content.Provider, target ocispec.Descriptor, layers map[string]layer) error {
	manifest, err := images.Manifest(ctx, store, target, platforms.Default())
	if err != nil {
		return fmt.Errorf("read manifest: %w", err)
	}
	named, err := images.RootFS(ctx, store, manifest.Config)
	if err != nil {
		return refuse("the image's configuration can't be read", err)
	}
	if len(named) != len(manifest.Layers) {
		return refuse(fmt.Sprintf("the image's configuration names %d layers, but its manifest %d", len(named), len(manifest.Layers)), nil)
	}
	for i, d := range manifest.Layers {
		if found, ok := layers[d.Digest.String()]; !ok || found.diffID != named[i] {
			return refuse(fmt.Sprintf("layer %d of the image is not the one that its configuration names", i+1), nil)
		}
	}
	return nil
}

// staysInside accepts a leading slash, which means the image's root.
func staysInside(name string) bool {
	name = strings.TrimLeft(name, "/")
	return name == "" || filepath.IsLocal(name)
}
