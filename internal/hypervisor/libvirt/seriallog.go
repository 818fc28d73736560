package libvirt

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/tenon-cloud/tenon/internal/hypervisor"
)

// serialLog reads a log that virtlogd writes and turns over: the older part, the
// present one, and on from there.
type serialLog struct {
	path string
	now  *os.File // nil until the machine has written anything
	old  *os.File // read to its end first
}

func openSerialLog(path string) (*serialLog, error) {
	l := &serialLog{path: path}
	for try := 0; ; try++ {
		old, err := openIfThere(path + ".0")
		if err != nil {
			return nil, err
		}
		now, err := openIfThere(path)
		if err != nil {
			return nil, err
		}
		// Turned over between the two: what was the present part is the older now.
		if try < 3 && now != nil && old != nil && sameFile(now, old) {
			_ = now.Close()
			_ = old.Close()
			continue
		}
		l.old, l.now = old, now
		return l, nil
	}
}

func openIfThere(path string) (*os.File, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // absent is an answer
	}
	if err != nil {
		return nil, fmt.Errorf("open serial log: %w", err)
	}
	return f, nil
}

func sameFile(a, b *os.File) bool {
	x, err := a.Stat()
	y, yerr := b.Stat()
	return err == nil && yerr == nil && os.SameFile(x, y)
}

// Read returns io.EOF at the end for now; a later call may bring more.
func (l *serialLog) Read(p []byte) (int, error) {
	if l.old != nil {
		n, err := l.old.Read(p)
		if n > 0 {
			return n, nil
		}
		_ = l.old.Close()
		l.old = nil
		if err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
	}
	if l.now == nil {
		f, err := openIfThere(l.path)
		if err != nil || f == nil {
			return 0, errors.Join(err, io.EOF)
		}
		l.now = f
	}
	n, err := l.now.Read(p)
	if n > 0 || !errors.Is(err, io.EOF) {
		return n, err
	}
	next, oerr := openIfThere(l.path)
	if oerr != nil || next == nil {
		return 0, io.EOF
	}
	if sameFile(next, l.now) {
		_ = next.Close()
		return 0, io.EOF
	}
	// It was turned over: whatever came before that is in the old file.
	l.old, l.now = l.now, next
	return l.Read(p)
}

func (l *serialLog) Close() error {
	for _, f := range []*os.File{l.old, l.now} {
		if f != nil {
			_ = f.Close()
		}
	}
	return nil
}

// Logs implements hypervisor.Driver: what the machine wrote to its serial port.
func (d *Driver) Logs(ctx context.Context, id string, opts hypervisor.LogOptions) (io.ReadCloser, error) {
	if _, err := os.Stat(d.logDir(id)); err != nil {
		return nil, hypervisor.ErrNoGuest
	}
	l, err := openSerialLog(d.serialLog(id))
	if err != nil {
		return nil, err
	}
	kept, err := io.ReadAll(l)
	if err != nil {
		_ = l.Close()
		return nil, fmt.Errorf("read serial log: %w", err)
	}
	if opts.Tail > 0 {
		kept = lastLines(kept, opts.Tail)
	}
	if !opts.Follow {
		_ = l.Close()
		return io.NopCloser(bytes.NewReader(kept)), nil
	}
	ctx, cancel := context.WithCancel(ctx)
	follow := &followedLog{log: l, ctx: ctx, cancel: cancel, alive: func() bool { return d.pid(id) != 0 }}
	return struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(kept), follow), follow}, nil
}

func lastLines(text []byte, n int) []byte {
	at := len(text)
	if at > 0 && text[at-1] == '\n' {
		at--
	}
	for ; n > 0; n-- {
		at = bytes.LastIndexByte(text[:at], '\n')
		if at < 0 {
			return text
		}
	}
	return text[at+1:]
}

// followedLog waits at the end until the machine is off.
type followedLog struct {
	log    *serialLog
	ctx    context.Context
	cancel context.CancelFunc
	alive  func() bool
}

func (f *followedLog) Read(p []byte) (int, error) {
	for {
		alive := f.alive()
		n, err := f.log.Read(p)
		if n > 0 || !errors.Is(err, io.EOF) {
			return n, err
		}
		if !alive {
			return 0, io.EOF
		}
		t := time.NewTimer(logPoll)
		select {
		case <-f.ctx.Done():
			t.Stop()
			return 0, context.Cause(f.ctx)
		case <-t.C:
		}
	}
}

func (f *followedLog) Close() error {
	f.cancel()
	return f.log.Close()
}
