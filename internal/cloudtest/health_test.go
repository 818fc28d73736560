package cloudtest_test

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tenon-cloud/tenon/api"
	"github.com/tenon-cloud/tenon/internal/cloudtest"
	"github.com/tenon-cloud/tenon/internal/device/host"
	"github.com/tenon-cloud/tenon/internal/device/nvml/simnvml"
	"github.com/tenon-cloud/tenon/internal/device/pci"
	"github.com/tenon-cloud/tenon/internal/device/pci/recorded"
)

// metal is a recorded host with the board that real cards have: what its kernel and
// its driver say comes as they say it.
type metal struct {
	t     *testing.T
	m     *recorded.Model
	d     *simnvml.Driver
	log   *io.PipeWriter
	cards []string
	began time.Time
	lines int
}

func newMetal(t *testing.T, tree, model string) (*metal, *host.Board) {
	t.Helper()
	m, err := recorded.Tree(tree)
	if err != nil {
		t.Fatal(err)
	}
	inv, err := pci.Scan(m, pci.Options{})
	if err != nil {
		t.Fatal(err)
	}
	h := &metal{t: t, m: m, began: time.Now()}
	var cards []simnvml.Card
	for _, c := range inv.Cards {
		h.cards = append(h.cards, c.Function.Address.String())
		cards = append(cards, simnvml.Card{Model: model, PCIAddress: c.Function.Address.String()})
	}
	if h.d, err = simnvml.New(cards...); err != nil {
		t.Fatal(err)
	}
	var kernel *io.PipeReader
	kernel, h.log = io.Pipe()
	b, err := host.Open(t.Context(), host.Config{Sys: m, Driver: h.d, CDI: &names{}, StateDir: t.TempDir(), BootID: "boot-1", BusyFor: 100 * time.Millisecond,
		SinceBoot: func() time.Duration { return time.Since(h.began) }, KernelLog: func() (io.ReadCloser, error) { return kernel, nil }})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	watched := make(chan struct{})
	go func() { b.Watch(ctx); close(watched) }()
	t.Cleanup(func() { cancel(); <-watched })
	return h, b
}

// kernel says a line.
func (h *metal) kernel(format string, args ...any) {
	h.t.Helper()
	h.lines++
	if _, err := fmt.Fprintf(h.log, "4,%d,%d,-;"+format+"\n", append([]any{h.lines, time.Since(h.began).Microseconds()}, args...)...); err != nil {
		h.t.Fatal(err)
	}
}

func (h *metal) change(card string, f func(d *recorded.Device)) {
	a, err := pci.ParseAddress(card)
	if err != nil {
		h.t.Fatal(err)
	}
	h.m.Change(a, f)
}

type names struct{}

func (n *names) Present(_ context.Context, _ string, uuids, _ []string) (out []string, _ error) {
	for _, u := range uuids {
		out = append(out, "tenon.test/gpu="+u)
	}
	return out, nil
}
func (n *names) Withdraw(context.Context, string) error { return nil }

