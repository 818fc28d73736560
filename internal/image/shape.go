package image

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/platforms"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// shape refuses what is no container image that this node can run, by what its
// manifests say, before the blobs they name are asked for.
type shape struct {
	room int64

	mu        sync.Mutex
	manifests int
}

// maxManifests is an index, the manifest that it leads to, and some air.
const maxManifests = 4

// descriptor refuses a part by its kind and its announced size.
func (s *shape) descriptor(d ocispec.Descriptor) error {
	switch {
	case d.Size < 0:
		return refuse("the image names a part of a negative size", nil)
	case images.IsManifestType(d.MediaType), images.IsIndexType(d.MediaType):
		s.mu.Lock()
		s.manifests++
		n := s.manifests
		s.mu.Unlock()
		if n > maxManifests {
			return refuse("the image is an index of indexes of indexes", nil)
		}
		if d.Size > maxManifest {
			return refuse(fmt.Sprintf("the image's manifest has %d bytes; at most %d are read", d.Size, maxManifest), nil)
		}
	case images.IsConfigType(d.MediaType):
		if d.Size > maxConfig {
			return refuse(fmt.Sprintf("the image's configuration has %d bytes; at most %d are read", d.Size, maxConfig), nil)
		}
	case len(d.URLs) > 0, isForeign(d.MediaType):
		return refuse("a layer of the image lies elsewhere than in its registry, and is not fetched from there", nil)
	case !images.IsLayerType(d.MediaType):
		return refuse(fmt.Sprintf("the image has a part of the kind %q, which no container is made of", printable(d.MediaType)), nil)
	}
	return nil
}

func isForeign(mediaType string) bool {
	return strings.Contains(mediaType, ".foreign.") || strings.Contains(mediaType, ".nondistributable.")
}

// children refuses a manifest by what it leads to.
func (s *shape) children(ctx context.Context, store content.Provider, d ocispec.Descriptor, subs []ocispec.Descriptor) error {
	switch {
	case images.IsIndexType(d.MediaType) && len(subs) == 0:
		return refuse("the image has no variant for "+platforms.DefaultString(), nil)
	case !images.IsManifestType(d.MediaType):
		return nil
	}
	raw, err := content.ReadBlob(ctx, store, d)
	if err != nil {
		return fmt.Errorf("read manifest: %w", err)
	}
	var m ocispec.Manifest
	if err := json.Unmarshal(raw, &m); err != nil {
		return refuse("the image's manifest can't be read", err)
	}
	if !images.IsConfigType(m.Config.MediaType) {
		return refuse(fmt.Sprintf("it is not a container image: its configuration is of the kind %q", printable(m.Config.MediaType)), nil)
	}
	if len(m.Layers) > maxLayers {
		return refuse(fmt.Sprintf("the image has %d layers; at most %d can lie on each other", len(m.Layers), maxLayers), nil)
	}
	var announced int64
	for _, l := range m.Layers {
		if l.Size < 0 || l.Size > maxImage || announced > maxImage {
			return refuse("the image announces layers of an impossible size", nil)
		}
		announced += l.Size
		if err := s.descriptor(l); err != nil {
			return err
		}
	}
	if announced > s.room {
		return errNoRoom
	}
	return nil
}
