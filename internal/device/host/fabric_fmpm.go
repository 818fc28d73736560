package host

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/tenon-cloud/tenon/internal/device/pci"
)

// fmpmTakes is how long Fabric Manager may take for one change.
const fmpmTakes = time.Minute

// Fmpm is a Fabric through fmpm, the command of NVIDIA's Fabric-Manager-Client:
// Fabric Manager's own library has no Go binding and is not there to build with.
// Only its list's form is public; it was never run against a real one here.
type Fmpm struct {
	run func(ctx context.Context, args ...string) ([]byte, error)
}

// FindFmpm looks for the command; ErrNoDriver when it is not installed.
func FindFmpm() (*Fmpm, error) {
	path, err := exec.LookPath("fmpm")
	if err != nil {
		return nil, fmt.Errorf("find fmpm (of NVIDIA's Fabric-Manager-Client): %w: %w", ErrNoDriver, err)
	}
	return &Fmpm{run: func(ctx context.Context, args ...string) ([]byte, error) {
		ctx, cancel := context.WithTimeout(ctx, fmpmTakes)
		defer cancel()
		out, err := exec.CommandContext(ctx, path, args...).Output()
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w: %s", err, bytes.TrimSpace(append(exit.Stderr, out...)))
		}
		return out, err
	}}, nil
}

// Partitions lists what Fabric Manager supports.
func (f *Fmpm) Partitions(ctx context.Context) ([]FabricPartition, error) {
	out, err := f.run(ctx, "-l")
	if err != nil {
		return nil, fmt.Errorf("run fmpm -l: %w", err)
	}
	return ParseFmpm(out)
}

// Activate joins a partition's cards.
func (f *Fmpm) Activate(ctx context.Context, id int) error {
	if _, err := f.run(ctx, "-a", strconv.Itoa(id)); err != nil {
		return fmt.Errorf("run fmpm -a %d: %w", id, err)
	}
	return nil
}

// Deactivate parts them.
func (f *Fmpm) Deactivate(ctx context.Context, id int) error {
	if _, err := f.run(ctx, "-d", strconv.Itoa(id)); err != nil {
		return fmt.Errorf("run fmpm -d %d: %w", id, err)
	}
	return nil
}

// ParseFmpm reads the list that fmpm -l prints.
func ParseFmpm(raw []byte) ([]FabricPartition, error) {
	var list struct {
		Info []struct {
			ID     *int `json:"partitionId"`
			Active int  `json:"isActive"`
			Number int  `json:"numGpus"`
			GPUs   []struct {
				Module int    `json:"physicalId"`
				UUID   string `json:"uuid"`
				PCI    string `json:"pciBusId"`
			} `json:"gpuInfo"`
		} `json:"partitionInfo"`
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, fmt.Errorf("read the list of fmpm: %w", err)
	}
	if list.Info == nil {
		return nil, errors.New("read the list of fmpm: it has no partitions, which is no answer")
	}
	out := []FabricPartition{}
	for _, p := range list.Info {
		if p.ID == nil || p.Number != len(p.GPUs) {
			return nil, fmt.Errorf("read the list of fmpm: partition %v says %d cards and lists %d", p.ID, p.Number, len(p.GPUs))
		}
		q := FabricPartition{ID: *p.ID, Active: p.Active != 0}
		for _, g := range p.GPUs {
			gpu := FabricGPU{Module: g.Module, UUID: g.UUID}
			if s := strings.TrimSpace(g.PCI); s != "" {
				a, err := pci.ParseAddress(s)
				if err != nil {
					return nil, fmt.Errorf("read the list of fmpm: partition %d: %w", q.ID, err)
				}
				gpu.PCIAddress = a.String()
			}
			q.GPUs = append(q.GPUs, gpu)
		}
		out = append(out, q)
	}
	return out, nil
}
