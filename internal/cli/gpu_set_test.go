package cli

import (
	"net/http"
	"strings"
	"testing"

	"github.com/tenon-cloud/tenon/api"
)

// TestAnotherOperatorsChangeIsReplacedOnlyOnPurpose sets a card of which another
// change is under way.
func TestAnotherOperatorsChangeIsReplacedOnlyOnPurpose(t *testing.T) {
	t.Parallel()
	card := api.GPU{ID: "gpu_1", Mode: "whole", State: "ready", Revision: 7, Changing: true, Wish: &api.GPUWish{Mode: "shared", Shares: 4}}
	cloud := newFakeCloud(t, map[string]any{"GET /v1/gpus/gpu_1": card})
	inner := cloud.Config.Handler
	cloud.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := r.Method + " " + r.URL.Path
		cloud.mu.Lock()
		switch r.Header.Get("If-Match") {
		case `"7"`:
			cloud.answers[key] = card
		case "":
			if r.Method == http.MethodPatch {
				cloud.answers[key] = &api.Problem{Status: 409, Code: "card_changing", Detail: "GPU is already being changed, to mode shared, 4 shares", Hint: "tenon gpu set --replace"}
			}
		default:
			cloud.answers[key] = &api.Problem{Status: 412, Code: "card_changed", Detail: "GPU has changed since you read it: somebody said mode shared, 4 shares", Hint: "read it again, then decide"}
		}
		cloud.mu.Unlock()
		inner.ServeHTTP(w, r)
	})
	for _, c := range []struct {
		flags string
		code  int
		want  string
	}{
		{"", exitRefused, "--replace"},
		{"--if-revision 6", exitRefused, "4 shares"},
		{"--if-revision 7", 0, ""},
		{"--replace", 0, "Replaces the change that is under way: shared, 4 shares."},
		{"--replace --if-revision 7", exitUsage, "if any flags in the group"},
	} {
		if r := tenon(t, cloud.URL, strings.Fields("gpu set gpu_1 --mode mig "+c.flags)...); r.code != c.code || !strings.Contains(r.err, c.want) {
			t.Errorf("%s: %+v", c.flags, r)
		}
	}
	if r := tenon(t, cloud.URL, "gpu", "show", "gpu_1"); r.code != 0 || !strings.Contains(r.out, "revision  7") {
		t.Errorf("show: %+v", r)
	}
	card.Changing, card.Mode, card.Wish = false, "whole", &api.GPUWish{Mode: "whole"}
	cloud.answers["GET /v1/gpus/gpu_1"] = card
	if r := tenon(t, cloud.URL, "gpu", "show", "gpu_1"); r.code != 0 || strings.Contains(r.out, "wished") {
		t.Errorf("what is so already is still shown as wished: %+v", r)
	}
}

// What is asked of a card that isn't there says that it waits for it.
func TestWhatIsAskedOfAMissingCardWaitsForIt(t *testing.T) {
	t.Parallel()
	card := api.GPU{ID: "gpu_1", Mode: "whole", State: "missing", Checking: true}
	cloud := newFakeCloud(t, map[string]any{"GET /v1/gpus/gpu_1": card})
	if r := tenon(t, cloud.URL, "gpu", "show", "gpu_1"); r.code != 0 || !strings.Contains(r.out, "asked for; it waits for the card's return") {
		t.Errorf("missing: %+v", r)
	}
	card.State = "quarantined"
	cloud.answers["GET /v1/gpus/gpu_1"] = card
	if r := tenon(t, cloud.URL, "gpu", "show", "gpu_1"); r.code != 0 || !strings.Contains(r.out, "asked for; its node has yet to make it") {
		t.Errorf("quarantined: %+v", r)
	}
}

// A command line that says nothing, or no slice, is a wrong one; nothing is asked.
func TestAWrongGPUSetIsAWrongCommandLine(t *testing.T) {
	t.Parallel()
	cloud := newFakeCloud(t, map[string]any{"PATCH /v1/gpus/gpu_1": api.GPU{ID: "gpu_1"}})
	for _, args := range []string{"", "--dry-run", "--slice 1g.10gb@x", "--slice 1g.10gb=99999999999999999999"} {
		if r := tenon(t, cloud.URL, strings.Fields("gpu set gpu_1 "+args)...); r.code != exitUsage || r.err == "" {
			t.Errorf("%q: %+v", args, r)
		}
	}
	if r := tenon(t, cloud.URL, "gpu", "set", "gpu_1", "--free-layout"); r.code != 0 {
		t.Errorf("a free layout: %+v", r)
	}
}

// Who holds a card is told with the organisation: names are unique only within one.
func TestAHolderIsNamedWithItsOrganisation(t *testing.T) {
	t.Parallel()
	g := api.GPU{Claims: []api.Claim{{Instance: "a", Organisation: "acme", ProfileName: "1g.10gb"}, {Instance: "a", Organisation: "umbrella", ProfileName: "1g.10gb"}}}
	if got := holders(g); got != "a=acme/a 1g.10gb, b=umbrella/a 1g.10gb" {
		t.Error(got)
	}
}
