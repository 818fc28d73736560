// Package durable replaces files so that a crash, or a loss of power, leaves the
// old one or the new one, whole.
//
// Imports: the standard library only.
package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// WriteFile replaces a file; its folder must be there. When it returns without
// an error, the new one survives.
func WriteFile(path string, content []byte, mode fs.FileMode) error {
	name, dir := filepath.Base(path), filepath.Dir(path)
	tmp, err := os.CreateTemp(dir, "."+name+".new-*")
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	defer func() { _ = os.Remove(tmp.Name()) }() // after the rename there is nothing to remove
	_, err = tmp.Write(content)
	if err = errors.Join(err, tmp.Chmod(mode), tmp.Sync(), tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err == nil {
		err = syncFolder(dir)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

// syncFolder makes the rename itself survive.
func syncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
