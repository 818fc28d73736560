package agent

import (
	"context"
	"io"
	"strings"
	"time"

	"github.com/tenon-cloud/tenon/internal/agent/watchdog"
	"github.com/tenon-cloud/tenon/internal/hypervisor"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

// show publishes what a decision means to those who watch.
func (w *worker) show(v view, did action) {
	w.change(func(p *published) {
		p.known = true
		if v.want != nil {
			if p.epoch != v.want.Epoch {
				*p = published{known: true, state: nodewire.GuestPending}
			}
			p.epoch, p.generation = v.want.Epoch, v.want.Generation
		} else {
			p.epoch = v.rec.Epoch
		}
		switch did {
		case actIdle:
			p.showEnd(v.rec.End)
		case actEnd, actFinish, actForget:
			p.state, p.progress, p.message = nodewire.GuestStopping, nil, ""
			if p.runSince.IsZero() && v.guest != nil {
				p.runSince = v.guest.StartedAt
			}
		case actClear:
			p.state, p.message = nodewire.GuestPending, "the earlier run is being cleared away"
		case actRestart:
			p.state, p.message, p.runSince = nodewire.GuestStarting, "restarting", time.Time{}
		case actMake:
			if p.state != nodewire.GuestPulling && p.state != nodewire.GuestStarting {
				p.state, p.progress = nodewire.GuestPending, nil
			}
		case actWatch: // showRunning tells more
		}
	})
}

func (p *published) showEnd(e *ending) {
	if e == nil {
		return
	}
	if p.state != e.State {
		// Monotonic while this process lives; after a restart the clock must do.
		p.since = time.Now().Add(-max(0, time.Since(e.At)))
	}
	p.state, p.reason, p.message, p.progress = e.State, e.Reason, e.Message, nil
	p.exitCode, p.lastLines, p.ran, p.address = e.ExitCode, e.LastLines, e.RanForSeconds, ""
}

// showRunning publishes a running guest.
func (w *worker) showRunning(g *hypervisor.Guest, want *nodewire.Instance) {
	w.change(func(p *published) {
		p.seen = time.Now()
		if p.state != nodewire.GuestRunning || p.runSince.IsZero() {
			// Seen to start: monotonic from here. Found running: as old as the
			// engine says.
			p.runSince = time.Now()
			if age := time.Since(g.StartedAt); !g.StartedAt.IsZero() && age > 0 {
				p.runSince = p.runSince.Add(-age)
			}
		}
		p.known, p.epoch, p.generation = true, want.Epoch, want.Generation
		p.state, p.reason, p.message, p.progress = nodewire.GuestRunning, "", "", nil
		p.exitCode, p.lastLines, p.ran = nil, "", 0
		p.address = g.Address
		if g.PID > 0 && (p.process == nil || p.process.PID != g.PID) {
			p.process = nil
			if process, err := watchdog.ProcessOf(g.PID); err == nil {
				p.process = &process
			}
		}
	})
}

// report is the published state in the form of a report.
func (w *worker) report(now time.Time) (nodewire.InstanceReport, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.pub
	r := nodewire.InstanceReport{
		ID: w.id, Epoch: p.epoch, Generation: p.generation, State: p.state, Reason: p.reason, Message: p.message,
		Progress: p.progress, ExitCode: p.exitCode, LastLines: p.lastLines, Address: p.address,
		StateForSeconds: max(0, now.Sub(p.since).Seconds()), RanForSeconds: p.ran,
	}
	if !p.runSince.IsZero() && (p.state == nodewire.GuestRunning || p.state == nodewire.GuestStopping) {
		r.RanForSeconds = max(0, now.Sub(p.runSince).Seconds())
	}
	return r, p.known
}

// Bounds of the last lines that an ended instance shows.
const (
	lastLineCount = 100
	lastLineBytes = 16 << 10
)

// lastLines reads the end of a guest's log, as far as that works.
func (w *worker) lastLines(ctx context.Context, kind string) string {
	d := w.a.driver(kind)
	if d == nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	r, err := d.Logs(ctx, w.id, hypervisor.LogOptions{Tail: lastLineCount})
	if err != nil {
		return ""
	}
	defer func() { _ = r.Close() }()
	// A line has no limit, so the last 16 KiB are kept while all is read.
	var tail []byte
	buf := make([]byte, 32<<10)
	for {
		n, err := r.Read(buf)
		tail = append(tail, buf[:n]...)
		if len(tail) > lastLineBytes {
			tail = append(tail[:0], tail[len(tail)-lastLineBytes:]...)
		}
		if err != nil {
			if err != io.EOF && ctx.Err() == nil { //nolint:errorlint // io.EOF is never wrapped
				w.log.Debug("read last lines", "error", err)
			}
			break
		}
	}
	return strings.ReplaceAll(strings.ToValidUTF8(string(tail), "\uFFFD"), "\x00", "\uFFFD")
}
