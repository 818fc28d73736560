package cloudtest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tenon-cloud/tenon/api"
	"github.com/tenon-cloud/tenon/internal/cloudtest"
)

// cardsOf are the node's cards by their index.
func cardsOf(ctx context.Context, t *testing.T, c *cloudtest.Cloud) []api.GPU {
	t.Helper()
	n, err := c.Admin.NodeGet(ctx, c.NodeID)
	if err != nil {
		t.Fatal(err)
	}
	out := make([]api.GPU, len(n.GPUs))
	for _, g := range n.GPUs {
		out[g.Index] = g
	}
	return out
}

// becomes waits until a card is what is wished.
func becomes(ctx context.Context, t *testing.T, c *cloudtest.Cloud, id, what string, is func(g *api.GPU) bool) *api.GPU {
	t.Helper()
	var last *api.GPU
	eventually(t, "the card "+what, func() bool {
		g, err := c.Admin.GPUGet(ctx, id)
		if err == nil {
			last = g
		}
		return err == nil && !g.Changing && is(g)
	})
	return last
}

func entry(profile string) api.LayoutEntry { return api.LayoutEntry{Profile: profile} }

func counted(profile string, n int) api.LayoutEntry {
	return api.LayoutEntry{Profile: profile, Count: &n}
}

func placed(profile string, at int) api.LayoutEntry {
	return api.LayoutEntry{Profile: profile, SlotStart: &at}
}

func layout(entries ...api.LayoutEntry) *[]api.LayoutEntry { return &entries }

// TestACardFollowsItsOperator changes a card's mode and layout over the API, and
// places only what the layout has.
func TestACardFollowsItsOperator(t *testing.T) {
	t.Parallel()
	c := cloudtest.StartWith(t, cloudtest.Options{Change: 300 * time.Millisecond})
	ctx := within(t, 2*time.Minute)
	acme := c.Tenant("acme")
	img := image(t, c)
	card := cardsOf(ctx, t, c)[0]
	if card.Mode != "whole" || card.Wish != nil || len(card.Modes) != 4 {
		t.Fatalf("the card begins as %+v", card)
	}
	// The other H100 would take what this one is to take.
	if _, err := c.Admin.GPUUpdate(ctx, cardsOf(ctx, t, c)[1].ID, api.GPUUpdate{Mode: "whole"}, false); err != nil {
		t.Fatal(err)
	}
	would, err := c.Admin.GPUUpdate(ctx, card.ID, api.GPUUpdate{Mode: "mig", Layout: layout(counted("3g.39gb", 1), placed("1g.10gb", 0))}, true)
	if err != nil || would.Wish == nil || len(would.Wish.Layout) != 2 || would.Wish.Layout[1].SlotStart != 4 || would.Wish.Layout[1].ProfileName != "3g.40gb" {
		t.Fatalf("what would be: %v %+v", err, would)
	}
	if now, _ := c.Admin.GPUGet(ctx, card.ID); now.Wish != nil {
		t.Fatalf("a dry run changed it: %+v", now.Wish)
	}
	got, err := c.Admin.GPUUpdate(ctx, card.ID, api.GPUUpdate{Mode: "mig", Layout: layout(counted("3g.39gb", 1), placed("1g.10gb", 0))}, false)
	if err != nil || !got.Changing || got.Mode != "whole" {
		t.Fatalf("it is so at once: %v %+v", err, got)
	}
	flv := slice(t, c)
	waits, err := acme.InstanceCreate(ctx, "default", api.InstanceCreate{Name: "early", Image: img, Flavor: flv})
	if err != nil {
		t.Fatal(err)
	}
	now := becomes(ctx, t, c, card.ID, "is cut", func(g *api.GPU) bool { return g.Mode == "mig" && len(g.Slices) == 2 })
	if now.WishReason != "" || now.Slices[0].SlotStart != 0 || now.Slices[1].SlotStart != 4 {
		t.Errorf("read back: %+v", now)
	}
	eventually(t, "what waited for the change runs", func() bool {
		i, err := acme.InstanceGet(ctx, "default", waits.ID)
		return err == nil && i.State == api.StateRunning && len(i.GPUs) == 1 && i.GPUs[0].SlotStart == 0
	})
	second, err := acme.InstanceCreate(ctx, "default", api.InstanceCreate{Name: "late", Image: img, Flavor: flv})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "a second slice finds no place in the layout", func() bool {
		i, err := acme.InstanceGet(ctx, "default", second.ID)
		return err == nil && i.State == api.StateQueued && strings.Contains(i.Message, "in use")
	})
	// Case C11: the layout of a card in use.
	for _, dry := range []bool{true, false} {
		_, err = c.Admin.GPUUpdate(ctx, card.ID, api.GPUUpdate{Mode: "whole"}, dry)
		p := problemOf(t, err)
		if p.Status != 409 || p.Code != "gpu_in_use" || !strings.Contains(fmt.Sprint(p.Figures["instances"]), waits.ID) || !strings.Contains(p.Detail, "early (acme)") {
			t.Errorf("a card in use, dry run %v: %+v", dry, p)
		}
	}
	if g, _ := c.Admin.GPUGet(ctx, card.ID); g.Mode != "mig" || g.Wish.Mode != "mig" || len(g.Wish.Layout) != 2 {
		t.Errorf("it changed: %+v", g.Wish)
	}
	if _, err := c.Admin.GPUUpdate(ctx, card.ID, api.GPUUpdate{Mode: "mig"}, false); err != nil {
		t.Errorf("what is so already is refused: %v", err)
	}
	if _, err := acme.GPUUpdate(ctx, card.ID, api.GPUUpdate{Mode: "whole"}, false); problemOf(t, err).Status != 403 {
		t.Errorf("a tenant changed a card: %v", err)
	}
}

