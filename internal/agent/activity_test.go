package agent

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenon-cloud/tenon/internal/nodewire"
)

func TestActivity(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	percent := func(v float64) *float64 { return &v }
	idle, busy := kernel{"idle", ago(time.Hour)}, kernel{"busy", ago(time.Hour)}
	tests := []struct {
		name    string
		kernels []kernel
		terms   []terminal
		before  time.Time // activity of kernels that have gone
		age     time.Duration
		ran     float64
		session int
		hasGPU  bool
		gpu     *float64
		want    *nodewire.Activity
	}{
		{name: "nothing was ever opened: quiet since it runs", ran: 600, want: &nodewire.Activity{QuietSeconds: 600}},
		{name: "an idle kernel", kernels: []kernel{idle}, ran: 7200, want: &nodewire.Activity{Kernels: 1, QuietSeconds: 3600}},
		{name: "a busy kernel, GPU at 0 %", kernels: []kernel{idle, busy}, ran: 7200, hasGPU: true, gpu: percent(0), want: &nodewire.Activity{Kernels: 2, BusyKernels: 1, QuietSeconds: 3600, HasGPU: true, GPUPercent: percent(0)}},
		{name: "a kernel that starts", kernels: []kernel{{"starting", ago(0)}}, ran: 7200, want: &nodewire.Activity{Kernels: 1, BusyKernels: 1}},
		{name: "a GPU without figures is not idle", kernels: []kernel{idle}, ran: 7200, hasGPU: true, want: nil},
		{name: "figures without a GPU are not its own", kernels: []kernel{idle}, ran: 7200, gpu: percent(3), want: &nodewire.Activity{Kernels: 1, QuietSeconds: 3600}},
		{name: "an old answer is none", kernels: []kernel{idle}, age: time.Minute, ran: 7200, want: nil},
		{name: "a terminal that was used", kernels: []kernel{idle}, terms: []terminal{{ago(time.Minute)}}, ran: 7200, want: &nodewire.Activity{Kernels: 1, QuietSeconds: 60}},
		{name: "a kernel that has gone was used", before: ago(2 * time.Minute), ran: 7200, want: &nodewire.Activity{QuietSeconds: 120}},
		{name: "a terminal from outside", kernels: []kernel{idle}, ran: 7200, session: 2, want: &nodewire.Activity{Kernels: 1, QuietSeconds: 3600, Sessions: 2}},
		{name: "a date in the future is now", kernels: []kernel{{"idle", now.Add(time.Hour)}}, ran: 7200, want: &nodewire.Activity{Kernels: 1}},
		{name: "not quiet for longer than it runs", kernels: []kernel{idle}, ran: 60, want: &nodewire.Activity{Kernels: 1, QuietSeconds: 60}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var l activities
			want := &nodewire.Instance{ID: "i", Epoch: 1}
			if !tt.before.IsZero() {
				l.heard(want, asked{kernels: []kernel{{"idle", tt.before}}}, now)
			}
			l.heard(want, asked{tt.kernels, tt.terms}, now.Add(-tt.age))
			got := activity(l.of["i"], now, tt.ran, tt.session, tt.hasGPU, tt.gpu)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestHighestGPU(t *testing.T) {
	t.Parallel()
	now := time.Now()
	at := func(ago time.Duration, v float64) nodewire.Sample {
		return nodewire.Sample{At: now.Add(-ago), GPUPercent: &v}
	}
	if got := highestGPU([]nodewire.Sample{at(time.Hour, 99), at(4*time.Minute, 40), at(time.Minute, 3), {At: now}}, now); got == nil || *got != 40 {
		t.Errorf("%v", got)
	}
	if got := highestGPU([]nodewire.Sample{at(time.Hour, 99), {At: now}}, now); got != nil {
		t.Errorf("%v, and nothing is known", *got)
	}
}

func TestAskANotebook(t *testing.T) {
	t.Parallel()
	const kernels = `[{"id":"k","execution_state":"busy","last_activity":"2026-11-30T11:00:00.123456Z"}]`
	page := func(body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, body) }
	}
	elsewhere := httptest.NewServer(page(kernels))
	t.Cleanup(elsewhere.Close)
	silent := make(chan struct{})
	t.Cleanup(func() { close(silent) })
	tests := []struct {
		name               string
		kernels, terminals http.HandlerFunc
		env                map[string]string
		fails              bool
	}{
		{name: "both answer", kernels: page(kernels), terminals: page(`[{"name":"1","last_activity":"2026-11-30T11:30:00Z"}]`)},
		{name: "no terminals", kernels: page(kernels), terminals: http.NotFound},
		{name: "with its token, below its prefix", kernels: func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "token secret" || !strings.HasPrefix(r.URL.Path, "/base/api/") || r.Host != "localhost:8888" || r.URL.Query().Get("no_track_activity") != "1" {
				http.Error(w, "who?", http.StatusForbidden)
				return
			}
			page(kernels)(w, r)
		}, terminals: http.NotFound, env: map[string]string{"JUPYTER_TOKEN": "secret", "NB_PREFIX": "/base"}},
		{name: "it leads elsewhere", kernels: http.RedirectHandler(elsewhere.URL, http.StatusFound).ServeHTTP, fails: true},
		{name: "no JSON", kernels: page("<html>"), fails: true},
		{name: "it never ends", kernels: func(w http.ResponseWriter, _ *http.Request) {
			chunk := []byte(strings.Repeat(" ", 64<<10))
			for i := 0; i < 1000; i++ {
				if _, err := w.Write(chunk); err != nil {
					return
				}
			}
		}, fails: true},
		{name: "it never answers", kernels: func(_ http.ResponseWriter, r *http.Request) {
			select {
			case <-silent:
			case <-r.Context().Done():
			}
		}, fails: true},
		{name: "terminals fail", kernels: page(kernels), terminals: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }, fails: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if strings.HasSuffix(r.URL.Path, "/terminals") {
					tt.terminals(w, r)
					return
				}
				tt.kernels(w, r)
			}))
			defer server.Close()
			began := time.Now()
			got, err := ask(context.Background(), &nodewire.Instance{ID: "i", AppPort: 8888, Env: tt.env}, func(context.Context) (net.Conn, error) {
				return net.Dial("tcp", server.Listener.Addr().String())
			})
			if (err != nil) != tt.fails || time.Since(began) > 2*askTimeout {
				t.Fatalf("%+v, %v after %s", got, err, time.Since(began))
			}
			if err == nil && (len(got.kernels) != 1 || got.kernels[0].State != "busy" || got.kernels[0].LastActivity.Minute() != 0) {
				t.Errorf("%+v", got)
			}
		})
	}
}
