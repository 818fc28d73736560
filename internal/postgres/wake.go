package postgres

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tenon-cloud/tenon/internal/cloud"
)

// Topics that a commit can wake. They carry no facts: whoever is woken looks at
// the rows, and a wake-up that is lost costs one interval.
const (
	TopicSchedule  = "schedule"  // something is queued, or room was made
	TopicLifecycle = "lifecycle" // a node has reported, or an intent has changed
	TopicMeter     = "meter"     // an instance has new events
)

// TopicNode wakes whoever holds the node's connections: its assignment changed.
func TopicNode(id cloud.NodeID) string { return "node:" + id.String() }

// TopicChange wakes the streams of a project: it has new events.
func TopicChange(id cloud.ProjectID) string { return "change:" + id.String() }

const (
	wakeChannel  = "tenon_wake"
	wakeEvery    = 10 * time.Millisecond // a dirty topic is notified at most this often
	wakeAll      = "*"                   // stands for every topic
	wakeDirtyMax = 4096                  // beyond this many dirty topics, all are woken
	wakePayload  = 7000                  // bytes; Postgres refuses 8000
	wakeRetryMin = 50 * time.Millisecond
	wakeRetryMax = 2 * time.Second
)

// wakes carries wake-ups between commits and the loops and streams of every
// process (decision 3). NOTIFY inside a transaction serialises all commits, so
// transactions only mark topics after they have committed:
//
//	commit ─► mark ─► local subscribers, at once
//	             └──► dirty set ─► sender ─► NOTIFY ─► listener of each other process ─► its subscribers
//
// One sender and one listener a process; a subscriber's channel holds one token,
// so a slow one costs nothing.
type wakes struct {
	connect func(context.Context) (*pgx.Conn, error)
	log     *slog.Logger
	origin  string // tells our own notifications, which were delivered already

	mu    sync.Mutex
	subs  map[string]map[chan struct{}]struct{}
	dirty map[string]struct{}
	kick  chan struct{}

	stop    context.CancelFunc
	stopped sync.WaitGroup
	ready   chan struct{} // closed once the listener has been up
	readied sync.Once
}

// newWakes starts the sender and the listener; each dials a connection of its
// own, so that a full pool delays nothing. close ends them.
func newWakes(connect func(context.Context) (*pgx.Conn, error), log *slog.Logger) *wakes {
	var id [6]byte
	_, _ = rand.Read(id[:])
	ctx, stop := context.WithCancel(context.Background())
	w := &wakes{
		connect: connect, log: log, origin: hex.EncodeToString(id[:]),
		subs: map[string]map[chan struct{}]struct{}{}, dirty: map[string]struct{}{},
		kick: make(chan struct{}, 1), stop: stop, ready: make(chan struct{}),
	}
	w.stopped.Go(func() { w.keep(ctx, "listen for wake-ups", w.listen) })
	w.stopped.Go(func() { w.keep(ctx, "send wake-ups", w.send) })
	return w
}

func (w *wakes) close() {
	w.stop()
	w.stopped.Wait()
}

// Wakes subscribes to a topic. The channel holds one token at most; the
// function ends the subscription.
func (db *DB) Wakes(topic string) (<-chan struct{}, func()) { return db.wakes.subscribe(topic) }

// WakesReady is closed once wake-ups of other processes can arrive.
func (db *DB) WakesReady() <-chan struct{} { return db.wakes.ready }

func (w *wakes) subscribe(topic string) (<-chan struct{}, func()) {
	ch := make(chan struct{}, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.subs[topic] == nil {
		w.subs[topic] = map[chan struct{}]struct{}{}
	}
	w.subs[topic][ch] = struct{}{}
	return ch, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.subs[topic], ch)
		if len(w.subs[topic]) == 0 {
			delete(w.subs, topic)
		}
	}
}

// mark tells of committed changes; it never waits.
func (w *wakes) mark(topics ...string) {
	if len(topics) == 0 {
		return
	}
	w.mu.Lock()
	for _, t := range topics {
		w.deliver(t)
		w.dirty[t] = struct{}{}
	}
	if len(w.dirty) > wakeDirtyMax {
		clear(w.dirty)
		w.dirty[wakeAll] = struct{}{}
	}
	w.mu.Unlock()
	select {
	case w.kick <- struct{}{}:
	default:
	}
}

// deliver gives each subscriber its token; w.mu is held.
func (w *wakes) deliver(topic string) {
	if topic == wakeAll {
		for t := range w.subs {
			w.deliver(t)
		}
		return
	}
	for ch := range w.subs[topic] {
		select {
		case ch <- struct{}{}:
		default:
		}
	}
}

func (w *wakes) wakeEveryone() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.deliver(wakeAll)
}

// keep runs a session over and over, with a growing pause after each failure.
func (w *wakes) keep(ctx context.Context, what string, session func(context.Context, *pgx.Conn) error) {
	pause := wakeRetryMin
	for ctx.Err() == nil {
		began := time.Now()
		err := w.session(ctx, session)
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) > wakeRetryMax {
			pause = wakeRetryMin
		}
		w.log.Warn(what+": the connection ended, another is made", "error", err, "pause", pause)
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		pause = min(2*pause, wakeRetryMax)
	}
}

func (w *wakes) session(ctx context.Context, session func(context.Context, *pgx.Conn) error) error {
	conn, err := w.connect(ctx)
	if err != nil {
		return err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(closing)
	}()
	return session(ctx, conn)
}

// listen fans notifications out. Whatever happened before it was up may have
// been missed, so it begins by waking everyone.
func (w *wakes) listen(ctx context.Context, conn *pgx.Conn) error {
	if _, err := conn.Exec(ctx, "LISTEN "+wakeChannel); err != nil {
		return err
	}
	w.wakeEveryone()
	w.readied.Do(func() { close(w.ready) })
	for {
		n, err := conn.WaitForNotification(ctx)
		if err != nil {
			return err
		}
		origin, rest, ok := strings.Cut(n.Payload, " ")
		if !ok || origin == w.origin {
			continue
		}
		w.mu.Lock()
		for t := range strings.SplitSeq(rest, " ") {
			w.deliver(t)
		}
		w.mu.Unlock()
	}
}

// send notifies the other processes of the dirty topics, then lets at least
// wakeEvery pass, in which marks gather.
func (w *wakes) send(ctx context.Context, conn *pgx.Conn) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-w.kick:
		}
		topics := w.takeDirty()
		for len(topics) > 0 {
			payload, n := w.pack(topics)
			if _, err := conn.Exec(ctx, "SELECT pg_notify($1, $2)", wakeChannel, payload); err != nil {
				w.mark(topics...) // sent by the next session
				return errors.Join(errors.New("notify"), err)
			}
			topics = topics[n:]
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wakeEvery):
		}
	}
}

func (w *wakes) takeDirty() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	topics := make([]string, 0, len(w.dirty))
	for t := range w.dirty {
		topics = append(topics, t)
	}
	clear(w.dirty)
	return topics
}

// pack puts as many topics as fit into one payload.
func (w *wakes) pack(topics []string) (payload string, n int) {
	var b strings.Builder
	b.WriteString(w.origin)
	for n < len(topics) && (n == 0 || b.Len()+1+len(topics[n]) <= wakePayload) {
		b.WriteByte(' ')
		b.WriteString(topics[n])
		n++
	}
	return b.String(), n
}
