package sim

import (
	"fmt"
	"slices"

	"github.com/tenon-cloud/tenon/internal/device"
	"github.com/tenon-cloud/tenon/internal/gpu"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

var _ device.Parted = (*Board)(nil)

// fabrics are partitions by module, as Fabric Manager lists them for a baseboard
// when it shares NVSwitches among VMs; the id is the position. That of eight H100
// is NVIDIA's.
var fabrics = map[string][][]int{
	"hgx-8": {
		{1, 2, 3, 4, 5, 6, 7, 8}, {1, 2, 3, 4}, {5, 6, 7, 8}, {1, 3}, {2, 4}, {5, 7}, {6, 8},
		{1}, {2}, {3}, {4}, {5}, {6}, {7}, {8},
	},
}

// partitions finds the cards of the board's partitions.
func (b *boardFile) partitions() ([]nodewire.Partition, error) {
	if b.Fabric == "" {
		return nil, nil
	}
	sets, ok := fabrics[b.Fabric]
	if !ok {
		return nil, fmt.Errorf("no fabric is called %q", b.Fabric)
	}
	out := make([]nodewire.Partition, len(sets))
	for id, modules := range sets {
		out[id].ID = id
		for _, m := range modules {
			i := slices.IndexFunc(b.GPUs, func(c cardFile) bool { return c.Module == m })
			if i < 0 {
				return nil, fmt.Errorf("no card is module %d of its fabric", m)
			}
			out[id].GPUs = append(out[id].GPUs, b.GPUs[i].PCIAddress)
		}
		slices.Sort(out[id].GPUs)
	}
	return out, nil
}

// Partitions implements device.Parted.
func (b *Board) Partitions() []nodewire.Partition { return slices.Clone(b.parts) }

// together refuses whole cards for a VM that are no partition of the board.
func (b *Board) together(devices []nodewire.Device) error {
	var cards []string
	for _, d := range devices {
		if d.Profile == gpu.Whole {
			cards = append(cards, b.card(d.GPUUUID).PCIAddress)
		}
	}
	slices.Sort(cards)
	if len(b.parts) == 0 || len(cards) == 0 || slices.ContainsFunc(b.parts, func(p nodewire.Partition) bool { return slices.Equal(p.GPUs, cards) }) {
		return nil
	}
	return fmt.Errorf("no partition of exactly these %d cards (simulated)", len(cards))
}
