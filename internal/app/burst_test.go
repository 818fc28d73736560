package app_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tenon-cloud/tenon/internal/cloud"
)

// A burst into one project: each of it answered, counted once, its events
// without holes.
func TestBurstOfCreates(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	ctx := t.Context()
	n := 300
	took := make([]time.Duration, n)
	var wg sync.WaitGroup
	began := time.Now()
	for i := range n {
		wg.Go(func() {
			at := time.Now()
			if _, err := h.InstanceCreate(ctx, h.admin, "default", web(fmt.Sprintf("web-%d", i))); err != nil {
				t.Errorf("create %d: %v", i, err)
			}
			took[i] = time.Since(at)
		})
	}
	wg.Wait()
	all := time.Since(began)
	slices.Sort(took)
	t.Logf("%d at once: %.0f/s, median %v, p99 %v", n, float64(n)/all.Seconds(), took[n/2].Round(time.Millisecond), took[n*99/100].Round(time.Millisecond))
	if got := used(t, h, h.admin, "default", cloud.QuotaInstances); got != int64(n) {
		t.Errorf("usage reads %d, want %d", got, n)
	}
	if got := count(t, h, `SELECT count(*) FROM instance i JOIN event e ON e.resource_id = i.id AND e.seq = i.event_seq JOIN audit a ON a.resource <> '' AND a.action = 'instance.create' AND a.detail->>'name' = i.name`); got != n {
		t.Errorf("%d instances with their event and audit row, want %d", got, n)
	}
}
