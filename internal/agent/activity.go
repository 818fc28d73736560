package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tenon-cloud/tenon/internal/hypervisor"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

const (
	askTimeout = 3 * time.Second
	maxAnswer  = 1 << 20
	// gpuWindow is over which a GPU's highest use counts.
	gpuWindow = 5 * time.Minute
	// freshFor is how old an answer may be before nothing is known any more.
	freshFor = 45 * time.Second
)

// kernel and terminal are what a Jupyter server tells of each.
type kernel struct {
	State        string    `json:"execution_state"`
	LastActivity time.Time `json:"last_activity"`
}

func (k kernel) busy() bool { return k.State == "busy" || k.State == "starting" }

type terminal struct {
	LastActivity time.Time `json:"last_activity"`
}

// asked is what a notebook's server answered.
type asked struct {
	kernels   []kernel
	terminals []terminal
}

// heard is the last answer of a run.
type heard struct {
	epoch  int64
	answer asked
	at     time.Time
	last   time.Time // when anything was done at all, of kernels that have gone too
}

type activities struct {
	mu sync.Mutex
	of map[string]heard
}

// activityLoop asks notebooks whether anything goes on in them.
func (a *Agent) activityLoop(ctx context.Context) {
	tick := time.NewTicker(a.t.Activity)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		a.askNotebooks(ctx)
	}
}

func (a *Agent) askNotebooks(ctx context.Context) {
	s := a.ledger.snapshot()
	if s.Assignment == nil {
		return
	}
	var asking sync.WaitGroup
	slots := make(chan struct{}, 8)
	running := map[string]bool{}
	for i := range s.Assignment.Instances {
		want := &s.Assignment.Instances[i]
		d, ok := a.driver(want.Kind).(hypervisor.Dialer)
		if want.AppPort <= 0 || !ok || !a.runs(want.ID) {
			continue
		}
		running[want.ID] = true
		asking.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			answer, err := ask(ctx, want, func(ctx context.Context) (net.Conn, error) { return d.Dial(ctx, want.ID, want.AppPort) })
			if err != nil {
				a.log.Debug("ask a notebook", "instance", want.ID, "error", err)
				return // what is not known is not idle
			}
			a.activity.heard(want, answer, time.Now())
		})
	}
	asking.Wait()
	a.activity.mu.Lock()
	maps.DeleteFunc(a.activity.of, func(id string, _ heard) bool { return !running[id] })
	a.activity.mu.Unlock()
}

func (l *activities) heard(want *nodewire.Instance, answer asked, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of == nil {
		l.of = map[string]heard{}
	}
	h := l.of[want.ID]
	if h.epoch != want.Epoch {
		h = heard{epoch: want.Epoch}
	}
	h.answer, h.at = answer, now
	if last := answer.last(now); last.After(h.last) {
		h.last = last
	}
	l.of[want.ID] = h
}

// last is when a kernel or a terminal last did anything; what the guest dates in
// the future was now.
func (a asked) last(now time.Time) (last time.Time) {
	note := func(at time.Time) {
		if at.After(now) {
			at = now
		}
		if at.After(last) {
			last = at
		}
	}
	for _, k := range a.kernels {
		note(k.LastActivity)
	}
	for _, t := range a.terminals {
		note(t.LastActivity)
	}
	return last
}

// activityOf is what a report tells of a notebook; nil: not known.
func (a *Agent) activityOf(r nodewire.InstanceReport, now time.Time) *nodewire.Activity {
	want := a.ledger.snapshot().want(r.ID)
	if want == nil || want.AppPort <= 0 || r.State != nodewire.GuestRunning {
		return nil
	}
	a.activity.mu.Lock()
	h, ok := a.activity.of[r.ID]
	a.activity.mu.Unlock()
	if !ok || h.epoch != r.Epoch {
		return nil
	}
	_, sessions := a.streams.count(r.ID)
	return activity(h, now, r.RanForSeconds, sessions, len(want.Devices) > 0, highestGPU(a.metrics.since(r.ID, now.Add(-gpuWindow)), now))
}

