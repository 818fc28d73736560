package containerd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tenon-cloud/tenon/internal/volume"
)

// disks are the guests' writable layers in the node's disk pool. A layer lives
// no longer than its guest.
type disks struct {
	pool *volume.Pool

	mu   sync.Mutex
	used map[string]usage // as last read
}

// usage is what a layer held at a moment.
type usage struct {
	bytes int64
	at    time.Time
}

// usageHolds is how long it is taken to be so: the file system tells of what was
// written with its next commit only, every half a minute.
const usageHolds = 14 * time.Second

// PoolDir is where a node's disk pool lies, below the engine's state folder.
func PoolDir(stateDir string) string { return filepath.Join(stateDir, "disk") }

func newDisks(cfg Config) *disks {
	if cfg.Pool == nil {
		cfg.Pool = volume.NewPool(PoolDir(cfg.StateDir), cfg.PoolMiB)
	}
	return &disks{pool: cfg.Pool, used: map[string]usage{}}
}

func (p *disks) path(id string) string { return p.pool.Path(volume.Layers, id) }

func freeBytes(path string) int64 {
	var st unix.Statfs_t
	if unix.Statfs(path, &st) != nil {
		return 0
	}
	return int64(st.Bavail) * st.Bsize
}

func (p *disks) open(ctx context.Context) error { return p.pool.Open(ctx) }

// create makes a writable layer that holds at most sizeMiB, owned by root of the
// guest's id range; an existing one is kept.
func (p *disks) create(ctx context.Context, id string, sizeMiB int64, owner uint32) error {
	if err := p.pool.Create(ctx, volume.Layers, id, sizeMiB<<20); err != nil {
		return err
	}
	for _, sub := range []string{"upper", "work"} {
		dir := filepath.Join(p.path(id), sub)
		if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("make writable layer: %w", err)
		}
	}
	if err := os.Chown(filepath.Join(p.path(id), "upper"), int(owner), int(owner)); err != nil {
		return fmt.Errorf("own writable layer: %w", err)
	}
	return nil
}

// remove gives back a writable layer; its root must be unmounted. Without a pool
// there is none.
func (p *disks) remove(ctx context.Context, id string) error {
	p.mu.Lock()
	delete(p.used, id)
	p.mu.Unlock()
	if !p.pool.Mounted() {
		return nil
	}
	return p.pool.Delete(ctx, volume.Layers, id)
}

// list is the ids that have a writable layer.
func (p *disks) list() []string { return p.pool.IDs(volume.Layers) }

// usedBytes is what a guest wrote, as of the file system's last commit.
func (p *disks) usedBytes(ctx context.Context, id string) (int64, error) {
	now := time.Now()
	p.mu.Lock()
	last, known := p.used[id]
	p.mu.Unlock()
	if known && now.Sub(last.at) < usageHolds {
		return last.bytes, nil
	}
	bytes, err := p.pool.UsedBytes(ctx, volume.Layers, id)
	if err == nil {
		p.mu.Lock()
		p.used[id] = usage{bytes, now}
		p.mu.Unlock()
	}
	return bytes, err
}
