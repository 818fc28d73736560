package backup

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/tenon-cloud/tenon/internal/authn"
	"github.com/tenon-cloud/tenon/internal/durable"
	"github.com/tenon-cloud/tenon/internal/postgres"
)

// Target is where an archive is put back.
type Target struct {
	DSN           string
	Passwords     func(*authn.Master) func(role string) string // nil: the operating system says who is who
	MasterKeyFile string
	Registry      string
	CloudID       string // that this installation is; empty: any
	Replace       bool   // what is in the database goes
	OtherCloud    bool   // the archive may be another cloud's
	Say           func(format string, args ...any)
}

// Open opens an archive and reads all of it, before anything is touched.
func Open(path string) (*os.File, Header, []Part, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, Header{}, nil, fmt.Errorf("open the archive: %w", err)
	}
	h, parts, err := Verify(f)
	if err != nil {
		_ = f.Close()
		return nil, h, nil, err
	}
	return f, h, parts, nil
}

// Look says why an archive can't be put there; nil: it can. It changes nothing.
func Look(ctx context.Context, h Header, to Target) (postgres.RestoreTarget, error) {
	newest, err := postgres.SchemaVersion()
	if err != nil {
		return postgres.RestoreTarget{}, err
	}
	there, err := postgres.RestoreLook(ctx, to.DSN)
	switch {
	case err != nil:
		return there, err
	case h.Schema > newest:
		return there, fmt.Errorf("the archive's database has schema %d, and this tenond knows %d: restore with version %s or a newer one", h.Schema, newest, h.Version)
	case there.Leader != "":
		return there, fmt.Errorf("a control plane is up and leads (%s): stop every `tenond serve` on this database first", there.Leader)
	case there.Sessions > 0:
		return there, fmt.Errorf("a control plane is connected to this database (%d connections): stop every `tenond serve` on it first", there.Sessions)
	case !there.Empty && !there.Half && !to.Replace:
		return there, fmt.Errorf("the database is not empty: it holds %s. --replace puts the archive in its place, and what is there is gone then", cloudName(there.CloudID))
	}
	for _, here := range []string{to.CloudID, there.CloudID} {
		if here != "" && here != h.CloudID && !to.OtherCloud {
			return there, fmt.Errorf("the archive is of cloud %s, and this is cloud %s: --other-cloud if that is meant; nodes of %[2]s will not know it", h.CloudID, here)
		}
	}
	return there, nil
}

func cloudName(id string) string {
	if id == "" {
		return "tables of something else"
	}
	return "cloud " + id
}

// Restore puts a verified archive in place: blobs, key, database, and at last the
// new era. Interrupted anywhere, it is run again.
func Restore(ctx context.Context, archive io.ReadSeeker, h Header, to Target) (out postgres.Restored, err error) {
	there, err := Look(ctx, h, to)
	if err != nil {
		return out, err
	}
	p, err := findPrograms(ctx, h.Server)
	if err != nil {
		return out, err
	}
	key, err := keyIn(archive)
	if err != nil {
		return out, err
	}
	master, err := to.master(h, key)
	if err != nil {
		return out, err
	}
	if err := to.files(archive, h); err != nil {
		return out, err
	}
	boot := postgres.BootstrapConfig{OwnerDSN: to.DSN}
	if to.Passwords != nil {
		boot.Password = to.Passwords(master)
	}
	if err := postgres.RestoreRoles(ctx, boot); err != nil {
		return out, err
	}
	to.say("The database is put in place.")
	if err := to.database(ctx, archive, p); err != nil {
		return out, err
	}
	to.say("The new era begins.")
	return postgres.RestoreFinish(ctx, boot, h.TakenAt, there.Era)
}

func (t Target) say(format string, args ...any) {
	if t.Say != nil {
		t.Say(format, args...)
	}
}

var errEnough = errors.New("read as far as it is needed")

