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

// TestAFullHostLeavesThePoolWhole: what fills the host's disk, beside the pool,
// takes nothing of what the pool has promised.
func TestAFullHostLeavesThePoolWhole(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	_, outer := newStore(t, 1024) // stands for the host: a file system of its own
	host, err := NewStore(outer).Ensure(ctx, home("vol_host", 700))
	if err != nil {
		t.Fatal(err)
	}
	image := filepath.Join(host, "host.ext4")
	mount := filepath.Join(t.TempDir(), "host")
	for _, argv := range [][]string{{"truncate", "-s", "600M", image}, {"mkfs.ext4", "-q", "-m", "0", image}, {"mkdir", mount}, {"mount", "-o", "loop", image, mount}} {
		if _, err := tool(ctx, argv[0], argv[1:]...); err != nil {
			t.Fatal(err)
		}
	}
	p := NewPool(filepath.Join(mount, "disk"), 300)
	t.Cleanup(func() {
		if err := errors.Join(p.Close(), unix.Unmount(mount, 0)); err != nil {
			t.Error(err)
		}
	})
	if err := os.Mkdir(filepath.Join(mount, "disk"), 0o711); err != nil {
		t.Fatal(err)
	}
	s := NewStore(p)
	folder, err := s.Ensure(ctx, home("vol_a", 64))
	if err != nil {
		t.Fatal(err)
	}
	if took := fill(t, filepath.Join(mount, "all"), 1000); took == 1000 {
		t.Fatal("the host is not full")
	}
	if took := fill(t, filepath.Join(folder, "big"), 48); took != 48 {
		t.Errorf("on a full host a volume of 64 MiB took %d", took)
	}
	if err := p.Broken(); err != nil {
		t.Error(err)
	}
	if err := s.Remove(ctx, "vol_a"); err != nil {
		t.Error(err)
	}
	if _, err := s.Ensure(ctx, home("vol_b", 64)); err != nil {
		t.Errorf("the next volume: %v", err)
	}
}

// TestAPoolClosedToWritingIsMountedAnew, once nobody uses it; until then it says
// what is wrong.
func TestAPoolClosedToWritingIsMountedAnew(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s, p := newStore(t, 256)
	folder, err := s.Ensure(ctx, home("vol_a", 16))
	if err != nil {
		t.Fatal(err)
	}
	fill(t, filepath.Join(folder, "kept"), 1)
	// As the kernel does after a failed write.
	if _, err := tool(ctx, "mount", "-o", "remount,ro", p.Dir()); err != nil {
		t.Fatal(err)
	}
	user, err := os.Open(filepath.Join(folder, "kept"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.List(ctx); err == nil || p.Broken() == nil {
		t.Errorf("in use and closed to writing: %v, %v", err, p.Broken())
	}
	user.Close()
	found, err := s.List(ctx)
	if err != nil || len(found) != 1 || p.Broken() != nil {
		t.Fatalf("mounted anew: %+v, %v, %v", found, err, p.Broken())
	}
	if took := fill(t, filepath.Join(folder, "more"), 4); took != 4 {
		t.Errorf("it took %d MiB", took)
	}
}

// An agent that is ended between the mount and what follows must not leave a pool
// in which nothing can be made.
func TestAPoolWhoseMakingWasInterruptedIsFinished(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s, p := newStore(t, 300)
	if err := p.Open(ctx); err != nil {
		t.Fatal(err)
	}
	for _, k := range []Kind{Layers, volumes} {
		if err := os.Remove(filepath.Join(p.Dir(), string(k))); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Open(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Ensure(ctx, home("vol_a", 16)); err != nil {
		t.Error("no volume can be made: ", err)
	}
}