// TestC11LayoutsAreRefusedByName sends what can't be, and finds the entry named and
// nothing changed.
func TestC11LayoutsAreRefusedByName(t *testing.T) {
	t.Parallel()
	c := cloudtest.Start(t)
	ctx := within(t, time.Minute)
	card := cardsOf(ctx, t, c)[0]
	for _, x := range []struct{ name, body, at string }{
		{"unknown profile", `{"mode":"mig","layout":[{"profile":"1g.10gb"},{"profile":"5g.50gb"}]}`, "body.layout[1].profile"},
		{"another card's spelling", `{"mode":"mig","layout":[{"profile":"1g.5gb"}]}`, "body.layout[0].profile"},
		{"another card's name", `{"mode":"mig","layout":[{"profile":"h200 nvl 4g.71gb"}]}`, "body.layout[0].profile"},
		{"the same twice", `{"mode":"mig","layout":[{"profile":"3g.40gb"},{"profile":"3g.39gb"}]}`, "body.layout[1].profile"},
		{"count 0", `{"mode":"mig","layout":[{"profile":"1g.10gb","count":0}]}`, "body.layout[0].count"},
		{"count -1", `{"mode":"mig","layout":[{"profile":"2g.20gb"},{"profile":"1g.10gb","count":-1}]}`, "body.layout[1].count"},
		{"count 1.5", `{"mode":"mig","layout":[{"profile":"1g.10gb","count":1.5}]}`, "body.layout[0].count"},
		{"above its maximum", `{"mode":"mig","layout":[{"profile":"2g.20gb","count":4}]}`, "body.layout[0].count"},
		{"media engines twice", `{"mode":"mig","layout":[{"profile":"1g.10gb+me","count":2}]}`, "body.layout[0].count"},
		{"above the slices", `{"mode":"mig","layout":[{"profile":"3g.40gb","count":2},{"profile":"1g.10gb"}]}`, "body.layout[1].profile"},
		{"no place left", `{"mode":"mig","layout":[{"profile":"3g.40gb","slot_start":0},{"profile":"4g.40gb"}]}`, "body.layout[1].profile"},
		{"a start that hardware does not take", `{"mode":"mig","layout":[{"profile":"3g.40gb","slot_start":1}]}`, "body.layout[0].slot_start"},
		{"a layout of a whole card", `{"mode":"whole","layout":[{"profile":"1g.10gb"}]}`, "body.layout"},
		{"shares of a MIG card", `{"mode":"mig","shares":4}`, "body.shares"},
		{"no shares", `{"mode":"shared"}`, "body.shares"},
		{"nine shares", `{"mode":"shared","shares":9}`, "body.shares"},
		{"unknown mode", `{"mode":"half"}`, "body.mode"},
		{"unknown vGPU type", `{"mode":"vgpu","vgpu_type":"A100-4C"}`, "body.vgpu_type"},
		{"unknown field", `{"mode":"mig","layouts":[]}`, "body.layouts"},
	} {
		status, p := patch(t, c, "/v1/gpus/"+card.ID, x.body)
		if status != 422 || len(p.Errors) == 0 || p.Errors[0].Location != x.at {
			t.Errorf("%s: %d %+v, want %s", x.name, status, p, x.at)
		}
	}
	if status, p := patch(t, c, "/v1/gpus/GPU-none", `{"mode":"mig"}`); status != 404 {
		t.Errorf("a card that isn't: %+v", p)
	}
	for _, path := range []string{"/v1/gpus/" + card.ID + "?dry_run=", "/v1/gpus/" + card.ID + "?dry_run"} { // a script's empty variable
		if status, p := patch(t, c, path, `{"mode":"mig"}`); status != 422 || len(p.Errors) != 1 || p.Errors[0].Location != "query.dry_run" {
			t.Errorf("%s: %d %+v", path, status, p)
		}
	}
	if g, _ := c.Admin.GPUGet(ctx, card.ID); g.Wish != nil || g.Changing {
		t.Errorf("something of that changed it: %+v", g)
	}
}

