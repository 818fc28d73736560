package gateway

import (
	"context"
	"net"
	"testing"
	"time"
)

func TestAPeerIsGoneWhenItsKernelIsSilent(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		peer peer
		gone bool
	}{
		{peer{waiting: true, silent: time.Hour}, true},
		{peer{waiting: true, silent: 2 * time.Minute}, false}, // it answers probes
		{peer{waiting: false, silent: time.Hour}, false},      // nobody said anything
	} {
		if c.peer.gone() != c.gone {
			t.Errorf("%+v: gone is %v", c.peer, !c.gone)
		}
	}
}

// The kernel tells of a reader that does not read, and that it is there.
func TestPeerOfAConnection(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	reader, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	writer, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	ctx := WithConn(context.Background(), writer)
	if _, ok := peerOf(ctx); !ok {
		t.Skip("this system's kernel can't be asked about a connection")
	}
	_ = writer.SetWriteDeadline(time.Now().Add(300 * time.Millisecond))
	for err == nil { // until both buffers are full
		_, err = writer.Write(make([]byte, 1<<20))
	}
	if p, _ := peerOf(ctx); !p.waiting || p.gone() {
		t.Errorf("of a reader that does not read: %+v", p)
	}
	if _, ok := peerOf(context.Background()); ok {
		t.Error("a request without a connection has a peer")
	}
}
