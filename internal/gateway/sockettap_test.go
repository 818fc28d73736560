package gateway

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// frame makes one of the server's frames.
func frame(head byte, payload []byte) []byte {
	switch n := len(payload); {
	case n < 126:
		return append([]byte{head, byte(n)}, payload...)
	case n < 1<<16:
		return append([]byte{head, 126, byte(n >> 8), byte(n)}, payload...)
	default:
		return append([]byte{head, 127, 0, 0, 0, 0, byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}, payload...)
	}
}

// However the bytes are cut, a frame may be put in between two frames and nowhere
// else.
func TestFramesAreFollowed(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var all []byte
		ends := map[int]bool{0: true}
		for _, n := range rapid.SliceOfN(rapid.SampledFrom([]int{0, 1, 125, 126, 127, 1000, 65535, 65536, 70000}), 0, 6).Draw(t, "sizes") {
			all = append(all, frame(0x82, bytes.Repeat([]byte{0x81}, n))...)
			ends[len(all)] = true
		}
		var f frameWalk
		at := 0
		for at < len(all) {
			n := min(rapid.IntRange(1, 5000).Draw(t, "cut"), len(all)-at)
			f.walk(all[at : at+n])
			at += n
			if f.between() != ends[at] {
				t.Fatalf("after %d bytes: between is %v", at, f.between())
			}
		}
	})
}

func TestAQuietSocketIsPinged(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ours, app := net.Pipe()
	tap := newSocketTap(ctx, ours, 20*time.Millisecond)
	defer tap.Close()
	buf := make([]byte, 1024)
	read := func() []byte {
		t.Helper()
		n, err := tap.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		return bytes.Clone(buf[:n])
	}
	if got := read(); string(got) != pingFrame {
		t.Errorf("when all is quiet: % x", got)
	}
	whole := frame(0x82, []byte("hello"))
	go func() { _, _ = app.Write(whole[:3]) }()
	var got []byte
	for len(got) < 3 {
		if p := read(); string(p) != pingFrame || len(got) > 0 {
			got = append(got, p...)
		}
	}
	// In the middle of a frame nothing is said, however long it takes.
	rest := time.AfterFunc(100*time.Millisecond, func() { _, _ = app.Write(whole[3:]) })
	defer rest.Stop()
	if got = append(got, read()...); !bytes.Equal(got, whole) {
		t.Errorf("a frame arrived as % x", got)
	}
	if got := read(); string(got) != pingFrame {
		t.Errorf("quiet again: % x", got)
	}

	cancel()
	var last []byte
	for {
		n, err := tap.Read(buf)
		last = append(last, buf[:n]...)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(last) < 4 || last[len(last)-int(last[1])-2] != 0x88 || last[2] != 1008>>8 || last[3] != 1008&0xff {
		t.Errorf("at the end of the visit: % x", last)
	}
}

func TestASocketThatSaidItsLastIsLeftAlone(t *testing.T) {
	t.Parallel()
	ours, app := net.Pipe()
	tap := newSocketTap(t.Context(), ours, time.Millisecond)
	defer tap.Close()
	last := frame(0x88, []byte{3, 232})
	go func() { _, _ = app.Write(last); time.AfterFunc(50*time.Millisecond, func() { _ = app.Close() }) }()
	all, err := io.ReadAll(tap)
	for bytes.HasPrefix(all, []byte(pingFrame)) {
		all = all[len(pingFrame):]
	}
	if err != nil || !bytes.Equal(all, last) {
		t.Errorf("% x, %v", all, err)
	}
}
