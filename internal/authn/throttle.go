package authn

import (
	"math"
	"sync"
	"time"

	"github.com/tenon-cloud/tenon/internal/cloud"
)

const (
	throttleFree    = 5 // failures before the first wait
	throttleMax     = 15 * time.Minute
	throttleForget  = time.Hour
	throttleEntries = 20_000
)

// Throttle slows down guessing at one account from one address: after five
// failures each further try must wait twice as long as the one before. It is
// in memory, per process.
type Throttle struct {
	now func() time.Time
	mu  sync.Mutex
	of  map[throttleKey]*throttled
}

type throttleKey struct{ email, address string }

type throttled struct {
	failures int
	until    time.Time
	last     time.Time
}

// NewThrottle makes an empty one.
func NewThrottle(now func() time.Time) *Throttle {
	return &Throttle{now: now, of: map[throttleKey]*throttled{}}
}

// Allow says whether a try may be made now, and counts it as a failure until
// Succeeded takes that back, so that tries at the same moment count too.
func (t *Throttle) Allow(email, address string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	key := throttleKey{email, address}
	e := t.of[key]
	if e == nil || now.Sub(e.last) > throttleForget {
		if len(t.of) >= throttleEntries {
			t.sweep(now)
		}
		e = &throttled{}
		t.of[key] = e
	}
	if wait := e.until.Sub(now); wait > 0 {
		seconds := int(math.Ceil(wait.Seconds()))
		return cloud.E(cloud.KindRateLimited, "too_many_sign_ins", "too many failed sign-ins for this e-mail from this address").
			WithHint("try again in %d s", seconds).With("retry_after_seconds", seconds)
	}
	e.failures++
	e.last = now
	if over := e.failures - throttleFree; over >= 0 {
		e.until = now.Add(min(time.Second<<min(over, 20), throttleMax))
	}
	return nil
}

// Succeeded forgets the failures of one who has signed in.
func (t *Throttle) Succeeded(email, address string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.of, throttleKey{email, address})
}

// sweep drops what is over; when all are live, it drops arbitrary ones, since
// memory must stay bounded.
func (t *Throttle) sweep(now time.Time) {
	for k, e := range t.of {
		if now.Sub(e.last) > throttleForget {
			delete(t.of, k)
		}
	}
	for k := range t.of {
		if len(t.of) < throttleEntries*9/10 {
			return
		}
		delete(t.of, k)
	}
}
