package host_test

import (
	"testing"

	"pgregory.net/rapid"
)

// TestAnyOrderLeavesTheHostAsItWas: whatever is asked for, and killed, in any order.
func TestAnyOrderLeavesTheHostAsItWas(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		s := rapid.SampledFrom(scenes).Draw(rt, "scene")
		f := newFleet(rapidTB{t, rt}, s)
		for range rapid.IntRange(1, 8).Draw(rt, "steps") {
			f.step(s, rapid.IntRange(0, 9).Draw(rt, "what"), rapid.IntRange(0, 59).Draw(rt, "which"), rapid.IntRange(0, 30).Draw(rt, "killed at"))
		}
		f.end()
	})
}

// rapidTB fails the case, and takes folders from the test.
type rapidTB struct {
	*testing.T
	rt *rapid.T
}

func (r rapidTB) Fatal(args ...any)                 { r.rt.Fatal(args...) }
func (r rapidTB) Fatalf(format string, args ...any) { r.rt.Fatalf(format, args...) }
func (r rapidTB) Errorf(format string, args ...any) { r.rt.Errorf(format, args...) }
func (r rapidTB) Error(args ...any)                 { r.rt.Error(args...) }
func (r rapidTB) Helper()                           {}
