package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tenon-cloud/tenon/internal/loop"
)

// Loops counts what every loop does. It is a loop.Observer.
type Loops struct {
	ticks     *prometheus.CounterVec
	failures  *prometheus.CounterVec
	took      *prometheus.HistogramVec
	leading   *prometheus.GaugeVec
	succeeded *prometheus.GaugeVec
}

var _ loop.Observer = (*Loops)(nil)

func newLoops() *Loops {
	label := []string{"loop"}
	return &Loops{
		ticks:    prometheus.NewCounterVec(prometheus.CounterOpts{Name: "tenon_loop_ticks_total", Help: "Steps that a loop took."}, label),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "tenon_loop_failures_total", Help: "Steps that failed; each is tried again."}, label),
		took: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "tenon_loop_tick_duration_seconds", Help: "Time that a step took.",
			Buckets: prometheus.ExponentialBuckets(0.001, 3, 10)}, label),
		leading:   prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "tenon_loop_leading", Help: "1 where this process runs the loop, 0 where another does."}, label),
		succeeded: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "tenon_loop_last_success_timestamp_seconds", Help: "When a step last ended well."}, label),
	}
}

// Ticked implements loop.Observer.
func (l *Loops) Ticked(name string, took time.Duration, err error) {
	l.ticks.WithLabelValues(name).Inc()
	l.took.WithLabelValues(name).Observe(took.Seconds())
	failures := l.failures.WithLabelValues(name) // there from the first tick on, at 0
	if err != nil {
		failures.Inc()
		return
	}
	l.succeeded.WithLabelValues(name).SetToCurrentTime()
}

// Led implements loop.Observer.
func (l *Loops) Led(name string, leading bool) {
	value := 0.0
	if leading {
		value = 1
	}
	l.leading.WithLabelValues(name).Set(value)
}
