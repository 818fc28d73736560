package metering

import "github.com/prometheus/client_golang/prometheus"

// metrics is what the loop counts; with no registerer it counts for nobody.
type metrics struct {
	events   prometheus.Counter
	segments prometheus.Counter
	broken   prometheus.Counter
}

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		events:   prometheus.NewCounter(prometheus.CounterOpts{Name: "tenon_metering_instances_total", Help: "Instances whose new events were metered."}),
		segments: prometheus.NewCounter(prometheus.CounterOpts{Name: "tenon_metering_segments_total", Help: "Segments written."}),
		broken:   prometheus.NewCounter(prometheus.CounterOpts{Name: "tenon_metering_broken_total", Help: "Instances whose events could not be metered."}),
	}
	if r != nil {
		r.MustRegister(m.events, m.segments, m.broken)
	}
	return m
}