func patch(t *testing.T, c *cloudtest.Cloud, path, body string) (int, api.Problem) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPatch, c.URL+path, bytes.NewReader([]byte(body)))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+c.Admin.Token)
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	raw, _ := io.ReadAll(res.Body)
	var p api.Problem
	_ = json.Unmarshal(raw, &p)
	return res.StatusCode, p
}

// TestC11OneBadCardAmongFour changes several cards of a node at once.
func TestC11OneBadCardAmongFour(t *testing.T) {
	t.Parallel()
	c := cloudtest.StartWith(t, cloudtest.Options{Board: "dgx-a100"})
	ctx := within(t, 2*time.Minute)
	acme := c.Tenant("acme")
	f, err := c.Admin.FlavorCreate(ctx, api.FlavorCreate{Name: "one-a100", GPUCount: 1, GPUModel: cardsOf(ctx, t, c)[0].Model, GPUMode: "whole", VCPU: 1, MemoryMiB: 512, DiskMiB: 1024})
	if err != nil {
		t.Fatal(err)
	}
	holder := c.Running(acme.Client, api.InstanceCreate{Name: "holder", Image: image(t, c), Flavor: f.Name})
	held := holder.GPUs[0].GPUID
	var change api.NodeGPUsUpdate
	for _, g := range cardsOf(ctx, t, c) {
		if g.ID != held && len(change.GPUs) < 3 {
			change.GPUs = append(change.GPUs, api.NamedGPUUpdate{GPU: g.PCIAddress, GPUUpdate: api.GPUUpdate{Mode: "mig", Layout: layout(counted("1g", 7))}})
		}
	}
	change.GPUs = append(change.GPUs[:1], append([]api.NamedGPUUpdate{{GPU: held, GPUUpdate: api.GPUUpdate{Mode: "mig"}}}, change.GPUs[1:]...)...)
	dry, err := c.Admin.NodeGPUsUpdate(ctx, "node-1", change, true)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range dry.Items {
		if bad := i == 1; r.Applied || (r.Problem != nil) != bad || (r.Card == nil) != bad {
			t.Errorf("dry run, result %d: %+v %+v", i, r, r.Problem)
		}
	}
	got, err := c.Admin.NodeGPUsUpdate(ctx, "node-1", change, false)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range got.Items {
		if bad := i == 1; r.Applied == bad || (r.Problem != nil) != bad || (r.Card == nil) != bad || bad && (r.Problem.Status != 409 || r.Problem.Code != "gpu_in_use") {
			t.Errorf("result %d: %+v %+v", i, r, r.Problem)
		}
	}
	eventually(t, "three cards are cut", func() bool {
		n := 0
		for _, g := range cardsOf(ctx, t, c) {
			if g.Mode == "mig" && !g.Changing && len(g.Slices) == 7 {
				n++
			}
		}
		return n == 3
	})
	// A bad entry is named by its place in the request; twice the same card is refused whole.
	change.GPUs[0].Layout = layout(entry("9g"))
	if got, err = c.Admin.NodeGPUsUpdate(ctx, "node-1", change, false); err != nil || got.Items[0].Problem == nil || got.Items[0].Problem.Errors[0].Location != "body.gpus[0].layout[0].profile" {
		t.Errorf("%v %+v", err, got.Items)
	}
	change.GPUs[0].GPU = change.GPUs[2].GPU
	if _, err = c.Admin.NodeGPUsUpdate(ctx, "node-1", change, false); problemOf(t, err).Status != 422 {
		t.Errorf("the same card twice: %v", err)
	}
	if _, err = c.Admin.NodeGPUsUpdate(ctx, "node-2", change, false); problemOf(t, err).Status != 404 {
		t.Errorf("a node that isn't: %v", err)
	}
}

