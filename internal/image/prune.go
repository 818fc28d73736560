package image

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Prune removes the disks that are in no use and were asked for by nobody since a
// moment; it says which.
func (d *Disks) Prune(used map[string]bool, since time.Time) ([]string, error) {
	entries, err := os.ReadDir(d.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list VM images: %w", err)
	}
	var gone []string
	for _, e := range entries {
		name := e.Name()
		if !strings.HasSuffix(name, ".qcow2") || used[name] {
			continue
		}
		removed, err := d.drop(name, since)
		if err != nil {
			return gone, err
		}
		if removed {
			gone = append(gone, name)
		}
	}
	return gone, nil
}

// drop removes one disk, record last: without its file that says nothing.
func (d *Disks) drop(name string, since time.Time) (bool, error) {
	defer d.lock(name)()
	path := filepath.Join(d.dir, name)
	if info, err := os.Stat(path); err != nil || info.ModTime().After(since) {
		return false, nil //nolint:nilerr // it went, or somebody is about to use it
	}
	d.mu.Lock()
	delete(d.known, path)
	d.mu.Unlock()
	for _, file := range []string{path, path + ".json"} {
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return false, fmt.Errorf("remove VM image: %w", err)
		}
	}
	return true, nil
}
