// Package volume is a node's local storage: one disk pool, and in it the
// volumes that outlive a run and the writable layers that don't.
//
//	DIR/pool.btrfs                   a file that has its blocks from the start, mounted at DIR/pool
//	DIR/pool/layers/ID               a container's writable layer
//	DIR/pool/volumes/ID/volume.json  what the volume is; written last, so its presence says that it is whole
//	DIR/pool/volumes/ID/data         a VM's disk.qcow2, or a notebook's home
//
// Each is a btrfs subvolume that its quota group limits: making one takes
// milliseconds, removing one is a single step that a crash can't halve, and the
// host's own file system needs no quota support. A volume is removed by its id
// and in no other way.
//
// It may import durable and nodewire.
package volume

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

// ErrFull: the pool, or the host's file system under it, has no room.
var ErrFull = errors.New("the node has no room for it")

// Kind is one of the pool's folders.
type Kind string

const (
	Layers  Kind = "layers"
	volumes Kind = "volumes"
)

// Pool is a node's disk pool.
type Pool struct {
	image, dir string
	sizeMiB    int64

	opening sync.Mutex
	mu      sync.Mutex
	stale   []string // quota groups whose subvolume was deleted
}

// NewPool names a pool in a folder; Open makes or mounts it. Size 0 is half of
// the free space, and 64 GiB at most.
func NewPool(dir string, sizeMiB int64) *Pool {
	return &Pool{image: filepath.Join(dir, "pool.btrfs"), dir: filepath.Join(dir, "pool"), sizeMiB: sizeMiB}
}

// Dir is where the pool is mounted.
func (p *Pool) Dir() string { return p.dir }

// Path is where something of the pool lies.
func (p *Pool) Path(k Kind, id string) string { return filepath.Join(p.dir, string(k), id) }

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

// Mounted compares devices, since the state folder may itself be on btrfs.
func (p *Pool) Mounted() bool {
	var dir, parent unix.Stat_t
	return unix.Stat(p.dir, &dir) == nil && unix.Stat(filepath.Dir(p.dir), &parent) == nil && dir.Dev != parent.Dev && isBtrfs(p.dir)
}

// Open mounts the pool and makes it where there is none; it is idempotent. A
// pool that its file system has closed to writing is mounted anew, once nobody
// uses it. Writable layers live no longer than their guests, so those that are
// found when the pool is mounted are dropped: no guest lives through that.
func (p *Pool) Open(ctx context.Context) error {
	p.opening.Lock()
	defer p.opening.Unlock()
	if p.Mounted() {
		broken := p.Broken()
		if broken == nil && p.ready() {
			return nil
		}
		if broken == nil { // whoever mounted it was ended before it was done
			return p.furnish(ctx, true)
		}
		if err := p.Close(); err != nil {
			return fmt.Errorf("%w; it is mounted anew once no guest uses it", broken)
		}
	}
	if err := os.MkdirAll(p.dir, 0o711); err != nil {
		return fmt.Errorf("make disk folder: %w", err)
	}
	grown, err := p.makeImage(ctx)
	if err != nil {
		return err
	}
	// No copy-on-write for data: nothing is ever snapshotted, and it halves the
	// cost of rewrites. No discard: it would give reserved blocks back to the host.
	if _, err := tool(ctx, "mount", "-t", "btrfs", "-o", "loop,noatime,nodatacow,nodiscard", p.image, p.dir); err != nil {
		return fmt.Errorf("mount disk pool %s, which holds this node's volumes: %w", p.image, err)
	}
	return p.furnish(ctx, grown)
}

// ready: the folder that is made last is there.
func (p *Pool) ready() bool {
	_, err := os.Stat(filepath.Join(p.dir, string(volumes)))
	return err == nil
}

