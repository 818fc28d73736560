package containerd

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/tenon-cloud/tenon/internal/hypervisor"
)

func (c *cloudUnderTest) logs(t *testing.T, id string, opts hypervisor.LogOptions) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	r, err := c.Logs(ctx, id, opts)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	raw, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func TestLogs(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	s := spec("inst_logs", c.push(t, v1.Config{}), "sh", "-c",
		"echo problem >&2; echo one; echo two; echo three >/dev/stdout; while [ ! -e /go ]; do sleep 0.05; done; echo four; exit 6")
	c.start(t, s)
	eventually(t, 10*time.Second, "three lines", func() bool { return strings.Contains(c.logs(t, s.ID, hypervisor.LogOptions{}), "three\n") })
	// The two streams are two pipes: each keeps its own order.
	if got := c.logs(t, s.ID, hypervisor.LogOptions{Tail: 4}); strings.Replace(got, "problem\n", "", 1) != "one\ntwo\nthree\n" {
		t.Errorf("last four lines: %q", got)
	}
	if got := c.logs(t, s.ID, hypervisor.LogOptions{Tail: 1}); strings.Count(got, "\n") != 1 {
		t.Errorf("last line: %q", got)
	}
	followed := make(chan string, 1)
	go func() { followed <- c.logs(t, s.ID, hypervisor.LogOptions{Tail: 1, Follow: true}) }()
	c.sh(t, s.ID, "touch /go")
	if got := <-followed; !strings.HasSuffix(got, "\nfour\n") || strings.Count(got, "\n") != 2 {
		t.Errorf("followed to the end: %q", got)
	}
	if err := c.Remove(context.Background(), s.ID, true); err != nil {
		t.Fatal(err)
	}
	if got := c.logs(t, s.ID, hypervisor.LogOptions{Tail: 1}); got != "four\n" {
		t.Errorf("kept log: %q", got)
	}
}

func TestLogsAreBoundedAndNeverBlock(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	s := spec("inst_loud", c.push(t, v1.Config{}), "sh", "-c", "seq 1 6000000; echo end")
	c.start(t, s)
	// Nobody reads, and the daemon is gone: the guest still writes 46 MB and ends.
	c.killDaemon()
	eventually(t, time.Minute, "the guest to end", func() bool { return len(processes(c.cgroupPath(s.ID))) == 0 })
	c.startDaemon(t)
	eventually(t, 10*time.Second, "the last line", func() bool { return strings.HasSuffix(c.logs(t, s.ID, hypervisor.LogOptions{Tail: 1}), "end\n") })
	var total int64
	entries, _ := os.ReadDir(c.logDir(s.ID))
	for _, e := range entries {
		info, err := os.Stat(filepath.Join(c.logDir(s.ID), e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		total += info.Size()
	}
	if total < logFileSize || total > 2*logFileSize {
		t.Errorf("%d bytes of log are kept", total)
	}
	if got := c.logs(t, s.ID, hypervisor.LogOptions{Tail: 3}); got != "5999999\n6000000\nend\n" {
		t.Errorf("last lines: %q", got)
	}
}

// TestALoudGuestDoesNotLoadItsHost: the log writer is outside the guest's limits.
func TestALoudGuestDoesNotLoadItsHost(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	for i, script := range []string{"yes", "while :; do echo; done"} { // many bytes, and many writes
		s := spec(fmt.Sprintf("inst_yes%d", i), c.push(t, v1.Config{}), "sh", "-c", script)
		c.start(t, s)
		writer := 0
		eventually(t, 10*time.Second, "the log writer", func() bool {
			all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
			for _, path := range all {
				if raw, _ := os.ReadFile(path); strings.Contains(string(raw), LogWriterCommand+"\x00"+c.logDir(s.ID)) {
					writer, _ = strconv.Atoi(strings.Split(path, "/")[2])
				}
			}
			return writer != 0
		})
		wait := func(d time.Duration) { <-time.After(d) }
		wait(3 * time.Second) // for the burst to be over
		begin, before := time.Now(), cpuTime(t, writer)
		wait(3 * time.Second)
		share := float64(cpuTime(t, writer)-before) / float64(time.Since(begin))
		t.Logf("%q: the log writer takes %.1f %% of a CPU", script, 100*share)
		if share > 0.2 {
			t.Errorf("%q: the log writer takes %.0f %% of a CPU", script, 100*share)
		}
		if err := c.Remove(context.Background(), s.ID, false); err != nil {
			t.Fatal(err)
		}
	}
}

func cpuTime(t *testing.T, pid int) time.Duration {
	t.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(raw), ") ")
	fields := strings.Fields(after)
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return time.Duration(user+system) * 10 * time.Millisecond // the kernel counts in hundredths
}

func TestLogPace(t *testing.T) {
	t.Parallel()
	read := func(bytes, each int) time.Duration {
		begin := time.Now()
		pw := &lockedBuffer{}
		copyAll(pw, &zeros{bytes, each}, newPace())
		if got := len(pw.String()); got != bytes {
			t.Errorf("%d of %d bytes arrived", got, bytes)
		}
		return time.Since(begin)
	}
	if took := read(logBurst+logBytesPerSecond, 64<<10); took < 900*time.Millisecond {
		t.Errorf("a second's worth beyond the burst was read in %s", took)
	}
	if took := read(200, 1); took < 200*logReadInterval {
		t.Errorf("200 single bytes were read in %s", took)
	}
}

// zeros gives so many, so many at a time.
type zeros struct{ left, each int }

func (z *zeros) Read(p []byte) (int, error) {
	n := min(z.left, z.each, len(p))
	if z.left -= n; n == 0 {
		return 0, io.EOF
	}
	return n, nil
}
