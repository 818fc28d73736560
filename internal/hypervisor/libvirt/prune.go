package libvirt

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"
)

// unusedFor is how long an image stays that no disk is based on: a machine that
// is being made has none yet, and another may come soon.
const unusedFor = 30 * time.Minute

// Prune implements hypervisor.Pruner. Where one disk can't be read nothing is
// removed: it may be based on any image.
func (d *Driver) Prune(_ context.Context, folders []string) error {
	used := map[string]bool{}
	for _, folder := range folders {
		name, err := backingName(filepath.Join(folder, diskFile))
		if errors.Is(err, fs.ErrNotExist) {
			continue // not a machine's
		}
		if err != nil {
			return fmt.Errorf("read what a disk is based on: %w", err)
		}
		used[name] = true
	}
	gone, err := d.disks.Prune(used, time.Now().Add(-unusedFor))
	for _, name := range gone {
		d.log.Info("removed a VM image that no disk is based on", "image", name)
	}
	return err
}
