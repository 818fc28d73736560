package cli

import (
	"fmt"
	"io"
)

// progress tells how far a transfer is: in place on a terminal, elsewhere a plain
// line for each tenth of it.
type progress struct {
	out    io.Writer
	verb   string
	tty    bool
	tenths int64
	drawn  bool
}

func (a *app) newProgress(verb string) *progress {
	_, tty := terminal(a.Err)
	return &progress{out: a.Err, verb: verb, tty: tty}
}

func (p *progress) show(done, total int64) {
	text := fmt.Sprintf("%s %d of %d MiB", p.verb, done>>20, total>>20)
	if p.tty {
		_, _ = fmt.Fprintf(p.out, "\r\x1b[K%s", text)
		p.drawn = true
		return
	}
	if tenths := done * 10 / total; tenths > p.tenths {
		p.tenths = tenths
		_, _ = fmt.Fprintln(p.out, text)
	}
}

// close leaves the last line where it is.
func (p *progress) close() {
	if p.drawn {
		_, _ = fmt.Fprintln(p.out)
	}
}
