package main

import (
	"bufio"
	"context"
	"encoding/base64"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"
)

// shell runs commands on the host through a port of it (deploy/lab/shell.sh), one
// at a time.
type shell struct {
	conn    net.Conn
	answers chan string
	mu      sync.Mutex
	last    int
}

func newShell(conn net.Conn) *shell {
	s := &shell{conn: conn, answers: make(chan string, 16)}
	go func() {
		defer close(s.answers)
		lines := bufio.NewReaderSize(conn, 1<<20)
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				return
			}
			s.answers <- line
		}
	}()
	return s
}

// run gives what a script printed; one that failed is an error with that in it.
func (s *shell) run(ctx context.Context, script string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	id := strconv.Itoa(s.last)
	if err := s.conn.SetWriteDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return "", err
	}
	if _, err := fmt.Fprintf(s.conn, "%s %s\n", id, base64.StdEncoding.EncodeToString([]byte(script))); err != nil {
		return "", fmt.Errorf("ask the host: %w", err)
	}
	for {
		select {
		case line, ok := <-s.answers:
			if !ok {
				return "", fmt.Errorf("the host's shell is gone")
			}
			f := strings.Fields(line)
			if len(f) < 2 || f[0] != id { // of a question that was given up
				continue
			}
			text := ""
			if len(f) > 2 {
				raw, err := base64.StdEncoding.DecodeString(f[2])
				if err != nil {
					return "", fmt.Errorf("read the host's answer: %w", err)
				}
				text = strings.TrimSpace(string(raw))
			}
			if f[1] != "0" {
				return text, fmt.Errorf("on the host, exit status %s: %s", f[1], text)
			}
			return text, nil
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
}
