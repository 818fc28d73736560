package volume

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tenon-cloud/tenon/internal/nodewire"
)

// newStore is a store in a real pool of its own.
func newStore(t *testing.T, sizeMiB int64) (*Store, *Pool) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("not root: file systems can't be mounted")
	}
	for _, program := range []string{"mkfs.btrfs", "btrfs"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("%s is not installed", program)
		}
	}
	dir, err := os.MkdirTemp("/var/tmp", "tenon-test-pool-") // a loop device can't lie on every /tmp
	if err != nil {
		t.Fatal(err)
	}
	p := NewPool(dir, sizeMiB)
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
			return
		}
		os.RemoveAll(dir)
	})
	return NewStore(p), p
}

func home(id string, mib int64) nodewire.Volume {
	return nodewire.Volume{ID: id, OrgID: "org-1", Role: RoleHome, SizeMiB: mib, Desired: nodewire.VolumePresent}
}

// fill writes until the file system refuses, and gives how much it took.
func fill(t *testing.T, path string, mib int) (took int) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	chunk := make([]byte, 1<<20)
	for took = range mib {
		if _, err := f.Write(chunk); err != nil {
			return took
		}
		if err := f.Sync(); err != nil {
			return took
		}
	}
	return mib
}

func TestAVolumeIsMadeOnceGrowsAndGoesByName(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s, p := newStore(t, 512)
	folder, err := s.Ensure(ctx, home("vol_a", 16))
	if err != nil {
		t.Fatal(err)
	}
	if took := fill(t, filepath.Join(folder, "big"), 32); took < 12 || took > 17 {
		t.Errorf("a volume of 16 MiB took %d", took)
	}
	// A remount, a smaller size and a second Ensure change nothing.
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if again, err := s.Ensure(ctx, home("vol_a", 8)); err != nil || again != folder {
		t.Fatalf("again: %q, %v", again, err)
	}
	if _, err := os.Stat(filepath.Join(folder, "big")); err != nil {
		t.Errorf("the data: %v", err)
	}
	if _, err := s.Ensure(ctx, home("vol_a", 48)); err != nil {
		t.Fatalf("enlarge a full volume: %v", err)
	}
	if took := fill(t, filepath.Join(folder, "more"), 16); took != 16 {
		t.Errorf("an enlarged volume took %d MiB more", took)
	}
	unix.Sync() // usage is as of the last commit
	list, err := s.List(ctx)
	if err != nil || len(list) != 1 || list[0].ID != "vol_a" || list[0].Role != RoleHome || list[0].SizeMiB != 48 || list[0].UsedMiB < 24 || list[0].Folder != folder {
		t.Errorf("list: %+v, %v", list, err)
	}
	for range 2 {
		if err := s.Remove(ctx, "vol_a"); err != nil {
			t.Fatal(err)
		}
	}
	if has, err := s.Has(ctx, "vol_a"); has || err != nil {
		t.Errorf("after removal: %v, %v", has, err)
	}
	for _, id := range []string{"", "..", "../layers", "a/b", ".hidden"} {
		if err := s.Remove(ctx, id); err == nil {
			t.Errorf("%q was removed", id)
		}
	}
}

// TestAHalfMadeVolumeIsFinished stands for a kill between any two steps.
func TestAHalfMadeVolumeIsFinished(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s, p := newStore(t, 512)
	if err := p.Open(ctx); err != nil {
		t.Fatal(err)
	}
	steps := []func(string) error{
		func(id string) error { return p.Create(ctx, volumes, id, 1<<20) },
		func(id string) error { return os.Mkdir(s.folder(id), 0o700) },
		func(id string) error { return os.WriteFile(s.file(id)+".tmp", []byte("{"), 0o600) },
	}
	for n := range steps {
		id := "vol_" + string(rune('a'+n))
		for _, step := range steps[:n+1] {
			if err := step(id); err != nil {
				t.Fatal(err)
			}
		}
		if has, err := s.Has(ctx, id); has || err != nil {
			t.Errorf("half made after %d steps: has %v, %v", n+1, has, err)
		}
		folder, err := s.Ensure(ctx, home(id, 16))
		if err != nil {
			t.Fatalf("finish after %d steps: %v", n+1, err)
		}
		if took := fill(t, filepath.Join(folder, "file"), 8); took != 8 {
			t.Errorf("after %d steps: it took %d MiB", n+1, took)
		}
	}
}

func TestAFullNodeSaysSo(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s, _ := newStore(t, 256)
	folder, err := s.Ensure(ctx, home("vol_big", 1024))
	if err != nil {
		t.Fatal(err)
	}
	fill(t, filepath.Join(folder, "big"), 1024)
	if _, err := s.Ensure(ctx, home("vol_next", 16)); !errors.Is(err, ErrFull) {
		t.Errorf("a volume in a full pool: %v", err)
	}
	if has, err := s.Has(ctx, "vol_next"); has || err != nil {
		t.Errorf("something was made: %v, %v", has, err)
	}
}

// TestRootHasRoomForItsTables: what the VM was sold fits beside qcow2's own.
func TestRootHasRoomForItsTables(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s, _ := newStore(t, 512)
	v := home("vol_root", 32)
	v.Role = RoleRoot
	folder, err := s.Ensure(ctx, v)
	if err != nil {
		t.Fatal(err)
	}
	if took := fill(t, filepath.Join(folder, "disk.qcow2"), 40); took != 40 {
		t.Errorf("a root volume of 32 MiB took %d", took)
	}
	if took := fill(t, filepath.Join(folder, "more"), 200); took > 80 {
		t.Errorf("a root volume of 32 MiB took %d more", took)
	}
}
