package devcloud

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Place is where a cloud of this machine keeps what a backup holds.
type Place struct {
	CloudID       string
	OwnerDSN      string
	MasterKeyFile string
	Registry      string
}

// WithDatabase runs f on the database of a state folder's cloud. One that runs is
// used as it is, unless f must have it alone; of one that doesn't, Postgres is
// started for f and stopped after it. A folder that is no cloud's yet becomes the
// cloud's that newID names; empty: it is refused.
func WithDatabase(ctx context.Context, state string, roots Roots, agent string, console *Console, alone bool, newID string, f func(Place) error) error {
	state, err := filepath.Abs(state)
	if err != nil {
		return fmt.Errorf("find state folder: %w", err)
	}
	id, err := readIdentity(state)
	if errors.Is(err, fs.ErrNotExist) && newID != "" {
		err = adoptID(state, newID, roots)
	} else if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s holds no cloud: --state names the folder that `tenond dev --state` was started with", state)
	}
	if err != nil {
		return err
	}
	if !alone && id.ID != "" {
		lock, err := lockState(state)
		if err != nil { // it runs
			l := Layout{Identity: id, Run: filepath.Join(roots.Run, "tenon-"+id.ID)}
			return f(l.place(Postgres{Socket: l.postgresSocket()}))
		}
		lock.Release()
	}
	s, err := Open(state, roots, agent, console)
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }()
	if err := s.StartPostgres(ctx); err != nil {
		return err
	}
	return f(s.place(s.Postgres))
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
