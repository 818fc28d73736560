package containerd

import (
	"sync"
	"time"
)

// A log writer works outside its guest's limits, so it reads at a bounded pace;
// a guest that writes more waits at its own pipe.
const (
	logBytesPerSecond = 8 << 20
	logBurst          = 32 << 20
	logReadInterval   = 2 * time.Millisecond // least time between two reads of a stream
)

// pace is what the streams of one guest may still be read.
type pace struct {
	mu   sync.Mutex
	left float64
	at   time.Time
}

func newPace() *pace { return &pace{left: logBurst, at: time.Now()} }

// took says how long to wait after n bytes were read.
func (p *pace) took(n int) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.left = min(logBurst, p.left+now.Sub(p.at).Seconds()*logBytesPerSecond) - float64(n)
	p.at = now
	debt := time.Duration(-p.left / logBytesPerSecond * float64(time.Second))
	return max(logReadInterval, debt)
}
