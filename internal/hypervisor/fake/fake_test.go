package fake

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenon-cloud/tenon/internal/hypervisor"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

func spec(id, kind string, command ...string) hypervisor.Spec {
	return hypervisor.Spec{Instance: nodewire.Instance{ID: id, Epoch: 1, Generation: 1, Kind: kind, Name: "web", Command: command, VCPU: 4, MemoryMiB: 1024,
		Image: nodewire.Image{Ref: "tenon/debian-12", Digest: "sha256:1"}}}
}

func reopen(t *testing.T, opts Options) *Engine {
	t.Helper()
	e, err := Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	return e
}

func start(t *testing.T, e *Engine, s hypervisor.Spec) hypervisor.Guest {
	t.Helper()
	g, err := e.Start(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func list(t *testing.T, e *Engine) []hypervisor.Guest {
	t.Helper()
	out, err := e.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// quick has guests that survive and take no time.
func quick(t *testing.T) Options {
	return Options{StateFile: filepath.Join(t.TempDir(), "node", "guests.json")}
}

func TestContract(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	e := reopen(t, quick(t))
	if _, err := e.Stop(ctx, "none", time.Second); !errors.Is(err, hypervisor.ErrNoGuest) {
		t.Errorf("stop of a guest that is not there: %v", err)
	}
	if err := e.Remove(ctx, "none", false); err != nil {
		t.Errorf("remove of a guest that is not there: %v", err)
	}
	for _, kind := range []string{"container", "notebook", "vm"} {
		s := spec(kind, kind)
		g := start(t, e, s)
		if again := start(t, e, s); !again.StartedAt.Equal(g.StartedAt) {
			t.Errorf("%s: a running guest of the same epoch was started anew", kind)
		}
		if err := e.Remove(ctx, kind, false); err == nil {
			t.Errorf("%s: a running guest was removed", kind)
		}
		newer := s
		newer.Epoch = 2
		if _, err := e.Start(ctx, newer); err == nil {
			t.Errorf("%s: a guest of an older epoch was taken for the new one", kind)
		}
		for range 2 { // the same twice
			if g, err := e.Stop(ctx, kind, time.Second); err != nil || g.State != hypervisor.Exited {
				t.Errorf("%s: stop: %+v, %v", kind, g, err)
			}
		}
		for range 2 {
			if err := e.Remove(ctx, kind, false); err != nil {
				t.Errorf("%s: remove: %v", kind, err)
			}
		}
	}
	if left := list(t, e); len(left) != 0 {
		t.Errorf("left: %+v", left)
	}
}

func TestGuestsOutliveTheProcess(t *testing.T) {
	t.Parallel()
	opts := quick(t)
	e := reopen(t, opts)
	runs := spec("runs", "vm")
	runs.Devices = []nodewire.Device{{GPUUUID: "GPU-SIM-1", Mode: "whole", Profile: "whole", SlotEnd: 8}}
	start(t, e, runs)
	start(t, e, spec("ends", "container", "tenon-sim", "exit", "3", "after", "20ms"))
	start(t, e, spec("stopped", "container"))
	if _, err := e.Stop(t.Context(), "stopped", time.Second); err != nil {
		t.Fatal(err)
	}
	start(t, e, spec("removed", "container", "true"))
	before := list(t, e)
	if err := e.Close(); err != nil { // writes nothing, as kill -9 doesn't
		t.Fatal(err)
	}
	again := reopen(t, opts)
	await(t, again, "ends", 3)
	after := list(t, again)
	if len(before) != 4 || len(after) != 4 {
		t.Fatalf("%d guests before, %d after", len(before), len(after))
	}
	for i, g := range after {
		was := before[i]
		if g.ID != was.ID || g.Epoch != was.Epoch || !g.StartedAt.Equal(was.StartedAt) || len(g.Devices) != len(was.Devices) {
			t.Errorf("%s changed:\n%s", g.ID, cmp.Diff(was, g))
		}
	}
	if g, _ := again.get("runs"); g.State != hypervisor.Running {
		t.Errorf("a running guest is %s after the restart", g.State)
	}
	if g, _ := again.get("stopped"); g.State != hypervisor.Exited || g.ExitCode != 143 {
		t.Errorf("a stopped guest came back as %+v", g)
	}
}

func await(t *testing.T, e *Engine, id string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	changes := e.Changes(ctx)
	for {
		if g, ok := e.get(id); ok && g.State == hypervisor.Exited {
			if g.ExitCode != code {
				t.Errorf("%s ended with %d, not %d", id, g.ExitCode, code)
			}
			return
		}
		select {
		case <-changes:
		case <-ctx.Done():
			t.Fatalf("%s does not end", id)
		}
	}
}

// TestEndedWhileAway: what should have ended while no process ran it ended then,
// not at the restart.
func TestEndedWhileAway(t *testing.T) {
	t.Parallel()
	opts := quick(t)
	e := reopen(t, opts)
	g := start(t, e, spec("a", "container", "sleep", "0.05"))
	if err := e.Close(); err != nil { // no timer of this process is left
		t.Fatal(err)
	}
	due := g.StartedAt.Add(50 * time.Millisecond)
	for time.Now().Before(due) {
		<-time.After(time.Until(due))
	}
	now, ok := reopen(t, opts).get("a")
	if !ok || now.State != hypervisor.Exited || now.ExitCode != 0 || !now.ExitedAt.Equal(due) {
		t.Errorf("got %+v, want an end at %s", now, due)
	}
}

func TestCommandsThatEnd(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		command string
		after   time.Duration
		code    int
		runs    bool
	}{
		{"tenon-sim|exit|3|after|30s", 30 * time.Second, 3, false},
		{"tenon-sim|exit|7", 0, 7, false},
		{"sleep|30", 30 * time.Second, 0, false},
		{"sh|-c|sleep 30; exit 3", 30 * time.Second, 3, false},
		{"sh|-c|sleep 1;sleep 2", 3 * time.Second, 0, false},
		{"sh|-c|while true; do sleep 1; done", 0, 0, true},
		{"sleep|infinity", 0, 0, true},
		{"false", 0, 1, false},
		{"python3|train.py", 0, 0, true},
	} {
		p, err := planOf(strings.Split(c.command, "|"))
		if err != nil || (p == nil) != c.runs || p != nil && (p.After != c.after || p.Code != c.code) {
			t.Errorf("%s: %+v, %v", c.command, p, err)
		}
	}
	var f *hypervisor.Failure
	if _, err := planOf([]string{"tenon-sim", "fail"}); !errors.As(err, &f) || !f.Final {
		t.Errorf("told to fail: %v", err)
	}
}

func TestPaceIsRealAndTheSameAgain(t *testing.T) {
	t.Parallel()
	a, b, other := &Pace{Seed: "1"}, &Pace{Seed: "1"}, &Pace{Seed: "2"}
	differ := false
	low, high := time.Hour, time.Duration(0)
	for i := range 200 {
		s := spec(strings.Repeat("x", i+1), "vm")
		d := a.start(s)
		if d != b.start(s) {
			t.Fatal("the same seed gives another time")
		}
		differ = differ || d != other.start(s)
		low, high = min(low, d), max(high, d)
		if c := a.start(spec(s.ID, "container")); c < 200*time.Millisecond || c > 2*time.Second {
			t.Errorf("a container starts in %s", c)
		}
		if c := a.stop(s.ID); c < 100*time.Millisecond || c > 3*time.Second {
			t.Errorf("a guest stops in %s", c)
		}
	}
	if !differ || low < 4*time.Second || high > 20*time.Second || high-low < 12*time.Second {
		t.Errorf("VMs start in %s to %s", low, high)
	}
}

// TestPullOnce: the first pull on a node takes its time and moves; what is here is
// here, and what was broken off has gone on.
func TestPullOnce(t *testing.T) {
	t.Parallel()
	opts := quick(t)
	opts.Pace = &Pace{Seed: "pull"}
	e := reopen(t, opts)
	s := spec("a", "container")
	takes := opts.Pace.between(time.Second, 8*time.Second, "pull", s.Image.Ref+"@"+s.Image.Digest)
	began := time.Now()
	var seen []int
	broken, cancel := context.WithCancel(t.Context())
	err := e.Prepare(broken, s, func(step, message string, percent int) {
		if step != "image" || !strings.Contains(message, "simulated") {
			t.Errorf("progress: %s, %s", step, message)
		}
		seen = append(seen, percent)
		if len(seen) == 2 {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("a pull that is broken off: %v", err)
	}
	if err := reopen(t, opts).Prepare(t.Context(), s, func(_, _ string, percent int) { seen = append(seen, percent) }); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took < takes-50*time.Millisecond || took > takes+2*time.Second {
		t.Errorf("took %s, want %s", took, takes)
	}
	for i := 1; i < len(seen); i++ {
		if seen[i] < seen[i-1] || seen[i] > 100 {
			t.Errorf("progress %v", seen)
		}
	}
	if err := reopen(t, opts).Prepare(t.Context(), spec("b", "container"), func(string, string, int) { t.Error("pulled again") }); err != nil {
		t.Fatal(err)
	}
}

// paced is an engine with a Pace and a guest that runs in it already.
func paced(t *testing.T) *Engine {
	t.Helper()
	opts := quick(t)
	start(t, reopen(t, opts), spec("a", "vm"))
	opts.Pace = &Pace{}
	return reopen(t, opts)
}

func TestShellSaysThatItIsSimulated(t *testing.T) {
	t.Parallel()
	e := paced(t)
	var out bytes.Buffer
	code, err := e.Exec(t.Context(), "a", nodewire.ExecRequest{TTY: true}, hypervisor.ExecIO{Stdin: strings.NewReader("hostname\rmake\rexit 5\r"), Stdout: &out})
	if err != nil || code != 5 {
		t.Errorf("code %d, %v", code, err)
	}
	for _, want := range []string{banner, "\r\nweb\r\n", "make: not run: this instance is simulated"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in:\n%s", want, out.String())
		}
	}
}

func TestPortAndConsoleSayIt(t *testing.T) {
	t.Parallel()
	e := paced(t)
	c, err := e.Dial(t.Context(), "a", 8080)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(5 * time.Second))
	go func() { _, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n") }()
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(res.Body)
	if res.StatusCode != 200 || !strings.Contains(string(body), banner) || !strings.Contains(string(body), "8080") {
		t.Errorf("%d: %s", res.StatusCode, body)
	}
	serial, err := e.Console(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	first, err := bufio.NewReader(serial).ReadString('\n')
	if err != nil || !strings.Contains(first, "simulated") {
		t.Errorf("the console begins with %q, %v", first, err)
	}
	if _, err := e.Stop(t.Context(), "a", 0); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(serial); err != nil && !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("the console of a stopped guest: %v", err)
	}
	if _, err := e.Dial(t.Context(), "a", 8080); !errors.Is(err, hypervisor.ErrNoGuest) {
		t.Errorf("a port of a stopped guest: %v", err)
	}
}

func TestLogFollowsAndSaysIt(t *testing.T) {
	t.Parallel()
	e := paced(t)
	e.mu.Lock()
	e.guests["a"].StartedAt = time.Now().Add(-5 * stepEvery)
	e.mu.Unlock()
	r, err := e.Logs(t.Context(), "a", hypervisor.LogOptions{})
	if err != nil {
		t.Fatal(err)
	}
	raw, _ := io.ReadAll(r)
	got := strings.Split(strings.TrimSpace(string(raw)), "\n")
	if len(got) != 6 {
		t.Errorf("%d lines: %s", len(got), raw)
	}
	for _, l := range got {
		if !strings.Contains(l, "simulated") {
			t.Errorf("a line does not say that it is simulated: %s", l)
		}
	}
	r, err = e.Logs(t.Context(), "a", hypervisor.LogOptions{Tail: 2, Follow: true})
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(r)
	for range 2 {
		lines.Scan()
	}
	e.Exit("a", 4)
	if !lines.Scan() || !strings.Contains(lines.Text(), "exits with 4") || lines.Scan() {
		t.Errorf("the end of a followed log: %q", lines.Text())
	}
}

func TestLoadOnlyGrows(t *testing.T) {
	t.Parallel()
	e := paced(t)
	var last hypervisor.Stats
	for i := range 200 {
		e.mu.Lock()
		e.guests["a"].StartedAt = time.Now().Add(-time.Duration(i) * 13 * time.Second)
		e.mu.Unlock()
		s, err := e.Stats(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		if s.CPUNanoseconds < last.CPUNanoseconds || s.NetRxBytes < last.NetRxBytes {
			t.Fatalf("a counter ran backwards: %+v after %+v", s, last)
		}
		if s.MemoryBytes <= 0 || s.MemoryBytes > 1024<<20 {
			t.Fatalf("%d bytes of memory in a guest of 1 GiB", s.MemoryBytes)
		}
		last = s
	}
}
