package devcloud

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// Layout is where a cloud keeps what.
type Layout struct {
	Identity
	Run string // /run/tenon-<id>: sockets and pid files, gone after a reboot
	Far string // /var/lib/tenon/<id>: the parts that can't live in State
}

// The parts that may have to live elsewhere.
const (
	partPostgres = "postgres"
	partNode     = "node" // the agent's and containerd's
)

// Roots are the machine-wide folders; tests use their own.
type Roots struct {
	Run string // /run
	Lib string // /var/lib/tenon
}

// DefaultRoots are those of a Debian host.
var DefaultRoots = Roots{Run: "/run", Lib: "/var/lib/tenon"}

// Folder is where a part lives.
func (l Layout) Folder(part string) string {
	if slices.Contains(l.Elsewhere, part) {
		return filepath.Join(l.Far, part)
	}
	return filepath.Join(l.State, part)
}

// Paths that more than one file needs.
func (l Layout) postgresData() string       { return filepath.Join(l.Folder(partPostgres), "data") }
func (l Layout) postgresSocket() string     { return filepath.Join(l.Run, "pg") }
func (l Layout) logFile(name string) string { return filepath.Join(l.State, "log", name+".log") }
func (l Layout) masterKey() string          { return filepath.Join(l.State, "secrets", "master.key") }

// openLayout makes the folders, with each part where it can work.
func openLayout(state string, roots Roots, postgresUID int) (Layout, error) {
	if err := os.MkdirAll(state, 0o755); err != nil {
		return Layout{}, fmt.Errorf("make state folder: %w", err)
	}
	id, err := openIdentity(state)
	if err != nil {
		return Layout{}, err
	}
	l := Layout{Identity: id, Run: filepath.Join(roots.Run, "tenon-"+id.ID), Far: filepath.Join(roots.Lib, id.ID)}
	if len(l.Run) > 60 {
		// A socket's path is limited to 107 bytes; the longest below Run takes 45.
		return l, fmt.Errorf("the run directory %s is too long for socket paths", l.Run)
	}
	if err := l.chooseParts(postgresUID); err != nil {
		return l, err
	}
	// 0711: Postgres's own user must pass through to its socket's folder, which
	// is 0700, as are the others.
	if err := os.MkdirAll(l.Run, 0o711); err != nil {
		return l, fmt.Errorf("make run directory: %w", err)
	}
	if err := os.Chmod(l.Run, 0o711); err != nil {
		return l, fmt.Errorf("set mode of run directory: %w", err)
	}
	for folder, mode := range map[string]os.FileMode{"log": 0o755, "secrets": 0o700, "registry": 0o700, "tmp": 0o700} {
		path := filepath.Join(state, folder)
		if err := os.MkdirAll(path, mode); err != nil {
			return l, fmt.Errorf("make %s: %w", path, err)
		}
		if err := os.Chmod(path, mode); err != nil {
			return l, fmt.Errorf("set mode of %s: %w", path, err)
		}
	}
	return l, l.Identity.write(l.Run)
}

// chooseParts decides once, at the first run, which parts must live elsewhere;
// later runs keep to it, since that is where the data is.
func (l *Layout) chooseParts(postgresUID int) error {
	for _, part := range []string{partPostgres, partNode} {
		if slices.Contains(l.Elsewhere, part) {
			if err := l.makeFar(part); err != nil {
				return err
			}
			continue
		}
		if _, err := os.Stat(filepath.Join(l.State, part)); err == nil {
			continue // decided before
		}
		fits := true
		switch part {
		case partPostgres:
			fits = passable(l.State, postgresUID) && ownable(l.State, postgresUID)
		case partNode:
			fits = layerable(l.State)
		}
		if fits {
			if err := os.MkdirAll(filepath.Join(l.State, part), 0o711); err != nil {
				return fmt.Errorf("make folder for %s: %w", part, err)
			}
			continue
		}
		l.Elsewhere = append(l.Elsewhere, part)
		if err := l.makeFar(part); err != nil {
			return err
		}
	}
	return l.Identity.write(l.State)
}

func (l *Layout) makeFar(part string) error {
	path := filepath.Join(l.Far, part)
	if err := os.MkdirAll(path, 0o711); err != nil {
		return fmt.Errorf("make folder for %s: %w", part, err)
	}
	return l.Identity.write(l.Far) // the marker that says whose it is
}

// passable reports whether a user may walk to a folder: initdb fails under a
// parent that is closed to it.
func passable(folder string, uid int) bool {
	if uid == os.Geteuid() {
		return true
	}
	for dir := folder; ; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if err != nil {
			return false
		}
		stat, ok := info.Sys().(*syscall.Stat_t)
		if !ok || info.Mode().Perm()&0o001 == 0 && int(stat.Uid) != uid {
			return false
		}
		if dir == filepath.Dir(dir) {
			return true
		}
	}
}

// ownable reports whether files can be given to a user: some network and
// shared file systems refuse.
func ownable(folder string, uid int) bool {
	if uid == os.Geteuid() {
		return true
	}
	probe, err := os.MkdirTemp(folder, ".probe-")
	if err != nil {
		return false
	}
	defer func() { _ = os.RemoveAll(probe) }()
	if os.Chown(probe, uid, -1) != nil {
		return false
	}
	info, err := os.Stat(probe)
	if err != nil {
		return false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == uid
}

// layerable reports whether container images can be unpacked and layered
// there, by mounting an overlay and removing a file of its lower layer.
func layerable(folder string) bool {
	if os.Geteuid() != 0 {
		return true // without root there are no containers to keep
	}
	probe, err := os.MkdirTemp(folder, ".probe-")
	if err != nil {
		return false
	}
	defer func() { _ = os.RemoveAll(probe) }()
	for _, d := range []string{"lower", "upper", "work", "merged"} {
		if os.Mkdir(filepath.Join(probe, d), 0o755) != nil {
			return false
		}
	}
	at := func(d string) string { return filepath.Join(probe, d) }
	if os.WriteFile(at("lower/file"), nil, 0o644) != nil {
		return false
	}
	options := "lowerdir=" + at("lower") + ",upperdir=" + at("upper") + ",workdir=" + at("work")
	if unix.Mount("overlay", at("merged"), "overlay", 0, options) != nil {
		return false
	}
	err = os.Remove(at("merged/file"))
	return errors.Join(err, unix.Unmount(at("merged"), unix.MNT_DETACH)) == nil
}
