package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/tenon-cloud/tenon/internal/agent/watchdog"
	"github.com/tenon-cloud/tenon/internal/hypervisor"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

// worker makes one instance so. Only its own goroutine touches the guest.
type worker struct {
	a    *Agent
	id   string
	log  *slog.Logger
	wake chan struct{}

	mu     sync.Mutex
	pub    published
	intent intent // that the present step serves
	cancel context.CancelFunc
	making bool               // the step is one that a new intent interrupts
	hurry  context.CancelFunc // the step waits for a guest to end by itself
	fails  failures
}

// intent is what a step depends on; when it changes the step is interrupted.
type intent struct {
	present    bool
	epoch      int64
	generation int64
	desired    string
	stray      bool
	fenced     bool
}

func (a *Agent) intentOf(s *state, id string) intent {
	w := s.want(id)
	_, stray := s.Strays[id]
	if w == nil {
		return intent{stray: stray}
	}
	return intent{true, w.Epoch, w.Generation, w.Desired, stray, a.contact.fenced(w)}
}

// published is what reports tell of an instance.
type published struct {
	known      bool
	epoch      int64
	generation int64
	state      string
	reason     string
	message    string
	progress   *int
	exitCode   *int
	lastLines  string
	address    string
	process    *watchdog.Process // of a guest without a control group of its own
	since      time.Time         // of state; monotonic
	runSince   time.Time         // of a running guest
	seen       time.Time         // when it was last seen to run
	ran        float64           // of an ended one, seconds
}

// failures are those of one step in a row.
type failures struct {
	count   int
	since   time.Time // when the step began, or last moved
	percent int       // how far it has come
}

// maxFailures ends a step whose attempts move a little and never get further.
const maxFailures = 8

func newWorker(a *Agent, id string) *worker {
	return &worker{a: a, id: id, log: a.log.With("instance", id), wake: make(chan struct{}, 1)}
}

// nudge asks for another look.
func (w *worker) nudge() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// poke wakes a worker whose intent is no longer the assignment's, and interrupts
// it if it is making what is no longer wanted. What ends a run goes on: to break
// off the giving back would only leave more to give back.
func (w *worker) poke(s *state) {
	now := w.a.intentOf(s, w.id)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.intent == now {
		return
	}
	if w.making && w.cancel != nil {
		w.cancel()
	}
	if w.hurry != nil && now.unwanted() {
		w.hurry()
	}
	w.nudge()
}

func (w *worker) run(ctx context.Context) {
	for ctx.Err() == nil {
		again, forgotten := w.once(ctx)
		if forgotten && w.retire() {
			return
		}
		w.rest(ctx, again)
	}
}

// rest waits for a wake, or the time to try again. After a failure only a new
// intent cuts the wait short: hints and the resync must not undo the back-off.
func (w *worker) rest(ctx context.Context, d time.Duration) {
	if d == 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			return
		case <-ctx.Done():
			return
		case <-w.wake:
			w.mu.Lock()
			failing, served := w.fails.count > 0, w.intent
			w.mu.Unlock()
			if !failing || w.a.intentOf(w.a.ledger.snapshot(), w.id) != served {
				return
			}
		}
	}
}

// retire ends the worker, unless the instance was assigned again meanwhile.
func (w *worker) retire() bool {
	w.a.mu.Lock()
	defer w.a.mu.Unlock()
	if _, ok := w.a.ledger.snapshot().Records[w.id]; ok {
		return false
	}
	delete(w.a.workers, w.id)
	w.a.metrics.drop(w.id)
	w.a.dirty()
	return true
}

// once takes one step; again is how long nothing need be done without a wake.
func (w *worker) once(ctx context.Context) (again time.Duration, forgotten bool) {
	step, cancel := context.WithCancel(ctx)
	defer cancel()
	w.mu.Lock()
	now := w.a.intentOf(w.a.ledger.snapshot(), w.id)
	if now != w.intent || w.fails.since.IsZero() {
		w.fails = failures{since: time.Now()}
	}
	w.intent, w.cancel = now, cancel
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		w.cancel, w.making = nil, false
		w.mu.Unlock()
	}()
	// Read after the intent is set: a change from here on interrupts the step.
	s := w.a.ledger.snapshot()
	if w.a.intentOf(s, w.id) != now {
		return 0, false
	}

	did, err := w.step(step, s)
	switch {
	case err == nil && did == actForget:
		return 0, true
	case err == nil:
		w.mu.Lock()
		w.fails = failures{}
		w.mu.Unlock()
		if did == actWatch || did == actIdle {
			return 24 * time.Hour, false // until a wake or the resync
		}
		return 0, false
	case step.Err() != nil, errors.Is(err, errSuperseded): // look again at once
		return 0, false
	}
	return w.failed(did, s, err), false
}