// TestAModeChangeAndCreatesAtOnce has twenty creates meet a change of the card that
// they want. Whoever is first, no instance holds a card in another mode than its own.
func TestAModeChangeAndCreatesAtOnce(t *testing.T) {
	t.Parallel()
	c := cloudtest.Start(t)
	ctx := within(t, 3*time.Minute)
	acme := c.Tenant("acme")
	img, flv := image(t, c), slice(t, c)
	cards := cardsOf(ctx, t, c)
	card := cards[1] // the H100 that is cut
	for round := range 4 {
		var wg sync.WaitGroup
		ids := make([]string, 20)
		for i := range ids {
			wg.Go(func() {
				got, err := acme.InstanceCreate(ctx, "default", api.InstanceCreate{Name: fmt.Sprintf("r%d-%d", round, i), Image: img, Flavor: flv})
				if err != nil {
					t.Error(err)
					return
				}
				ids[i] = got.ID
			})
		}
		var changed error
		wg.Go(func() { _, changed = c.Admin.GPUUpdate(ctx, card.ID, api.GPUUpdate{Mode: "whole"}, false) })
		wg.Wait()
		if changed != nil && problemOf(t, changed).Code != "gpu_in_use" {
			t.Fatal(changed)
		}
		var bad int
		if err := c.DB.Owner.QueryRow(ctx, `SELECT count(*) FROM gpu_claim k JOIN gpu g ON g.id = k.gpu_id
			WHERE k.mode <> g.mode OR k.geometry <> g.geometry OR g.desired_mode IS NOT NULL AND k.mode <> g.desired_mode`).Scan(&bad); err != nil || bad > 0 {
			t.Fatalf("round %d: %d claims in another mode than their card's (%v)", round, bad, err)
		}
		if changed == nil {
			becomes(ctx, t, c, card.ID, "is whole", func(g *api.GPU) bool { return g.Mode == "whole" })
			for _, id := range ids {
				if i, err := acme.InstanceGet(ctx, "default", id); err != nil || i.State != api.StateQueued {
					t.Errorf("round %d: %s is %s on a card that was changed first (%v)", round, id, i.State, err)
				}
			}
		}
		for _, id := range ids {
			if _, err := acme.InstanceDelete(ctx, "default", id); err != nil {
				t.Fatal(err)
			}
		}
		eventually(t, "all are gone", func() bool {
			g, err := c.Admin.GPUGet(ctx, card.ID)
			return err == nil && len(g.Claims) == 0
		})
		if _, err := c.Admin.GPUUpdate(ctx, card.ID, api.GPUUpdate{Mode: "mig"}, false); err != nil {
			t.Fatal(err)
		}
		becomes(ctx, t, c, card.ID, "is cut again", func(g *api.GPU) bool { return g.Mode == "mig" })
	}
}
