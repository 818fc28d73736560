// Package imagebuild makes Tenon's own images from Debian's packages alone (no
// image registry is needed) and pushes them to a registry.
//
//	debootstrap → tidy (no host keys, no traces of this host) → one layer → push
//
// Imports: go-containerregistry and the standard library; it runs debootstrap,
// so building needs root and Debian's package archive.
package imagebuild

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// recipeLabel marks an image with the recipe that made it, so that a second
// run can tell that there is nothing to do.
const recipeLabel = "io.tenon.recipe"

// Progress is told of each step as it moves; total is 0 while it is unknown.
type Progress func(step string, done, total int64)

// Options says what is built and where it goes.
type Options struct {
	Image     Image  // zero: Debian
	Suite     string // bookworm
	Mirror    string // Debian's archive
	Folder    string // where the build tree is made, and removed afterwards
	Target    string // host[:port]/repository:tag
	Insecure  bool   // the target speaks plain HTTP
	Token     string // password for the target; empty: none
	Progress  Progress
	Transport http.RoundTripper // nil: the default
}

func (o *Options) fill() error {
	if o.Image.Name == "" {
		o.Image = Debian
	}
	if o.Suite == "" {
		o.Suite = "bookworm"
	}
	if o.Mirror == "" {
		o.Mirror = "http://deb.debian.org/debian"
	}
	if o.Progress == nil {
		o.Progress = func(string, int64, int64) {}
	}
	if o.Transport == nil {
		o.Transport = remote.DefaultTransport
	}
	if o.Folder == "" || o.Target == "" {
		return errors.New("build image: a work folder and a target are needed")
	}
	return nil
}

// Ensure builds and pushes the image unless the target already holds one of
// this recipe. It returns the manifest's digest and whether it had to build.
func Ensure(ctx context.Context, o Options) (digest string, built bool, err error) {
	if err := o.fill(); err != nil {
		return "", false, err
	}
	if digest, err := present(ctx, o); err != nil || digest != "" {
		return digest, false, err
	}
	digest, err = Build(ctx, o)
	return digest, err == nil, err
}

// present asks the target for an image of this recipe; empty: there is none.
func present(ctx context.Context, o Options) (string, error) {
	if o.Image.Kind == "vm" {
		return presentDisk(ctx, o)
	}
	ref, err := o.reference()
	if err != nil {
		return "", err
	}
	img, err := remote.Image(ref, o.remote(ctx)...)
	if isNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("ask the registry for %s: %w", o.Target, err)
	}
	config, err := img.ConfigFile()
	if err != nil || config.Config.Labels[recipeLabel] != o.Image.Recipe(o.Suite) {
		return "", nil // another recipe, or a damaged one: built again
	}
	digest, err := img.Digest()
	if err != nil {
		return "", fmt.Errorf("read digest of %s: %w", o.Target, err)
	}
	return digest.String(), nil
}

func isNotFound(err error) bool {
	var answer *transport.Error
	return errors.As(err, &answer) && answer.StatusCode == http.StatusNotFound
}

// Build makes the image and pushes it. Its tree is removed however it ends.
func Build(ctx context.Context, o Options) (digest string, err error) {
	if err := o.fill(); err != nil {
		return "", err
	}
	if os.Geteuid() != 0 {
		return "", errors.New("build image: debootstrap needs root")
	}
	work, err := os.MkdirTemp(o.Folder, "image-build-")
	if err != nil {
		return "", fmt.Errorf("make build folder: %w", err)
	}
	defer func() {
		if cleanErr := os.RemoveAll(work); cleanErr != nil && err == nil {
			err = fmt.Errorf("remove build tree: %w", cleanErr)
		}
	}()
	tree := filepath.Join(work, "tree")
	if err := bootstrap(ctx, o, tree); err != nil {
		return "", err
	}
	if o.Image.Kind == "vm" {
		return buildVM(ctx, o, work, tree)
	}
	stamp, err := tidy(tree, o)
	if err != nil {
		return "", err
	}
	blob := filepath.Join(work, "layer.tar.gz")
	layer, err := pack(ctx, tree, blob, stamp, o.Progress)
	if err != nil {
		return "", err
	}
	img, err := assemble(layer, o, stamp)
	if err != nil {
		return "", err
	}
	return push(ctx, img, o)
}

func assemble(layer v1.Layer, o Options, stamp stampTime) (v1.Image, error) {
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	img, err := mutate.Append(base, mutate.Addendum{Layer: layer, MediaType: types.OCILayer,
		History: v1.History{CreatedBy: "tenond image build: debootstrap " + o.Suite, Created: v1.Time{Time: stamp}}})
	if err != nil {
		return nil, fmt.Errorf("append layer: %w", err)
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("read image configuration: %w", err)
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", debianArchitecture
	config.Created = v1.Time{Time: stamp}
	ports := map[string]struct{}{}
	for _, p := range o.Image.Ports {
		ports[p] = struct{}{}
	}
	config.Config = v1.Config{
		Env:          []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8"},
		Entrypoint:   []string{o.Image.Init},
		WorkingDir:   o.Image.WorkingDir,
		ExposedPorts: ports,
		Labels: map[string]string{
			recipeLabel:                          o.Image.Recipe(o.Suite),
			"org.opencontainers.image.title":     o.Image.Name,
			"org.opencontainers.image.base.name": "debootstrap/" + o.Suite,
		},
	}
	img, err = mutate.ConfigFile(img, config)
	if err != nil {
		return nil, fmt.Errorf("write image configuration: %w", err)
	}
	return img, nil
}

func push(ctx context.Context, img v1.Image, o Options) (string, error) {
	ref, err := o.reference()
	if err != nil {
		return "", err
	}
	digest, err := img.Digest()
	if err != nil {
		return "", fmt.Errorf("compute digest: %w", err)
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
	err = remote.Write(ref, img, append(o.remote(ctx), remote.WithProgress(updates))...)
	<-finished
	if err != nil {
		return "", fmt.Errorf("push %s: %w", o.Target, err)
	}
	return digest.String(), nil
}

func (o *Options) reference() (name.Reference, error) {
	var opts []name.Option
	if o.Insecure {
		opts = append(opts, name.Insecure)
	}
	ref, err := name.ParseReference(o.Target, opts...)
	if err != nil {
		return nil, fmt.Errorf("read target: %w", err)
	}
	return ref, nil
}

func (o *Options) remote(ctx context.Context) []remote.Option {
	auth := authn.Anonymous
	if o.Token != "" {
		auth = &authn.Basic{Username: "tenon", Password: o.Token}
	}
	return []remote.Option{remote.WithContext(ctx), remote.WithAuth(auth), remote.WithTransport(o.Transport)}
}
