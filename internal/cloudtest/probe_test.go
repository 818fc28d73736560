package cloudtest_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tenon-cloud/tenon/api"
	"github.com/tenon-cloud/tenon/internal/cloudtest"
	"github.com/tenon-cloud/tenon/internal/device/sim"
	"github.com/tenon-cloud/tenon/internal/pgtest"
)

// Case C5: a probe that exits with an error, hangs, or succeeds and prints nothing
// means that nothing is known. The cards stay, what is held stays held, an alarm
// says so, nobody is placed on them, and all is well when it works again.
func TestC5AFailedProbeFreesNothing(t *testing.T) {
	t.Parallel()
	c := cloudtest.Start(t)
	ctx := t.Context()
	img := image(t, c)
	small := slice(t, c)
	first := c.Running(c.Admin, api.InstanceCreate{Name: "first", Image: img, Flavor: small})
	cards := func() (total int, states map[string]int, claims int) {
		page, err := c.Admin.GPUList(ctx, api.GPUListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		states = map[string]int{}
		for _, g := range page.Items {
			states[g.State]++
			claims += len(g.Claims)
		}
		return len(page.Items), states, claims
	}
	alarmed := func() bool {
		page, err := c.Admin.AlarmList(ctx, api.AlarmListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range page.Items {
			if a.ClearedAt == nil && a.Subject == c.NodeID && strings.Contains(a.Message, "probe") {
				return true
			}
		}
		return false
	}
	all, _, held := cards()
	for n, fault := range []sim.ProbeFault{sim.ProbeExits, sim.ProbeHangs, sim.ProbeSilent} {
		c.Board.FailProbeAs(fault)
		pgtest.Eventually(t, "every card is unknown when the probe "+string(fault), func() bool {
			total, states, claims := cards()
			if total != all || claims != held+n || states["missing"] > 0 {
				t.Fatalf("the probe %s: %d of %d cards, %v, %d of %d claims", fault, total, all, states, claims, held+n)
			}
			return states["unknown"] == all
		})
		pgtest.Eventually(t, "an alarm says so", alarmed)
		waits, err := c.Admin.InstanceCreate(ctx, "default", api.InstanceCreate{Name: fmt.Sprintf("waits-%d", n), Image: img, Flavor: small})
		if err != nil {
			t.Fatal(err)
		}
		pgtest.Eventually(t, "the next one waits and says why", func() bool {
			i, err := c.Admin.InstanceGet(ctx, "default", waits.ID)
			if err == nil && i.State != api.StateQueued {
				t.Fatalf("it is %s", i.State)
			}
			return err == nil && i.Reason != ""
		})
		i, err := c.Admin.InstanceGet(ctx, "default", first.ID)
		if guests, _ := c.Guests.List(ctx); err != nil || i.State != api.StateRunning || len(guests) != 1+n {
			t.Errorf("the probe %s: the instance is %v, %d guests, %v", fault, i.State, len(guests), err)
		}
		if onBoard, _ := c.Board.Held(ctx); len(onBoard) != 1+n {
			t.Errorf("the probe %s: the board holds %v", fault, onBoard)
		}
		c.Board.FailProbeAs(sim.ProbeWorks)
		pgtest.Eventually(t, "all is well again, and the next one runs", func() bool {
			_, states, claims := cards()
			i, err := c.Admin.InstanceGet(ctx, "default", waits.ID)
			return err == nil && states["ready"] == all && claims == held+n+1 && i.State == api.StateRunning && !alarmed()
		})
	}
}
