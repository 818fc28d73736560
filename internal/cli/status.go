package cli

import (
	"fmt"
	"io"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/tenon-cloud/tenon/api"
)

// status is the line that --wait shows on standard error: redrawn in place on a
// terminal, one plain line a change elsewhere.
type status struct {
	out   io.Writer
	name  string
	tty   bool
	width int
	now   func() time.Time
	began time.Time
	stop  chan struct{}
	done  chan struct{}

	mu   sync.Mutex
	text string
}

var spinner = []string{"⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"}

func (a *app) newStatus(name string) *status {
	s := &status{out: a.Err, name: name, now: a.Now, began: a.Now(), stop: make(chan struct{}), done: make(chan struct{}), width: 80}
	fd, tty := terminal(a.Err)
	s.tty = tty
	if !tty {
		close(s.done)
		return s
	}
	if w, _, err := term.GetSize(fd); err == nil && w > 20 {
		s.width = w
	}
	go s.spin()
	return s
}

func (s *status) spin() {
	defer close(s.done)
	tick := time.NewTicker(120 * time.Millisecond)
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case <-s.stop:
			_, _ = fmt.Fprint(s.out, "\r\x1b[K")
			return
		case <-tick.C:
		}
		s.mu.Lock()
		line := []rune(fmt.Sprintf("%s %s %s (%s)", spinner[n%len(spinner)], s.name, s.text, short(s.now().Sub(s.began))))
		s.mu.Unlock()
		_, _ = fmt.Fprintf(s.out, "\r\x1b[K%s", string(line[:min(len(line), s.width-1)]))
	}
}

// show is called with each change.
func (s *status) show(i *api.Instance) {
	text := stateText(*i)
	if i.Message != "" {
		text += ": " + i.Message
	} else if i.Reason != "" {
		text += ": " + i.Reason
	}
	s.say(text)
}

func (s *status) say(text string) {
	s.mu.Lock()
	same := s.text == text
	s.text = text
	s.mu.Unlock()
	if !s.tty && !same {
		_, _ = fmt.Fprintf(s.out, "%s %s\n", s.name, text)
	}
}

func (s *status) close() {
	close(s.stop)
	<-s.done
}
