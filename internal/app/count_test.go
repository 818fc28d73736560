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
		if g.State == cloud.GPUReady && g.NodeWell {
			well++
		}
	}
	if err != nil || well != c.Total.Healthy {
		t.Errorf("%d listed as well, %v", well, err)
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
