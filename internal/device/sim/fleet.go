package sim

import (
	"encoding/json"
	"fmt"
)

// FleetMax is how many simulated nodes one process runs at most.
const FleetMax = 1000

// Machine is one server of the simulated fleet.
type Machine struct {
	Name      string // sim-h100-01
	Board     string // data file of its cards
	Modes     map[int]string
	Labels    map[string]string // rack, zone, machine
	VCPU      int
	MemoryMiB int64
}

// fleetFile is the mix of servers that is repeated as often as it takes.
type fleetFile struct {
	NodesPerRack int      `json:"nodes_per_rack"`
	RacksPerZone int      `json:"racks_per_zone"`
	Zones        []string `json:"zones"` // taken in turn
	Mix          []struct {
		Board string `json:"board"`
		Name  string `json:"name"`
		MIG   []int  `json:"mig"` // cards that are cut; the others are whole
	} `json:"mix"`
}

// Fleet lists the first n servers of the simulated fleet. A fleet of another
// size has the same servers as far as both go.
func Fleet(n int) ([]Machine, error) {
	if n < 0 || n > FleetMax {
		return nil, fmt.Errorf("simulate %d nodes: there can be 0 to %d", n, FleetMax)
	}
	raw, err := embedded.ReadFile("fleet.json")
	if err != nil {
		return nil, fmt.Errorf("read the simulated fleet: %w", err)
	}
	var f fleetFile
	if err := json.Unmarshal(raw, &f); err != nil {
		return nil, fmt.Errorf("read the simulated fleet: %w", err)
	}
	boards, out, kinds := map[string]boardFile{}, make([]Machine, 0, n), map[string]int{}
	for i := range n {
		kind := f.Mix[i%len(f.Mix)]
		b, known := boards[kind.Board]
		if !known {
			if b, err = loadBoard(nil, kind.Board); err != nil {
				return nil, err
			}
			boards[kind.Board] = b
		}
		kinds[kind.Name]++
		rack := i / f.NodesPerRack
		m := Machine{
			Name: fmt.Sprintf("sim-%s-%02d", kind.Name, kinds[kind.Name]), Board: kind.Board, Modes: map[int]string{},
			Labels: map[string]string{
				"rack": fmt.Sprintf("sim-r%02d", rack+1), "zone": f.Zones[rack/f.RacksPerZone%len(f.Zones)], "machine": b.Machine,
			},
			VCPU: b.VCPU, MemoryMiB: b.MemoryMiB,
		}
		for _, card := range kind.MIG {
			m.Modes[card] = "mig"
		}
		out = append(out, m)
	}
	return out, nil
}
