package agent

import (
	"encoding/binary"
	"math"
	"slices"
	"time"

	"github.com/tenon-cloud/tenon/internal/nodewire"
)

// An hour of figures for each of a hundred instances would be most of what an agent
// remembers. So they are kept as whole numbers, in steps that nobody sees, and of
// each only how it differs from the one before: most differ little, or not at all.

// figures is how many numbers a sample is.
const figures = 11

// figure is a sample in whole numbers.
type figure [figures]int64

const (
	pageBytes = 4096
	chunkSize = 60 // samples that go together
	unknown   = 0
	coldest   = 10_000 // above unknown, so that no reading is that: tenths below zero
)

func pack(s nodewire.Sample) figure {
	tenths := func(v *float64) int64 {
		if v == nil {
			return unknown
		}
		return max(1, int64(math.Round(*v*10))+coldest)
	}
	pages := func(mib float64) int64 { return int64(math.Round(mib * (1 << 20) / pageBytes)) }
	return figure{
		s.At.UnixMicro(), s.NetRxBytes, s.NetTxBytes, int64(math.Round(s.CPUPercent * 100)), pages(s.MemoryMiB), pages(s.DiskMiB), s.Pids,
		tenths(s.GPUPercent), tenths(s.GPUMemoryMiB), tenths(s.GPUPowerWatts), tenths(s.GPUTemperatureC),
	}
}

func (f figure) unpack() nodewire.Sample {
	known := func(v int64) *float64 {
		if v == unknown {
			return nil
		}
		w := float64(v-coldest) / 10
		return &w
	}
	mib := func(pages int64) float64 { return float64(pages) * pageBytes / (1 << 20) }
	return nodewire.Sample{
		At: time.UnixMicro(f[0]), NetRxBytes: f[1], NetTxBytes: f[2], CPUPercent: float64(f[3]) / 100, MemoryMiB: mib(f[4]), DiskMiB: mib(f[5]), Pids: f[6],
		GPUPercent: known(f[7]), GPUMemoryMiB: known(f[8]), GPUPowerWatts: known(f[9]), GPUTemperatureC: known(f[10]),
	}
}

// hour is the last so many figures of a run.
type hour struct {
	chunks []chunk
	count  int
}

// chunk is some figures, each as its difference from the one before; the first is
// whole.
type chunk struct {
	data []byte
	n    int
	last figure
}

// add keeps a figure, and at least size of them.
func (h *hour) add(f figure, size int) {
	if len(h.chunks) == 0 || h.chunks[len(h.chunks)-1].n == chunkSize {
		if n := len(h.chunks); n > 0 {
			h.chunks[n-1].data = append(make([]byte, 0, len(h.chunks[n-1].data)), h.chunks[n-1].data...) // it grows no more
		}
		h.chunks = append(h.chunks, chunk{})
	}
	c := &h.chunks[len(h.chunks)-1]
	for i := range f {
		c.data = binary.AppendVarint(c.data, f[i]-c.last[i])
	}
	c.last = f
	c.n++
	h.count++
	if first := h.chunks[0].n; h.count-first >= size {
		h.chunks = slices.Delete(h.chunks, 0, 1)
		h.count -= first
	}
}

// each gives the last size figures, oldest first.
func (h *hour) each(size int, f func(figure)) {
	skip := h.count - size
	for _, c := range h.chunks {
		var at figure
		for data := c.data; len(data) > 0; skip-- {
			for i := range at {
				d, n := binary.Varint(data)
				at[i] += d
				data = data[n:]
			}
			if skip <= 0 {
				f(at)
			}
		}
	}
}

// bytes is what the figures take.
func (h *hour) bytes() (n int) {
	for _, c := range h.chunks {
		n += cap(c.data)
	}
	return n
}