// TestTheTableOfFaultsFromEndToEnd: what the kernel and the driver say of a card,
// to what the API says of it, what is left of the fleet, who is told, and the way
// back.
func TestTheTableOfFaultsFromEndToEnd(t *testing.T) {
	t.Parallel()
	h, board := newMetal(t, "hgx-h100", "h100-80gb")
	c := cloudtest.StartWith(t, cloudtest.Options{Cards: board})
	ctx := within(t, 3*time.Minute)
	acme := c.Tenant("acme")
	f, err := c.Admin.FlavorCreate(ctx, api.FlavorCreate{Name: "one-h100", GPUCount: 1, GPUModel: "h100-80gb", GPUMode: "whole", VCPU: 1, MemoryMiB: 512, DiskMiB: 1024})
	if err != nil {
		t.Fatal(err)
	}
	img := image(t, c)
	ask := func(name string) api.InstanceCreate {
		return api.InstanceCreate{Name: name, Image: img, Flavor: f.Name}
	}
	ids, at := map[string]string{}, map[string]string{}
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		ids[name] = c.Running(acme.Client, ask(name)).ID
	}
	var idle []string
	cards := map[string]api.GPU{}
	for _, g := range cardsOf(ctx, t, c) {
		cards[g.PCIAddress] = g
		if len(g.Claims) == 0 {
			idle = append(idle, g.PCIAddress)
		} else {
			at[g.Claims[0].Instance] = g.PCIAddress
		}
	}
	if len(idle) != 2 {
		t.Fatalf("%d cards are idle", len(idle))
	}
	counts := func(what string, healthy, used, free int) {
		t.Helper()
		defer func() {
			if t.Failed() {
				for card := range cards {
					g, err := c.Admin.GPUGet(ctx, cards[card].ID)
					if err == nil {
						t.Logf("%s: %s (%s), %d claims", card, g.State, g.Reason, len(g.Claims))
					}
				}
			}
		}()
		eventually(t, what, func() bool {
			l := capacity(ctx, t, c)
			return l.Total == 8 && l.Healthy == healthy && l.Used == used && l.Free == free
		})
	}
	is := func(card, state, alarm string) {
		t.Helper()
		eventually(t, card+" is "+state+" with alarm "+alarm, func() bool {
			g, err := c.Admin.GPUGet(ctx, cards[card].ID)
			return err == nil && g.State == state && (g.Reason != "") == (state != "ready") && strings.Join(alarms(ctx, t, c, cards[card].ID), " ") == alarm
		})
	}
	incidents := func(card string) []api.GPUIncident {
		t.Helper()
		l, err := c.Admin.GPUIncidents(ctx, cards[card].ID)
		if err != nil {
			t.Fatal(err)
		}
		return l.Items
	}
	verbs := func(name string) (out []string) {
		t.Helper()
		l, err := acme.InstanceEvents(ctx, "default", ids[name], api.PageOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range l.Items {
			if e.Verb == "gpu_fault" || e.Verb == "degraded" {
				out = append(out, e.Verb)
			}
		}
		return out
	}
	line := func(card string, xid int, text string) {
		t.Helper()
		h.kernel("NVRM: Xid (PCI:%s): %d, %s", strings.TrimSuffix(card, ".0"), xid, text)
	}
	recovered := func(card string) {
		t.Helper()
		if _, err := c.Admin.GPURecover(ctx, cards[card].ID); err != nil {
			t.Fatal(err)
		}
		is(card, "ready", "")
	}
	counts("six of eight are held", 8, 6, 2)

	// The application's fault: on the instance, and the card stays.
	for i, xid := range []int{13, 31, 43, 45, 68, 109} {
		name := []string{"a", "b", "c", "d", "e", "f"}[i]
		line(at[name], xid, "pid=4711, name=python3, a program's own")
		eventually(t, fmt.Sprintf("XID %d is told on %s", xid, name), func() bool { return slices.Equal(verbs(name), []string{"gpu_fault"}) })
		if list := incidents(at[name]); len(list) != 1 || list[0].XID != xid || list[0].Action != "none" || list[0].InstanceID != ids[name] {
			t.Errorf("XID %d: %+v", xid, list)
		}
		is(at[name], "ready", "")
	}
	counts("none is out", 8, 6, 2)

	// A reset at the next release: nothing new until then.
	for i, xid := range []int{48, 63, 64, 94, 95} {
		name := []string{"a", "b", "c", "d", "e"}[i]
		line(at[name], xid, "pid=4711, name=python3, memory")
		is(at[name], "needs_reset", "needs_reset")
	}
	h.d.Change(at["f"], func(c *host.DriverCard) { c.Remap.Pending = true })
	is(at["f"], "needs_reset", "needs_reset")
	counts("six wait for a reset", 2, 6, 2)
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		i, err := acme.InstanceGet(ctx, "default", ids[name])
		if err != nil || i.State != api.StateRunning {
			t.Errorf("%s is %v (%v)", name, i.State, err)
		}
		if _, err := acme.InstanceDelete(ctx, "default", ids[name]); err != nil {
			t.Fatal(err)
		}
	}
	counts("their releases reset them", 8, 0, 8)
	for card := range cards {
		is(card, "ready", "")
	}

	// Out, by exactly one each: the card's holder is degraded, nobody else, and there
	// is a way back.
	ids["g"], ids["h"] = c.Running(acme.Client, ask("g")).ID, c.Running(acme.Client, ask("h")).ID
	for _, g := range cardsOf(ctx, t, c) {
		if len(g.Claims) > 0 {
			at[g.Claims[0].Instance] = g.PCIAddress
		}
	}
	fell := at["g"]
	seen := len(incidents(fell))
	h.change(fell, func(d *recorded.Device) { d.Dead = true })
	h.d.Lose(fell, true)
	h.d.Tell(host.DriverEvent{PCIAddress: fell, XID: 79, GI: -1, SinceBoot: time.Since(h.began)})
	line(fell, 79, "pid='<unknown>', name=<unknown>, GPU has fallen off the bus.")
	h.kernel("NVRM: GPU %s: GPU has fallen off the bus.", fell)
	is(fell, "missing", "missing")
	counts("one is out", 7, 2, 6)
	eventually(t, "its holder is told", func() bool {
		i, err := acme.InstanceGet(ctx, "default", ids["g"])
		return err == nil && i.State == api.StateRunning && i.Reason == "gpu_degraded" && slices.Equal(verbs("g"), []string{"degraded"})
	})
	if list := incidents(fell); len(list) != seen+1 || list[0].Action != "out" || list[0].Kind != "fell_off_bus" {
		t.Errorf("one fault that was told four times: %+v", list)
	}
	if got := verbs("h"); len(got) != 0 {
		t.Errorf("an instance of another card was told: %v", got)
	}
	free := slices.DeleteFunc(slices.Clone(h.cards), func(s string) bool { return s == fell || s == at["h"] })
	line(free[0], 119, "pid=1, name=nv-hostengine, Timeout after 45s of waiting for RPC response")
	h.d.Lose(free[0], true) // its driver can't tell of it, and its function answers
	is(free[0], "unhealthy", "unhealthy")
	counts("two are out", 6, 2, 5)
	line(free[1], 120, "GSP error")
	is(free[1], "unhealthy", "unhealthy")
	counts("three are out", 5, 2, 4)
	h.d.Change(free[2], func(c *host.DriverCard) { c.Remap.Failure = true })
	is(free[2], "unhealthy", "unhealthy")
	counts("four are out", 4, 2, 3)
	gone, err := pci.ParseAddress(free[3])
	if err != nil {
		t.Fatal(err)
	}
	h.m.Vanish(gone) // without any line
	h.d.Lose(free[3], true)
	is(free[3], "missing", "missing")
	counts("five are out", 3, 2, 2)
	if list := incidents(free[3]); list[0].Kind != "fell_off_bus" || list[0].Action != "out" {
		t.Errorf("gone without a line: %+v", list)
	}

	h.d.Lose(free[0], false)
	recovered(free[0])
	recovered(free[1])
	h.d.Change(free[2], func(c *host.DriverCard) { c.Remap.Failure = false })
	recovered(free[2])
	counts("three are back", 6, 2, 5)
	if _, err := c.Admin.GPURecover(ctx, cards[fell].ID); problemOf(t, err).Code != "gpu_in_use" {
		t.Errorf("a held card was recovered: %v", err)
	}
	h.change(fell, func(d *recorded.Device) { d.Dead = false })
	h.d.Lose(fell, false)
	is(fell, "unhealthy", "unhealthy") // it answers, and nobody has tested it
	if _, err := acme.InstanceDelete(ctx, "default", ids["g"]); err != nil {
		t.Fatal(err)
	}
	counts("it is given back and still out", 6, 1, 5)
	recovered(fell)
	counts("it is back", 7, 1, 6)
}

