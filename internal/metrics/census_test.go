package metrics

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/postgres"
)

// However many scrapers, and however often, the database is asked every five
// seconds at most.
func TestCensusIsTakenSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		taken := 0
		c := newCensus(func(context.Context) (postgres.Census, error) { taken++; return postgres.Census{Queue: taken}, nil }, censusEvery, slog.New(slog.DiscardHandler))
		r := prometheus.NewRegistry()
		r.MustRegister(c)
		for range 40 { // ten seconds
			var all sync.WaitGroup
			for range 8 {
				all.Go(func() { value(t, r, "tenon_queue_length") })
			}
			all.Wait()
			<-time.After(250 * time.Millisecond) // of the bubble
		}
		if taken != 2 {
			t.Errorf("the database was asked %d times in ten seconds, want 2", taken)
		}
		if got := value(t, r, "tenon_queue_length"); got != 3 {
			t.Errorf("the queue reads %v after the third look", got)
		}
	})
}

// A database that is away hides what it counts, and nothing else.
func TestCensusWithoutADatabase(t *testing.T) {
	t.Parallel()
	away := true
	c := newCensus(func(context.Context) (postgres.Census, error) {
		if away {
			return postgres.Census{}, errors.New("away")
		}
		return postgres.Census{
			OldestWait: 90 * time.Second, Instances: map[cloud.InstanceState]int{cloud.StateRunning: 2},
			Cards: []postgres.CensusCards{{Mode: cloud.ModeMIG, State: cloud.GPUReady, Cards: 2, Slots: 16, SlotsUsed: 3}}, Alarms: map[string]int{"critical": 1},
		}, nil
	}, 0, slog.New(slog.DiscardHandler))
	r := prometheus.NewRegistry()
	r.MustRegister(c)
	if up, queue := value(t, r, "tenon_census_up"), value(t, r, "tenon_queue_length"); up != 0 || queue != -1 {
		t.Errorf("up %v, queue %v", up, queue)
	}
	away = false
	for name, want := range map[string]float64{
		"tenon_census_up": 1, "tenon_queue_oldest_wait_seconds": 90, "tenon_instances state=running": 2, "tenon_instances state=failed": 0,
		"tenon_gpus mode=mig state=ready": 2, "tenon_gpus mode=mig state=quarantined": 0, "tenon_gpu_slots_used mode=mig state=ready": 3,
		"tenon_alarms_open severity=critical": 1, "tenon_alarms_open severity=warning": 0, "tenon_nodes state=lost": 0,
	} {
		if got := value(t, r, name); got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
}

// value finds a gauge: its name and its labels. -1: it is not there.
func value(t *testing.T, r *prometheus.Registry, want string) float64 {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Error(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			words := []string{f.GetName()}
			for _, l := range m.GetLabel() {
				words = append(words, l.GetName()+"="+l.GetValue())
			}
			if strings.Join(words, " ") == want {
				return m.GetGauge().GetValue()
			}
		}
	}
	return -1
}
