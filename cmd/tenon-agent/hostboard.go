package main

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"

	"github.com/tenon-cloud/tenon/internal/agent/watchdog"
	"github.com/tenon-cloud/tenon/internal/device/host"
	"github.com/tenon-cloud/tenon/internal/device/nvml"
	"github.com/tenon-cloud/tenon/internal/device/pci"
)

// gpuAllow is what an operator offers beside the cards of known vendors.
type gpuAllow struct {
	ids     []pci.ID
	parents []string
}

// parseAllow reads 1234:11e8,mdev:mtty: functions by vendor and device number, and
// parents of mediated devices that are no PCI functions by name.
func parseAllow(s string) (gpuAllow, error) {
	var out gpuAllow
	if s == "" {
		return out, nil
	}
	for item := range strings.SplitSeq(s, ",") {
		item = strings.TrimSpace(item)
		if name, ok := strings.CutPrefix(item, "mdev:"); ok && name != "" && !strings.ContainsAny(name, "/. ") {
			out.parents = append(out.parents, name)
			continue
		}
		id, err := pci.ParseID(strings.ToLower(item))
		if err != nil {
			return out, fmt.Errorf("GPUs to allow: %w", err)
		}
		out.ids = append(out.ids, id)
	}
	return out, nil
}

// openHostBoard finds the real cards. NVIDIA's library and Fabric Manager may each
// be missing: VMs get whole cards and vGPUs without them.
func openHostBoard(c config, bootID string, log *slog.Logger) (*host.Board, error) {
	sys, err := pci.OpenSys("/sys")
	if err != nil {
		return nil, err
	}
	cfg := host.Config{
		Sys: sys, Options: pci.Options{Allow: c.gpuAllow.ids}, Parents: c.gpuAllow.parents, StateDir: filepath.Join(c.stateDir, "board"), BootID: bootID,
		SinceBoot: watchdog.SinceBoot, Holders: host.ProcHolders("/proc"), Log: log,
	}
	cfg.CDI = nvml.CDI{Dir: cdiDir(c), Kind: "tenon.nvidia/gpu", Log: log}
	if cfg.Driver, err = nvml.Open(); err != nil { // until it answers, the cards that it has are unknown
		log.Info("containers get no GPUs here: NVIDIA's driver can't be asked", "why", err)
	}
	if fabric, err := host.FindFmpm(); err == nil {
		cfg.Fabric = fabric
	}
	b, err := host.Load(cfg) // the agent has it resumed
	if err != nil {
		return nil, fmt.Errorf("open the host's GPUs: %w", err)
	}
	return b, nil
}
