package containerd

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// LogWriterCommand is the hidden first argument that makes the agent's program a
// log writer: `tenon-agent log-writer FOLDER`.
const LogWriterCommand = "log-writer"

const (
	logFile     = "output.log"
	olderFile   = "output.log.1"
	logFileSize = 8 << 20 // of each of the two
)

// LogWriter keeps the last 8 to 16 MiB that one guest wrote. The shim starts it
// with the guest's two outputs as descriptors 3 and 4 and waits for 5 to close,
// so it outlives both the agent and containerd and ends with the guest.
func LogWriter(dir string) error {
	// The guest's end is what ends it, not a signal to a whole process group.
	signal.Ignore(syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM, syscall.SIGPIPE)
	out, problem, ready := os.NewFile(3, "stdout"), os.NewFile(4, "stderr"), os.NewFile(5, "ready")
	if out == nil || problem == nil || ready == nil {
		return errors.New("the log writer is started by containerd's shim only")
	}
	w, err := newRotated(dir, logFileSize)
	if err != nil {
		return err
	}
	if err := ready.Close(); err != nil {
		return fmt.Errorf("say that the log is ready: %w", err)
	}
	var both sync.WaitGroup
	pace := newPace()
	for _, stream := range []io.Reader{out, problem} {
		both.Go(func() { copyAll(w, stream, pace) })
	}
	both.Wait()
	return w.Close()
}

// copyAll reads to the end whatever becomes of the writes: a full disk must not
// block the guest.
func copyAll(w io.Writer, r io.Reader, pace *pace) {
	buf := make([]byte, 64<<10) // what a pipe holds
	for {
		n, err := r.Read(buf)
		if n > 0 {
			_, _ = w.Write(buf[:n])
		}
		if err != nil {
			return
		}
		time.Sleep(pace.took(n))
	}
}

// rotated is a file that moves aside when it is full; one older one is kept.
type rotated struct {
	dir   string
	limit int64

	mu   sync.Mutex
	file *os.File
	size int64
}

func newRotated(dir string, limit int64) (*rotated, error) {
	w := &rotated{dir: dir, limit: limit}
	return w, w.open()
}

func (w *rotated) open() error {
	f, err := os.OpenFile(filepath.Join(w.dir, logFile), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("open log: %w", err)
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return fmt.Errorf("open log: %w", err)
	}
	w.file, w.size = f, info.Size()
	return nil
}

func (w *rotated) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.file == nil || w.size+int64(len(p)) > w.limit {
		if err := w.rotate(); err != nil {
			return 0, err
		}
	}
	n, err := w.file.Write(p)
	w.size += int64(n)
	return n, err
}

func (w *rotated) rotate() error {
	if w.file != nil {
		w.file.Close()
		w.file = nil
		path := filepath.Join(w.dir, logFile)
		if err := os.Rename(path, filepath.Join(w.dir, olderFile)); err != nil {
			_ = os.Truncate(path, 0) // bounded even where it can't be moved
		}
	}
	return w.open()
}

func (w *rotated) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.file == nil {
		return nil
	}
	return w.file.Close()
}
