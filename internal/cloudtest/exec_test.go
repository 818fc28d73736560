package cloudtest_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/google/go-cmp/cmp"

	"github.com/tenon-cloud/tenon/api"
	"github.com/tenon-cloud/tenon/internal/cloudtest"
)

// running gives a cloud with a tenant whose web-1 runs.
func running(t *testing.T) (*cloudtest.Cloud, *cloudtest.Tenant, *api.Instance) {
	t.Helper()
	c := cloudtest.Start(t)
	acme := c.Tenant("acme")
	return c, acme, c.Running(acme.Client, api.InstanceCreate{Name: "web-1", Image: image(t, c), Flavor: slice(t, c)})
}

func TestExecEndToEnd(t *testing.T) {
	t.Parallel()
	c, acme, i := running(t)
	ctx := within(t, 60*time.Second)

	var stdout, stderr bytes.Buffer
	code, err := acme.Exec(ctx, "default", "web-1", api.ExecOptions{Command: []string{"cat"}, Stdin: strings.NewReader("over and\nout\n"), Stdout: &stdout, Stderr: &stderr})
	if err != nil || code != 0 || stdout.String() != "over and\nout\n" || stderr.Len() > 0 {
		t.Errorf("cat: %d %v %q %q", code, err, stdout.String(), stderr.String())
	}
	if code, err := acme.Exec(ctx, "default", i.ID, api.ExecOptions{Command: []string{"exit", "42"}}); err != nil || code != 42 {
		t.Errorf("exit 42: %d %v", code, err)
	}
	stdout.Reset()
	sizes := make(chan [2]int, 1)
	sizes <- [2]int{132, 43}
	if code, err := acme.Exec(ctx, "default", "web-1", api.ExecOptions{Command: []string{"size"}, TTY: true, Stdout: &stdout, Resize: sizes, Stdin: neverEnds{ctx}}); err != nil || code != 0 || stdout.String() != "132 43\n" {
		t.Errorf("size: %d %v %q", code, err, stdout.String())
	}
	stdout.Reset()
	big := strings.Repeat("0123456789abcdef", 200_000) // 3 MB through both doors
	if code, err := acme.Exec(ctx, "default", "web-1", api.ExecOptions{Command: []string{"cat"}, Stdin: strings.NewReader(big), Stdout: &stdout}); err != nil || code != 0 || stdout.String() != big {
		t.Errorf("3 MB: %d %v, %d bytes back", code, err, stdout.Len())
	}

	// A browser's ticket: once, and from our own pages alone.
	ticket, err := acme.ExecTicket(ctx, "default", "web-1")
	if err != nil {
		t.Fatal(err)
	}
	target := "ws" + strings.TrimPrefix(c.URL, "http") + "/v1/projects/default/instances/" + i.ID + "/exec?command=echo&command=hello&ticket=" + ticket.Ticket
	foreign := http.Header{"Origin": {"https://evil.test"}}
	if _, res, err := websocket.Dial(ctx, target, &websocket.DialOptions{HTTPHeader: foreign}); err == nil || res.StatusCode != http.StatusForbidden {
		t.Errorf("another site's page opened a terminal: %v", err)
	}
	if ticket, err = acme.ExecTicket(ctx, "default", "web-1"); err != nil {
		t.Fatal(err)
	}
	target = target[:strings.LastIndexByte(target, '=')+1] + ticket.Ticket
	ws, _, err := websocket.Dial(ctx, target, &websocket.DialOptions{Subprotocols: []string{api.ExecSubprotocol}, HTTPHeader: http.Header{"Origin": {c.URL}}})
	if err != nil {
		t.Fatal(err)
	}
	defer ws.CloseNow()
	_, message, err := ws.Read(ctx)
	if err != nil || string(message) != "\x01hello\n" || ws.Subprotocol() != api.ExecSubprotocol {
		t.Errorf("ticket: %q %v", message, err)
	}
	if _, res, err := websocket.Dial(ctx, target, nil); err == nil || res.StatusCode != http.StatusUnauthorized {
		t.Errorf("a ticket opened two terminals: %v", err)
	}
}

// neverEnds is a terminal's input while nobody types.
type neverEnds struct{ ctx context.Context }

func (n neverEnds) Read([]byte) (int, error) { <-n.ctx.Done(); return 0, io.EOF }

// TestTerminalEndsWithItsReason ends terminals from the other side.
func TestTerminalEndsWithItsReason(t *testing.T) {
	t.Parallel()
	c, acme, i := running(t)
	ctx := within(t, 60*time.Second)
	open := func(client *api.Client) <-chan error {
		ended := make(chan error, 1)
		ready := make(chan struct{})
		go func() {
			_, err := client.Exec(ctx, "default", i.ID, api.ExecOptions{Command: []string{"cat"}, TTY: true,
				Stdin: io.MultiReader(strings.NewReader("x"), neverEnds{ctx}), Stdout: onWrite(func() { close(ready) })})
			ended <- err
		}()
		select {
		case <-ready:
		case err := <-ended:
			t.Fatalf("terminal ended before it began: %v", err)
		}
		return ended
	}

	second, err := acme.TokenCreate(ctx, api.TokenCreate{Name: "second"})
	if err != nil {
		t.Fatal(err)
	}
	ended := open(c.Client(second.Secret))
	if err := acme.TokenRevoke(ctx, second.ID); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, api.ErrExecLost) || !strings.Contains(err.Error(), "session") {
		t.Errorf("after the token was revoked: %v", err)
	}

	ended = open(acme.Client)
	if _, err := acme.InstanceStop(ctx, "default", i.ID); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ended: // an exit code of the killed process, or the instance's state
	case <-ctx.Done():
		t.Error("the terminal outlived its instance")
	}
}

