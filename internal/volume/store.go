package volume

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/tenon-cloud/tenon/internal/durable"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

// Roles of a volume.
const (
	RoleRoot = "root" // holds disk.qcow2, which the VMs' driver makes
	RoleHome = "home" // a notebook's home, mounted as it is
)

// ErrUnknown: there is no such volume here.
var ErrUnknown = errors.New("no such volume on this node")

// Found is a volume that the node has.
type Found struct {
	ID      string
	Role    string // empty: a crash left it half made
	SizeMiB int64
	UsedMiB int64
	Folder  string // where its data lies; empty for one in memory
}

// Store keeps volumes in a pool. Its methods are idempotent and may be called
// again after a crash at any point.
type Store struct {
	pool *Pool
	mu   sync.Mutex // Ensure, Grow and Remove
}

// NewStore keeps volumes in a pool, which must be open before they are used.
func NewStore(p *Pool) *Store { return &Store{pool: p} }

// about is volume.json.
type about struct {
	OrgID   string `json:"org_id"`
	Role    string `json:"role"`
	SizeMiB int64  `json:"size_mib"`
}

// leastRoomMiB is what must be free in the pool and under it before a volume is
// made. Volumes are thin: more may be promised than there is.
const leastRoomMiB = 64

func (s *Store) folder(id string) string { return filepath.Join(s.pool.Path(volumes, id), "data") }
func (s *Store) file(id string) string {
	return filepath.Join(s.pool.Path(volumes, id), "volume.json")
}

// Ensure makes a volume where there is none, and gives its folder. One that is
// there keeps its data and is enlarged if more is asked for; none ever shrinks.
func (s *Store) Ensure(ctx context.Context, v nodewire.Volume) (folder string, err error) {
	if v.Role != RoleRoot && v.Role != RoleHome || v.SizeMiB < 1 {
		return "", fmt.Errorf("make volume %s: a role %q of %d MiB can't be made", v.ID, v.Role, v.SizeMiB)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.pool.Open(ctx); err != nil {
		return "", err
	}
	switch a, err := s.read(v.ID); {
	case err == nil && a.SizeMiB >= v.SizeMiB:
		return s.folder(v.ID), nil
	case err == nil:
		return s.folder(v.ID), s.write(ctx, v.ID, about{OrgID: a.OrgID, Role: a.Role, SizeMiB: v.SizeMiB})
	case !errors.Is(err, ErrUnknown):
		return "", err
	}
	if err := s.room(); err != nil {
		return "", fmt.Errorf("make volume %s: %w", v.ID, err)
	}
	return s.folder(v.ID), s.write(ctx, v.ID, about{OrgID: v.OrgID, Role: v.Role, SizeMiB: v.SizeMiB})
}

// Grow enlarges a volume that is there.
func (s *Store) Grow(ctx context.Context, id string, sizeMiB int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	a, err := s.read(id)
	if err != nil || a.SizeMiB >= sizeMiB {
		return err
	}
	a.SizeMiB = sizeMiB
	return s.write(ctx, id, a)
}

// write makes what is missing, in this order: limit, folder, and what says that
// it is whole.
func (s *Store) write(ctx context.Context, id string, a about) error {
	if err := s.pool.Create(ctx, volumes, id, limit(a)); err != nil {
		return fmt.Errorf("make volume %s: %w", id, err)
	}
	if err := os.Chmod(s.pool.Path(volumes, id), 0o711); err != nil {
		return fmt.Errorf("make volume %s: %w", id, err)
	}
	// Whoever mounts a home gives it to the guest's user.
	if err := os.Mkdir(s.folder(id), 0o711); err != nil && !errors.Is(err, fs.ErrExist) {
		return asFull(fmt.Errorf("make volume %s: %w", id, err))
	}
	raw, err := json.Marshal(a)
	if err != nil {
		return fmt.Errorf("make volume %s: %w", id, err)
	}
	if err := durable.WriteFile(s.file(id), raw, 0o600); err != nil {
		return asFull(fmt.Errorf("make volume %s: %w", id, err))
	}
	return nil
}

// limit is the size that was sold, and what keeping it takes: a qcow2 file's own
// tables are on top of what the VM sees.
func limit(a about) int64 {
	bytes := a.SizeMiB << 20
	if a.Role == RoleRoot {
		return bytes + bytes/512 + 64<<20
	}
	return bytes + 1<<20 // volume.json and the folder itself
}

func (s *Store) room() error {
	pool, host := freeBytes(s.pool.Dir())>>20, freeBytes(filepath.Dir(s.pool.Dir()))>>20
	if pool < leastRoomMiB {
		return fmt.Errorf("%w: %d MiB are free in the disk pool", ErrFull, pool)
	}
	if host < leastRoomMiB && thin(s.pool.image) {
		return fmt.Errorf("%w: %d MiB are free in the disk pool, but only %d MiB under it", ErrFull, pool, host)
	}
	return nil
}

// read gives what a whole volume is.
func (s *Store) read(id string) (about, error) {
	var a about
	if _, err := s.pool.whole(volumes, id); err != nil {
		return a, err
	}
	raw, err := os.ReadFile(s.file(id))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		return a, fmt.Errorf("volume %s: %w", id, ErrUnknown)
	}
	if err != nil {
		return a, fmt.Errorf("read volume %s: %w", id, err)
	}
	if err := json.Unmarshal(raw, &a); err != nil {
		return a, fmt.Errorf("read volume %s: %w", id, err)
	}
	return a, nil
}

// Has reports that a whole volume is here.
func (s *Store) Has(ctx context.Context, id string) (bool, error) {
	if err := s.pool.Open(ctx); err != nil {
		return false, err
	}
	_, err := s.read(id)
	if errors.Is(err, ErrUnknown) {
		return false, nil
	}
	return err == nil, err
}

// Remove deletes a volume and its data by its id; one that is not there is
// removed.
func (s *Store) Remove(ctx context.Context, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.pool.Open(ctx); err != nil {
		return err
	}
	if err := s.pool.Delete(ctx, volumes, id); err != nil {
		return fmt.Errorf("remove volume %s: %w", id, err)
	}
	return nil
}

// List is every volume that the node has, half made ones too.
func (s *Store) List(ctx context.Context) ([]Found, error) {
	if err := s.pool.Open(ctx); err != nil {
		return nil, err
	}
	out := []Found{}
	for _, id := range s.pool.IDs(volumes) {
		f := Found{ID: id, Folder: s.folder(id)}
		switch a, err := s.read(id); {
		case err == nil:
			f.Role, f.SizeMiB = a.Role, a.SizeMiB
		case !errors.Is(err, ErrUnknown):
			return nil, err
		}
		used, err := s.pool.UsedBytes(ctx, volumes, id)
		if err != nil {
			if _, gone := os.Stat(s.pool.Path(volumes, id)); errors.Is(gone, fs.ErrNotExist) {
				continue // removed meanwhile
			}
			return nil, err
		}
		f.UsedMiB = used >> 20
		out = append(out, f)
	}
	return out, nil
}
