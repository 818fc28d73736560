package app_test

import (
	"slices"
	"testing"

	"github.com/tenon-cloud/tenon/internal/app"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

// A flavor has the least that any card of its model tells, and nothing while none
// has told; what a node says beyond its card's own memory doesn't count.
func TestAFlavorHasTheLeastThatCardsTell(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	has := func(name string) (int64, int) {
		t.Helper()
		list := must(h.FlavorList(t.Context(), h.admin))
		at := slices.IndexFunc(list, func(f app.FlavorOffer) bool { return f.Name == name })
		if at < 0 {
			t.Fatalf("no flavor %s", name)
		}
		return list[at].GPUMemoryMiB, list[at].GPUSMs
	}
	want := func(when string, sliceMiB int64, sms int, wholeMiB int64) {
		t.Helper()
		slice, n := has("h100-1g-10gb")
		whole, _ := has("h100-1x")
		if slice != sliceMiB || n != sms || whole != wholeMiB {
			t.Errorf("%s: a slice has %d MiB and %d SMs, a card %d MiB; want %d, %d, %d", when, slice, n, whole, sliceMiB, sms, wholeMiB)
		}
	}
	want("before any node reports", 0, 0, 0)
	one, two := h.enroll(t, "n1"), h.enroll(t, "n2")
	a, b := card("1"), card("2")
	a.Profiles = []nodewire.Profile{{Profile: "1g", MemoryMiB: 9728, SMs: 16}, {Profile: "3g", MemoryMiB: 40192, SMs: 60}}
	b.MemoryMiB = 81000
	b.Profiles = []nodewire.Profile{{Profile: "1g", MemoryMiB: 9600, SMs: 14}}
	must(h.NodeReport(t.Context(), one, report(a)))
	want("one reports", 9728, 16, 81559)
	must(h.NodeReport(t.Context(), two, report(b)))
	want("another reports less", 9600, 14, 81000)
	exec(t, h, `UPDATE node SET forgotten_at = now() WHERE id = $1`, two)
	want("that one is forgotten", 9728, 16, 81559)
}
