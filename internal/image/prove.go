package image

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/containerd/containerd/v2/core/remotes"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// prove makes a source show that it holds a blob which lies on the node already,
// from another: a digest is no secret, and whoever knows one could have an image
// of another organisation's content. The embedded registry answers for its
// repositories; what another says counts for nothing, so it sends the blob again.
func prove(ctx context.Context, from countingFetcher, d ocispec.Descriptor, whole bool) error {
	if from.flight.isProven(d.Digest) {
		return nil
	}
	body, err := from.Fetch(ctx, d)
	if err != nil {
		return err
	}
	defer body.Close()
	if !whole {
		_, err := io.ReadFull(body, make([]byte, min(1, d.Size)))
		return err
	}
	if _, err := io.Copy(io.Discard, body); err != nil {
		return err
	}
	if !from.flight.isProven(d.Digest) {
		return refuse("the registry sent content that does not match its digest", nil)
	}
	return nil
}

// countingFetcher reports each byte, refuses more than was announced and notes
// what came whole.
type countingFetcher struct {
	remotes.Fetcher
	flight *flight
}

func (c countingFetcher) Fetch(ctx context.Context, d ocispec.Descriptor) (io.ReadCloser, error) {
	if err := d.Digest.Validate(); err != nil {
		return nil, refuse(fmt.Sprintf("the image names the digest %q, which is none", printable(d.Digest.String())), err)
	}
	d.URLs = nil // a manifest does not send the node elsewhere
	body, err := c.Fetcher.Fetch(ctx, d)
	if err != nil {
		return nil, err
	}
	return &countingBody{ReadCloser: body, flight: c.flight, digest: d.Digest, left: d.Size, sum: d.Digest.Algorithm().Digester()}, nil
}

// countingBody can't seek, so every reader of it has seen it from the beginning.
type countingBody struct {
	io.ReadCloser
	flight *flight
	digest digest.Digest
	left   int64
	sum    digest.Digester
}

func (b *countingBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if n > 0 {
		b.flight.arrived(b.digest.String(), int64(n))
		b.sum.Hash().Write(p[:n])
	}
	if b.left -= int64(n); b.left < 0 {
		return 0, fmt.Errorf("the registry sent more than the %s that it announced", strings.TrimPrefix(b.digest.String(), "sha256:")[:12])
	}
	if n > 0 && b.left == 0 && b.sum.Digest() == b.digest {
		b.flight.prove(b.digest)
	}
	return n, err
}
