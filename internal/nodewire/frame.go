package nodewire

import (
	"encoding/binary"
	"fmt"
	"io"
)

// Exec streams carry frames: one byte of type, four of length (big-endian),
// then the payload. A browser's WebSocket carries the same type byte and
// payload, one frame a binary message, without the length.
const (
	FrameStdin      byte = 0 // to the guest
	FrameStdout     byte = 1
	FrameStderr     byte = 2
	FrameResize     byte = 3 // columns and rows, two big-endian uint16
	FrameExit       byte = 4 // exit code, big-endian int32; the last frame
	FrameStdinClose byte = 5
	FrameError      byte = 6 // text: why there is no exit code; the last frame
)

// MaxFrame bounds one payload, so that a hostile peer can't make us allocate.
const MaxFrame = 1 << 20

// WriteFrame writes one frame with a single Write.
func WriteFrame(w io.Writer, kind byte, payload []byte) error {
	if len(payload) > MaxFrame {
		return fmt.Errorf("frame of %d bytes is over the limit of %d", len(payload), MaxFrame)
	}
	buf := make([]byte, 5+len(payload))
	buf[0] = kind
	binary.BigEndian.PutUint32(buf[1:], uint32(len(payload)))
	copy(buf[5:], payload)
	_, err := w.Write(buf)
	return err
}

// ReadFrame reads one frame.
func ReadFrame(r io.Reader) (kind byte, payload []byte, err error) {
	var head [5]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	n := binary.BigEndian.Uint32(head[1:])
	if n > MaxFrame {
		return 0, nil, fmt.Errorf("frame of %d bytes is over the limit of %d", n, MaxFrame)
	}
	payload = make([]byte, n)
	_, err = io.ReadFull(r, payload)
	return head[0], payload, err
}
