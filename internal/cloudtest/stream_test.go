package cloudtest_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tenon-cloud/tenon/api"
	"github.com/tenon-cloud/tenon/internal/cloudtest"
)

// TestEventsResumeWithoutGapOrRepeat reads a project's changes over many
// connections, each cut off after a few, while instances come and go.
func TestEventsResumeWithoutGapOrRepeat(t *testing.T) {
	t.Parallel()
	c := cloudtest.StartWith(t, cloudtest.Options{NoNode: true})
	acme, globex := c.Tenant("acme"), c.Tenant("globex")
	img, flv := image(t, c), flavor(t, c, "small")
	ctx := within(t, 60*time.Second)
	const instances = 30

	seen := map[string]bool{}
	numbers := map[string]map[int64]bool{} // of each instance's events
	cursor, first := firstCursor(ctx, t, c, acme)
	var writer sync.WaitGroup
	writer.Go(func() {
		for n := range instances {
			name := fmt.Sprintf("web-%d", n)
			if _, err := acme.InstanceCreate(ctx, "default", api.InstanceCreate{Name: name, Image: img, Flavor: flv}); err != nil {
				t.Errorf("create: %v", err)
			}
			if _, err := globex.InstanceCreate(ctx, "default", api.InstanceCreate{Name: name, Image: img, Flavor: flv}); err != nil {
				t.Errorf("create: %v", err)
			}
			if _, err := acme.InstanceDelete(ctx, "default", name); err != nil {
				t.Errorf("delete: %v", err)
			}
		}
	})
	deleted := 0
	cut := errors.New("cut off")
	// Changes of one instance by two transactions at once may change places in
	// the stream, so all is there when every instance is deleted without a hole.
	whole := func() bool {
		for _, got := range numbers {
			for n := range int64(len(got)) {
				if !got[n+1] {
					return false
				}
			}
		}
		return deleted == instances
	}
	for !whole() {
		n := 0
		err := acme.Events(ctx, "default", cursor, func(e api.Event) error {
			if seen[e.ID] {
				t.Errorf("event %s came twice", e.ID)
			}
			seen[e.ID], cursor = true, e.Cursor
			if e.Resource == "instance" && e.ResourceID != first {
				if numbers[e.ResourceID] == nil {
					numbers[e.ResourceID] = map[int64]bool{}
				}
				numbers[e.ResourceID][e.Seq] = true
				if e.Verb == "deleted" {
					deleted++
				}
			}
			if n++; n == 5 || whole() {
				return cut
			}
			return nil
		})
		if !errors.Is(err, cut) {
			t.Fatalf("after %d of %d: %v; seen %v", deleted, instances, err, numbers)
		}
	}
	writer.Wait()
	if len(numbers) != instances {
		t.Errorf("events of %d instances, want %d: another project's are among them, or some are missing", len(numbers), instances)
	}
}

// firstCursor is the place of a first event, to resume from, and the instance
// that it is of.
func firstCursor(ctx context.Context, t *testing.T, c *cloudtest.Cloud, tenant *cloudtest.Tenant) (cursor, instance string) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.URL+"/v1/projects/default/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+tenant.Token)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	for lines.Scan() {
		if instance == "" { // connected: what happens from now on arrives
			i, err := tenant.InstanceCreate(ctx, "default", api.InstanceCreate{Name: "first", Image: "test-image", Flavor: "small"})
			if err != nil {
				t.Fatal(err)
			}
			instance = i.ID
		}
		if id, ok := strings.CutPrefix(lines.Text(), "id: "); ok {
			return id, instance
		}
	}
	t.Fatalf("no event: %v", lines.Err())
	return "", ""
}

// TestEventsEndWithTheSession revokes a reader's token.
func TestEventsEndWithTheSession(t *testing.T) {
	t.Parallel()
	c := cloudtest.StartWith(t, cloudtest.Options{NoNode: true, NoLoops: true})
	acme := c.Tenant("acme")
	ctx := within(t, 30*time.Second)
	second, err := acme.TokenCreate(ctx, api.TokenCreate{Name: "second"})
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.URL+"/v1/projects/default/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+second.Secret)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if got := res.Header.Get("Content-Type"); got != "text/event-stream" || res.Header.Get("Content-Encoding") != "" {
		t.Errorf("content type %q", got)
	}
	if err := acme.TokenRevoke(ctx, second.ID); err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	lines := bufio.NewScanner(res.Body)
	for lines.Scan() {
		said.WriteString(lines.Text() + "\n")
	}
	if lines.Err() != nil || !strings.Contains(said.String(), "event: end") || !strings.Contains(said.String(), "token_revoked") {
		t.Errorf("%v\n%s", lines.Err(), said.String())
	}
}
