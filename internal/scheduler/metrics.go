package scheduler

import "github.com/prometheus/client_golang/prometheus"

// metrics is what the loop counts; with no registerer it counts for nobody.
type metrics struct {
	decisions *prometheus.CounterVec
	lost      prometheus.Counter
	broken    prometheus.Counter
	decide    prometheus.Histogram
	commit    prometheus.Histogram
	batch     prometheus.Histogram
	wait      prometheus.Histogram
	look      prometheus.Histogram
	read      prometheus.Counter
	drift     prometheus.Counter
}

func newMetrics(r prometheus.Registerer) *metrics {
	seconds := prometheus.ExponentialBuckets(0.001, 2, 14)
	m := &metrics{
		decisions: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "tenon_scheduler_decisions_total", Help: "Decisions of the placement engine."}, []string{"outcome"}),
		lost:      prometheus.NewCounter(prometheus.CounterOpts{Name: "tenon_scheduler_lost_total", Help: "Planned places that were no longer free at their commit."}),
		broken:    prometheus.NewCounter(prometheus.CounterOpts{Name: "tenon_scheduler_broken_total", Help: "Planned places that the database refuses whatever is free."}),
		decide:    prometheus.NewHistogram(prometheus.HistogramOpts{Name: "tenon_scheduler_decide_duration_seconds", Help: "Time to make one plan.", Buckets: seconds}),
		commit:    prometheus.NewHistogram(prometheus.HistogramOpts{Name: "tenon_scheduler_commit_duration_seconds", Help: "Time to commit one batch.", Buckets: seconds}),
		batch:     prometheus.NewHistogram(prometheus.HistogramOpts{Name: "tenon_scheduler_commit_instances", Help: "Instances in one batch.", Buckets: prometheus.ExponentialBuckets(1, 2, 8)}),
		wait:      prometheus.NewHistogram(prometheus.HistogramOpts{Name: "tenon_scheduler_wait_seconds", Help: "Time from the queue to a place.", Buckets: prometheus.ExponentialBuckets(0.005, 2, 18)}),
		look:      prometheus.NewHistogram(prometheus.HistogramOpts{Name: "tenon_scheduler_look_duration_seconds", Help: "Time to read what waits and what changed of the fleet.", Buckets: seconds}),
		read:      prometheus.NewCounter(prometheus.CounterOpts{Name: "tenon_scheduler_nodes_read_total", Help: "Nodes read from the database, since they changed or to verify."}),
		drift:     prometheus.NewCounter(prometheus.CounterOpts{Name: "tenon_scheduler_drift_total", Help: "Nodes whose picture in memory was wrong though nothing told of a change, and was corrected."}),
	}
	if r != nil {
		r.MustRegister(m.decisions, m.lost, m.broken, m.decide, m.commit, m.batch, m.wait, m.look, m.read, m.drift)
	}
	return m
}
