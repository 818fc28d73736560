package containerd

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/containerd/containerd/v2/core/mount"
	"golang.org/x/sys/unix"
)

// mountRootfs joins the image's layers and the guest's writable layer at target.
//
// The layers are owned by the host's root on disk; an id-mapped view of each
// shows them as owned by the guest's root, so no copy is made for an
// organisation's first start of an image. The views are only needed while the
// overlay is mounted. Paths are given as descriptors, so that the guest's
// /proc/mounts shows nothing of the host.
func mountRootfs(target string, lower []string, writable, userNS string) (err error) {
	if isMounted(target) {
		return nil
	}
	if err := os.MkdirAll(target, 0o711); err != nil {
		return fmt.Errorf("make root folder: %w", err)
	}
	ns, err := os.Open(userNS)
	if err != nil {
		return fmt.Errorf("open user namespace: %w", err)
	}
	defer ns.Close()
	views, err := os.MkdirTemp(filepath.Dir(target), ".views-*")
	if err != nil {
		return fmt.Errorf("make view folder: %w", err)
	}
	defer func() { err = errors.Join(err, removeViews(views)) }()

	var open []int
	defer func() {
		for _, fd := range open {
			unix.Close(fd)
		}
	}()
	byFD := func(path string) (string, error) {
		fd, err := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return "", fmt.Errorf("open layer: %w", err)
		}
		open = append(open, fd)
		return "/proc/self/fd/" + strconv.Itoa(fd), nil
	}
	names := make([]string, len(lower))
	for i, dir := range lower {
		view := filepath.Join(views, strconv.Itoa(i))
		if err := os.Mkdir(view, 0o700); err != nil {
			return fmt.Errorf("make view folder: %w", err)
		}
		if err := mount.IDMapMount(dir, view, int(ns.Fd())); err != nil {
			return fmt.Errorf("map ids of a layer (the state folder must lie on a file system with id-mapped mounts, such as ext4, XFS or btrfs, and Linux be 5.19 or newer): %w", err)
		}
		if names[i], err = byFD(view); err != nil {
			return err
		}
	}
	upper, err := byFD(filepath.Join(writable, "upper"))
	if err != nil {
		return err
	}
	work, err := byFD(filepath.Join(writable, "work"))
	if err != nil {
		return err
	}
	// volatile: a writable layer does not outlive its guest, so syncing it is waste.
	options := "lowerdir=" + strings.Join(names, ":") + ",upperdir=" + upper + ",workdir=" + work + ",volatile"
	if err := unix.Mount("overlay", target, "overlay", unix.MS_NODEV, options); err != nil {
		return fmt.Errorf("mount root file system: %w", err)
	}
	return nil
}

func removeViews(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if uerr := unix.Unmount(path, unix.MNT_DETACH); uerr != nil && !errors.Is(uerr, unix.EINVAL) {
			err = errors.Join(err, uerr)
		}
		err = errors.Join(err, os.Remove(path)) // never RemoveAll: a view shows real layers
	}
	return errors.Join(err, os.Remove(dir))
}

func unmountRootfs(target string) error {
	err := unix.Unmount(target, unix.MNT_DETACH)
	if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("unmount root file system: %w", err)
	}
	if err := os.Remove(target); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove root folder: %w", err)
	}
	return nil
}

// isMounted is true when path is the root of a mount.
func isMounted(path string) bool {
	var st, parent unix.Stat_t
	return unix.Stat(path, &st) == nil && unix.Stat(filepath.Dir(path), &parent) == nil && st.Dev != parent.Dev
}
