package containerd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/tenon-cloud/tenon/internal/hypervisor"
)

const followInterval = 150 * time.Millisecond

func (d *Driver) logDir(id string) string { return filepath.Join(logsDir(d.cfg), id) }

// Logs implements hypervisor.Driver. A followed log ends when no process of the
// guest is left and everything was read.
func (d *Driver) Logs(ctx context.Context, id string, opts hypervisor.LogOptions) (io.ReadCloser, error) {
	dir := d.logDir(id)
	if _, err := os.Stat(dir); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, hypervisor.ErrNoGuest
		}
		return nil, fmt.Errorf("open log: %w", err)
	}
	current, kept, err := readLogs(dir)
	if err != nil {
		return nil, err
	}
	if opts.Tail > 0 {
		kept = lastLines(kept, opts.Tail)
	}
	if !opts.Follow {
		if current != nil {
			current.Close()
		}
		return io.NopCloser(bytes.NewReader(kept)), nil
	}
	ctx, cancel := context.WithCancel(ctx)
	r, w := io.Pipe()
	go func() {
		defer cancel()
		_, err := w.Write(kept)
		if err == nil {
			err = d.follow(ctx, id, current, w)
		}
		w.CloseWithError(err)
	}()
	return &followed{r, cancel}, nil
}

// followed stops following when its reader closes it.
type followed struct {
	*io.PipeReader
	cancel context.CancelFunc
}

func (f *followed) Close() error {
	f.cancel()
	return f.PipeReader.Close()
}

// readLogs reads both files and leaves the current one at its end; it is nil when
// the guest has not written yet.
func readLogs(dir string) (current *os.File, kept []byte, err error) {
	older, err := os.ReadFile(filepath.Join(dir, olderFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, fmt.Errorf("read log: %w", err)
	}
	current, err = os.Open(filepath.Join(dir, logFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, older, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read log: %w", err)
	}
	newer, err := io.ReadAll(current)
	if err != nil {
		current.Close()
		return nil, nil, fmt.Errorf("read log: %w", err)
	}
	return current, append(older, newer...), nil
}

func lastLines(text []byte, n int) []byte {
	at := len(text)
	if at > 0 && text[at-1] == '\n' {
		at--
	}
	for range n {
		next := bytes.LastIndexByte(text[:at], '\n')
		if next < 0 {
			return text
		}
		at = next
	}
	return text[at+1:]
}

func (d *Driver) follow(ctx context.Context, id string, f *os.File, w io.Writer) error {
	path := filepath.Join(d.logDir(id), logFile)
	defer func() {
		if f != nil {
			f.Close()
		}
	}()
	tick := time.NewTicker(followInterval)
	defer tick.Stop()
	for {
		// Asked before reading: what a guest wrote before it ended is read below.
		ended := len(processes(d.cgroupPath(id))) == 0
		if f != nil {
			if _, err := io.Copy(w, f); err != nil {
				return err
			}
		}
		next, err := os.Open(path)
		if err == nil && f != nil && sameFile(f, next) {
			next.Close()
		} else if err == nil {
			if f != nil {
				_, err = io.Copy(w, f) // what came between the last read and the rotation
				f.Close()
			}
			f = next
			if err != nil {
				return err
			}
			continue
		}
		if ended {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func sameFile(a, b *os.File) bool {
	x, err := a.Stat()
	if err != nil {
		return false
	}
	y, err := b.Stat()
	return err == nil && os.SameFile(x, y)
}
