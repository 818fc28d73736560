package app_test

import (
	"slices"
	"testing"

	"github.com/tenon-cloud/tenon/internal/app"
	"github.com/tenon-cloud/tenon/internal/cloud"
	"github.com/tenon-cloud/tenon/internal/postgres"
)

// One card each on a node that is well, late, drained, and fenced.
func TestC25EveryCountIsTheSame(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	ctx := t.Context()
	h.node(t, 1, cloud.ModeWhole)
	exec(t, h, `UPDATE node SET state = 'late' WHERE id = $1`, h.node(t, 1, cloud.ModeWhole))
	exec(t, h, `UPDATE node SET drained = true WHERE id = $1`, h.node(t, 1, cloud.ModeWhole))
	exec(t, h, `UPDATE node SET state = 'late', fenced_at = now() WHERE id = $1`, h.node(t, 1, cloud.ModeWhole))
	c, err := h.Capacity(ctx, h.admin)
	if err != nil || c.Total.Total != 4 || c.Total.Healthy != 2 || c.Total.Free != 1 {
		t.Errorf("capacity %+v, %v", c.Total, err)
	}
	flavors, err := h.FlavorList(ctx, h.admin)
	at := slices.IndexFunc(flavors, func(f app.FlavorOffer) bool { return f.Name == "h100-1x" })
	if err != nil || flavors[at].FreeNow != c.Total.Free {
		t.Errorf("%d fit, %d are free; %v", flavors[at].FreeNow, c.Total.Free, err)
	}
	well := 0
	list, err := h.GPUList(ctx, h.admin, app.GPUFilter{}, app.Page{})
	for _, g := range list.Items {
		if g.State == cloud.GPUReady {
			well++
		} else if g.State != cloud.GPUUnknown || g.Reason == "" {
			t.Errorf("a card of a node whose word does not count is %s: %q", g.State, g.Reason)
		}
	}
	if err != nil || well != c.Total.Healthy {
		t.Errorf("%d listed as well, %v", well, err)
	}
	for state, n := range map[cloud.GPUState]int{cloud.GPUReady: 2, cloud.GPUUnknown: 2} {
		if some, err := h.GPUList(ctx, h.admin, app.GPUFilter{State: state}, app.Page{}); err != nil || len(some.Items) != n {
			t.Errorf("%d are found as %s, %v", len(some.Items), state, err)
		}
	}
	nodes, err := h.NodeList(ctx, h.admin, app.Page{})
	for _, n := range nodes.Items {
		if got, want := n.GPUs[0].State == cloud.GPUReady, n.State == cloud.NodeReady; err != nil || got != want {
			t.Errorf("node %s is %s, its card %s: %q; %v", n.Name, n.State, n.GPUs[0].State, n.GPUs[0].Reason, err)
		}
	}
	ready := 0
	err = h.pg.DB.InSystem(ctx, func(tx *postgres.Tx) error {
		census, err := postgres.CensusTake(ctx, tx)
		for _, k := range census.Cards {
			if k.State == cloud.GPUReady {
				ready += k.Cards
			}
		}
		return err
	})
	if err != nil || ready != c.Total.Healthy {
		t.Errorf("the metrics count %d, %v", ready, err)
	}
}
