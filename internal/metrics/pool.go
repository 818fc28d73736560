package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tenon-cloud/tenon/internal/postgres"
)

// pools shows the connections to the database, by the role that they have there.
type pools struct{ db *postgres.DB }

var (
	poolConns = prometheus.NewDesc("tenon_postgres_connections", "Connections to the database.", []string{"role", "state"}, nil)
	poolMost  = prometheus.NewDesc("tenon_postgres_connections_max", "Connections that a role may have.", []string{"role"}, nil)
	poolTaken = prometheus.NewDesc("tenon_postgres_acquires_total", "Times that a connection was taken.", []string{"role"}, nil)
	poolWaits = prometheus.NewDesc("tenon_postgres_acquire_waits_total", "Times that none was idle and one was waited for.", []string{"role"}, nil)
	poolWait  = prometheus.NewDesc("tenon_postgres_acquire_seconds_total", "Time spent on taking connections.", []string{"role"}, nil)
)

// Describe implements prometheus.Collector.
func (pools) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{poolConns, poolMost, poolTaken, poolWaits, poolWait} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (p pools) Collect(out chan<- prometheus.Metric) {
	show := func(d *prometheus.Desc, kind prometheus.ValueType, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, kind, v, labels...)
	}
	for _, role := range []string{postgres.RoleAPI, postgres.RoleSystem, postgres.RoleNode} {
		s := p.db.Stat(role)
		show(poolConns, prometheus.GaugeValue, float64(s.AcquiredConns()), role, "used")
		show(poolConns, prometheus.GaugeValue, float64(s.IdleConns()), role, "idle")
		show(poolConns, prometheus.GaugeValue, float64(s.ConstructingConns()), role, "opening")
		show(poolMost, prometheus.GaugeValue, float64(s.MaxConns()), role)
		show(poolTaken, prometheus.CounterValue, float64(s.AcquireCount()), role)
		show(poolWaits, prometheus.CounterValue, float64(s.EmptyAcquireCount()), role)
		show(poolWait, prometheus.CounterValue, s.AcquireDuration().Seconds(), role)
	}
}
