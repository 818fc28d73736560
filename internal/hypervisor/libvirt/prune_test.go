package libvirt

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestAnImageGoesWithItsLastDisk, and not while a disk is based on it, while one
// can't be read, or soon after somebody asked for it.
func TestAnImageGoesWithItsLastDisk(t *testing.T) {
	needsLibvirt(t)
	c := newCloud(t)
	spec := c.spec(t, "inst_a", c.pushDisk(t, emptyDisk(t, "64M")))
	if err := c.Prepare(t.Context(), spec, nil); err != nil {
		t.Fatal(err)
	}
	folder := spec.Folders["vol_inst_a"]
	images := func() int {
		found, _ := filepath.Glob(filepath.Join(imagesDir(c.cfg), "*"))
		return len(found)
	}
	old := func() {
		found, _ := filepath.Glob(filepath.Join(imagesDir(c.cfg), "*.qcow2"))
		for _, path := range found {
			if err := os.Chtimes(path, time.Time{}, time.Now().Add(-time.Hour)); err != nil {
				t.Fatal(err)
			}
		}
	}
	prune := func(folders ...string) error { return c.Prune(t.Context(), folders) }
	if err := prune(); err != nil || images() != 2 {
		t.Errorf("just asked for, it went (%v)", err)
	}
	old()
	if err := prune(t.TempDir(), folder); err != nil || images() != 2 {
		t.Errorf("a disk is based on it, and it went (%v)", err)
	}
	torn := t.TempDir()
	if err := os.WriteFile(filepath.Join(torn, diskFile), []byte("torn"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := prune(torn); err == nil || images() != 2 {
		t.Errorf("a disk could not be read, and it went (%v)", err)
	}
	if err := prune(t.TempDir()); err != nil || images() != 0 {
		t.Errorf("no disk is based on it, and it stays (%v)", err)
	}
	// Another start brings it back.
	if err := c.Prepare(t.Context(), spec, nil); err != nil || images() != 2 {
		t.Errorf("prepared again: %v, %d files", err, images())
	}
	if err := c.Remove(t.Context(), "inst_a", false); err != nil {
		t.Fatal(err)
	}
}