// activity judges an answer. It is pure. Without the figures of a GPU that it
// holds nothing is known, which is not idle.
func activity(h heard, now time.Time, ranFor float64, sessions int, hasGPU bool, gpu *float64) *nodewire.Activity {
	if now.Sub(h.at) > freshFor || hasGPU && gpu == nil {
		return nil
	}
	out := &nodewire.Activity{Kernels: len(h.answer.kernels), Sessions: sessions, HasGPU: hasGPU, QuietSeconds: ranFor}
	if hasGPU {
		out.GPUPercent = gpu
	}
	for _, k := range h.answer.kernels {
		if k.busy() {
			out.BusyKernels++
		}
	}
	if !h.last.IsZero() {
		out.QuietSeconds = min(ranFor, max(0, now.Sub(h.last).Seconds()))
	}
	return out
}

// resting are the notebooks without a kernel that is known to be busy: an
// invented GPU shows them at rest.
func (a *Agent) resting() map[string]bool {
	out := map[string]bool{}
	s := a.ledger.snapshot()
	if s.Assignment == nil {
		return out
	}
	a.activity.mu.Lock()
	defer a.activity.mu.Unlock()
	for i := range s.Assignment.Instances {
		want := &s.Assignment.Instances[i]
		h := a.activity.of[want.ID]
		if want.AppPort > 0 && (h.epoch != want.Epoch || !slices.ContainsFunc(h.answer.kernels, kernel.busy)) {
			out[want.ID] = true
		}
	}
	return out
}

// highestGPU is the highest use of late; nil: there is no figure.
func highestGPU(samples []nodewire.Sample, now time.Time) (highest *float64) {
	for _, s := range samples {
		if s.GPUPercent != nil && now.Sub(s.At) <= gpuWindow && (highest == nil || *s.GPUPercent > *highest) {
			v := *s.GPUPercent
			highest = &v
		}
	}
	return highest
}

// ask reads a notebook server's kernels and terminals. The server is the tenant's:
// it is given little time and no way to lead elsewhere, and what it says is
// believed of itself only.
func ask(ctx context.Context, want *nodewire.Instance, dial func(context.Context) (net.Conn, error)) (asked, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	transport := &http.Transport{
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
		DisableKeepAlives: true, MaxResponseHeaderBytes: 16 << 10,
	}
	client := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	defer transport.CloseIdleConnections()
	get := func(path string, into any) (status int, err error) {
		base := "/" + strings.Trim(want.Env["NB_PREFIX"], "/")
		// Asking is no activity.
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost"+strings.TrimSuffix(base, "/")+path+"?no_track_activity=1", nil)
		if err != nil {
			return 0, err
		}
		req.Host = fmt.Sprintf("localhost:%d", want.AppPort)
		if token := want.Env["JUPYTER_TOKEN"]; token != "" {
			req.Header.Set("Authorization", "token "+token)
		}
		res, err := client.Do(req)
		if err != nil {
			return 0, err
		}
		defer func() { _ = res.Body.Close() }()
		if res.StatusCode != http.StatusOK {
			return res.StatusCode, fmt.Errorf("%s answers %d", path, res.StatusCode)
		}
		raw, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
		if err == nil && len(raw) > maxAnswer {
			err = fmt.Errorf("%s answers more than %d bytes", path, maxAnswer)
		}
		if err == nil {
			err = json.Unmarshal(raw, into)
		}
		return res.StatusCode, err
	}
	var out asked
	if _, err := get("/api/kernels", &out.kernels); err != nil {
		return out, fmt.Errorf("ask for kernels: %w", err)
	}
	if status, err := get("/api/terminals", &out.terminals); err != nil && status != http.StatusNotFound {
		return out, fmt.Errorf("ask for terminals: %w", err)
	}
	return out, nil
}
