package host

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/tenon-cloud/tenon/internal/device"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

var _ device.Parted = (*Board)(nil)

// fabricTells is how long Fabric Manager may take to list its partitions: an
// inventory waits for it.
const fabricTells = 10 * time.Second

// Partitions implements device.Parted.
func (b *Board) Partitions() []nodewire.Partition {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.parts)
}

// readPartitions asks which sets of cards a VM can get, and takes from VMs what is
// in none. While Fabric Manager doesn't answer, what it said last stays known, and
// no VM gets its cards.
func (b *Board) readPartitions(ctx context.Context, list []nodewire.GPU) {
	cards := b.ledger.read().Cards
	if b.cfg.Fabric == nil || !slices.ContainsFunc(list, func(g nodewire.GPU) bool { return cards[g.PCIAddress].NVSwitch }) {
		return
	}
	within, cancel := context.WithTimeout(ctx, fabricTells)
	defer cancel()
	ours := b.ledger.Activated()
	listed, err := b.cfg.Fabric.Partitions(within)
	why := "Fabric Manager lists no partition with it"
	if err != nil {
		why = fmt.Sprintf("it hangs on NVSwitches, and Fabric Manager does not answer: %v", err)
		b.cfg.Log.Warn("list NVSwitch partitions", "error", err)
	}
	known := map[string]bool{}
	if err == nil {
		parts, _ := MapPartitions(listed, b.modules())
		ours = append(ours, b.ledger.Activated()...) // one may come or go between
		out := make([]nodewire.Partition, len(parts))
		for i, p := range parts {
			out[i] = nodewire.Partition{ID: p.ID, GPUs: p.Cards, Foreign: p.Active && !slices.Contains(ours, p.ID)}
			for _, c := range p.Cards {
				known[c] = true
			}
		}
		slices.SortFunc(out, func(x, y nodewire.Partition) int { return cmp.Compare(x.ID, y.ID) })
		b.mu.Lock()
		b.parts = out
		b.mu.Unlock()
	}
	for i := range list {
		g := &list[i]
		if g.Mode == "whole" && g.State == nodewire.GPUReady && !g.NotForVM && cards[g.PCIAddress].NVSwitch && !known[g.PCIAddress] {
			g.Reason, g.NotForVM = "not for virtual machines: "+why, true
		}
	}
}
