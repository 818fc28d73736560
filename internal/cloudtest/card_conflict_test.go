package cloudtest_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tenon-cloud/tenon/api"
	"github.com/tenon-cloud/tenon/internal/cloudtest"
)

// TestNoOperatorOverrulesAnotherUnseen has two operators say what one card is to be:
// the second learns of the first, and overrules only what they saw.
func TestNoOperatorOverrulesAnotherUnseen(t *testing.T) {
	t.Parallel()
	c := cloudtest.StartWith(t, cloudtest.Options{Change: time.Minute})
	ctx := within(t, time.Minute)
	card := cardsOf(ctx, t, c)[0]
	path := "/v1/gpus/" + card.ID
	tag := func() string { return request(t, c, c.Admin.Token, "GET", path, "").header.Get("ETag") }
	fresh := tag()
	if fresh != `"0"` || card.Revision != 0 {
		t.Fatalf("a card that nobody wished for has ETag %s, revision %d", fresh, card.Revision)
	}
	// Both saw the same card; the first is served.
	first, err := c.Admin.GPUUpdate(ctx, card.ID, api.GPUUpdate{Mode: "mig", Layout: layout(placed("3g.40gb", 4))}, false, api.IfGeneration(card.Revision))
	if err != nil || first.Revision <= card.Revision || tag() != fmt.Sprintf("%q", fmt.Sprint(first.Revision)) {
		t.Fatalf("the first: %v %+v, ETag %s", err, first, tag())
	}
	refused := func(name string, status int, code string, dry bool, opts ...api.CallOption) {
		t.Helper()
		_, err := c.Admin.GPUUpdate(ctx, card.ID, api.GPUUpdate{Mode: "shared", Shares: ptr(4)}, dry, opts...)
		p := problemOf(t, err)
		wish := fmt.Sprint(p.Figures["wish"])
		if p.Status != status || p.Code != code || p.Hint == "" || !strings.Contains(p.Detail, "mode mig: 3g.40gb at 4") || !strings.Contains(wish, "3g.40gb") || fmt.Sprint(p.Figures["revision"]) != fmt.Sprint(first.Revision) {
			t.Errorf("%s, dry run %v: %+v", name, dry, p)
		}
		if now, err := c.Admin.GPUGet(ctx, card.ID); err != nil || now.Wish == nil || now.Wish.Mode != "mig" || now.Revision != first.Revision {
			t.Fatalf("%s: it changed: %v %+v", name, err, now.Wish)
		}
	}
	for _, dry := range []bool{true, false} {
		refused("the second, who saw the card of before", http.StatusPreconditionFailed, "card_changed", dry, api.IfGeneration(card.Revision))
		refused("one who names nothing, while it is changing", http.StatusConflict, "card_changing", dry)
	}
	// What is wished already is nobody's loss, and an answer that was lost is asked for again.
	for _, opts := range [][]api.CallOption{nil, {api.IfGeneration(card.Revision)}} {
		if again, err := c.Admin.GPUUpdate(ctx, card.ID, api.GPUUpdate{Mode: "mig", Layout: layout(placed("3g.40gb", 4))}, false, opts...); err != nil || again.Revision != first.Revision {
			t.Errorf("the same again: %v %+v", err, again)
		}
	}
	// Several cards of a node, each by itself.
	other := cardsOf(ctx, t, c)[1]
	results, err := c.Admin.NodeGPUsUpdate(ctx, c.NodeID, api.NodeGPUsUpdate{GPUs: []api.NamedGPUUpdate{
		{GPU: card.ID, Revision: &card.Revision, GPUUpdate: api.GPUUpdate{Mode: "whole"}},
		{GPU: other.ID, Revision: &other.Revision, GPUUpdate: api.GPUUpdate{Mode: "mig"}},
	}}, false)
	if err != nil || len(results.Items) != 2 || results.Items[0].Problem == nil || results.Items[0].Problem.Code != "card_changed" || !results.Items[1].Applied {
		t.Errorf("several: %v %+v", err, results)
	}
	// Who saw what is under way may replace it.
	second, err := c.Admin.GPUUpdate(ctx, card.ID, api.GPUUpdate{Mode: "shared", Shares: ptr(4)}, false, api.IfGeneration(first.Revision))
	if err != nil || second.Wish == nil || second.Wish.Mode != "shared" || second.Revision <= first.Revision {
		t.Errorf("replaced: %v %+v", err, second)
	}
	if a := request(t, c, c.Admin.Token, "PATCH", path, `{"mode": "whole"}`, "If-Match", "yes"); a.status != 422 {
		t.Errorf("a malformed If-Match is answered %d", a.status)
	}
}
