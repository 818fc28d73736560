package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tenon-cloud/tenon/api"
)

// noon is when the tests run, so that ages are the same every time.
var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) time.Time { return noon.Add(-d) }

func ptr[T any](v T) *T { return &v }

// fakeCloud answers with fixed values; "METHOD /path" → value, *api.Problem, or
// a function of the request.
type fakeCloud struct {
	*httptest.Server
	mu      sync.Mutex
	answers map[string]any
	bodies  map[string]string
	tokens  []string
}

func newFakeCloud(t *testing.T, answers map[string]any) *fakeCloud {
	t.Helper()
	f := &fakeCloud{answers: answers, bodies: map[string]string{}}
	f.Server = httptest.NewServer(http.HandlerFunc(f.answer))
	t.Cleanup(f.Close)
	return f
}

func (f *fakeCloud) answer(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	key := r.Method + " " + r.URL.Path
	f.mu.Lock()
	f.bodies[key] = string(body)
	f.tokens = append(f.tokens, r.Header.Get("Authorization"))
	value, ok := f.answers[key]
	if make, isFunc := value.(func() any); isFunc {
		value = make()
	}
	f.mu.Unlock()
	if !ok {
		value = &api.Problem{Status: 404, Code: "not_found", Detail: key + " does not exist, or is not yours to see", RequestID: "req-1"}
	}
	if p, isProblem := value.(*api.Problem); isProblem {
		w.WriteHeader(p.Status)
	}
	if text, isText := value.(string); isText {
		_, _ = io.WriteString(w, text)
		return
	}
	if value != nil {
		_ = json.NewEncoder(w).Encode(value)
	}
}

type result struct {
	code     int
	out, err string
}

// tenon runs a command line as a script would: no terminal anywhere.
func tenon(t *testing.T, url string, args ...string) result {
	t.Helper()
	return tenonWith(t, map[string]string{"TENON_URL": url, "TENON_TOKEN": "tenon_test"}, filepath.Join(t.TempDir(), "config.json"), "", args...)
}

func tenonWith(t *testing.T, env map[string]string, config, in string, args ...string) result {
	t.Helper()
	var out, errOut bytes.Buffer
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	code := Run(ctx, args, "1.2.3", Streams{In: strings.NewReader(in), Out: &out, Err: &errOut,
		Getenv: func(k string) string { return env[k] }, Config: config, Now: func() time.Time { return noon }})
	return result{code, out.String(), errOut.String()}
}

func page[T any](items ...T) api.Page[T] { return api.Page[T]{Items: items} }

var h100Slice = api.Shape{GPUCount: 1, GPUModel: "h100-80gb", GPUModelName: "H100 80 GB", GPUMode: "mig", GPUProfile: "1g", GPUProfileName: "1g.10gb", VCPU: 2, MemoryMiB: 4096, DiskMiB: 10240}

func webOne(state string) api.Instance {
	i := api.Instance{ID: "inst_01k3zq8h2mfw4v8y0c6d9r2t5x", Name: "web-1", Project: "default", ProjectID: "prj_1", Kind: "container", Image: "debian-12",
		ImageDigest: "sha256:0123456789abcdef0123456789abcdef", Flavor: "h100-1g", Pool: "default", Shape: h100Slice, DesiredState: "running", State: state,
		Generation: 1, ObservedGeneration: 1, Simulated: true, PricePerHourMicros: ptr(int64(412_500)), Currency: "USD",
		CreatedBy: "ada@example.org", CreatedAt: ago(90 * time.Minute), StateAt: ago(80 * time.Minute)}
	if state == api.StateRunning {
		i.Node, i.Address, i.StartedAt = "node-1", "10.77.0.5", ptr(ago(80*time.Minute))
		i.GPUs = []api.Claim{{GPUID: "gpu_1", ModelName: "H100 80 GB", Mode: "mig", Profile: "1g", ProfileName: "1g.10gb", SlotStart: 6, SlotEnd: 7}}
	}
	return i
}
