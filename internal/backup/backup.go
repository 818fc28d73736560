package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/tenon-cloud/tenon/internal/authn"
	"github.com/tenon-cloud/tenon/internal/postgres"
)

// Source is the control plane that is copied.
type Source struct {
	DSN           string // of the database, as its owner
	MasterKeyFile string
	Registry      string // the embedded registry's folder
	WithKey       bool
	NoRegistry    bool
	Version       string // of this program
}

// Write copies a control plane into an archive. It may serve meanwhile.
func Write(ctx context.Context, s Source, to io.Writer) (h Header, err error) {
	key, master, err := readKey(s.MasterKeyFile)
	if err != nil {
		return h, err
	}
	err = postgres.BackupHold(ctx, s.DSN, func(v postgres.BackupView) error {
		p, err := findPrograms(ctx, v.Server)
		if err != nil {
			return err
		}
		h = Header{Format: format, CloudID: v.CloudID, Era: v.Era, TakenAt: v.TakenAt.UTC(), Version: s.Version, Schema: v.Schema, Server: v.Server,
			Key: master.Fingerprint(), WithKey: s.WithKey, NoRegistry: s.NoRegistry, DumpProgram: fmt.Sprintf("pg_dump %d", p.major)}
		w := newWriter(to, h.TakenAt)
		if err := w.json(headerName, h); err != nil {
			return err
		}
		if s.WithKey {
			if err := w.add(keyName, int64(len(key)), bytes.NewReader(key)); err != nil {
				return err
			}
		}
		if err := p.dump(ctx, s.DSN, v.Snapshot, func(r io.Reader) error { return w.stream(databaseName, r) }); err != nil {
			return err
		}
		if !s.NoRegistry {
			if err := copyRegistry(ctx, w, s.Registry); err != nil {
				return err
			}
		}
		return w.close()
	})
	return h, err
}

// readKey reads the master key, which must be there: a backup makes none.
func readKey(path string) ([]byte, *authn.Master, error) {
	key, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, fmt.Errorf("read the master key: %w", err)
	}
	master, err := authn.MasterLoad(path)
	return key, master, err
}

// WriteFile writes an archive beside its name and then gives it the name: there
// is never half of one. Others can't read it.
func WriteFile(ctx context.Context, s Source, path string) (h Header, err error) {
	dir, name := filepath.Split(path)
	if dir == "" {
		dir = "."
	}
	tmp, err := os.CreateTemp(dir, "."+name+".part-*") // 0600
	if err != nil {
		return h, fmt.Errorf("write the archive: %w", err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(tmp.Name())
		}
	}()
	if h, err = Write(ctx, s, tmp); err == nil {
		err = tmp.Sync()
	}
	if err = errors.Join(err, tmp.Close()); err != nil {
		return h, err
	}
	if err = os.Rename(tmp.Name(), path); err != nil {
		return h, fmt.Errorf("name the archive: %w", err)
	}
	if d, e := os.Open(dir); e == nil {
		_ = d.Sync()
		_ = d.Close()
	}
	return h, nil
}

// copyRegistry takes what names blobs before the blobs: what is pushed meanwhile
// brings blobs too many, never too few.
func copyRegistry(ctx context.Context, w *writer, folder string) error {
	const root = "docker/registry/v2"
	for _, part := range []string{root + "/repositories", root + "/blobs"} {
		err := filepath.WalkDir(filepath.Join(folder, filepath.FromSlash(part)), func(path string, d fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil // deleted meanwhile, or nothing was ever pushed
			}
			if err == nil {
				err = ctx.Err()
			}
			if err != nil {
				return err
			}
			if d.IsDir() && d.Name() == "_uploads" {
				return fs.SkipDir // half of something
			}
			if !d.Type().IsRegular() {
				return nil
			}
			rel, err := filepath.Rel(folder, path)
			if err != nil {
				return err
			}
			return copyFile(w, registryName+"/"+filepath.ToSlash(rel), path)
		})
		if err != nil {
			return fmt.Errorf("copy the registry: %w", err)
		}
	}
	return nil
}

// copyFile copies a file of the registry. A link is small and may be replaced
// while it is read; a blob never changes.
func copyFile(w *writer, name, path string) error {
	if strings.HasSuffix(path, "/link") {
		text, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		return w.add(name, int64(len(text)), bytes.NewReader(text))
	}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	return w.add(name, info.Size(), f)
}
