package cloudtest_test

import (
	"encoding/json"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tenon-cloud/tenon/api"
	"github.com/tenon-cloud/tenon/internal/cloudtest"
	"github.com/tenon-cloud/tenon/internal/pgtest"
)

// scrape reads /metrics: name{labels} → value.
func scrape(t *testing.T, c *cloudtest.Cloud) map[string]float64 {
	t.Helper()
	a := request(t, c, "", "GET", "/metrics", "")
	if a.status != 200 {
		t.Fatalf("/metrics answered %d: %s", a.status, a.body)
	}
	out := map[string]float64{}
	for line := range strings.Lines(string(a.body)) {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		at := strings.LastIndexByte(line, ' ')
		v, err := strconv.ParseFloat(line[at+1:], 64)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		out[line[:at]] = v
	}
	return out
}

// An operator sees the cloud's state and its work move, and nobody's name.
func TestMetricsFollowTheCloud(t *testing.T) {
	t.Parallel()
	c, acme, i := running(t)
	ctx := within(t, 60*time.Second)
	big, err := c.Admin.FlavorCreate(ctx, api.FlavorCreate{Name: "too-big", GPUCount: 8, GPUModel: "h100-80gb", GPUMode: "whole", VCPU: 1, MemoryMiB: 512, DiskMiB: 1024})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := acme.InstanceCreate(ctx, "default", api.InstanceCreate{Name: "waits-for-ever", Image: i.Image, Flavor: big.Name}); err != nil {
		t.Fatal(err)
	}
	// A terminal and a stream stay open while we look.
	go func() {
		_, _ = acme.Exec(ctx, "default", "web-1", api.ExecOptions{Command: []string{"cat"}, Stdin: neverEnds{ctx}})
	}()
	go func() { _ = acme.Events(ctx, "default", "", func(api.Event) error { return nil }) }()
	want := map[string]float64{
		`tenon_census_up`: 1, `tenon_queue_length`: 1, `tenon_instances{state="running"}`: 1, `tenon_instances{state="queued"}`: 1, `tenon_instances{state="failed"}`: 0,
		`tenon_nodes{state="ready"}`: 1, `tenon_nodes{state="lost"}`: 0, `tenon_nodes_drained`: 0, `tenon_nodes_connected`: 1,
		`tenon_gpu_slots_used{mode="mig",state="ready"}`: 1, `tenon_gpus{mode="mig",state="quarantined"}`: 0, `tenon_alarms_open{severity="critical"}`: 0,
		`tenon_terminals_open`: 1, `tenon_event_streams_open`: 1, `tenon_loop_leading{loop="scheduler"}`: 1, `tenon_scheduler_decisions_total{outcome="placed"}`: 1,
		`tenon_scheduler_wait_seconds_count`: 1, `tenon_scheduler_commit_duration_seconds_count`: 1,
		`tenon_http_request_duration_seconds_count{operation="flavor.create",status="2xx"}`: 2,
	}
	wrong := ""
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("last looked at: %s", wrong)
		}
	})
	pgtest.Eventually(t, "the metrics tell of the cloud", func() bool {
		got := scrape(t, c)
		for name, v := range want {
			if is, ok := got[name]; !ok || is != v {
				wrong = name
				return false
			}
		}
		return true
	})
	before := scrape(t, c)
	_ = request(t, c, "", "BREW", "/v1/no-such-thing-"+i.ID, "")
	_ = request(t, c, "", "GET", "/v1/me", "")
	var after map[string]float64
	pgtest.Eventually(t, "time passes for the loops and the queue", func() bool {
		after = scrape(t, c)
		for _, name := range []string{
			`tenon_loop_ticks_total{loop="scheduler"}`, `tenon_loop_ticks_total{loop="lifecycle"}`, `tenon_loop_ticks_total{loop="liveness"}`,
			`tenon_loop_tick_duration_seconds_count{loop="metering"}`, `tenon_loop_last_success_timestamp_seconds{loop="scheduler"}`,
			`tenon_queue_oldest_wait_seconds`, `tenon_postgres_acquires_total{role="tenon_system"}`,
			`tenon_http_request_duration_seconds_count{operation="me.read",status="4xx"}`, `tenon_http_request_duration_seconds_count{operation="none",status="4xx"}`,
		} {
			if after[name] <= before[name] {
				wrong = name
				return false
			}
		}
		return true
	})
	for _, name := range []string{`tenon_loop_ticks_total{loop="pusher"}`, `tenon_node_connections`, `tenon_postgres_connections_max{role="tenon_api"}`} {
		if after[name] < 1 {
			t.Errorf("%s is %v", name, after[name])
		}
	}
	for name := range after {
		for _, theirs := range []string{"acme", "web-1", "waits-for-ever", i.ID, c.NodeID, "no-such-thing"} {
			if strings.Contains(name, theirs) {
				t.Errorf("%s tells of %s", name, theirs)
			}
		}
	}
	names := map[string]bool{}
	for sample := range after {
		name, _, _ := strings.Cut(sample, "{")
		names[name] = true
	}
	dashboard(t, names)
	manual(t, names)
}

// dashboard checks that what the committed dashboard asks for is there.
func dashboard(t *testing.T, names map[string]bool) {
	t.Helper()
	raw, err := os.ReadFile("../../deploy/dashboards/tenon.json")
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(raw, &board); err != nil {
		t.Fatal(err)
	}
	form, asked := regexp.MustCompile(`\b(?:tenon|process|go)_[a-z_]+\b`), 0
	for _, p := range board.Panels {
		for _, q := range p.Targets {
			found := form.FindAllString(q.Expr, -1)
			if len(found) == 0 {
				t.Errorf("%s asks for no metric: %s", p.Title, q.Expr)
			}
			for _, name := range found {
				if asked++; !names[name] {
					t.Errorf("%s asks for %s, which is not there", p.Title, name)
				}
			}
		}
	}
	if asked < 20 {
		t.Errorf("the dashboard asks for %d metrics", asked)
	}
}

// manual checks that the operators' page tells of every metric of ours, and of
// no other.
func manual(t *testing.T, names map[string]bool) {
	t.Helper()
	raw, err := os.ReadFile("../../web/docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	told := map[string]bool{}
	for _, name := range regexp.MustCompile(`\btenon_[a-z_]+`).FindAllString(string(raw), -1) {
		told[name] = true
		if !names[name] && !names[name+"_count"] {
			t.Errorf("the manual tells of %s, which is not there", name)
		}
	}
	for name := range names {
		base := name
		for _, part := range []string{"_bucket", "_count", "_sum"} {
			base = strings.TrimSuffix(base, part)
		}
		if strings.HasPrefix(name, "tenon_") && !told[name] && !told[base] {
			t.Errorf("the manual does not tell of %s", base)
		}
	}
}
