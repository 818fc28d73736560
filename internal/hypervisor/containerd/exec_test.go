package containerd

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/tenon-cloud/tenon/internal/hypervisor"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

func TestExec(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	s := spec("inst_exec", c.push(t, v1.Config{}), "sleep", "1000")
	c.start(t, s)
	ctx := context.Background()

	t.Run("streams and exit code", func(t *testing.T) {
		var out, problem bytes.Buffer
		code, err := c.Exec(ctx, s.ID, nodewire.ExecRequest{Command: []string{"sh", "-c", "cat; echo $MORE; echo oops >&2; exit 5"}, Env: map[string]string{"MORE": "m"}},
			hypervisor.ExecIO{Stdin: strings.NewReader("typed\n"), Stdout: &out, Stderr: &problem})
		if err != nil || code != 5 || out.String() != "typed\nm\n" || problem.String() != "oops\n" {
			t.Errorf("code %d, %v, out %q, err %q", code, err, out.String(), problem.String())
		}
	})
	t.Run("input that ended before the process began", func(t *testing.T) {
		for range 20 {
			ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
			code, err := c.Exec(ctx, s.ID, nodewire.ExecRequest{Command: []string{"cat"}}, hypervisor.ExecIO{Stdin: strings.NewReader("")})
			cancel()
			if err != nil || code != 0 {
				t.Fatalf("code %d, %v", code, err)
			}
		}
	})
	t.Run("a large output arrives whole", func(t *testing.T) {
		var out bytes.Buffer
		code, err := c.Exec(ctx, s.ID, nodewire.ExecRequest{Command: []string{"sh", "-c", "dd if=/dev/zero bs=1M count=20 2>/dev/null"}}, hypervisor.ExecIO{Stdout: &out})
		if err != nil || code != 0 || out.Len() != 20<<20 {
			t.Errorf("code %d, %v, %d bytes", code, err, out.Len())
		}
	})
	t.Run("a missing program", func(t *testing.T) {
		_, err := c.Exec(ctx, s.ID, nodewire.ExecRequest{Command: []string{"nothing-like-it"}}, hypervisor.ExecIO{})
		if f := failureOf(t, err); !strings.Contains(f.Message, "nothing-like-it") {
			t.Errorf("failure: %+v", f)
		}
	})
	t.Run("a terminal follows its window", func(t *testing.T) {
		in, typed := io.Pipe()
		sizes := make(chan [2]uint16, 1)
		var out lockedBuffer
		done := make(chan int, 1)
		go func() {
			code, err := c.Exec(ctx, s.ID, nodewire.ExecRequest{TTY: true, Columns: 100, Rows: 30}, hypervisor.ExecIO{Stdin: in, Stdout: &out, Resize: sizes})
			if err != nil {
				t.Errorf("terminal: %v", err)
			}
			done <- code
		}()
		io.WriteString(typed, "stty size; echo $TERM; tty || ls -l /proc/self/fd/0\n")
		eventually(t, 10*time.Second, "the first size", func() bool { return strings.Contains(out.String(), "30 100\r\nxterm-256color") })
		sizes <- [2]uint16{120, 40}
		eventually(t, 10*time.Second, "the second size", func() bool {
			io.WriteString(typed, "stty size\n")
			return strings.Contains(out.String(), "40 120\r\n")
		})
		io.WriteString(typed, "exit 3\n")
		select {
		case code := <-done:
			if code != 3 {
				t.Errorf("exit code %d", code)
			}
		case <-time.After(10 * time.Second):
			t.Fatal("the terminal did not end")
		}
	})
	t.Run("a dropped client ends what it started", func(t *testing.T) {
		ctx, drop := context.WithCancel(ctx)
		done := make(chan error, 1)
		var out lockedBuffer
		go func() {
			_, err := c.Exec(ctx, s.ID, nodewire.ExecRequest{Command: []string{"sh", "-c", "trap '' HUP; sleep 777 & echo ready; sleep 888; sleep 999"}}, hypervisor.ExecIO{Stdout: &out})
			done <- err
		}()
		eventually(t, 10*time.Second, "the session", func() bool { return strings.Contains(out.String(), "ready") })
		drop()
		select {
		case err := <-done:
			if !errors.Is(err, context.Canceled) {
				t.Errorf("dropped session: %v", err)
			}
		case <-time.After(15 * time.Second):
			t.Fatal("the dropped session did not end")
		}
		left, _ := c.sh(t, s.ID, "ps -o args")
		if strings.Contains(left, "777") || strings.Contains(left, "888") {
			t.Errorf("left after the client dropped:\n%s", left)
		}
	})
	t.Run("a client that drops with its input unread", func(t *testing.T) {
		ctx, drop := context.WithCancel(ctx)
		defer drop()
		in, typed := io.Pipe()
		done := make(chan error, 1)
		go func() {
			_, err := c.Exec(ctx, s.ID, nodewire.ExecRequest{Command: []string{"sleep", "666"}}, hypervisor.ExecIO{Stdin: in})
			done <- err
		}()
		io.WriteString(typed, strings.Repeat("x", 32<<10))
		stuffed := make(chan struct{})
		go func() { typed.Write(make([]byte, 1<<20)); close(stuffed) }()
		drop()
		select {
		case <-done:
		case <-time.After(15 * time.Second):
			t.Fatal("the dropped session did not end")
		}
		if left, _ := c.sh(t, s.ID, "ps -o args"); strings.Contains(left, "666") {
			t.Errorf("left after the client dropped:\n%s", left)
		}
		in.Close()
		<-stuffed
	})
	t.Run("an absent guest", func(t *testing.T) {
		if _, err := c.Exec(ctx, "inst_none", nodewire.ExecRequest{}, hypervisor.ExecIO{}); !errors.Is(err, hypervisor.ErrNoGuest) {
			t.Errorf("exec in nothing: %v", err)
		}
	})
}
