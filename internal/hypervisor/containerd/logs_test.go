package containerd

import (
	"context"
	"io"
	"os"
	"path/filepath"
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