// lastProof is when the guest was last known to run: seen by this agent, or
// while the one before it lived.
func (w *worker) lastProof() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.pub.seen.After(w.a.proof) {
		return w.pub.seen
	}
	return w.a.proof
}

// step looks and does one thing.
func (w *worker) step(ctx context.Context, s *state) (action, error) {
	v := view{want: s.want(w.id), boot: w.a.cfg.Host.BootID, since: w.a.since, proof: w.lastProof(), booted: time.Now().Add(-w.a.contact.clock())}
	_, v.stray = s.Strays[w.id]
	v.fenced = w.a.contact.fenced(v.want)
	if rec, ok := s.Records[w.id]; ok {
		v.rec = &rec
	}
	if v.rec == nil {
		return actForget, nil
	}
	guest, err := w.look(ctx, v.rec.Kind)
	if err != nil {
		return actIdle, err
	}
	v.guest = guest
	did, end := decide(v)
	w.show(v, did)
	w.mu.Lock()
	w.making = did == actMake
	w.mu.Unlock()
	if w.a.intentOf(w.a.ledger.snapshot(), w.id) != w.a.intentOf(s, w.id) {
		return did, errSuperseded // it changed while we looked
	}
	switch did {
	case actMake:
		err = w.make(ctx, v)
	case actWatch:
		err = w.watch(v)
	case actRestart:
		err = w.restart(ctx, v)
	case actClear:
		err = w.clear(ctx, v)
	case actEnd:
		err = w.end(ctx, v, *end)
	case actFinish:
		err = w.finish(ctx, v)
	case actForget:
		err = w.forget(ctx, v)
	case actIdle:
	}
	return did, err
}

// look asks the engine for the guest.
func (w *worker) look(ctx context.Context, kind string) (*hypervisor.Guest, error) {
	d := w.a.driver(kind)
	if d == nil {
		return nil, nil //nolint:nilnil // no driver: no guest; make says why
	}
	list, err := w.a.guests[d.Name()].fresh(ctx)
	if err != nil {
		return nil, fmt.Errorf("list guests: %w", err)
	}
	if g, ok := list[w.id]; ok {
		return &g, nil
	}
	return nil, nil //nolint:nilnil // absent is an answer
}

// failed says when to try again, and ends a run that can't be made.
func (w *worker) failed(did action, s *state, err error) time.Duration {
	w.mu.Lock()
	w.fails.count++
	fails := w.fails
	w.mu.Unlock()
	var f *hypervisor.Failure
	if !errors.As(err, &f) {
		f = &hypervisor.Failure{Reason: nodewire.ReasonStart, Message: "the node could not take this step", Err: err}
	}
	if did == actMake && (f.Final || fails.count >= maxFailures || time.Since(fails.since) >= w.a.t.GiveUp) {
		w.log.Warn("instance failed", "reason", f.Reason, "error", err)
		want := s.want(w.id)
		endErr := w.writeEnd(want, ending{State: nodewire.GuestFailed, Reason: f.Reason, Message: f.Message})
		if endErr == nil {
			return 0
		}
		err = endErr
	}
	wait := min(w.a.t.MinBackoff<<min(fails.count-1, 10), w.a.t.MaxBackoff)
	wait = wait/2 + time.Duration(rand.Int64N(int64(wait/2)+1))
	w.log.Warn("step", "action", did, "error", err, "failures", fails.count, "retry_in", wait)
	w.change(func(p *published) {
		p.message = f.Message + "; trying again"
		if did == actMake {
			p.reason = f.Reason
		}
	})
	return wait
}

// change edits what is published, and reports it if it differs.
func (w *worker) change(edit func(*published)) {
	w.mu.Lock()
	before := w.pub
	edit(&w.pub)
	if (w.pub.state != before.state || w.pub.epoch != before.epoch) && w.pub.since.Equal(before.since) {
		w.pub.since = time.Now()
	}
	differs := w.pub.differs(before)
	w.mu.Unlock()
	if differs {
		w.a.dirty()
	}
}

func (p published) differs(o published) bool {
	percent := func(p *int) int {
		if p == nil {
			return -1
		}
		return *p
	}
	return p.known != o.known || p.state != o.state || p.epoch != o.epoch || p.generation != o.generation ||
		p.reason != o.reason || p.message != o.message || p.address != o.address || percent(p.progress) != percent(o.progress)
}
