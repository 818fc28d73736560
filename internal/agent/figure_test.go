package agent

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenon-cloud/tenon/internal/hypervisor"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

// TestAnHourIsKept: figures come out as they went in, the last hour of them and in
// order, and what is not known stays so.
func TestAnHourIsKept(t *testing.T) {
	t.Parallel()
	var m metrics
	m.init(720)
	began := time.Unix(1_700_000_000, 123_000)
	gpu := func(n int) nodewire.Sample {
		if n%2 == 1 {
			return nodewire.Sample{}
		}
		busy, memory := 12.3, 81559.3
		return nodewire.Sample{GPUPercent: &busy, GPUMemoryMiB: &memory}
	}
	const read = 1000
	for n := range read {
		m.add("inst_1", 1, began.Add(time.Duration(n)*5*time.Second), hypervisor.Stats{
			CPUNanoseconds: int64(n) * 1_250_000_000, MemoryBytes: int64(n) << 20, DiskBytes: 3 << 19, NetRxBytes: 1<<53 + int64(n), NetTxBytes: int64(n), Pids: 7,
		}, gpu(n))
	}
	want := []nodewire.Sample{}
	for n := read - 720; n < read; n++ {
		s := gpu(n)
		s.At, s.CPUPercent, s.MemoryMiB, s.DiskMiB, s.NetRxBytes, s.NetTxBytes, s.Pids = began.Add(time.Duration(n)*5*time.Second), 25, float64(n), 1.5, 1<<53+int64(n), int64(n), 7
		want = append(want, s)
	}
	if d := cmp.Diff(want, m.list("inst_1")); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(want[700:], m.since("inst_1", want[700].At)); d != "" {
		t.Error("the last twenty: " + d)
	}
	if got := fmt.Sprint(len(m.list("inst_2")), m.since("inst_1", want[719].At.Add(time.Microsecond))); got != "0 []" {
		t.Error("nothing is " + got)
	}
	// 100 instances have 2 MiB for their hour, though each figure of theirs moves.
	if size := m.rings["inst_1"].hour.bytes(); size > 20<<10 {
		t.Errorf("an hour of one instance takes %d bytes", size)
	}
	m.add("inst_1", 2, began, hypervisor.Stats{}, nodewire.Sample{})
	if got := m.list("inst_1"); len(got) != 1 {
		t.Errorf("another run begins with %d figures of the one before", len(got)-1)
	}
}
