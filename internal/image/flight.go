package image

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/opencontainers/go-digest"
)

var (
	errStalled   = errors.New("the registry sent nothing for too long")
	errAbandoned = errors.New("nobody waits for this image any more")
)

// progressInterval is how often waiters hear of a pull.
const progressInterval = 250 * time.Millisecond

// flight is one pull that several guests may wait for.
type flight struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	done   chan struct{}

	mu      sync.Mutex
	waiters int
	image   Image
	err     error
	step    string
	total   map[string]int64 // bytes by digest, layers and configuration
	have    map[string]int64
	moved   time.Time // when the last byte came
	proven  map[digest.Digest]bool
}

func newFlight() *flight {
	ctx, cancel := context.WithCancelCause(context.Background())
	return &flight{ctx: ctx, cancel: cancel, done: make(chan struct{}), total: map[string]int64{}, have: map[string]int64{}, proven: map[digest.Digest]bool{}, moved: time.Now()}
}

// join adds a waiter; the returned function takes it away and says whether that
// ended the pull.
func (f *flight) join() func() bool {
	f.mu.Lock()
	f.waiters++
	f.mu.Unlock()
	return func() bool {
		f.mu.Lock()
		f.waiters--
		last := f.waiters == 0
		f.mu.Unlock()
		if last {
			f.cancel(errAbandoned)
		}
		return last
	}
}

func (f *flight) finish(img Image, err error) {
	f.mu.Lock()
	f.image, f.err = img, err
	f.mu.Unlock()
	f.cancel(nil)
	close(f.done)
}

func (f *flight) wait(ctx context.Context, progress Progress) (Image, error) {
	tick := time.NewTicker(progressInterval)
	defer tick.Stop()
	for {
		select {
		case <-f.done:
			return f.image, f.err
		case <-ctx.Done():
			return Image{}, context.Cause(ctx)
		case <-tick.C:
			if progress != nil {
				progress(f.progress())
			}
		}
	}
}

func (f *flight) expect(digest string, size int64) {
	f.mu.Lock()
	f.total[digest] = size
	f.mu.Unlock()
}

func (f *flight) arrived(digest string, n int64) {
	f.mu.Lock()
	f.have[digest] += n
	f.moved = time.Now()
	f.mu.Unlock()
}

// prove notes that the source has sent the whole of a blob.
func (f *flight) prove(d digest.Digest) {
	f.mu.Lock()
	f.proven[d] = true
	f.mu.Unlock()
}

func (f *flight) isProven(d digest.Digest) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.proven[d]
}

// complete counts a blob that was here already, or ended.
func (f *flight) complete(digest string, size int64) {
	f.mu.Lock()
	f.have[digest] = size
	f.moved = time.Now()
	f.mu.Unlock()
}

// moves is how far a pull has come: what arrived, how many blobs are whole, and
// whether any is still to come.
type moves struct {
	bytes int64
	whole int
	waits bool
}

func (f *flight) progressed() (m moves) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for digest, size := range f.total {
		m.bytes += f.have[digest]
		if f.have[digest] >= size {
			m.whole++
		} else {
			m.waits = true
		}
	}
	return m
}

func (f *flight) setStep(step string) {
	f.mu.Lock()
	f.step = step
	f.moved = time.Now()
	f.mu.Unlock()
}

func (f *flight) progress() (string, int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var total, have int64
	for digest, size := range f.total {
		total += size
		have += min(size, f.have[digest])
	}
	if f.step != "" {
		return f.step, 100
	}
	if total == 0 {
		return "asking the registry", -1
	}
	return fmt.Sprintf("%.1f of %.1f MB", float64(have)/1e6, float64(total)/1e6), int(100 * have / total)
}

// A registry that sends a byte now and then has stalled as well: so many must
// come in crawlWindows times the limit.
const (
	crawlWindows = 4
	crawlBytes   = 16 << 10
)

// watch ends the pull when no byte came for limit, or next to none in a few
// times the limit; a slow one goes on.
func (f *flight) watch(ctx context.Context, limit time.Duration) {
	tick := time.NewTicker(limit / 20)
	defer tick.Stop()
	began, had := time.Now(), f.progressed()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			f.mu.Lock()
			idle := time.Since(f.moved)
			f.mu.Unlock()
			if idle > limit {
				f.cancel(errStalled)
				return
			}
			if time.Since(began) > crawlWindows*limit {
				now := f.progressed()
				if now.waits && now.bytes-had.bytes < crawlBytes && now.whole == had.whole {
					f.cancel(errStalled)
					return
				}
				began, had = time.Now(), now
			}
		}
	}
}