// furnish makes a pool that is mounted fit for use. The folder for volumes comes
// last, so that its presence says that all else was done.
func (p *Pool) furnish(ctx context.Context, grown bool) error {
	if grown {
		if _, err := tool(ctx, "btrfs", "filesystem", "resize", "max", p.dir); err != nil {
			return err
		}
	}
	if _, err := tool(ctx, "btrfs", "quota", "enable", p.dir); err != nil {
		return err
	}
	// The ways are open for passing through: QEMU runs as a user of its own, and
	// what it may read belongs to it.
	if err := os.Chmod(p.dir, 0o711); err != nil {
		return fmt.Errorf("open disk pool: %w", err)
	}
	for _, k := range []Kind{Layers, volumes} {
		if err := os.Mkdir(filepath.Join(p.dir, string(k)), 0o711); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("make disk folder: %w", err)
		}
	}
	for _, id := range p.IDs(Layers) {
		if err := p.Delete(ctx, Layers, id); err != nil {
			return err
		}
	}
	return nil
}

// Broken says why nothing can be written to a mounted pool, if that is so.
func (p *Pool) Broken() error {
	var st unix.Statfs_t
	if err := unix.Statfs(p.dir, &st); err != nil {
		return fmt.Errorf("read state of disk pool: %w", err)
	}
	if st.Type == unix.BTRFS_SUPER_MAGIC && st.Flags&unix.ST_RDONLY != 0 {
		return errors.New("the disk pool failed to write, and its file system has closed it to writing")
	}
	return nil
}

// Create makes something that holds at most limit bytes, or sets the limit of
// what is there.
func (p *Pool) Create(ctx context.Context, k Kind, id string, limit int64) error {
	path, err := p.whole(k, id)
	if err != nil {
		return err
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		if _, err := tool(ctx, "btrfs", "subvolume", "create", path); err != nil {
			return asFull(err)
		}
	}
	if _, err := tool(ctx, "btrfs", "qgroup", "limit", strconv.FormatInt(limit, 10), path); err != nil {
		return asFull(err)
	}
	return nil
}

// Delete removes by name; what is not there is deleted.
func (p *Pool) Delete(ctx context.Context, k Kind, id string) error {
	path, err := p.whole(k, id)
	if err != nil {
		return err
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	group, _ := tool(ctx, "btrfs", "inspect-internal", "rootid", path)
	if _, err := tool(ctx, "btrfs", "subvolume", "delete", path); err != nil {
		return err
	}
	p.dropStale(ctx, strings.TrimSpace(group))
	return nil
}

// whole refuses names that lead elsewhere, and to speak for a pool that is not
// there.
func (p *Pool) whole(k Kind, id string) (string, error) {
	if id == "" || strings.HasPrefix(id, ".") || strings.ContainsAny(id, "/\x00") {
		return "", fmt.Errorf("%q is no name of a volume", id)
	}
	if !p.Mounted() {
		return "", errors.New("the disk pool is not mounted")
	}
	return p.Path(k, id), nil
}

// dropStale removes quota groups of deleted subvolumes; the kernel refuses while
// it still cleans up, so each is tried again at the next removal.
func (p *Pool) dropStale(ctx context.Context, group string) {
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

// IDs lists what there is of a kind.
func (p *Pool) IDs(k Kind) []string {
	if !p.Mounted() {
		return nil
	}
	entries, _ := os.ReadDir(filepath.Join(p.dir, string(k)))
	var ids []string
	for _, e := range entries {
		ids = append(ids, e.Name())
	}
	return ids
}

// Close unmounts the pool; what is in it stays.
func (p *Pool) Close() error {
	for p.Mounted() {
		if err := unix.Unmount(p.dir, 0); err != nil {
			return fmt.Errorf("unmount disk pool: %w", err)
		}
	}
	return nil
}

// asFull tells a want of room from other failures; programs put it in words.
func asFull(err error) error {
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) || strings.Contains(err.Error(), "No space left") {
		return errors.Join(ErrFull, err)
	}
	return err
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
