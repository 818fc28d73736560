package network

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// IDRange is the host ids that a user namespace's ids 0… stand for; a zero range
// means the host's own user namespace.
type IDRange struct {
	Base uint32 `json:"base"`
	Size uint32 `json:"size"`
}

// makeNamespaces pins a network namespace, and the user namespace that owns it,
// as files in dir. A child is stopped before its first instruction, so nothing
// ever runs in them here.
func makeNamespaces(dir string, ids IDRange) (netNS, userNS string, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", "", fmt.Errorf("make namespace folder: %w", err)
	}
	attr := &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET, Ptrace: true, Pdeathsig: syscall.SIGKILL}
	kinds := []string{"net"}
	if ids.Size > 0 {
		kinds = append(kinds, "user")
		attr.Cloneflags |= unix.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{HostID: int(ids.Base), Size: int(ids.Size)}}
		attr.GidMappings = attr.UidMappings
		attr.GidMappingsEnableSetgroups = true
	}
	runtime.LockOSThread() // the tracer is a thread
	defer runtime.UnlockOSThread()
	child, err := os.StartProcess("/proc/self/exe", []string{"tenon-namespace"}, &os.ProcAttr{Sys: attr, Env: []string{}})
	if err != nil {
		return "", "", fmt.Errorf("make namespaces: %w", err)
	}
	defer func() {
		_ = unix.Kill(child.Pid, unix.SIGKILL)
		_, _ = child.Wait()
	}()
	for _, kind := range kinds {
		path := filepath.Join(dir, kind)
		f, err := os.OpenFile(path, os.O_CREATE|os.O_RDONLY, 0o600)
		if err != nil {
			return "", "", fmt.Errorf("pin namespace: %w", err)
		}
		f.Close()
		if err := unix.Mount(fmt.Sprintf("/proc/%d/ns/%s", child.Pid, kind), path, "", unix.MS_BIND, ""); err != nil {
			return "", "", fmt.Errorf("pin %s namespace: %w", kind, err)
		}
	}
	netNS = filepath.Join(dir, "net")
	if ids.Size > 0 {
		userNS = filepath.Join(dir, "user")
	}
	return netNS, userNS, nil
}

func removeNamespaces(dir string) error {
	for _, kind := range []string{"net", "user"} {
		path := filepath.Join(dir, kind)
		err := unix.Unmount(path, unix.MNT_DETACH)
		if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("unpin %s namespace: %w", kind, err)
		}
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove %s namespace: %w", kind, err)
		}
	}
	if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove namespace folder: %w", err)
	}
	return nil
}

// isNamespace tells a pinned namespace from the empty file that a reboot leaves.
func isNamespace(path string) bool {
	var st unix.Statfs_t
	return unix.Statfs(path, &st) == nil && st.Type == unix.NSFS_MAGIC
}
