package lifecycle

import "github.com/prometheus/client_golang/prometheus"

// metrics is what the loops count; with no registerer they count for nobody.
type metrics struct {
	moves  *prometheus.CounterVec
	broken prometheus.Counter
	batch  prometheus.Histogram
}

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		moves:  prometheus.NewCounterVec(prometheus.CounterOpts{Name: "tenon_instance_moves_total", Help: "Instances that entered a state."}, []string{"state"}),
		broken: prometheus.NewCounter(prometheus.CounterOpts{Name: "tenon_instance_broken_total", Help: "Steps with an instance that the database refuses."}),
		batch:  prometheus.NewHistogram(prometheus.HistogramOpts{Name: "tenon_lifecycle_batch_duration_seconds", Help: "Time to handle one batch of observations.", Buckets: prometheus.ExponentialBuckets(0.001, 2, 14)}),
	}
	if r != nil {
		r.MustRegister(m.moves, m.broken, m.batch)
	}
	return m
}

func (m *metrics) moved(changes []change) {
	for _, c := range changes {
		if c.was.State != c.inst.State {
			m.moves.WithLabelValues(string(c.inst.State)).Inc()
		}
	}
}
