package sim

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tenon-cloud/tenon/internal/device"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

// clock moves when a test says so.
type clock struct{ at time.Time }

func (c *clock) now() time.Time { return c.at }

func keeper(t testing.TB, c *clock, dir string) *Board {
	t.Helper()
	b, err := Open(Config{Board: "local", CloudID: "test", StateDir: dir, Seed: "keep", Now: c.now, Change: 2 * time.Second, Clean: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func seenCard(t testing.TB, b *Board, i int) nodewire.GPU {
	t.Helper()
	inv, err := b.Inventory(t.Context())
	if err != nil || !inv.OK {
		t.Fatal(inv, err)
	}
	return inv.GPUs[i]
}

func wish(t testing.TB, b *Board, cards ...nodewire.Card) {
	t.Helper()
	if err := b.Wish(t.Context(), cards); err != nil {
		t.Fatal(err)
	}
}

func TestACardBecomesWhatIsWished(t *testing.T) {
	t.Parallel()
	c, dir := &clock{time.Now()}, t.TempDir()
	b := keeper(t, c, dir)
	g := seenCard(t, b, 0)
	layout := []nodewire.Place{{Profile: "3g", SlotStart: 0, SlotEnd: 4}, {Profile: "1g", SlotStart: 4, SlotEnd: 5}}
	want := nodewire.Card{PCIAddress: g.PCIAddress, Mode: "mig", Layout: layout}
	wish(t, b, want)
	if g = seenCard(t, b, 0); g.Wish == "" {
		t.Fatalf("it is so at once: %+v", g)
	}
	if _, err := b.Prepare(t.Context(), oneOf("a", g, "whole", 0, 8)); err == nil || errors.Is(err, device.ErrImpossible) {
		t.Fatalf("a card that changes was given: %v", err)
	}
	c.at = c.at.Add(2 * time.Second)
	if g = seenCard(t, b, 0); g.Mode != "mig" || g.Wish != "" || len(g.Slices) != 2 || g.Geometry != "mig8" {
		t.Fatalf("it did not become so: %+v", g)
	}
	if _, err := b.Prepare(t.Context(), oneOf("a", g, "1g", 6, 7)); !errors.Is(err, device.ErrImpossible) {
		t.Fatalf("a slice beside the layout: %v", err)
	}
	if _, err := b.Prepare(t.Context(), oneOf("a", g, "1g", 4, 5)); err != nil {
		t.Fatal(err)
	}
	// Held, it stays; and it stays so across a restart.
	wish(t, b, nodewire.Card{PCIAddress: g.PCIAddress, Mode: "shared", Shares: 4})
	c.at = c.at.Add(time.Minute)
	if g = seenCard(t, b, 0); g.Mode != "mig" || !strings.Contains(g.Wish, "held by 1") {
		t.Fatalf("a held card changed: %+v", g)
	}
	b = keeper(t, c, dir)
	if g = seenCard(t, b, 0); g.Mode != "mig" || len(g.Slices) != 2 || g.Slices[1].Owner != "a" {
		t.Fatalf("its layout is not there after a restart: %+v", g)
	}
	if err := b.Release(t.Context(), "a", 1); err != nil {
		t.Fatal(err)
	}
	wish(t, b, nodewire.Card{PCIAddress: g.PCIAddress, Mode: "shared", Shares: 4})
	c.at = c.at.Add(2 * time.Second)
	if g = seenCard(t, b, 0); g.Mode != "shared" || g.Geometry != "share4" || g.Wish != "" {
		t.Fatalf("not shared: %+v", g)
	}
	if _, err := b.Prepare(t.Context(), oneOf("b", g, "share", 3, 4)); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Prepare(t.Context(), oneOf("c", g, "share", 3, 4)); err == nil {
		t.Fatal("one share has two owners")
	}
}

func oneOf(owner string, g nodewire.GPU, profile string, from, to int) device.Request {
	return device.Request{InstanceID: owner, Epoch: 1, Kind: "container",
		Devices: []nodewire.Device{{GPUUUID: g.UUID, Mode: g.Mode, Profile: profile, SlotStart: from, SlotEnd: to}}}
}

func TestAWholeCardIsCleanedBetweenTenants(t *testing.T) {
	t.Parallel()
	c := &clock{time.Now()}
	b := keeper(t, c, t.TempDir())
	i := slices.IndexFunc(b.cards, func(c card) bool { return c.mode == "whole" })
	g := seenCard(t, b, i)
	if _, err := b.Prepare(t.Context(), oneOf("a", g, "whole", 0, 8)); err != nil {
		t.Fatal(err)
	}
	if err := b.Release(t.Context(), "a", 1); err != nil {
		t.Fatal(err)
	}
	if s := seenCard(t, b, i).State; s != "cleaning" {
		t.Fatalf("a card that was just given back is %s", s)
	}
	if _, err := b.Prepare(t.Context(), oneOf("b", g, "whole", 0, 8)); err == nil || errors.Is(err, device.ErrImpossible) {
		t.Fatalf("a card that is not clean was given: %v", err)
	}
	c.at = c.at.Add(time.Second)
	if _, err := b.Prepare(t.Context(), oneOf("b", g, "whole", 0, 8)); err != nil {
		t.Fatal(err)
	}
}

func TestFaultsAndTheWayBack(t *testing.T) {
	t.Parallel()
	c := &clock{time.Now()}
	b := keeper(t, c, t.TempDir())
	i := slices.IndexFunc(b.cards, func(c card) bool { return c.mode == "whole" })
	g := seenCard(t, b, i)
	b.Fault(g.UUID, 31, "a")
	if got := b.Incidents(); len(got) != 1 || got[0].Action != nodewire.ActionNone || seenCard(t, b, i).State != "ready" {
		t.Fatalf("an application's fault: %+v", got)
	}
	if _, err := b.Prepare(t.Context(), oneOf("a", g, "whole", 0, 8)); err != nil {
		t.Fatal(err)
	}
	b.Fault(g.UUID, 94, "")
	if s := seenCard(t, b, i).State; s != "needs_reset" {
		t.Fatalf("after XID 94 it is %s", s)
	}
	if err := b.Release(t.Context(), "a", 1); err != nil {
		t.Fatal(err)
	}
	if s := seenCard(t, b, i).State; s != "cleaning" {
		t.Fatalf("given back, it is %s", s)
	}
	c.at = c.at.Add(time.Second)
	b.Fault(g.UUID, 79, "")
	b.Fault(g.UUID, 79, "")
	if got := b.Incidents(); len(got) != 3 || seenCard(t, b, i).State != "unhealthy" {
		t.Fatalf("one fault is told twice, or the card is not out: %+v", got)
	}
	w := nodewire.Card{PCIAddress: g.PCIAddress, Mode: "whole", Recover: 1}
	wish(t, b, w)
	c.at = c.at.Add(time.Second)
	if g := seenCard(t, b, i); g.State != "ready" || g.Recovered != 1 {
		t.Fatalf("recovered, it is %s (%d)", g.State, g.Recovered)
	}
	c.at = c.at.Add(11 * time.Second)
	b.Fault(g.UUID, 79, "")
	wish(t, b, w)
	if g := seenCard(t, b, i); g.State != "unhealthy" {
		t.Fatalf("an old word recovered a new fault: %s", g.State)
	}
}

// Whatever is wished, held and given back: no place has two owners, and a card
// never changes under a holder.
func TestWishesAndHoldersNeverMeet(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		c := &clock{time.Unix(1e9, 0)}
		b, err := Open(Config{Board: "local", CloudID: "test", StateDir: t.TempDir(), Seed: "p", Now: c.now, Change: 2 * time.Second, Clean: time.Second})
		if err != nil {
			rt.Fatal(err)
		}
		forms := []nodewire.Card{{Mode: "whole"}, {Mode: "mig"}, {Mode: "shared", Shares: 2}, {Mode: "mig", Layout: []nodewire.Place{{Profile: "3g", SlotStart: 4, SlotEnd: 8}}}}
		for range rapid.IntRange(5, 25).Draw(rt, "steps") {
			inv, _ := b.Inventory(t.Context())
			g := inv.GPUs[0]
			owner := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(rt, "owner")
			switch rapid.IntRange(0, 3).Draw(rt, "step") {
			case 0:
				w := rapid.SampledFrom(forms).Draw(rt, "form")
				w.PCIAddress = g.PCIAddress
				_ = b.Wish(t.Context(), []nodewire.Card{w})
			case 1:
				place := map[string][]any{"whole": {"whole", 0, 8}, "mig": {"3g", 4, 8}, "shared": {"share", rapid.IntRange(0, 1).Draw(rt, "share"), 0}}[g.Mode]
				from, to := place[1].(int), place[2].(int)
				if g.Mode == "shared" {
					to = from + 1
				}
				_, _ = b.Prepare(t.Context(), oneOf(owner, g, place[0].(string), from, to))
			case 2:
				_ = b.Release(t.Context(), owner, 1)
			case 3:
				c.at = c.at.Add(time.Duration(rapid.IntRange(0, 3).Draw(rt, "seconds")) * time.Second)
			}
			inv, _ = b.Inventory(t.Context())
			held, _ := b.Held(t.Context())
			var slots [32]string
			for owner, devices := range held {
				for _, d := range devices {
					if d.GPUUUID != inv.GPUs[0].UUID {
						continue
					}
					if d.Mode != inv.GPUs[0].Mode {
						rt.Fatalf("%s holds it in mode %s, and it is in %s", owner, d.Mode, inv.GPUs[0].Mode)
					}
					for s := d.SlotStart; s < d.SlotEnd; s++ {
						if slots[s] != "" {
							rt.Fatalf("slot %d has two owners: %s, %s", s, slots[s], owner)
						}
						slots[s] = owner
					}
				}
			}
		}
	})
}
