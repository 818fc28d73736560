package app

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tenon-cloud/tenon/internal/authz"
	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/postgres"
)

const (
	feedKeeps    = 512             // events that a feed remembers for its readers
	feedReads    = 200             // events read at once
	feedInterval = 2 * time.Second // looks without a wake-up, in case one was lost
	streamChecks = 5 * time.Second // asks whether its reader may still read
)

// StreamEvent is an event with its place in the stream.
type StreamEvent struct {
	cloud.Event
	ID string // for Last-Event-ID
}

func streamEvents(list []postgres.PlacedEvent) []StreamEvent {
	out := make([]StreamEvent, len(list))
	for i, e := range list {
		out[i] = StreamEvent{Event: e.Event, ID: fmt.Sprintf("%d-%d", e.Place.Xid, e.Place.Cursor)}
	}
	return out
}

func placeOf(id string) (p postgres.Place, ok bool) {
	x, n, ok := strings.Cut(id, "-")
	if !ok {
		return p, false
	}
	xid, err1 := strconv.ParseUint(x, 10, 63)
	cursor, err2 := strconv.ParseInt(n, 10, 64)
	return postgres.Place{Xid: xid, Cursor: cursor}, err1 == nil && err2 == nil && cursor >= 0
}

// EventStream reads a project's events as they happen. It holds no connection:
// all streams of a project in this process share one feed.
type EventStream struct {
	app   *App
	who   cloud.Actor
	feed  *feed
	at    postgres.Place
	check time.Time
	once  sync.Once
}

// EventStream begins after the event that was seen last; without one, now.
func (a *App) EventStream(ctx context.Context, c Call, project, lastEventID string) (*EventStream, error) {
	s := &EventStream{app: a, who: c.Actor, check: time.Now().Add(streamChecks)}
	var in cloud.Project
	err := a.inProject(ctx, c, authz.ProjectEvents, project, func(tx *postgres.Tx, p cloud.Project) (err error) {
		in = p
		if lastEventID != "" {
			var ok bool
			if s.at, ok = placeOf(lastEventID); !ok {
				return cloud.Invalid(cloud.Field{Location: "header.Last-Event-ID", Message: "not an id that this stream gave", Value: lastEventID})
			}
		}
		end, err := postgres.EventsEnd(ctx, tx)
		if lastEventID == "" || end.Less(s.at) { // a place of before a restore is ahead of this server
			s.at = end
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	s.feed = a.feeds.join(a, in, s.at)
	return s, nil
}

// Next waits for the next events. It fails when ctx ends, or when the reader's
// session, token or membership is over.
func (s *EventStream) Next(ctx context.Context) ([]StreamEvent, error) {
	for {
		list, changed, covered := s.feed.after(s.at)
		if !covered { // this reader is further behind than the feed remembers
			var err error
			if list, err = s.feed.read(ctx, s.at); err != nil {
				return nil, err
			}
		}
		if len(list) > 0 {
			s.at = list[len(list)-1].Place
			return streamEvents(list), nil
		}
		wait := time.NewTimer(time.Until(s.check))
		select {
		case <-ctx.Done():
			wait.Stop()
			return nil, ctx.Err()
		case <-changed:
			wait.Stop()
		case <-wait.C:
			if err := s.app.StillValid(ctx, s.who); err != nil {
				return nil, err
			}
			s.check = time.Now().Add(streamChecks)
		}
	}
}

// Close ends the stream.
func (s *EventStream) Close() { s.once.Do(func() { s.app.feeds.leave(s.feed) }) }

// feeds are the projects that somebody in this process reads.
type feeds struct {
	mu sync.Mutex
	of map[cloud.ProjectID]*feed
}

// feed reads a project's events once for all of its readers.
type feed struct {
	app     *App
	project cloud.Project
	readers int
	stop    context.CancelFunc

	mu      sync.Mutex
	start   postgres.Place // everything after it that is certain is in ring
	ring    []postgres.PlacedEvent
	changed chan struct{} // closed at the next change
}

func (f *feeds) join(a *App, p cloud.Project, at postgres.Place) *feed {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.of == nil {
		f.of = map[cloud.ProjectID]*feed{}
	}
	fd := f.of[p.ID]
	if fd == nil {
		ctx, stop := context.WithCancel(context.Background())
		fd = &feed{app: a, project: p, stop: stop, start: at, changed: make(chan struct{})}
		f.of[p.ID] = fd
		go fd.run(ctx)
	}
	fd.readers++
	return fd
}

func (f *feeds) leave(fd *feed) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if fd.readers--; fd.readers == 0 {
		fd.stop()
		delete(f.of, fd.project.ID)
	}
}

// run reads on at each wake-up of the project.
func (f *feed) run(ctx context.Context) {
	woken, done := f.app.db.Wakes(postgres.TopicChange(f.project.ID))
	defer done()
	tick := time.NewTicker(feedInterval)
	defer tick.Stop()
	// A commit may be certain only when an older transaction has ended, so a
	// wake-up that brings nothing is followed by a few quick looks.
	var again <-chan time.Time
	looks := 0
	for {
		n, err := f.step(ctx)
		if err != nil && ctx.Err() == nil {
			f.app.log.WarnContext(ctx, "read a project's events", "project", f.project.ID, "error", err)
		}
		switch {
		case n > 0:
			looks, again = 3, time.After(5*time.Millisecond)
		case looks > 0:
			looks--
			again = time.After(20 * time.Millisecond)
		default:
			again = nil
		}
		select {
		case <-ctx.Done():
			return
		case <-woken:
			looks = 5
		case <-again:
		case <-tick.C:
		}
	}
}

func (f *feed) step(ctx context.Context) (int, error) {
	f.mu.Lock()
	at := f.start
	if n := len(f.ring); n > 0 {
		at = f.ring[n-1].Place
	}
	f.mu.Unlock()
	list, err := f.read(ctx, at)
	if err != nil || len(list) == 0 {
		return 0, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ring = append(f.ring, list...)
	if over := len(f.ring) - feedKeeps; over > 0 {
		f.start = f.ring[over-1].Place
		f.ring = append([]postgres.PlacedEvent(nil), f.ring[over:]...)
	}
	close(f.changed)
	f.changed = make(chan struct{})
	return len(list), nil
}

func (f *feed) read(ctx context.Context, at postgres.Place) (list []postgres.PlacedEvent, err error) {
	err = f.app.db.InAPI(ctx, postgres.Scope{Org: f.project.OrgID}, func(tx *postgres.Tx) (err error) {
		list, err = postgres.EventsAfter(ctx, tx, f.project.ID, at, feedReads)
		return err
	})
	return list, err
}

// after gives what is remembered after a place. covered is false when some of it
// may be forgotten.
func (f *feed) after(at postgres.Place) (list []postgres.PlacedEvent, changed <-chan struct{}, covered bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if at.Less(f.start) {
		return nil, f.changed, false
	}
	for i := len(f.ring); i >= 0; i-- {
		if i == 0 || !at.Less(f.ring[i-1].Place) {
			return append([]postgres.PlacedEvent(nil), f.ring[i:]...), f.changed, true
		}
	}
	return nil, f.changed, true
}
