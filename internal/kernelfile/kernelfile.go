// Package kernelfile reads the small files that the kernel makes up as they are
// read: counters of control groups and network ports, what a process is. An agent
// reads hundreds of them every few seconds, for which os.ReadFile does twice the
// work: it tries to wait for them as for a connection, and asks for their size.
//
// Imports: the standard library and x/sys only.
package kernelfile

import (
	"bytes"
	"os"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// Most is how much of a file is read: more than any of those files holds.
const Most = 8 << 10

var buffers = sync.Pool{New: func() any { return new([Most]byte) }}

// With reads a file's beginning and gives it to f, which must not keep it.
func With(path string, f func(text []byte)) error {
	fd, err := retry(func() (int, error) { return unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0) })
	if err != nil {
		return &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer func() { _ = unix.Close(fd) }()
	buf := buffers.Get().(*[Most]byte)
	defer buffers.Put(buf)
	n := 0
	for n < Most {
		more, err := retry(func() (int, error) { return unix.Read(fd, buf[n:]) })
		if err != nil {
			return &os.PathError{Op: "read", Path: path, Err: err}
		}
		if more <= 0 {
			break
		}
		n += more
	}
	f(buf[:n])
	return nil
}

func retry(call func() (int, error)) (int, error) {
	for {
		if n, err := call(); err != unix.EINTR { //nolint:errorlint // an errno, never wrapped
			return n, err
		}
	}
}

// Int is the number that a file holds.
func Int(path string) (v int64, err error) {
	bad := error(nil)
	err = With(path, func(text []byte) { v, bad = strconv.ParseInt(string(bytes.TrimSpace(text)), 10, 64) })
	if err == nil {
		err = bad
	}
	return v, err
}

// Key is the number behind a word at a line's beginning; 0: it is not there.
func Key(path, key string) (v int64, err error) {
	err = With(path, func(text []byte) {
		for line := range bytes.Lines(text) {
			if rest, ok := bytes.CutPrefix(line, []byte(key)); ok && len(rest) > 0 && rest[0] == ' ' {
				v, _ = strconv.ParseInt(string(bytes.TrimSpace(rest)), 10, 64)
				return
			}
		}
	})
	return v, err
}
