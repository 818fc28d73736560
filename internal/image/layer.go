package image

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/containerd/containerd/v2/client"
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
	diffID  digest.Digest // of what is unpacked from it
	devices []string      // the device nodes that it brings
}

// maxPadding is how much may follow a layer's archive; tar itself pads to 10 KiB.
const maxPadding = 16 << 20

// scanLayer reads a layer whole before anything is unpacked. It refuses entries
// that leave the layer's root and takes the files' sizes from room, which all
// layers of an image share.
func scanLayer(ctx context.Context, store content.Provider, d ocispec.Descriptor, room *atomic.Int64) (found layer, err error) {
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
	whole := io.TeeReader(plain, sum.Hash())
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
			return found, refuse("a layer is not a readable archive", err)
		}
		if !staysInside(h.Name) || (h.Typeflag == tar.TypeLink && !staysInside(h.Linkname)) {
			return found, refuse(fmt.Sprintf("a layer holds the entry %q, which leaves the image's root", printable(h.Name)), nil)
		}
		if h.Size > 0 && room.Add(-h.Size) < 0 {
			return found, errNoRoom
		}
		if h.Typeflag == tar.TypeChar || h.Typeflag == tar.TypeBlock {
			found.devices = append(found.devices, h.Name)
		}
	}
	switch n, err := io.CopyN(io.Discard, whole, maxPadding+1); {
	case err == nil:
		return found, refuse("a layer goes on after its archive", nil)
	case !errors.Is(err, io.EOF):
		return found, refuse(fmt.Sprintf("a layer ends badly, %d bytes after its archive", n), err)
	}
	found.diffID = sum.Digest()
	return found, nil
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

// stripDevices removes the device nodes that layers brought. A 0:0 node is
// overlayfs's mark for a deleted file and stays.
func stripDevices(ctx context.Context, img client.Image, lower []string, layers map[string]layer) error {
	manifest, err := images.Manifest(ctx, img.ContentStore(), img.Target(), img.Platform())
	if err != nil {
		return fmt.Errorf("read manifest: %w", err)
	}
	if len(manifest.Layers) != len(lower) {
		return fmt.Errorf("unpack: %d layers became %d", len(manifest.Layers), len(lower))
	}
	for i, d := range manifest.Layers {
		root, err := os.OpenRoot(lower[len(lower)-1-i]) // the manifest begins at the bottom
		if err != nil {
			return fmt.Errorf("open unpacked layer: %w", err)
		}
		for _, name := range layers[d.Digest.String()].devices {
			name = strings.TrimLeft(filepath.Clean(name), "/")
			info, err := root.Lstat(name)
			if err != nil {
				continue // a later entry of the same layer replaced it
			}
			if isDevice(info) {
				if err := root.Remove(name); err != nil {
					root.Close()
					return fmt.Errorf("strip device node %q: %w", name, err)
				}
			}
		}
		root.Close()
	}
	return nil
}

func isDevice(info os.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && info.Mode()&os.ModeDevice != 0 && st.Rdev != 0
}
