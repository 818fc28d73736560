package devcloud

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Lock is held while a supervisor of this state folder lives; the kernel lets
// go of it however the process ends.
type Lock struct{ file *os.File }

// lockState takes the state folder's lock, or names the process that has it.
func lockState(state string) (*Lock, error) {
	file, err := os.OpenFile(filepath.Join(state, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		holder := lockHolder(file)
		_ = file.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("this cloud is already running, as process %d: stop that one with Ctrl-C (or `kill %[1]d`) first", holder)
		}
		return nil, fmt.Errorf("lock the state folder: %w", err)
	}
	if err := errors.Join(file.Truncate(0), writeAt(file, strconv.Itoa(os.Getpid())+"\n")); err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("write lock: %w", err)
	}
	return &Lock{file}, nil
}

// lockHolder reads who has it; 0: nobody said.
func lockHolder(file *os.File) int {
	buf := make([]byte, 16)
	n, _ := file.ReadAt(buf, 0)
	pid, _ := strconv.Atoi(strings.TrimSpace(string(buf[:n])))
	return pid
}

func writeAt(f *os.File, text string) error {
	_, err := f.WriteAt([]byte(text), 0)
	return err
}

// Release lets go. The file stays: removing it would let two processes hold
// two different files of one name.
func (l *Lock) Release() { _ = l.file.Close() }
