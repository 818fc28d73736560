package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/spf13/cobra"

	"github.com/tenon-cloud/tenon/api"
)

// A VM's image in a registry is an artifact of one layer: the disk as it is.
const (
	vmImageType  = "application/vnd.tenon.vm.image.v1"
	vmDiskType   = types.MediaType("application/vnd.tenon.vm.disk.v1+qcow2")
	vmConfigType = types.MediaType("application/vnd.oci.empty.v1+json")
)

func (a *app) imageUpload() *cobra.Command {
	var in api.ImageCreate
	var to string
	cmd := &cobra.Command{
		Use: "upload NAME FILE.qcow2", Short: "Upload a disk and add it as an image for VMs", Args: cobra.ExactArgs(2),
		Long: `Upload a qcow2 disk to the cloud's own registry and add it as an image for
virtual machines. The disk must boot by itself with a BIOS, and should have
cloud-init, which sets its host name, keys and network. A disk that is based on
another file, or keeps its data in one, is refused: flatten it with qemu-img convert.`,
		Example: "  tenon image upload debian-vm disk.qcow2",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkDisk(args[1]); err != nil {
				return err
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			if to == "" {
				me, err := c.Me(cmd.Context())
				if err != nil {
					return err
				}
				to = me.Organisation.Name + "/" + a.projectName() + "/" + args[0] + ":latest"
			}
			in.Name, in.Ref, in.Kind = args[0], to, "vm"
			if err := a.pushDisk(cmd.Context(), c, to, args[1]); err != nil {
				return err
			}
			made, err := c.ImageCreate(cmd.Context(), in, api.IdempotencyKey(randomKey()))
			if err != nil {
				return err
			}
			if a.output != "table" {
				return a.print(made, nil)
			}
			return a.printImages([]api.Image{*made})
		},
	}
	cmd.Flags().StringVar(&in.Description, "description", "", "what it is")
	cmd.Flags().StringVar(&to, "to", "", "repository and tag in the cloud's registry; by default ORGANISATION/PROJECT/NAME:latest")
	cmd.Flags().BoolVar(&in.Offered, "offered", false, "offer it to every organisation (operators)")
	return cmd
}

// diskLayer is a file as a layer of an image.
type diskLayer struct {
	path string
	sum  v1.Hash
	size int64
}

func (l *diskLayer) Digest() (v1.Hash, error)             { return l.sum, nil }
func (l *diskLayer) DiffID() (v1.Hash, error)             { return l.sum, nil }
func (l *diskLayer) Size() (int64, error)                 { return l.size, nil }
func (l *diskLayer) MediaType() (types.MediaType, error)  { return vmDiskType, nil }
func (l *diskLayer) Compressed() (io.ReadCloser, error)   { return os.Open(l.path) }
func (l *diskLayer) Uncompressed() (io.ReadCloser, error) { return os.Open(l.path) }

// diskManifest is pushed as it is.
type diskManifest []byte

func (m diskManifest) RawManifest() ([]byte, error)        { return m, nil }
func (m diskManifest) MediaType() (types.MediaType, error) { return types.OCIManifestSchema1, nil }

func (a *app) pushDisk(ctx context.Context, c *api.Client, to, path string) error {
	base, err := url.Parse(c.BaseURL)
	if err != nil {
		return fmt.Errorf("read the cloud's address: %w", err)
	}
	var insecure []name.Option
	if base.Scheme == "http" {
		insecure = append(insecure, name.Insecure)
	}
	ref, err := name.ParseReference(base.Host+"/"+to, insecure...)
	if err != nil {
		return fmt.Errorf("%s is not a repository with a tag: %w", to, err)
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	sum, size, err := v1.SHA256(f)
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	config := static.NewLayer([]byte("{}"), vmConfigType)
	configSum, err := config.Digest()
	if err != nil {
		return err
	}
	manifest, err := json.Marshal(v1.Manifest{
		SchemaVersion: 2, MediaType: types.OCIManifestSchema1, ArtifactType: vmImageType,
		Config: v1.Descriptor{MediaType: vmConfigType, Digest: configSum, Size: 2},
		Layers: []v1.Descriptor{{MediaType: vmDiskType, Digest: sum, Size: size}},
	})
	if err != nil {
		return err
	}
	options := []remote.Option{
		remote.WithContext(ctx), remote.WithAuth(&authn.Basic{Username: "token", Password: c.Token}), remote.WithTransport(c.HTTP.Transport), remote.WithUserAgent(c.UserAgent),
	}
	updates := make(chan v1.Update, 16)
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		p := a.newProgress("Uploading")
		for u := range updates {
			if u.Error == nil && u.Total > 0 {
				p.show(u.Complete, u.Total)
			}
		}
		p.close()
	}()
	err = remote.WriteLayer(ref.Context(), &diskLayer{path, sum, size}, append(options, remote.WithProgress(updates))...)
	<-finished
	if err == nil {
		err = remote.WriteLayer(ref.Context(), config, options...)
	}
	if err == nil {
		err = remote.Put(ref, diskManifest(manifest), options...)
	}
	if err != nil {
		return fmt.Errorf("push %s: %w", strings.TrimPrefix(ref.String(), base.Host+"/"), err)
	}
	return nil
}
