package agent

import (
	"context"
	"runtime"
	"sync"
	"time"
)

// joined shares one slow reading among those who ask for it meanwhile: a reading
// answers only askers who came before it began, so nobody gets an old answer.
type joined[T any] struct {
	read    func(context.Context) (T, error)
	timeout time.Duration

	mu      sync.Mutex
	waiting *reading[T]
	busy    bool
}

type reading[T any] struct {
	done  chan struct{}
	value T
	err   error
}

// fresh is a reading that began after the call did.
func (j *joined[T]) fresh(ctx context.Context) (T, error) { return j.ask().wait(ctx) }

// ask joins the next reading, for those who need several.
func (j *joined[T]) ask() *reading[T] {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.waiting == nil {
		j.waiting = &reading[T]{done: make(chan struct{})}
	}
	r := j.waiting
	if !j.busy {
		j.busy = true
		go j.serve()
	}
	return r
}

func (r *reading[T]) wait(ctx context.Context) (T, error) {
	select {
	case <-r.done:
		return r.value, r.err
	case <-ctx.Done():
		var zero T
		return zero, ctx.Err()
	}
}

func (j *joined[T]) serve() {
	for {
		runtime.Gosched() // whoever was woken at the same moment asks first
		j.mu.Lock()
		r := j.waiting
		j.waiting = nil
		if r == nil {
			j.busy = false
			j.mu.Unlock()
			return
		}
		j.mu.Unlock()
		ctx, cancel := context.WithTimeout(context.Background(), j.timeout)
		r.value, r.err = j.read(ctx)
		cancel()
		close(r.done)
	}
}
