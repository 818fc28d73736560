package host

import (
	"fmt"

	"github.com/tenon-cloud/tenon/internal/nodewire"
)

const (
	fewestShares = 2
	mostShares   = 8
)

// Share is one of n equal parts of a card that several containers use in turn.
// Every container gets the card's own device nodes, and the driver's scheduler
// gives each a slice of time: nothing keeps one from the memory of the card, so
// shares are for projects that trust each other. NVIDIA's MPS would limit
// memory, but it serves one user id at a time, and the guests of a node have
// each their own; so the figures are told to the container, and not enforced.
type Share struct {
	Index     int // from 0
	Of        int
	MemoryMiB int64 // its part of what the card has
	Env       []string
}

// ShareOf is what a claim on a shared card comes to. Slots are shares here.
func ShareOf(c nodewire.GPU, shares int, d nodewire.Device) (Share, error) {
	switch {
	case shares < fewestShares || shares > mostShares:
		return Share{}, fmt.Errorf("share card %s: %d shares, not %d to %d", c.PCIAddress, shares, fewestShares, mostShares)
	case d.Mode != "shared" || d.Profile != "share":
		return Share{}, fmt.Errorf("share card %s: a %s of mode %s is no share", c.PCIAddress, d.Profile, d.Mode)
	case d.SlotStart < 0 || d.SlotStart >= shares || d.SlotEnd != d.SlotStart+1:
		return Share{}, fmt.Errorf("share card %s: no share at %d to %d, there are %d", c.PCIAddress, d.SlotStart, d.SlotEnd, shares)
	}
	s := Share{Index: d.SlotStart, Of: shares, MemoryMiB: c.MemoryMiB / int64(shares)}
	s.Env = []string{
		fmt.Sprintf("TENON_GPU_SHARES=%d", s.Of),
		fmt.Sprintf("TENON_GPU_SHARE_MEMORY_MIB=%d", s.MemoryMiB),
	}
	return s, nil
}

// SharesMayChange says why a card's number of shares, or its being shared, can't
// change now; empty: it can.
func SharesMayChange(held int, c DriverCard) string {
	switch {
	case held > 0:
		return fmt.Sprintf("%d of its shares are held; it changes once it is idle", held)
	case len(c.Processes) > 0:
		return fmt.Sprintf("it changes once nothing uses it: %s does", c.Processes[0])
	}
	return ""
}
