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

// File is one that is read again and again, and so is opened once. When what it
// tells of is gone, reading fails, though something else has its name by then.
type File struct {
	path string

	mu sync.Mutex
	fd int // below 0: closed
}

// Open opens a file for reading.
func Open(path string) (*File, error) {
	fd, err := retry(func() (int, error) { return unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0) })
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return &File{path: path, fd: fd}, nil
}

// Close may be called at any time, and for no file.
func (f *File) Close() {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fd >= 0 {
		_ = unix.Close(f.fd)
		f.fd = -1
	}
}

// With gives the file's text as it is now to use, which must not keep it. The kernel
// makes a counter's file up in one piece, so one reading is all of it.
func (f *File) With(use func(text []byte)) error {
	if f == nil {
		return os.ErrInvalid
	}
	buf := buffers.Get().(*[Most]byte)
	defer buffers.Put(buf)
	f.mu.Lock()
	fd := f.fd
	n, err := 0, error(unix.EBADF)
	if fd >= 0 {
		n, err = retry(func() (int, error) { return unix.Pread(fd, buf[:], 0) })
	}
	f.mu.Unlock()
	if err != nil {
		return &os.PathError{Op: "read", Path: f.path, Err: err}
	}
	use(buf[:n])
	return nil
}

// Int is the number that the file holds.
func (f *File) Int() (v int64, err error) {
	var bad error
	err = f.With(func(text []byte) { v, bad = strconv.ParseInt(string(bytes.TrimSpace(text)), 10, 64) })
	if err == nil {
		err = bad
	}
	return v, err
}

// Key is the number behind a word at a line's beginning; 0: it is not there.
func (f *File) Key(key string) (v int64, err error) {
	err = f.With(func(text []byte) {
		for line := range bytes.Lines(text) {
			if rest, ok := bytes.CutPrefix(line, []byte(key)); ok && len(rest) > 0 && rest[0] == ' ' {
				v, _ = strconv.ParseInt(string(bytes.TrimSpace(rest)), 10, 64)
				return
			}
		}
	})
	return v, err
}

// With reads a file's beginning once.
func With(path string, use func(text []byte)) error {
	f, err := Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.With(use)
}

func retry(call func() (int, error)) (int, error) {
	for {
		if n, err := call(); err != unix.EINTR { //nolint:errorlint // an errno, never wrapped
			return n, err
		}
	}
}