// keyIn reads an archive's master key; nil: it holds none.
func keyIn(archive io.ReadSeeker) (key []byte, err error) {
	if _, err := archive.Seek(0, io.SeekStart); err != nil {
		return nil, fmt.Errorf("read the archive again: %w", err)
	}
	_, _, err = read(archive, sink{
		key:      func(k []byte) error { key = k; return errEnough },
		database: func(io.Reader) error { return errEnough },
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return key, err
}

// files puts the registry's files back. Blobs are named by what is in them: those
// that are there stay, and what was pushed since does no harm.
func (t Target) files(archive io.ReadSeeker, h Header) error {
	if h.NoRegistry {
		return nil
	}
	if _, err := archive.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("read the archive again: %w", err)
	}
	if err := os.MkdirAll(t.Registry, 0o700); err != nil {
		return fmt.Errorf("make the registry's folder: %w", err)
	}
	root, err := os.OpenRoot(t.Registry)
	if err != nil {
		return fmt.Errorf("open the registry's folder: %w", err)
	}
	defer func() { _ = root.Close() }()
	files := 0
	_, _, err = read(archive, sink{
		registry: func(path string, size int64, r io.Reader) error {
			files++
			return putFile(root, path, size, r)
		},
	})
	if err == nil {
		t.say("%d files of the registry are in place.", files)
	}
	return err
}

func putFile(root *os.Root, path string, size int64, r io.Reader) error {
	blob := !strings.HasSuffix(path, "/link")
	if info, err := root.Lstat(path); err == nil && blob && info.Mode().IsRegular() && info.Size() == size {
		return nil
	}
	if err := root.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("make a folder of the registry: %w", err)
	}
	part := path + ".restored"
	f, err := root.OpenFile(part, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("write to the registry: %w", err)
	}
	_, err = io.Copy(f, r)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = root.Rename(part, path)
	}
	if err != nil {
		return fmt.Errorf("write to the registry: %w", err)
	}
	return nil
}

// master finds the key that opens the archive: in it, or where this installation
// keeps its own. One that is there is never replaced.
func (t Target) master(h Header, key []byte) (*authn.Master, error) {
	_, err := os.Stat(t.MasterKeyFile)
	switch {
	case errors.Is(err, fs.ErrNotExist) && key == nil:
		return nil, fmt.Errorf("the archive does not hold the master key, and %s is not there: put the key that was kept apart in its place (mode 0600); without it nothing that is sealed in the archive can be opened", t.MasterKeyFile)
	case errors.Is(err, fs.ErrNotExist):
		if err := os.MkdirAll(filepath.Dir(t.MasterKeyFile), 0o700); err != nil {
			return nil, fmt.Errorf("make the master key's folder: %w", err)
		}
		if err := durable.WriteFile(t.MasterKeyFile, key, 0o600); err != nil {
			return nil, fmt.Errorf("put the master key in place: %w", err)
		}
	case err != nil:
		return nil, fmt.Errorf("look at the master key: %w", err)
	}
	master, err := authn.MasterLoad(t.MasterKeyFile)
	if err != nil {
		return nil, err
	}
	if subtle.ConstantTimeCompare([]byte(master.Fingerprint()), []byte(h.Key)) != 1 {
		return nil, fmt.Errorf("%s is not the master key of this archive (its fingerprint is %s, the archive's %s): nothing was changed; put the right key there, or move this one away if the archive holds its own", t.MasterKeyFile, master.Fingerprint(), h.Key)
	}
	return master, nil
}

// database streams the dump through Postgres's own programs.
func (t Target) database(ctx context.Context, archive io.ReadSeeker, p programs) error {
	if _, err := archive.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("read the archive again: %w", err)
	}
	out, in := io.Pipe()
	go func() {
		_, _, err := read(archive, sink{database: func(piece io.Reader) error {
			_, err := io.Copy(in, piece)
			return err
		}})
		_ = in.CloseWithError(err) // nil: the end
	}()
	err := p.load(ctx, t.DSN, postgres.RestoreBefore, postgres.RestoreAfter, out)
	_ = out.CloseWithError(errors.New("the database takes no more"))
	return err
}
