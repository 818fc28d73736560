package gateway

import (
	"context"
	"encoding/binary"
	"io"
	"sync"
	"time"

	"github.com/coder/websocket"
)

type readWriteCloser = io.ReadWriteCloser

const (
	pingFrame  = "\x89\x00" // final, ping, no payload
	opcodeMask = 0x0f
	opClose    = 0x8
)

// socketTap passes a WebSocket's bytes from an app on to its browser as they are,
// and says something between two frames when nothing was said for a while, so
// that no proxy on the way takes a quiet notebook for a dead one. When the visit
// is over it says so and ends.
type socketTap struct {
	app  io.ReadWriteCloser
	ctx  context.Context
	idle time.Duration

	pieces chan []byte // read ahead by one
	taken  chan struct{}
	failed error // valid once pieces is closed
	done   chan struct{}
	once   sync.Once

	piece  []byte // what of the present piece is left
	frames frameWalk
	ended  bool
}

func newSocketTap(ctx context.Context, app io.ReadWriteCloser, idle time.Duration) *socketTap {
	t := &socketTap{app: app, ctx: ctx, idle: idle, pieces: make(chan []byte), taken: make(chan struct{}), done: make(chan struct{})}
	go t.ahead()
	return t
}

func (t *socketTap) ahead() {
	defer close(t.pieces)
	buf := make([]byte, rawPiece)
	for {
		n, err := t.app.Read(buf)
		if n > 0 {
			select {
			case t.pieces <- buf[:n]:
			case <-t.done:
				return
			}
			select {
			case <-t.taken:
			case <-t.done:
				return
			}
		}
		if err != nil {
			t.failed = err
			return
		}
	}
}

// Read gives the app's bytes, or a frame of our own.
func (t *socketTap) Read(p []byte) (int, error) {
	for len(t.piece) == 0 {
		if t.ended {
			return 0, io.EOF
		}
		if t.ctx.Err() != nil {
			return t.end(p)
		}
		quiet := time.NewTimer(t.idle)
		select {
		case piece, ok := <-t.pieces:
			quiet.Stop()
			if !ok {
				if t.ctx.Err() != nil {
					return t.end(p)
				}
				return 0, t.failed
			}
			t.piece = piece
		case <-t.ctx.Done():
			quiet.Stop()
		case <-quiet.C:
			if t.frames.between() && len(p) >= len(pingFrame) {
				return copy(p, pingFrame), nil
			}
		}
	}
	n := copy(p, t.piece)
	t.frames.walk(p[:n])
	if t.piece = t.piece[n:]; len(t.piece) == 0 {
		select {
		case t.taken <- struct{}{}:
		case <-t.done:
		}
	}
	return n, nil
}

// end says once that the visit is over, if that is possible between frames.
func (t *socketTap) end(p []byte) (int, error) {
	t.ended = true
	const reason = "your session has ended, or the instance has"
	frame := append([]byte{0x80 | opClose, byte(2 + len(reason)), 0, 0}, reason...)
	binary.BigEndian.PutUint16(frame[2:], uint16(websocket.StatusPolicyViolation))
	if !t.frames.between() || len(p) < len(frame) {
		return 0, io.EOF
	}
	return copy(p, frame), nil
}

// Write passes on what the browser sends.
func (t *socketTap) Write(p []byte) (int, error) { return t.app.Write(p) }

// Close ends the app's side.
func (t *socketTap) Close() error {
	t.once.Do(func() { close(t.done) })
	return t.app.Close()
}

// frameWalk follows where a WebSocket's frames begin and end (RFC 6455, section
// 5.2), and looks at nothing else.
type frameWalk struct {
	head   []byte // of a frame whose length is not known yet
	left   uint64 // payload to come
	closed bool   // the app said its last
}

// between reports that a frame may be put in here.
func (f *frameWalk) between() bool { return len(f.head) == 0 && f.left == 0 && !f.closed }

func (f *frameWalk) walk(p []byte) {
	for len(p) > 0 {
		if f.left > 0 {
			n := min(f.left, uint64(len(p)))
			f.left -= n
			p = p[n:]
			continue
		}
		f.head = append(f.head, p[0])
		p = p[1:]
		if len(f.head) < 2 {
			continue
		}
		need, long := 2, f.head[1]&0x7f
		switch long {
		case 126:
			need += 2
		case 127:
			need += 8
		}
		if f.head[1]&0x80 != 0 {
			need += 4
		}
		if len(f.head) < need {
			continue
		}
		switch long {
		case 126:
			f.left = uint64(binary.BigEndian.Uint16(f.head[2:]))
		case 127:
			f.left = binary.BigEndian.Uint64(f.head[2:])
		default:
			f.left = uint64(long)
		}
		f.closed = f.closed || f.head[0]&opcodeMask == opClose
		f.head = f.head[:0]
	}
}
