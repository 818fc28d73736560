package devcloud

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"
)

// Console is what the person who typed `make run` sees: one line a step, which
// moves on a terminal and is repeated now and then where it can't move.
type Console struct {
	mu     sync.Mutex
	out    io.Writer
	tty    bool
	width  int
	open   string // the step under way; empty: none
	began  time.Time
	drawn  time.Time
	detail string
}

// NewConsole writes to a file, as a terminal if it is one.
func NewConsole(out *os.File) *Console {
	c := &Console{out: out, width: 100}
	if term.IsTerminal(int(out.Fd())) {
		c.tty = true
		if w, _, err := term.GetSize(int(out.Fd())); err == nil && w > 20 {
			c.width = w
		}
	}
	return c
}

const (
	redrawTTY   = 150 * time.Millisecond
	redrawPlain = 10 * time.Second
)

// Step opens a line; the returned function closes it with how it ended.
func (c *Console) Step(name string) (done func(result string)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open, c.began, c.drawn, c.detail = name, time.Now(), time.Now(), ""
	c.draw()
	return func(result string) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.open = ""
		took := time.Since(c.began)
		line := fmt.Sprintf("  %-22s %s", name, result)
		if took >= 100*time.Millisecond {
			line += fmt.Sprintf(" (%.1f s)", took.Seconds())
		}
		c.line(line)
	}
}

// Progress moves the open step's line.
func (c *Console) Progress(detail string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	every := redrawPlain
	if c.tty {
		every = redrawTTY
	}
	if c.open == "" || time.Since(c.drawn) < every {
		return
	}
	c.detail, c.drawn = detail, time.Now()
	if c.tty {
		c.draw()
		return
	}
	_, _ = fmt.Fprintf(c.out, "  %-22s %s (%.0f s)\n", c.open, detail, time.Since(c.began).Seconds())
}

// Say writes a line of its own, above a step under way.
func (c *Console) Say(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.line(fmt.Sprintf(format, args...))
	if c.open != "" {
		c.draw()
	}
}

func (c *Console) line(text string) {
	if c.tty {
		_, _ = fmt.Fprint(c.out, "\r\x1b[K")
	}
	_, _ = fmt.Fprintln(c.out, text)
}

func (c *Console) draw() {
	if !c.tty {
		return
	}
	line := fmt.Sprintf("  %-22s %s", c.open, strings.TrimSpace(c.detail+" …"))
	if r := []rune(line); len(r) > c.width-1 {
		line = string(r[:c.width-1])
	}
	_, _ = fmt.Fprintf(c.out, "\r\x1b[K%s", line)
}
