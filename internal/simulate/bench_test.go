package simulate

import (
	"fmt"
	"testing"
)

// One core's decisions with every node scored, beside a fixed loop of the same
// moment, which tells how busy the machine was.
func BenchmarkReplay(b *testing.B) {
	for _, copies := range []int{1, 8, 16} {
		x := openb(b, "default")
		b.Run(fmt.Sprintf("nodes=%d/gpus=%d", copies*len(x.Nodes), copies*6212), func(b *testing.B) {
			x.Copies = copies
			for i := range max(1, 5/copies) {
				x.Seeds = append(x.Seeds, int64(100+i))
			}
			var s Speed
			for b.Loop() {
				s = replay(b, x).Speed
			}
			b.ReportMetric(s.BestPerSecond, "decisions/s")
			b.ReportMetric(s.PerCPUSecond, "decisions/cpu-s")
			b.ReportMetric(s.P99, "p99-us")
			b.ReportMetric(s.Calibration, "loops/s")
			b.ReportMetric(0, "ns/op")
		})
	}
}
