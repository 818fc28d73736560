package imagebuild

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// A VM's image is an OCI artifact: a manifest with one layer, the disk as it is.
// The types are those that nodes look for (package nodewire).
const (
	emptyConfig    types.MediaType = "application/vnd.oci.empty.v1+json"
	diskMediaType  types.MediaType = "application/vnd.tenon.vm.disk.v1+qcow2"
	vmArtifactType                 = "application/vnd.tenon.vm.image.v1"
)

// diskLayer is a qcow2 file as a layer.
type diskLayer struct {
	path string
	sum  v1.Hash
	size int64
}

func openDiskLayer(path string) (*diskLayer, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open disk: %w", err)
	}
	defer func() { _ = f.Close() }()
	sum, size, err := v1.SHA256(f)
	if err != nil {
		return nil, fmt.Errorf("read disk: %w", err)
	}
	return &diskLayer{path, sum, size}, nil
}

func (l *diskLayer) Digest() (v1.Hash, error)             { return l.sum, nil }
func (l *diskLayer) DiffID() (v1.Hash, error)             { return l.sum, nil }
func (l *diskLayer) Size() (int64, error)                 { return l.size, nil }
func (l *diskLayer) MediaType() (types.MediaType, error)  { return diskMediaType, nil }
func (l *diskLayer) Compressed() (io.ReadCloser, error)   { return os.Open(l.path) }
func (l *diskLayer) Uncompressed() (io.ReadCloser, error) { return os.Open(l.path) }

// rawManifest is a manifest that is pushed as it is.
type rawManifest []byte

func (m rawManifest) RawManifest() ([]byte, error)        { return m, nil }
func (m rawManifest) MediaType() (types.MediaType, error) { return types.OCIManifestSchema1, nil }

// PushDisk pushes a qcow2 file as a VM image and returns the manifest's digest.
func PushDisk(ctx context.Context, path string, annotations map[string]string, o Options) (string, error) {
	if o.Folder == "" {
		o.Folder = os.TempDir() // not used here
	}
	if err := o.fill(); err != nil {
		return "", err
	}
	ref, err := o.reference()
	if err != nil {
		return "", err
	}
	disk, err := openDiskLayer(path)
	if err != nil {
		return "", err
	}
	config := static.NewLayer([]byte("{}"), emptyConfig)
	configSum, err := config.Digest()
	if err != nil {
		return "", fmt.Errorf("compute digest: %w", err)
	}
	manifest, err := json.Marshal(v1.Manifest{
		SchemaVersion: 2, MediaType: types.OCIManifestSchema1, ArtifactType: vmArtifactType,
		Config:      v1.Descriptor{MediaType: emptyConfig, Digest: configSum, Size: 2},
		Layers:      []v1.Descriptor{{MediaType: diskMediaType, Digest: disk.sum, Size: disk.size}},
		Annotations: annotations,
	})
	if err != nil {
		return "", fmt.Errorf("encode manifest: %w", err)
	}
	updates := make(chan v1.Update, 16)
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		for u := range updates {
			if u.Error == nil {
				o.Progress("push to the registry", u.Complete, u.Total)
			}
		}
	}()
	err = remote.WriteLayer(ref.Context(), disk, append(o.remote(ctx), remote.WithProgress(updates))...)
	<-finished
	if err == nil {
		err = remote.WriteLayer(ref.Context(), config, o.remote(ctx)...)
	}
	if err == nil {
		err = remote.Put(ref, rawManifest(manifest), o.remote(ctx)...)
	}
	if err != nil {
		return "", fmt.Errorf("push %s: %w", o.Target, err)
	}
	sum, _, err := v1.SHA256(bytes.NewReader(manifest))
	return sum.String(), err
}

// presentDisk finds a VM image of this recipe at the target; empty: there is none.
func presentDisk(ctx context.Context, o Options) (string, error) {
	ref, err := o.reference()
	if err != nil {
		return "", err
	}
	got, err := remote.Get(ref, o.remote(ctx)...)
	if isNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("ask the registry for %s: %w", o.Target, err)
	}
	var m v1.Manifest
	if json.Unmarshal(got.Manifest, &m) != nil || m.Annotations[recipeLabel] != o.Image.Recipe(o.Suite) || len(m.Layers) != 1 {
		return "", nil
	}
	return got.Digest.String(), nil
}

// buildVM makes a VM image of a bootstrapped tree and pushes it.
func buildVM(ctx context.Context, o Options, work, tree string) (string, error) {
	disk, err := buildDisk(ctx, o, work, tree)
	if err != nil {
		return "", err
	}
	return PushDisk(ctx, disk, map[string]string{
		recipeLabel:                      o.Image.Recipe(o.Suite),
		"org.opencontainers.image.title": o.Image.Name,
	}, o)
}

// BuildDisk makes a VM image's disk as a file and pushes nothing.
func BuildDisk(ctx context.Context, o Options, path string) error {
	if o.Target == "" {
		o.Target = "none.invalid/none"
	}
	if o.Image.Name == "" {
		o.Image = DebianVM
	}
	if err := o.fill(); err != nil {
		return err
	}
	work, err := os.MkdirTemp(o.Folder, "image-build-")
	if err != nil {
		return fmt.Errorf("make build folder: %w", err)
	}
	defer func() { _ = os.RemoveAll(work) }()
	tree := filepath.Join(work, "tree")
	if err := bootstrap(ctx, o, tree); err != nil {
		return err
	}
	disk, err := buildDisk(ctx, o, work, tree)
	if err != nil {
		return err
	}
	if err := os.Rename(disk, path); err != nil {
		return fmt.Errorf("keep disk: %w", err)
	}
	return nil
}
