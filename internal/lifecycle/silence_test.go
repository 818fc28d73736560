package lifecycle

import (
	"testing"
	"time"

	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/postgres"
)

// A database whose clock is set forward by an hour makes every node look silent
// for an hour. None of them may be fenced for it.
func TestAClockThatJumpsIsNoSilence(t *testing.T) {
	t.Parallel()
	const after = 135 * time.Second
	own := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	s := silence{clock: func() time.Time { return own }}
	n := postgres.SilentNode{ID: cloud.NodeID{}.New(), State: cloud.NodeLost, Watchdog: true, ContactAt: own, Silent: time.Hour}
	due := func() bool {
		at := n
		at.Silent = s.of([]postgres.SilentNode{n})[n.ID]
		return fenceDue(at, time.Hour, after)
	}
	if due() {
		t.Fatal("fenced in the moment of the jump")
	}
	own = own.Add(after - time.Second)
	if due() {
		t.Fatal("fenced before its guests' time was over")
	}
	n.ContactAt = n.ContactAt.Add(time.Second) // it speaks, and the clock is still off
	own = own.Add(2 * time.Second)
	if due() {
		t.Fatal("fenced although it spoke meanwhile")
	}
	own = own.Add(after - time.Second)
	s.of(nil) // it is ready for a moment
	own = own.Add(2 * time.Second)
	if due() {
		t.Fatal("fenced although it was ready meanwhile")
	}
	own = own.Add(after)
	if !due() {
		t.Fatal("silent by its own clock for long enough, and not fenced")
	}
}
