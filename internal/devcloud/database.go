package devcloud

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"
)

// Place is where a cloud of this machine keeps what a backup holds.
type Place struct {
	CloudID       string
	OwnerDSN      string
	MasterKeyFile string
	Registry      string
}

// WithDatabase runs f on the database of a state folder's cloud. Whatever runs is
// left as it is found, kept by a supervisor or not: Postgres is used if it runs,
// and else started for f and stopped after it. alone: f must have the database to
// itself, and is refused while a supervisor or a control plane runs. A folder that
// is no cloud's yet becomes the cloud's that newID names; empty: it is refused.
func WithDatabase(ctx context.Context, state string, roots Roots, console *Console, alone bool, newID string, f func(Place) error) error {
	state, err := filepath.Abs(state)
	if err != nil {
		return fmt.Errorf("find state folder: %w", err)
	}
	_, err = readIdentity(state)
	if errors.Is(err, fs.ErrNotExist) && newID != "" {
		err = adoptID(state, newID, roots)
	} else if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s holds no cloud: --state names the folder that `tenond dev --state` was started with", state)
	}
	if err != nil {
		return err
	}
	id, err := openIdentity(state) // refuses the copy of another cloud's folder
	if err != nil {
		return err
	}
	pg, err := findPostgres()
	if err != nil {
		return err
	}
	l := Layout{Identity: id, Run: filepath.Join(roots.Run, "tenon-"+id.ID), Far: filepath.Join(roots.Lib, id.ID)}
	pg.Data, pg.Socket = l.postgresData(), l.postgresSocket()
	lock, err := lockState(state)
	switch {
	case err == nil:
		defer lock.Release()
	case alone:
		return err
	default: // it is kept: a Postgres that is down at this moment comes back
		if err := l.awaited(ctx, pg); err != nil {
			return err
		}
		return f(l.place(pg))
	}
	if p, ok := l.serving(); ok && alone {
		return fmt.Errorf("the control plane of this cloud still runs, as process %d, though the `tenond dev` that started it has ended: end it (`kill %[1]d`) and then try again; guests go on. Nothing was changed", p.PID)
	}
	if pg.runs(ctx, l.Run) {
		if err := l.awaited(ctx, pg); err != nil {
			return err
		}
		return f(l.place(pg))
	}
	return l.withOwnPostgres(ctx, roots, pg, console, f)
}

// serving is a control plane that outlived its supervisor.
func (l Layout) serving() (process, bool) {
	if p, ok := readPid(l.Run, "serve"); ok && p.alive() {
		return p, true
	}
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if argv := commandLine(pid); len(argv) == 4 && slices.Equal(argv[1:], serveArgs(l.State)) {
			return process{PID: pid}, true
		}
	}
	return process{}, false
}

// runs reports whether the server is up or coming up, whoever keeps it.
func (p Postgres) runs(ctx context.Context, run string) bool {
	if _, ok := survivor(run, "postgres", p.service().looks()); ok {
		return true
	}
	return p.answers(ctx) == nil // a Postgres of another version, say
}

// awaited waits until a server answers that another keeps.
func (l Layout) awaited(ctx context.Context, pg Postgres) error {
	return newChild(pg.service(), l.Run, l.logFile("postgres"), nil).ready(ctx)
}

// withOwnPostgres starts the server for f alone, and takes away no more than it
// made: other parts of the cloud may run without it.
func (l Layout) withOwnPostgres(ctx context.Context, roots Roots, pg Postgres, console *Console, f func(Place) error) error {
	fresh := !exists(l.Run)
	l, err := openLayout(l.State, roots, pg.UID)
	if err != nil {
		return err
	}
	pg.Data, pg.Socket = l.postgresData(), l.postgresSocket() // only now is it known where parts live
	if err := pg.prepare(ctx); err != nil {
		return err
	}
	s := &Supervisor{Layout: l, Postgres: pg, Console: console}
	s.giveToCaller(l.State, filepath.Join(l.State, identityFile), filepath.Join(l.State, "lock"), filepath.Join(l.State, "log"))
	defer func() {
		for _, c := range s.children {
			c.stop(nil)
		}
		if fresh { // each must be empty, or it isn't ours to take
			_ = os.Remove(pg.Socket)
			_ = os.Remove(filepath.Join(l.Run, identityFile))
			_ = os.Remove(l.Run)
		}
	}()
	if err := s.StartPostgres(ctx); err != nil {
		return err
	}
	return f(l.place(pg))
}

func (l Layout) place(p Postgres) Place {
	return Place{CloudID: l.ID, OwnerDSN: p.OwnerDSN(), MasterKeyFile: l.masterKey(), Registry: filepath.Join(l.State, "registry")}
}

// adoptID makes an empty folder the place of a cloud that was elsewhere, if it is
// not still on this machine: two clouds never share an id.
func adoptID(state, id string, roots Roots) error {
	if !idForm.MatchString(id) {
		return fmt.Errorf("%q is no cloud's id", id)
	}
	for _, folder := range []string{filepath.Join(roots.Run, "tenon-"+id), filepath.Join(roots.Lib, id)} {
		other, err := readIdentity(folder)
		if err != nil || other.State == state {
			continue
		}
		if there, err := readIdentity(other.State); err == nil && there.ID == id {
			return fmt.Errorf("cloud %s is on this machine already, in %s: restore it there with --replace, or remove that one first", id, other.State)
		}
	}
	if err := os.MkdirAll(state, 0o755); err != nil {
		return fmt.Errorf("make state folder: %w", err)
	}
	made := Identity{ID: id, State: state, CreatedAt: time.Now().UTC().Truncate(time.Second)}
	return made.write(state)
}
