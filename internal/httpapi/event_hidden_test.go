package httpapi

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/tenon-cloud/tenon/internal/cloud"
)

func TestAnEventTellsNoNode(t *testing.T) {
	t.Parallel()
	e := cloud.Event{Verb: "placed", Data: map[string]any{"node_id": "node_secret", "from_node": "node_secret", "epoch": 1}}
	got, err := json.Marshal(eventOf(e))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(got), "node_secret") || !strings.Contains(string(got), `"epoch":1`) {
		t.Errorf("it tells %s", got)
	}
	if e.Data["node_id"] == nil {
		t.Error("the event itself was changed")
	}
}
