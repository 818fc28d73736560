package gateway

import (
	"context"
	"io"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/tenon-cloud/tenon/internal/app"
	"github.com/tenon-cloud/tenon/internal/authz"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

// Logs opens what an instance wrote; the caller closes it. One that is no longer
// on a node gives the last lines that were kept. A followed one ends when the
// caller's session does.
func (g *Gateway) Logs(ctx context.Context, c app.Call, project, instance string, tail int, follow bool) (io.ReadCloser, error) {
	i, err := g.app.InstanceFor(ctx, c, authz.InstanceLogs, project, instance, false)
	if err != nil {
		return nil, err
	}
	if i.NodeID.IsZero() {
		return io.NopCloser(strings.NewReader(lastLines(i.LastLines, tail))), nil
	}
	release := func() {}
	if follow {
		if release, err = g.hold(c.Actor.UserID); err != nil {
			return nil, err
		}
	}
	q := url.Values{}
	if tail > 0 {
		q.Set("tail", strconv.Itoa(tail))
	}
	if follow {
		q.Set("follow", "true")
	}
	// The stream may last; only reaching the node is hurried.
	ctx, cancel := context.WithCancel(ctx)
	hurry := time.AfterFunc(dialTimeout, cancel)
	res, err := g.get(ctx, i.NodeID, path(nodewire.PathLogs, i.ID)+"?"+q.Encode())
	if !hurry.Stop() && err == nil {
		_ = res.Body.Close()
		err = unreachable(context.DeadlineExceeded)
	}
	if err != nil {
		cancel()
		release()
		return nil, err
	}
	if follow {
		go g.watchLogs(ctx, cancel, c)
	}
	return &stream{ReadCloser: res.Body, end: func() { cancel(); release() }}, nil
}

// watchLogs ends a followed log when its reader may no longer see it.
func (g *Gateway) watchLogs(ctx context.Context, cancel context.CancelFunc, c app.Call) {
	tick := time.NewTicker(g.watch)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if ctx.Err() == nil && over(g.app.StillValid(ctx, c.Actor)) {
				cancel()
				return
			}
		}
	}
}

type stream struct {
	io.ReadCloser
	end func()
}

// Close ends the stream on both sides.
func (s *stream) Close() error {
	err := s.ReadCloser.Close()
	s.end()
	return err
}

func lastLines(text string, n int) string {
	if text == "" {
		return ""
	}
	if !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	if n <= 0 {
		return text
	}
	lines := strings.SplitAfter(text, "\n")
	lines = lines[:len(lines)-1]
	return strings.Join(lines[max(0, len(lines)-n):], "")
}
