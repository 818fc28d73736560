package agent

import (
	"testing"
	"time"

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
