package volume

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// What btrfs says of a quota group is asked of the kernel and not of a program: a
// node asks for each guest every few seconds.
const (
	treeSearch     = 0xd0009411 // BTRFS_IOC_TREE_SEARCH
	inodeLookup    = 0xd0009412 // BTRFS_IOC_INO_LOOKUP
	firstInode     = 256        // the top folder of every subvolume
	quotaTree      = 8
	quotaGroupInfo = 242
	searchBytes    = 4096
)

// searchKey is struct btrfs_ioctl_search_key.
type searchKey struct {
	Tree                       uint64
	MinObject, MaxObject       uint64
	MinOffset, MaxOffset       uint64
	MinTransaction, MaxTransac uint64
	MinType, MaxType           uint32
	Items                      uint32
	_                          uint32
	_                          [4]uint64
}

// foundHeader is struct btrfs_ioctl_search_header: it precedes each item.
type foundHeader struct {
	Transaction, Object, Offset uint64
	Type, Len                   uint32
}

// UsedBytes is what something holds, as of the file system's last commit.
func (p *Pool) UsedBytes(ctx context.Context, k Kind, id string) (int64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	fd, err := unix.Open(p.Path(k, id), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, fmt.Errorf("read disk usage of %s: %w", id, &os.PathError{Op: "open", Path: p.Path(k, id), Err: err})
	}
	defer func() { _ = unix.Close(fd) }()
	used, err := referenced(fd)
	if err != nil {
		return 0, fmt.Errorf("read disk usage of %s: %w", id, err)
	}
	return used, nil
}

// referenced is how many bytes the subvolume of an open folder refers to.
func referenced(fd int) (int64, error) {
	var lookup struct {
		Tree, Object uint64
		Name         [4080]byte
	}
	lookup.Object = firstInode
	if err := ioctl(fd, inodeLookup, unsafe.Pointer(&lookup)); err != nil {
		return 0, fmt.Errorf("find its subvolume: %w", err)
	}
	var search struct {
		searchKey
		Buf [searchBytes - unsafe.Sizeof(searchKey{})]byte
	}
	search.searchKey = searchKey{
		Tree: quotaTree, MinOffset: lookup.Tree, MaxOffset: lookup.Tree, MaxTransac: math.MaxUint64,
		MinType: quotaGroupInfo, MaxType: quotaGroupInfo, Items: 1,
	}
	if err := ioctl(fd, treeSearch, unsafe.Pointer(&search)); err != nil {
		return 0, fmt.Errorf("find its quota group: %w", err)
	}
	const header = int(unsafe.Sizeof(foundHeader{}))
	h := (*foundHeader)(unsafe.Pointer(&search.Buf))
	if search.Items != 1 || h.Type != quotaGroupInfo || h.Offset != lookup.Tree || h.Len < 16 {
		return 0, errors.New("it has no quota group")
	}
	// A generation precedes it, and on disk everything is little-endian.
	return int64(binary.LittleEndian.Uint64(search.Buf[header+8:])), nil
}

func ioctl(fd int, request uintptr, arg unsafe.Pointer) error {
	for {
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(arg))
		switch errno {
		case 0:
			return nil
		case unix.EINTR:
		default:
			return errno
		}
	}
}
