package gateway

import (
	"testing"

	"github.com/tenon-cloud/tenon/api"
	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

// TestFramesAreTheSameOnBothSides: package api restates what it may not import.
func TestFramesAreTheSameOnBothSides(t *testing.T) {
	t.Parallel()
	for ours, theirs := range map[byte]byte{
		api.ExecStdin: nodewire.FrameStdin, api.ExecStdout: nodewire.FrameStdout, api.ExecStderr: nodewire.FrameStderr, api.ExecResize: nodewire.FrameResize,
		api.ExecExit: nodewire.FrameExit, api.ExecStdinClose: nodewire.FrameStdinClose, api.ExecError: nodewire.FrameError,
	} {
		if ours != theirs {
			t.Errorf("message %d is frame %d", ours, theirs)
		}
	}
	if api.ExecMaxPayload != nodewire.MaxFrame {
		t.Error("the limits differ")
	}
}

func TestStreamsAreCountedPerUser(t *testing.T) {
	t.Parallel()
	g := New(Config{})
	one, two := cloud.UserID{1}, cloud.UserID{2}
	var release []func()
	for range streamsPerUser {
		r, err := g.hold(one)
		if err != nil {
			t.Fatal(err)
		}
		release = append(release, r)
	}
	if _, err := g.hold(one); cloud.KindOf(err) != cloud.KindRateLimited {
		t.Errorf("one too many: %v", err)
	}
	if _, err := g.hold(two); err != nil {
		t.Errorf("another user pays for it: %v", err)
	}
	release[0]()
	release[0]() // giving back twice counts once
	if _, err := g.hold(one); err != nil {
		t.Errorf("after one was given back: %v", err)
	}
	if _, err := g.hold(one); err == nil {
		t.Error("giving back twice made room for two")
	}
}

func TestLastLines(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text string
		n    int
		want string
	}{
		{"", 5, ""}, {"a", 0, "a\n"}, {"a\nb\nc\n", 2, "b\nc\n"}, {"a\nb", 1, "b\n"}, {"a\n", 9, "a\n"},
	} {
		if got := lastLines(c.text, c.n); got != c.want {
			t.Errorf("last %d of %q: %q", c.n, c.text, got)
		}
	}
}
