package agent

import (
	"math"
	"strconv"
	"time"

	"github.com/tenon-cloud/tenon/internal/nodewire"
)

// figure is a sample as it is kept: an hour of them for each of a hundred instances
// is most of what an agent remembers, so they are small and hold no pointers.
type figure struct {
	at                                   int64 // nanoseconds since 1970
	rx, tx                               int64
	cpu, memory, disk                    float32
	gpu, gpuMemory, gpuWatts, gpuCelsius float32 // NaN: not known
	pids                                 int32
}

func pack(s nodewire.Sample) figure {
	known := func(v *float64) float32 {
		if v == nil {
			return float32(math.NaN())
		}
		return float32(*v)
	}
	return figure{
		at: s.At.UnixNano(), rx: s.NetRxBytes, tx: s.NetTxBytes, pids: int32(min(s.Pids, math.MaxInt32)),
		cpu: float32(s.CPUPercent), memory: float32(s.MemoryMiB), disk: float32(s.DiskMiB),
		gpu: known(s.GPUPercent), gpuMemory: known(s.GPUMemoryMiB), gpuWatts: known(s.GPUPowerWatts), gpuCelsius: known(s.GPUTemperatureC),
	}
}

func (f figure) unpack() nodewire.Sample {
	known := func(v float32) *float64 {
		if math.IsNaN(float64(v)) {
			return nil
		}
		w := widen(v)
		return &w
	}
	return nodewire.Sample{
		At: time.Unix(0, f.at), NetRxBytes: f.rx, NetTxBytes: f.tx, Pids: int64(f.pids),
		CPUPercent: widen(f.cpu), MemoryMiB: widen(f.memory), DiskMiB: widen(f.disk),
		GPUPercent: known(f.gpu), GPUMemoryMiB: known(f.gpuMemory), GPUPowerWatts: known(f.gpuWatts), GPUTemperatureC: known(f.gpuCelsius),
	}
}

// widen gives the number with the fewest digits that would be kept alike: 12.3 and
// not 12.300000190734863.
func widen(v float32) float64 {
	w, err := strconv.ParseFloat(strconv.FormatFloat(float64(v), 'g', -1, 32), 64)
	if err != nil {
		return float64(v)
	}
	return w
}
