package cli

import (
	"strings"
	"testing"

	"github.com/tenon-cloud/tenon/api"
)

// A dry run of what can never start says so, and not that it would wait its turn.
func TestADryRunTellsWhatCanNeverStart(t *testing.T) {
	t.Parallel()
	const create = "POST /v1/projects/default/instances:dry-run"
	cloud := newFakeCloud(t, map[string]any{create: api.DryRunResult{Flavor: "a30-1x", Pool: "default", NeverFits: true, Simulated: true}})
	args := strings.Fields("instance create a --image debian-12 --flavor a30-1x --dry-run")
	if r := tenon(t, cloud.URL, args...); r.code != 0 || !strings.Contains(r.out, "would wait for ever: no node of the pool could take it, were it empty") {
		t.Errorf("never: %+v", r)
	}
	cloud.answers[create] = api.DryRunResult{Flavor: "a30-1x", Pool: "default"}
	if r := tenon(t, cloud.URL, args...); r.code != 0 || !strings.Contains(r.out, "would wait") || strings.Contains(r.out, "for ever") {
		t.Errorf("later: %+v", r)
	}
}
