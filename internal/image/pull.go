package image

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/leases"
	"github.com/containerd/containerd/v2/core/remotes"
	"github.com/containerd/errdefs"
	"github.com/containerd/log"
	"github.com/containerd/platforms"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/sirupsen/logrus"

	"github.com/tenon-cloud/tenon/internal/nodewire"
)

// pull fetches, checks, unpacks and records one image.
func (p *Puller) pull(f *flight, key string, img nodewire.Image, secrets Secrets) (_ Image, err error) {
	source, err := p.source(img)
	if err != nil && img.Embedded {
		return Image{}, refuse("this node has no way to the cloud's registry", err)
	}
	if err != nil {
		return Image{}, refuse("the image reference can't be used: "+err.Error(), err)
	}
	if err := source.signIn(f.ctx, img, secrets); err != nil {
		return Image{}, explain(f.ctx, source, err)
	}
	ctx, release, err := p.client.WithLease(quiet(f.ctx)) // holds the parts until the record does
	if err != nil {
		return Image{}, fmt.Errorf("take image lease: %w", err)
	}
	defer func() {
		if err != nil {
			p.leaveNothing(ctx)
			return
		}
		_ = release(context.WithoutCancel(ctx))
	}()

	target, layers, err := p.fetch(ctx, f, source)
	if err == nil {
		err = checkDiffIDs(ctx, p.client.ContentStore(), target, layers)
	}
	if err != nil {
		return Image{}, explain(f.ctx, source, err)
	}
	f.setStep("unpacking")
	record := images.Image{Name: recordPrefix + key, Target: target, Labels: map[string]string{}}
	if _, err = p.client.ImageService().Create(ctx, record); errdefs.IsAlreadyExists(err) {
		_, err = p.client.ImageService().Update(ctx, record)
	}
	if err != nil {
		return Image{}, explain(f.ctx, source, fmt.Errorf("record image: %w", err))
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.drop(context.WithoutCancel(ctx), key))
		}
	}()
	unpacked := client.NewImageWithPlatform(p.client, record, platforms.Default())
	if err := unpacked.Unpack(ctx, snapshotter); err != nil {
		return Image{}, explain(f.ctx, source, &unpackError{fmt.Errorf("unpack: %w", err)})
	}
	if _, err := p.lower(ctx, key, unpacked); err != nil {
		return Image{}, err
	}
	record.Labels[readyLabel] = time.Now().UTC().Format(time.RFC3339)
	if _, err := p.client.ImageService().Update(ctx, record, "labels"); err != nil {
		return Image{}, fmt.Errorf("record image: %w", err)
	}
	return p.load(ctx, key)
}

// leaveNothing gives up what a refused image had brought, parts of blobs too, and
// waits until it is gone.
func (p *Puller) leaveNothing(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	id, ok := leases.FromContext(ctx)
	if !ok {
		return
	}
	p.abortParts(ctx, id)
	_ = p.client.LeasesService().Delete(ctx, leases.Lease{ID: id}, leases.SynchronousDelete)
}

// abortParts deletes the half-fetched blobs of a lease until it holds none: the
// store may still be closing one, and its garbage collector would give up on that.
func (p *Puller) abortParts(ctx context.Context, lease string) {
	const again = 20 * time.Millisecond
	for ctx.Err() == nil {
		held, err := p.client.LeasesService().ListResources(ctx, leases.Lease{ID: lease})
		failed := err != nil && !errdefs.IsNotFound(err)
		for _, r := range held {
			if r.Type != "ingests" {
				continue
			}
			err := p.client.ContentStore().Abort(ctx, r.ID)
			failed = failed || err != nil && !errdefs.IsNotFound(err)
		}
		if !failed {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(again):
		}
	}
}

// quiet drops the client library's own log lines: what went wrong is in the error.
func quiet(ctx context.Context) context.Context {
	l := logrus.New()
	l.SetOutput(io.Discard)
	return log.WithLogger(ctx, logrus.NewEntry(l))
}

// fetch brings every part of the image for this node's platform into the content
// store and scans its layers, which it returns by digest.
func (p *Puller) fetch(ctx context.Context, f *flight, s source) (ocispec.Descriptor, map[string]layer, error) {
	watched, stop := context.WithCancel(ctx)
	defer stop()
	go f.watch(watched, p.cfg.StallAfter)

	resolver := s.resolver()
	name, target, err := resolver.Resolve(ctx, s.ref())
	if err != nil {
		return target, nil, err
	}
	fetcher, err := resolver.Fetcher(ctx, name)
	if err != nil {
		return target, nil, err
	}
	var left budget
	left.room.Store(p.cfg.Room())
	check := shape{room: p.cfg.Room()}
	var mu sync.Mutex
	layers := map[string]layer{}
	store := p.client.ContentStore()
	counted := countingFetcher{fetcher, f}
	get := remotes.FetchHandler(orderly{store}, counted)
	matcher := platforms.Default()
	children := images.LimitManifests(images.FilterPlatforms(images.SetChildrenLabels(store, images.ChildrenHandler(store)), matcher), matcher, 1)
	handler := images.HandlerFunc(func(ctx context.Context, d ocispec.Descriptor) ([]ocispec.Descriptor, error) {
		if err := check.descriptor(d); err != nil {
			return nil, err
		}
		if _, err := get(ctx, d); err != nil {
			return nil, err
		}
		if err := prove(ctx, counted, d, s.anonymous); err != nil {
			return nil, err
		}
		f.complete(d.Digest.String(), d.Size)
		if images.IsLayerType(d.MediaType) {
			found, err := scanLayer(ctx, store, d, &left)
			if err != nil {
				return nil, err
			}
			f.complete(d.Digest.String(), d.Size) // checking a large layer is progress too
			mu.Lock()
			layers[d.Digest.String()] = found
			mu.Unlock()
			return nil, nil
		}
		subs, err := children(ctx, d)
		if err == nil {
			err = check.children(ctx, store, d, subs)
		} else if images.IsIndexType(d.MediaType) && errdefs.IsNotFound(err) {
			err = refuse("the image has no variant for "+platforms.DefaultString(), err)
		}
		for _, sub := range subs {
			if images.IsLayerType(sub.MediaType) || images.IsConfigType(sub.MediaType) {
				f.expect(sub.Digest.String(), sub.Size)
			}
		}
		return subs, err
	})
	if err := images.Dispatch(ctx, handler, nil, target); err != nil {
		return target, nil, err
	}
	return target, layers, nil
}
