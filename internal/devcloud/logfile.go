package devcloud

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Children append to their log files by themselves, so a file is rotated by
// copying it and cutting it to nothing: an appending writer goes on at the new
// end.
const (
	logMaxBytes = 8 << 20
	logKept     = 3
	logEvery    = 10 * time.Second
)

func openLog(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o640)
	if err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	return f, nil
}

// rotateLogs keeps every log in a folder below its size until ctx ends.
func rotateLogs(ctx context.Context, folder string) {
	tick := time.NewTicker(logEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		logs, _ := filepath.Glob(filepath.Join(folder, "*.log"))
		for _, path := range logs {
			if info, err := os.Stat(path); err == nil && info.Size() > logMaxBytes {
				_ = rotate(path)
			}
		}
	}
}

func rotate(path string) error {
	for n := logKept - 1; n >= 1; n-- {
		err := os.Rename(fmt.Sprintf("%s.%d", path, n), fmt.Sprintf("%s.%d", path, n+1))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("rotate log: %w", err)
		}
	}
	from, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("rotate log: %w", err)
	}
	defer func() { _ = from.Close() }()
	to, err := os.OpenFile(path+".1", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o640)
	if err != nil {
		return fmt.Errorf("rotate log: %w", err)
	}
	_, err = io.Copy(to, from)
	if err := errors.Join(err, to.Close()); err != nil {
		return fmt.Errorf("rotate log: %w", err)
	}
	if err := os.Truncate(path, 0); err != nil {
		return fmt.Errorf("rotate log: %w", err)
	}
	return nil
}

// tailLines reads the last lines of a log, for a person.
func tailLines(path string, n int) []string {
	f, err := os.Open(path)
	if err != nil {
		return []string{"(no log yet)"}
	}
	defer func() { _ = f.Close() }()
	if info, err := f.Stat(); err == nil && info.Size() > 16<<10 {
		_, _ = f.Seek(-16<<10, io.SeekEnd)
	}
	text, _ := io.ReadAll(f)
	lines := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	return lines[max(0, len(lines)-n):]
}

func lastLine(path string) string {
	lines := tailLines(path, 1)
	if line := strings.TrimSpace(lines[len(lines)-1]); line != "" {
		if r := []rune(line); len(r) > 200 {
			line = string(r[:200]) + "…"
		}
		return line
	}
	return "(it wrote nothing)"
}
