package imagebuild

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// stampTime is the moment that every file made during the build is given: that
// of the newest package, so that two builds of the same packages are alike.
type stampTime = time.Time

// setuidKept are the programs that may change user inside the guest's own user
// namespace; every other set-id bit is taken off.
var setuidKept = map[string]bool{"usr/bin/su": true, "usr/bin/passwd": true}

// leftovers are made by the build and belong to no container: keys, caches,
// logs and this host's own settings. A trailing slash empties a folder.
var leftovers = []string{
	"etc/ssh/ssh_host_*", "etc/resolv.conf", "etc/machine-id", "etc/passwd-", "etc/group-", "etc/shadow-", "etc/gshadow-",
	"var/cache/apt/", "var/cache/debconf/*-old", "var/cache/ldconfig/aux-cache", "var/lib/apt/lists/", "var/lib/dpkg/*-old",
	"var/log/", "tmp/", "run/", "debootstrap", "root/.bash_history",
	"usr/share/man/", "usr/share/info/", "usr/share/locale/", "usr/share/lintian/",
}

// tidy makes the tree fit to be anyone's container.
func tidy(tree string, o Options) (stampTime, error) {
	o.Progress("tidy the image", 0, 0)
	stamp, err := releaseTime(tree)
	if err != nil {
		return stamp, err
	}
	for _, pattern := range leftovers {
		if err := remove(tree, pattern); err != nil {
			return stamp, err
		}
	}
	files := append(slices.Clone(o.Image.Files), []File{
		{"etc/hostname", "debian\n", 0o644},
		{"etc/machine-id", "", 0o444},
		{"etc/default/locale", "LANG=C.UTF-8\n", 0o644},
		{"etc/apt/sources.list", "deb " + o.Mirror + " " + o.Suite + " main\n", 0o644},
	}...)
	for _, f := range files {
		path := filepath.Join(tree, f.Path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return stamp, fmt.Errorf("make the folder of %s: %w", f.Path, err)
		}
		if err := os.WriteFile(path, []byte(f.Text), f.Mode); err != nil {
			return stamp, fmt.Errorf("write %s: %w", f.Path, err)
		}
		if err := os.Chmod(path, f.Mode); err != nil {
			return stamp, fmt.Errorf("set mode of %s: %w", f.Path, err)
		}
	}
	if err := os.MkdirAll(filepath.Join(tree, "var/cache/apt/archives/partial"), 0o755); err != nil {
		return stamp, fmt.Errorf("make apt's cache folder: %w", err)
	}
	if err := os.MkdirAll(filepath.Join(tree, "var/lib/apt/lists/partial"), 0o755); err != nil {
		return stamp, fmt.Errorf("make apt's list folder: %w", err)
	}
	return stamp, fixShadow(filepath.Join(tree, "etc/shadow"), stamp)
}

// releaseTime is that of the newest program: packages carry the time of their
// own making, and nothing else writes there.
func releaseTime(tree string) (stampTime, error) {
	var newest time.Time
	for _, folder := range []string{"usr/bin", "usr/sbin"} {
		entries, err := os.ReadDir(filepath.Join(tree, folder))
		if err != nil {
			return newest, fmt.Errorf("find the Debian release: %w", err)
		}
		for _, entry := range entries {
			info, err := entry.Info()
			if err != nil {
				return newest, fmt.Errorf("find the Debian release: %w", err)
			}
			if info.Mode().IsRegular() && info.ModTime().After(newest) {
				newest = info.ModTime()
			}
		}
	}
	return newest.UTC().Truncate(time.Second), nil
}

func remove(tree, pattern string) error {
	rest, folder := strings.CutSuffix(pattern, "/")
	if folder {
		rest += "/*"
	}
	for _, p := range []string{rest, filepath.Join(filepath.Dir(rest), ".*")} {
		if p != rest && !folder {
			continue
		}
		hits, err := filepath.Glob(filepath.Join(tree, p))
		if err != nil {
			return fmt.Errorf("look for %s: %w", p, err)
		}
		for _, hit := range hits {
			if err := os.RemoveAll(hit); err != nil {
				return fmt.Errorf("remove %s: %w", p, err)
			}
		}
	}
	return nil
}

// fixShadow puts the release's day where debootstrap wrote today's.
func fixShadow(path string, stamp stampTime) error {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read shadow file: %w", err)
	}
	day := strconv.FormatInt(stamp.Unix()/86400, 10)
	lines := strings.Split(string(text), "\n")
	for i, line := range lines {
		if fields := strings.Split(line, ":"); len(fields) > 2 {
			fields[2] = day
			lines[i] = strings.Join(fields, ":")
		}
	}
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o640); err != nil {
		return fmt.Errorf("write shadow file: %w", err)
	}
	return nil
}
