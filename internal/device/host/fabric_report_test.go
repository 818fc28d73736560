package host_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tenon-cloud/tenon/internal/device/host"
	"github.com/tenon-cloud/tenon/internal/device/nvml/simnvml"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

// mute is a Fabric Manager that stops answering.
type mute struct {
	joined
	err error
}

func (m *mute) Partitions(ctx context.Context) ([]host.FabricPartition, error) {
	if m.err != nil {
		return nil, m.err
	}
	return m.joined.Partitions(ctx)
}

// What placement hears of a board: its partitions by address, those that others
// have active, and which cards no VM can have.
func TestPartitionsAreReportedAsFabricManagerListsThem(t *testing.T) {
	t.Parallel()
	gpus := []host.FabricGPU{{Module: 3}, {Module: 1}}
	f := &mute{joined: joined{parts: []host.FabricPartition{{ID: 5, GPUs: gpus[1:]}, {ID: 0, GPUs: gpus}, {ID: 4, GPUs: gpus[:1]}, {ID: 9, GPUs: []host.FabricGPU{{Module: 8}}}}}}
	w := newWorld(t, "a100", withDriver(simnvml.Card{Model: "a100-80gb", PCIAddress: near, Module: 3}, simnvml.Card{Model: "a100-80gb", PCIAddress: far, Module: 1}),
		func(w *world) { w.cfg.Fabric = f })
	says := func(what string, want ...nodewire.Partition) {
		t.Helper()
		w.inventory()
		if diff := cmp.Diff(want, w.b.Partitions()); diff != "" {
			t.Errorf("%s: %s", what, diff)
		}
	}
	all := []nodewire.Partition{{ID: 0, GPUs: []string{near, far}}, {ID: 4, GPUs: []string{near}}, {ID: 5, GPUs: []string{far}}}
	says("a partition with an unknown module is none", all...)
	w.prepare(vm("inst-a", 1, w.wholes(near)...))
	says("ours is not foreign, and its card keeps its module", all...)
	w.release("inst-a", 1)
	f.parts[0].Active = true // the single of far, by hand
	says("others have one", all[0], all[1], nodewire.Partition{ID: 5, GPUs: []string{far}, Foreign: true})
	f.parts[0].Active = false

	// Cards that changed places leave the partitions of the places.
	d := w.cfg.Driver.(boundDriver)
	one, two := w.mustGPU(near).UUID, w.mustGPU(far).UUID
	d.Change(near, func(c *host.DriverCard) { c.UUID = two })
	d.Change(far, func(c *host.DriverCard) { c.UUID = one })
	w.cfg.BootID = "boot-2"
	w.open()
	says("two changed places", all...)

	f.err = errors.New("connection refused")
	says("it does not answer", all...)
	for _, card := range []string{near, far} {
		if g := w.mustGPU(card); g.State != nodewire.GPUReady || !g.NotForVM || !strings.Contains(g.Reason, "connection refused") {
			t.Errorf("%+v", g)
		}
	}
	f.err = nil
	if g := w.mustGPU(near); g.NotForVM || g.Reason != "" {
		t.Errorf("it answers again: %+v", g)
	}
	// A degraded board lists fewer: what is in none is no VM's, and says so.
	f.parts = f.parts[2:3]
	says("degraded", all[1])
	if g := w.mustGPU(far); !g.NotForVM || !strings.Contains(g.Reason, "lists no partition with it") {
		t.Errorf("%+v", g)
	}
	if g := w.mustGPU(near); g.NotForVM {
		t.Errorf("%+v", g)
	}
	// One that failed stays where it was: it is not ready, and its partition known.
	w.b.Tell(host.Signal{Card: near, XID: 79, GI: -1})
	says("a card out of service", all[1])
	w.wants(near, nodewire.GPUUnhealthy, "XID 79")
}
