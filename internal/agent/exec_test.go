package agent

import (
	"context"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/tenon-cloud/tenon/internal/hypervisor"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

func TestAPeerThatLeavesWithItsInputUnreadEndsTheProcess(t *testing.T) {
	t.Parallel()
	d, engine, _ := connected(t)
	conn, err := dialExec(t, d, "inst_1", nodewire.ExecRequest{Command: []string{"sleep"}})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the process", func() bool { return engine.Processes() == 1 })
	_ = conn.SetWriteDeadline(time.Now().Add(time.Second))
	for err == nil { // until every buffer on the way is full
		err = nodewire.WriteFrame(conn, nodewire.FrameStdin, make([]byte, 256<<10))
	}
	// A peer that is there may leave its process unread for as long as it likes.
	_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	for range 2 {
		if kind, p, err := nodewire.ReadFrame(conn); err != nil || kind != nodewire.FrameStdout || len(p) != 0 {
			t.Fatalf("while the input waits: frame %d of %d bytes, %v", kind, len(p), err)
		}
	}
	if engine.Processes() != 1 {
		t.Error("a process was ended while its client was there")
	}
	_ = conn.Close()
	eventually(t, "the process to end with its client", func() bool { return engine.Processes() == 0 })
}

// refuses is a driver whose runtime can't start the command.
type refuses struct {
	hypervisor.Driver
	words string
}

func (r refuses) Exec(context.Context, string, nodewire.ExecRequest, hypervisor.ExecIO) (int, error) {
	return 0, &hypervisor.Failure{Reason: nodewire.ReasonStart, Message: r.words}
}

// A command that is not there ends as in a shell: the runtime's words, and 127.
func TestACommandThatIsNotThereEndsAsInAShell(t *testing.T) {
	t.Parallel()
	for words, want := range map[string]int{
		`exec: "nosuch": executable file not found in $PATH`:       127,
		`exec: "/nosuch": stat /nosuch: no such file or directory`: 127,
		`exec: "/etc": permission denied`:                          126,
		"the image's working folder can't be entered":              -1,
	} {
		ours, theirs := net.Pipe()
		ctx, cancel := context.WithCancel(wireCtx(t))
		a := &Agent{log: slog.New(slog.DiscardHandler)}
		go func() {
			a.serveExec(ctx, cancel, ours, "inst_1", refuses{words: words}, nodewire.ExecRequest{Command: []string{"x"}})
			_ = ours.Close()
		}()
		_, said, code := collect(t, theirs)
		if code != want || strings.TrimSpace(said) != words {
			t.Errorf("%s: exit %d, said %q", words, code, said)
		}
		_ = theirs.Close()
		cancel()
	}
}
