package sim

import (
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"strings"

	"github.com/tenon-cloud/tenon/internal/gpu"
)

//go:embed boards/*.json fleet.json
var embedded embed.FS

// boardFile is a simulated board as its data file describes it.
type boardFile struct {
	Description string     `json:"description"`
	Machine     string     `json:"machine"`    // whole servers only: what it is sold as
	VCPU        int        `json:"vcpu"`       // of such a server
	MemoryMiB   int64      `json:"memory_mib"` // of such a server, less what it keeps for itself
	NVSwitch    bool       `json:"nvswitch"`   // every card is joined to every other
	Fabric      string     `json:"fabric"`     // key of fabrics; empty: its cards go to VMs as they come
	GPUs        []cardFile `json:"gpus"`
}

type cardFile struct {
	Model      string  `json:"model"`       // key of gpu.Models
	PCIAddress string  `json:"pci_address"` // in a domain that no real machine has
	NUMANode   int     `json:"numa_node"`
	MemoryMiB  int64   `json:"memory_mib"`
	Mode       string  `json:"mode"`   // whole or mig, unless the configuration says otherwise
	NVLink     []int   `json:"nvlink"` // indexes of the cards joined to it
	IdleWatts  float64 `json:"idle_watts"`
	MaxWatts   float64 `json:"max_watts"`
	Module     int     `json:"module"` // place on the baseboard, by which a fabric names it
}

// Names lists the boards of a file system, or the built-in ones for nil.
func Names(boards fs.FS) ([]string, error) {
	if boards == nil {
		boards = embedded
	}
	files, err := fs.Glob(boards, "boards/*.json")
	if err != nil {
		return nil, err
	}
	for i, f := range files {
		files[i] = strings.TrimSuffix(strings.TrimPrefix(f, "boards/"), ".json")
	}
	return files, nil
}

func loadBoard(boards fs.FS, name string) (boardFile, error) {
	var b boardFile
	if boards == nil {
		boards = embedded
	}
	raw, err := fs.ReadFile(boards, "boards/"+name+".json")
	if err != nil {
		known, _ := Names(boards)
		return b, fmt.Errorf("load simulated board %q (there are: %s): %w", name, strings.Join(known, ", "), err)
	}
	dec := json.NewDecoder(strings.NewReader(string(raw)))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&b); err != nil {
		return b, fmt.Errorf("load simulated board %q: %w", name, err)
	}
	if _, err := b.partitions(); err != nil {
		return b, fmt.Errorf("load simulated board %q: %w", name, err)
	}
	for i, c := range b.GPUs {
		if _, err := gpu.ModelByKey(c.Model); err != nil {
			return b, fmt.Errorf("load simulated board %q, card %d: %w", name, i, err)
		}
		if c.Mode != "whole" && c.Mode != "mig" {
			return b, fmt.Errorf("load simulated board %q, card %d: mode %q is neither whole nor mig", name, i, c.Mode)
		}
		if b.NVSwitch {
			b.GPUs[i].NVLink = others(len(b.GPUs), i)
			continue
		}
		for _, peer := range c.NVLink {
			if peer < 0 || peer >= len(b.GPUs) || peer == i {
				return b, fmt.Errorf("load simulated board %q, card %d: NVLink to card %d, which is not there", name, i, peer)
			}
		}
	}
	return b, nil
}

func others(n, i int) []int {
	out := make([]int, 0, n-1)
	for j := range n {
		if j != i {
			out = append(out, j)
		}
	}
	return out
}
