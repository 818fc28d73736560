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
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

var errNoRoom = errors.New("the unpacked layers are larger than the free space")

// scanLayer reads a layer's table of contents before anything is unpacked. It
// refuses entries that leave the layer's root, takes the files' sizes from room,
// which all layers of an image share, and returns the device nodes.
func scanLayer(ctx context.Context, store content.Provider, d ocispec.Descriptor, room *atomic.Int64) (devices []string, err error) {
	blob, err := store.ReaderAt(ctx, d)
	if err != nil {
		return nil, fmt.Errorf("open layer: %w", err)
	}
	defer blob.Close()
	plain, err := compression.DecompressStream(content.NewReader(blob))
	if err != nil {
		return nil, refuse("a layer is not in a known format", err)
	}
	defer plain.Close()
	r := tar.NewReader(plain)
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return devices, nil
		}
		if err != nil {
			return nil, refuse("a layer is not a readable archive", err)
		}
		if !staysInside(h.Name) || (h.Typeflag == tar.TypeLink && !staysInside(h.Linkname)) {
			return nil, refuse(fmt.Sprintf("a layer holds the entry %q, which leaves the image's root", printable(h.Name)), nil)
		}
		if h.Typeflag == tar.TypeReg && room.Add(-h.Size) < 0 {
			return nil, errNoRoom
		}
		if h.Typeflag == tar.TypeChar || h.Typeflag == tar.TypeBlock {
			devices = append(devices, h.Name)
		}
	}
}

// staysInside accepts a leading slash, which means the image's root.
func staysInside(name string) bool {
	name = strings.TrimLeft(name, "/")
	return name == "" || filepath.IsLocal(name)
}

// stripDevices removes the device nodes that layers brought. A 0:0 node is
// overlayfs's mark for a deleted file and stays.
func stripDevices(ctx context.Context, img client.Image, lower []string, devices map[string][]string) error {
	manifest, err := images.Manifest(ctx, img.ContentStore(), img.Target(), img.Platform())
	if err != nil {
		return fmt.Errorf("read manifest: %w", err)
	}
	if len(manifest.Layers) != len(lower) {
		return fmt.Errorf("unpack: %d layers became %d", len(manifest.Layers), len(lower))
	}
	for i, layer := range manifest.Layers {
		root, err := os.OpenRoot(lower[len(lower)-1-i]) // the manifest begins at the bottom
		if err != nil {
			return fmt.Errorf("open unpacked layer: %w", err)
		}
		for _, name := range devices[layer.Digest.String()] {
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