type onWrite func()

func (f onWrite) Write(p []byte) (int, error) { f(); return len(p), nil }

// A guest that does not take its input is no reason to cut its client off.
func TestTerminalOfASlowGuestStays(t *testing.T) {
	t.Parallel()
	_, acme, _ := running(t)
	ctx := within(t, 60*time.Second)
	ended := make(chan error, 1)
	began := time.Now()
	go func() {
		big := strings.NewReader(strings.Repeat("x", 32<<20))
		_, err := acme.Exec(ctx, "default", "web-1", api.ExecOptions{Command: []string{"sleep"}, Stdin: big})
		ended <- err
	}()
	const pings = 3 * time.Second // the cloud's own interval is one second
	select {
	case err := <-ended:
		t.Fatalf("it was cut off after %s: %v", time.Since(began), err)
	case <-time.After(pings):
	}
	if _, err := acme.InstanceDelete(ctx, "default", "web-1"); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil && strings.Contains(err.Error(), "no longer answers") {
		t.Errorf("it ended with %v", err)
	}
}

// A client whose own reader is slow loses nothing: the guest waits for it, and
// nobody is cut off meanwhile, whether the rest lies on the way or in the guest.
func TestTerminalOfASlowReaderLosesNothing(t *testing.T) {
	t.Parallel()
	_, acme, _ := running(t)
	ctx := within(t, 60*time.Second)
	var all sync.WaitGroup
	for _, size := range []int{256 << 10, 3 << 20, 16 << 20} {
		all.Go(func() {
			big := strings.Repeat("0123456789abcdef", size/16)
			var got bytes.Buffer
			reading, resume := context.WithTimeout(ctx, 5*time.Second) // the cloud pings every second
			defer resume()
			code, err := acme.Exec(ctx, "default", "web-1", api.ExecOptions{Command: []string{"cat"},
				Stdin:  io.MultiReader(strings.NewReader(big), neverEnds{reading}),
				Stdout: writerFunc(func(p []byte) (int, error) { <-reading.Done(); return got.Write(p) })})
			if err != nil || code != 0 || got.String() != big {
				t.Errorf("%d %v, %d of %d bytes", code, err, got.Len(), len(big))
			}
		})
	}
	all.Wait()
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestLogsAndMetrics(t *testing.T) {
	t.Parallel()
	c, acme, i := running(t)
	ctx := within(t, 60*time.Second)
	c.Guests.Say(i.ID, "first")
	c.Guests.Say(i.ID, "second")

	logs, err := acme.Logs(ctx, "default", "web-1", api.LogOptions{Tail: 2})
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(logs)
	_ = logs.Close()
	if diff := cmp.Diff("first\nsecond\n", string(got)); diff != "" || err != nil {
		t.Errorf("tail: %v %s", err, diff)
	}

	follow, err := acme.Logs(ctx, "default", "web-1", api.LogOptions{Tail: 1, Follow: true})
	if err != nil {
		t.Fatal(err)
	}
	defer follow.Close()
	if got := readLine(t, follow); got != "second\n" {
		t.Errorf("followed: %q", got)
	}
	c.Guests.Say(i.ID, "third")
	if got := readLine(t, follow); got != "third\n" {
		t.Errorf("followed: %q", got)
	}
	c.Guests.Exit(i.ID, 3)
	if _, err := io.ReadAll(follow); err != nil {
		t.Errorf("a followed log ends with its instance: %v", err)
	}

	failed, err := acme.WaitInstance(ctx, "default", i.ID, func(i *api.Instance) bool { return i.State == api.StateFailed }, nil)
	if err != nil || failed.ExitCode == nil || *failed.ExitCode != 3 || failed.Reason != "exited" || !strings.Contains(failed.LastLines, "third") {
		t.Errorf("after exit 3: %v %+v", err, failed)
	}
	kept, err := acme.Logs(ctx, "default", "web-1", api.LogOptions{Tail: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer kept.Close()
	if got, _ := io.ReadAll(kept); !strings.Contains(string(got), "third") {
		t.Errorf("last lines: %q", got)
	}

	again := c.Running(acme.Client, api.InstanceCreate{Name: "web-2", Image: i.Image, Flavor: i.Flavor})
	list, err := acme.InstanceListAll(ctx, "default", api.InstanceListOptions{State: api.StateRunning})
	if err != nil || len(list) != 1 || !list[0].Simulated {
		t.Errorf("the list does not say that it is simulated: %v %+v", err, list)
	}
	if !again.Simulated || len(again.GPUs) != 1 || again.GPUs[0].ProfileName != "1g.10gb" || !again.GPUs[0].Simulated {
		t.Errorf("what it holds: %+v", again.GPUs)
	}
	var m *api.InstanceMetrics
	eventually(t, "samples arrive", func() bool {
		m, err = acme.InstanceMetrics(ctx, "default", "web-2")
		return err == nil && len(m.Samples) > 0
	})
	if s := m.Samples[0]; s.MemoryMiB <= 0 || s.Pids <= 0 || s.GPUPercent == nil || !m.Simulated {
		t.Errorf("sample %+v simulated %v", s, m.Simulated)
	}
	cards, err := c.Admin.GPUMetrics(ctx)
	if err != nil || len(cards.Items) != 3 || len(cards.Unreachable) > 0 || !cards.Items[0].Simulated {
		t.Errorf("cards: %v %+v", err, cards)
	}
}

func readLine(t *testing.T, r io.Reader) string {
	t.Helper()
	var line []byte
	b := make([]byte, 1)
	for {
		if _, err := io.ReadFull(r, b); err != nil {
			t.Fatalf("%q %v", line, err)
		}
		if line = append(line, b[0]); b[0] == '\n' {
			return string(line)
		}
	}
}
