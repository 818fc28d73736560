package api

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"

	"github.com/coder/websocket"
)

// Types of the messages of an exec WebSocket: each is binary, one byte of type
// and the payload.
const (
	ExecStdin      byte = 0 // to the guest
	ExecStdout     byte = 1
	ExecStderr     byte = 2
	ExecResize     byte = 3 // columns and rows, two big-endian uint16
	ExecExit       byte = 4 // exit code, big-endian int32; the last message
	ExecStdinClose byte = 5
	ExecError      byte = 6 // text: why there is no exit code; the last message
)

// ExecSubprotocol names the protocol of an exec WebSocket.
const ExecSubprotocol = "tenon-exec.v1"

// ExecMaxPayload bounds what one message may carry.
const ExecMaxPayload = 1 << 20

// ExecOptions say what to run and how it is joined to the caller.
type ExecOptions struct {
	Command       []string // empty: a login shell
	TTY           bool
	Columns, Rows int       // first size of the terminal
	Stdin         io.Reader // nil: none
	Stdout        io.Writer // with a TTY everything arrives here
	Stderr        io.Writer
	Resize        <-chan [2]int // columns and rows
}

// Query is the query string that asks for it.
func (o ExecOptions) Query() url.Values {
	q := url.Values{}
	for _, word := range o.Command {
		q.Add("command", word)
	}
	q.Set("tty", strconv.FormatBool(o.TTY))
	if o.Columns > 0 && o.Rows > 0 {
		q.Set("columns", strconv.Itoa(o.Columns))
		q.Set("rows", strconv.Itoa(o.Rows))
	}
	return q
}

// ErrExecLost is the cause of an exec that ended without an exit code.
var ErrExecLost = errors.New("the terminal ended without an exit code")

// Exec runs a process inside a running instance and returns its exit code.
func (c *Client) Exec(ctx context.Context, project, instance string, o ExecOptions) (int, error) {
	header := http.Header{}
	c.identify(header)
	target := "ws" + strings.TrimPrefix(c.BaseURL, "http") + instancePath(project, instance) + "/exec?" + o.Query().Encode()
	conn, res, err := websocket.Dial(ctx, target, &websocket.DialOptions{
		HTTPClient: c.HTTP, HTTPHeader: header, Subprotocols: []string{ExecSubprotocol},
	})
	if err != nil {
		if res != nil && res.StatusCode >= 400 {
			return -1, problemOf(res)
		}
		return -1, fmt.Errorf("open terminal: %w", err)
	}
	defer conn.CloseNow()
	conn.SetReadLimit(ExecMaxPayload + 1)

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wmu sync.Mutex
	send := func(kind byte, payload []byte) error {
		wmu.Lock()
		defer wmu.Unlock()
		return conn.Write(ctx, websocket.MessageBinary, append([]byte{kind}, payload...))
	}
	go pumpStdin(o.Stdin, send)
	go pumpResize(ctx, o.Resize, send)
	code, err := readExec(receive(ctx, conn), o)
	if err == nil {
		_ = conn.Close(websocket.StatusNormalClosure, "")
	}
	return code, err
}

func pumpStdin(in io.Reader, send func(byte, []byte) error) {
	if in != nil {
		buf := make([]byte, 32<<10)
		for {
			n, err := in.Read(buf)
			if n > 0 && send(ExecStdin, buf[:n]) != nil {
				return
			}
			if err != nil {
				break
			}
		}
	}
	_ = send(ExecStdinClose, nil)
}

func pumpResize(ctx context.Context, sizes <-chan [2]int, send func(byte, []byte) error) {
	for {
		select {
		case <-ctx.Done():
			return
		case size, ok := <-sizes:
			if !ok {
				return
			}
			var b [4]byte
			binary.BigEndian.PutUint16(b[:2], uint16(size[0]))
			binary.BigEndian.PutUint16(b[2:], uint16(size[1]))
			if send(ExecResize, b[:]) != nil {
				return
			}
		}
	}
}

// execAhead is how many messages are read ahead of a slow Stdout, so that pings
// are answered meanwhile; beyond it the guest waits.
const execAhead = 32

type execMessage struct {
	data []byte
	err  error
}

// receive reads messages until the connection ends or ctx does.
func receive(ctx context.Context, conn *websocket.Conn) <-chan execMessage {
	messages := make(chan execMessage, execAhead)
	go func() {
		for {
			_, data, err := conn.Read(ctx)
			select {
			case messages <- execMessage{data, err}:
			case <-ctx.Done():
				return
			}
			if err != nil {
				return
			}
		}
	}()
	return messages
}

func readExec(messages <-chan execMessage, o ExecOptions) (int, error) {
	for m := range messages {
		if m.err != nil {
			var closed websocket.CloseError
			if errors.As(m.err, &closed) && closed.Reason != "" {
				return -1, fmt.Errorf("%w: %s", ErrExecLost, closed.Reason)
			}
			return -1, fmt.Errorf("%w: %w", ErrExecLost, m.err)
		}
		if len(m.data) == 0 {
			continue
		}
		var err error
		payload := m.data[1:]
		switch m.data[0] {
		case ExecStdout:
			err = write(o.Stdout, payload)
		case ExecStderr:
			err = write(o.Stderr, payload)
		case ExecExit:
			if len(payload) != 4 {
				return -1, fmt.Errorf("%w: malformed exit message", ErrExecLost)
			}
			return int(int32(binary.BigEndian.Uint32(payload))), nil
		case ExecError:
			return -1, fmt.Errorf("%w: %s", ErrExecLost, payload)
		}
		if err != nil {
			return -1, fmt.Errorf("write output: %w", err)
		}
	}
	return -1, ErrExecLost
}

func write(w io.Writer, p []byte) error {
	if w == nil {
		return nil
	}
	_, err := w.Write(p)
	return err
}
