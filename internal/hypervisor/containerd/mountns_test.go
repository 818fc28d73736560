package containerd

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"
)

// inMountNamespace runs f on a thread of its own in a process's mount namespace.
func inMountNamespace(pid int, f func() error) error {
	runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
	if unix.Gettid() == os.Getpid() {
		// Except the first thread, which the whole process is seen by.
		done := make(chan error, 1)
		go func() { done <- inMountNamespace(pid, f) }()
		err := <-done
		runtime.UnlockOSThread()
		return err
	}
	fd, err := unix.Open(fmt.Sprintf("/proc/%d/ns/mnt", pid), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return err
	}
	if err := unix.Setns(fd, unix.CLONE_NEWNS); err != nil {
		return err
	}
	return f()
}

// touchInside makes the file that test guests wait for.
func touchInside(root string) error {
	return os.WriteFile(filepath.Join(root, "go"), nil, 0o644)
}