// TestACardThatNoVMCanHave shows an operator what of a host is offered, to whom, and
// why not; a VM waits with the reason, and a container gets the card.
func TestACardThatNoVMCanHave(t *testing.T) {
	t.Parallel()
	_, board := newMetal(t, "shared-nic", "a100-80gb")
	c := cloudtest.StartWith(t, cloudtest.Options{Cards: board})
	ctx := within(t, time.Minute)
	acme := c.Tenant("acme")
	eventually(t, "the node tells of it", func() bool {
		n, err := c.Admin.NodeGet(ctx, c.NodeID)
		return err == nil && len(n.GPUs) == 1 && len(n.Excluded) == 1
	})
	n, err := c.Admin.NodeGet(ctx, c.NodeID)
	if err != nil {
		t.Fatal(err)
	}
	if x := n.Excluded[0]; x.PCIAddress != "0000:00:02.0" || !strings.Contains(x.Reason, "integrated graphics") {
		t.Errorf("left out: %+v", x)
	}
	if g := n.GPUs[0]; g.State != "ready" || !g.NotForVM || !strings.Contains(g.Reason, "IOMMU group 1 also has 0000:02:00.0 (network, 8086:10fb), used by ixgbe") {
		t.Errorf("offered: %+v", g)
	}
	f, err := c.Admin.FlavorCreate(ctx, api.FlavorCreate{Name: "one-a100", GPUCount: 1, GPUModel: "a100-80gb", GPUMode: "whole", VCPU: 1, MemoryMiB: 2048, DiskMiB: 8192})
	if err != nil {
		t.Fatal(err)
	}
	waits, err := acme.InstanceCreate(ctx, "default", api.InstanceCreate{Name: "machine", Kind: "vm", Image: vmImage(t, c), Flavor: f.Name})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the VM waits and says why", func() bool {
		i, err := acme.InstanceGet(ctx, "default", waits.ID)
		return err == nil && i.State == api.StateQueued && strings.Contains(i.Message, "not for virtual machines")
	})
	c.Running(acme.Client, api.InstanceCreate{Name: "container", Image: image(t, c), Flavor: f.Name})
}
