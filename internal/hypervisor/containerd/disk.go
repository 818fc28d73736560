package containerd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// disks are the guests' writable layers: one btrfs subvolume each, limited by
// its quota group, on a sparse file that is mounted as a loop device. Making one
// takes milliseconds, and the host's own file system needs no quota support.
//
// A writable layer lives no longer than its guest, so the pool is made afresh
// whenever it is found unmounted.
type disks struct {
	image, dir string
	poolMiB    int64

	mu    sync.Mutex
	stale []string // quota groups whose subvolume was deleted
}

func newDisks(cfg Config) *disks {
	dir := filepath.Join(cfg.StateDir, "disk")
	return &disks{image: filepath.Join(dir, "pool.btrfs"), dir: filepath.Join(dir, "pool"), poolMiB: cfg.PoolMiB}
}

func (p *disks) path(id string) string { return filepath.Join(p.dir, id) }

func freeBytes(path string) int64 {
	var st unix.Statfs_t
	if unix.Statfs(path, &st) != nil {
		return 0
	}
	return int64(st.Bavail) * st.Bsize
}

func isBtrfs(path string) bool {
	var st unix.Statfs_t
	return unix.Statfs(path, &st) == nil && st.Type == unix.BTRFS_SUPER_MAGIC
}

// mounted compares devices, since the state folder may itself be on btrfs.
func (p *disks) mounted() bool {
	var dir, parent unix.Stat_t
	return unix.Stat(p.dir, &dir) == nil && unix.Stat(filepath.Dir(p.dir), &parent) == nil && dir.Dev != parent.Dev && isBtrfs(p.dir)
}

func (p *disks) open(ctx context.Context) error {
	if err := os.MkdirAll(p.dir, 0o700); err != nil {
		return fmt.Errorf("make disk folder: %w", err)
	}
	if p.mounted() {
		return nil
	}
	size := p.poolMiB << 20
	if size == 0 {
		size = freeBytes(filepath.Dir(p.dir)) / 2
	}
	size = max(size, 256<<20) // btrfs's own least is a little over 100 MiB
	if err := os.Remove(p.image); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove old disk pool: %w", err)
	}
	f, err := os.OpenFile(p.image, os.O_CREATE|os.O_RDWR, 0o600)
	if err == nil {
		err = f.Truncate(size)
		f.Close()
	}
	if err != nil {
		return fmt.Errorf("make disk pool: %w", err)
	}
	if _, err := tool(ctx, "mkfs.btrfs", "-q", "-m", "single", p.image); err != nil {
		return err
	}
	// No copy-on-write for data: nothing is ever snapshotted, and it halves the cost of rewrites.
	if _, err := tool(ctx, "mount", "-t", "btrfs", "-o", "loop,noatime,nodatacow,discard=async", p.image, p.dir); err != nil {
		return err
	}
	_, err = tool(ctx, "btrfs", "quota", "enable", p.dir)
	return err
}

// create makes a writable layer that holds at most sizeMiB, owned by root of the
// guest's id range; an existing one is kept.
func (p *disks) create(ctx context.Context, id string, sizeMiB int64, owner uint32) error {
	path := p.path(id)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		if _, err := tool(ctx, "btrfs", "subvolume", "create", path); err != nil {
			return err
		}
	}
	if _, err := tool(ctx, "btrfs", "qgroup", "limit", strconv.FormatInt(sizeMiB<<20, 10), path); err != nil {
		return err
	}
	for _, sub := range []string{"upper", "work"} {
		dir := filepath.Join(path, sub)
		if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("make writable layer: %w", err)
		}
	}
	if err := os.Chown(filepath.Join(path, "upper"), int(owner), int(owner)); err != nil {
		return fmt.Errorf("own writable layer: %w", err)
	}
	return nil
}

// remove gives back a writable layer; its root must be unmounted.
func (p *disks) remove(ctx context.Context, id string) error {
	path := p.path(id)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) || !p.mounted() {
		return nil
	}
	group, _ := tool(ctx, "btrfs", "inspect-internal", "rootid", path)
	if _, err := tool(ctx, "btrfs", "subvolume", "delete", path); err != nil {
		return err
	}
	p.dropStale(ctx, strings.TrimSpace(group))
	return nil
}

// dropStale removes quota groups of deleted subvolumes; the kernel refuses while
// it still cleans up, so each is tried again at the next removal.
func (p *disks) dropStale(ctx context.Context, group string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var left []string
	for _, g := range p.stale {
		if _, err := tool(ctx, "btrfs", "qgroup", "destroy", "0/"+g, p.dir); err != nil && len(left) < 1000 {
			left = append(left, g)
		}
	}
	if group != "" {
		left = append(left, group)
	}
	p.stale = left
}

// list is the ids that have a writable layer.
func (p *disks) list() []string {
	if !p.mounted() {
		return nil
	}
	entries, _ := os.ReadDir(p.dir)
	var ids []string
	for _, e := range entries {
		ids = append(ids, e.Name())
	}
	return ids
}

// usedBytes is what a guest wrote, as of the file system's last commit.
func (p *disks) usedBytes(ctx context.Context, id string) (int64, error) {
	out, err := tool(ctx, "btrfs", "qgroup", "show", "--raw", "-f", p.path(id))
	if err != nil {
		return 0, err
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	fields := strings.Fields(lines[len(lines)-1])
	if len(fields) < 2 {
		return 0, fmt.Errorf("read disk usage of %s: unknown answer %q", id, out)
	}
	used, err := strconv.ParseInt(fields[1], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read disk usage of %s: %w", id, err)
	}
	return used, nil
}

// close unmounts and deletes the pool.
func (p *disks) close() error {
	for p.mounted() {
		if err := unix.Unmount(p.dir, 0); err != nil {
			return fmt.Errorf("unmount disk pool: %w", err)
		}
	}
	if err := os.RemoveAll(filepath.Dir(p.dir)); err != nil {
		return fmt.Errorf("delete disk pool: %w", err)
	}
	return nil
}

// tool runs a system program and returns what it printed.
func tool(ctx context.Context, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	var out, problem bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problem
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("%s %s: %w: %s", name, strings.Join(args[:min(2, len(args))], " "), err, bytes.TrimSpace(problem.Bytes()))
	}
	return out.String(), nil
}
