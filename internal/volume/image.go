package volume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Sizes of a pool's file, in bytes.
const (
	leastPool   = 256 << 20 // btrfs's own least is a little over 100 MiB
	defaultPool = 64 << 30  // at most, where no size is given
)

// makeImage has the pool's file there, whole and at least as large as asked for.
func (p *Pool) makeImage(ctx context.Context) (grown bool, err error) {
	size := p.sizeMiB << 20
	info, err := os.Stat(p.image)
	switch {
	case err == nil && (size == 0 || info.Size() >= size):
		// One that was made thin stays so where the host has no room for the rest.
		if err := reserve(p.image, info.Size()); err != nil && !errors.Is(err, unix.ENOSPC) {
			return false, err
		}
		return false, nil
	case err == nil:
		if err := reserve(p.image, size); err != nil {
			return false, asFull(fmt.Errorf("enlarge disk pool: %w", err))
		}
		return true, nil
	case !errors.Is(err, fs.ErrNotExist):
		return false, fmt.Errorf("find disk pool: %w", err)
	}
	if size == 0 {
		size = min(freeBytes(filepath.Dir(p.dir))/2, defaultPool)
	}
	size = max(size, leastPool)
	fresh := p.image + ".new"
	f, err := os.OpenFile(fresh, os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err == nil {
		writeInPlace(f)
		err = errors.Join(f.Truncate(size), f.Close())
	}
	if err == nil {
		err = reserve(fresh, size)
	}
	if err != nil {
		_ = os.Remove(fresh)
		return false, asFull(fmt.Errorf("make disk pool of %d MiB: %w", size>>20, err))
	}
	if _, err := tool(ctx, "mkfs.btrfs", "-q", "-K", "-m", "single", fresh); err != nil {
		return false, err
	}
	if err := os.Rename(fresh, p.image); err != nil {
		return false, fmt.Errorf("make disk pool: %w", err)
	}
	return false, nil
}

// reserve gives the file all its blocks. Without them a full host would make the
// pool's own writes fail, which a file system takes for a broken disk: it closes
// itself, and every guest with it. Where the host's file system can't reserve,
// the file stays thin.
func reserve(path string, size int64) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("open disk pool: %w", err)
	}
	defer func() { _ = f.Close() }()
	for {
		err = unix.Fallocate(int(f.Fd()), 0, 0, size)
		if err != unix.EINTR {
			break
		}
	}
	if errors.Is(err, unix.EOPNOTSUPP) {
		err = f.Truncate(size)
	}
	if err != nil {
		return fmt.Errorf("reserve the disk pool's %d MiB: %w", size>>20, err)
	}
	return nil
}

// thin reports that a file lacks blocks which it will need.
func thin(path string) bool {
	var st unix.Stat_t
	return unix.Stat(path, &st) == nil && st.Blocks*512 < st.Size
}

// writeInPlace asks a host file system that copies on write not to, where it
// knows the flag: it would need new blocks for each write.
func writeInPlace(f *os.File) {
	const noCopy = 0x00800000 // FS_NOCOW_FL, linux/fs.h
	flags, err := unix.IoctlGetInt(int(f.Fd()), unix.FS_IOC_GETFLAGS)
	if err == nil {
		_ = unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, flags|noCopy)
	}
}
