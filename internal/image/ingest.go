package image

import (
	"context"
	"time"

	"github.com/containerd/containerd/v2/core/content"
)

// closeGrace is how long a blob's writer may take to be opened and closed in an
// orderly way after its fetch was given up; a store that is slower is cut off.
const closeGrace = 10 * time.Second

// orderly opens writers that outlive their fetch's context by closeGrace. A fetch
// given up while its writer was being opened would leave the store to make the
// half-fetched blob after everything of the image had been deleted.
type orderly struct{ content.Ingester }

func (o orderly) Writer(ctx context.Context, opts ...content.WriterOpt) (content.Writer, error) {
	open, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(closeGrace, cancel) })
	w, err := o.Ingester.Writer(open, opts...)
	if err != nil {
		stop()
		cancel()
		return nil, err
	}
	return orderlyWriter{w, func() { stop(); cancel() }}, nil
}

type orderlyWriter struct {
	content.Writer
	release func()
}

func (w orderlyWriter) Close() error {
	err := w.Writer.Close()
	w.release()
	return err
}
