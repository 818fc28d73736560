package devcloud

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
)

// Supervisor holds one cloud while it runs.
type Supervisor struct {
	Layout
	Postgres   Postgres
	Console    *Console
	roots      Roots
	lock       *Lock
	children   []*child
	survivors  bool          // a run before this one was not stopped
	agent      string        // the agent's program; empty: there are no guests
	hurry      chan struct{} // closed by the second interrupt
	hurried    sync.Once
	closed     chan struct{}
	rotating   context.CancelFunc
	background sync.WaitGroup // what is still being built while the cloud is up
}

// Open takes the state folder, cleans up after clouds that are no more, and
// chooses places and ports. It starts nothing.
func Open(state string, roots Roots, agent string, console *Console) (*Supervisor, error) {
	state, err := filepath.Abs(state)
	if err != nil {
		return nil, fmt.Errorf("find state folder: %w", err)
	}
	if err := os.MkdirAll(state, 0o755); err != nil {
		return nil, fmt.Errorf("make state folder: %w", err)
	}
	lock, err := lockState(state)
	if err != nil {
		return nil, err
	}
	s := &Supervisor{Console: console, roots: roots, agent: agent, lock: lock, hurry: make(chan struct{}), closed: make(chan struct{})}
	if err := s.open(state); err != nil {
		lock.Release()
		return nil, err
	}
	return s, nil
}

func (s *Supervisor) open(state string) error {
	prune(s.roots, s.agent, s.Console.Say)
	pg, err := findPostgres()
	if err != nil {
		return err
	}
	if s.Layout, err = openLayout(state, s.roots, pg.UID); err != nil {
		return err
	}
	pg.Data, pg.Socket = s.postgresData(), s.postgresSocket()
	s.Postgres = pg
	notes, err := filepath.Glob(filepath.Join(s.Run, "*.pid"))
	s.survivors = err == nil && len(notes) > 0
	if ticks, err := startTicks(os.Getpid()); err == nil {
		// So that one whose folder is deleted under it can still be found.
		if err := (process{PID: os.Getpid(), StartedAt: ticks}).save(s.Run, "supervisor"); err != nil {
			return err
		}
	}
	serving := false
	if p, ok := readPid(s.Run, "serve"); ok {
		serving = p.alive()
	}
	if err := s.choosePorts(s.roots, serving); err != nil {
		return err
	}
	s.giveToCaller(state, filepath.Join(state, identityFile), filepath.Join(state, "lock"), filepath.Join(state, "log"))
	ctx, cancel := context.WithCancel(context.Background())
	s.rotating = cancel
	go rotateLogs(ctx, filepath.Join(state, "log"))
	return nil
}

// giveToCaller hands files to the user behind sudo.
func (s *Supervisor) giveToCaller(paths ...string) {
	uid, err := strconv.Atoi(os.Getenv("SUDO_UID"))
	if err != nil || os.Geteuid() != 0 {
		return
	}
	gid, err := strconv.Atoi(os.Getenv("SUDO_GID"))
	if err != nil {
		return
	}
	for _, path := range paths {
		_ = os.Lchown(path, uid, gid)
	}
}

// StartPostgres makes the private server run and the database exist.
func (s *Supervisor) StartPostgres(ctx context.Context) error {
	if err := s.Postgres.prepare(ctx); err != nil {
		return err
	}
	if err := s.start(ctx, "Postgres", s.Postgres.service()); err != nil {
		return err
	}
	return s.Postgres.ensureDatabase(ctx)
}

// start shows a step at the console and keeps the service from then on.
func (s *Supervisor) start(ctx context.Context, title string, service Service) error {
	done := s.Console.Step(title)
	c := s.child(service)
	if err := c.start(ctx); err != nil {
		done("failed")
		return err
	}
	if c.adopted {
		done("ready; it was still running")
	} else {
		done("ready")
	}
	return nil
}

// child finds the one that keeps a service, or adds it.
func (s *Supervisor) child(service Service) *child {
	for _, c := range s.children {
		if c.Name == service.Name {
			return c
		}
	}
	c := newChild(service, s.Run, s.logFile(service.Name), s.Console.Say)
	s.children = append(s.children, c)
	return c
}

// Hurry makes a stop under way end now.
func (s *Supervisor) Hurry() { s.hurried.Do(func() { close(s.hurry) }) }

// Close stops everything of this cloud, the last started first, takes away
// what it made on the host, and lets go of the state folder.
func (s *Supervisor) Close() error {
	defer close(s.closed)
	if s.rotating != nil {
		s.rotating()
	}
	s.background.Wait() // its context has ended
	for i := len(s.children) - 1; i >= 0; i-- {
		s.children[i].stop(s.hurry)
	}
	err := takeAway(s.Layout, s.agent)
	if err == nil {
		err = os.RemoveAll(s.Run)
	}
	s.lock.Release()
	return err
}

// takeAway removes a stopped cloud's guests and all else it made on the host:
// by the agent's own knowledge, and then by looking for its id.
func takeAway(l Layout, agent string) error {
	purgeErr := purgeGuests(context.Background(), l, agent)
	if err := sweep(l); err != nil {
		return errors.Join(purgeErr, err)
	}
	return purgeErr
}

// answersOn is the readiness check of what listens on a socket.
func answersOn(path string) func(context.Context) error {
	return func(ctx context.Context) error {
		var d net.Dialer
		conn, err := d.DialContext(ctx, "unix", path)
		if err != nil {
			return fmt.Errorf("it does not answer: %w", err)
		}
		return conn.Close()
	}
}
