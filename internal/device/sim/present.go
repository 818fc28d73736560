package sim

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	specs "tags.cncf.io/container-device-interface/specs-go"

	"github.com/tenon-cloud/tenon/internal/durable"
)

// cdiKind is the vendor and class of every simulated device.
const cdiKind = "tenon.sim/gpu"

// present writes the CDI spec of one owner; idempotent.
func (b *Board) present(owner string, h hold) error {
	if b.cfg.CDIDir == "" {
		return nil
	}
	raw, err := json.MarshalIndent(b.spec(h), "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(b.cfg.CDIDir, 0o755); err != nil {
		return fmt.Errorf("make CDI folder: %w", err)
	}
	if err := durable.WriteFile(b.specPath(owner), raw, 0o644); err != nil {
		return fmt.Errorf("write CDI spec: %w", err)
	}
	return nil
}

// withdraw takes it away; idempotent.
func (b *Board) withdraw(owner string) error {
	if b.cfg.CDIDir == "" {
		return nil
	}
	if err := os.Remove(b.specPath(owner)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove CDI spec: %w", err)
	}
	return nil
}

// Fits reports whether a node whose state is in a folder can have a board: not while
// anything holds a card that the board has not. It changes nothing.
func Fits(stateDir, board string) error {
	if _, err := os.Stat(filepath.Join(stateDir, "state.json")); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	data, err := loadBoard(nil, board)
	if err != nil {
		return err
	}
	b := &Board{cfg: Config{Board: board, StateDir: stateDir}}
	if err := b.load(); err != nil {
		return err
	}
	for i, c := range data.GPUs {
		b.cards = append(b.cards, card{cardFile: c, uuid: b.cardUUID(i)})
	}
	return b.hasHeld()
}

// hasHeld reports whether the board has every card that is held.
func (b *Board) hasHeld() error {
	for owner, h := range b.state.Held {
		for _, d := range h.Devices {
			if b.card(d.GPUUUID) == nil {
				return fmt.Errorf("%s holds card %s, which board %q has not; start it with its earlier board", owner, d.GPUUUID, b.cfg.Board)
			}
		}
	}
	return nil
}

// restore presents what is held and removes this cloud's specs that nothing
// holds: a crash came between the two, or a reboot emptied the folder.
func (b *Board) restore() error {
	if err := b.hasHeld(); err != nil {
		return fmt.Errorf("open simulated board: %w", err)
	}
	for owner, h := range b.state.Held {
		if err := b.present(owner, h); err != nil {
			return fmt.Errorf("open simulated board: %w", err)
		}
	}
	if b.cfg.CDIDir == "" {
		return nil
	}
	files, err := filepath.Glob(b.specPath("*"))
	if err != nil {
		return err
	}
	for _, f := range files {
		prefix := strings.TrimSuffix(b.specPath(""), ".json")
		owner := strings.TrimSuffix(strings.TrimPrefix(f, prefix), ".json")
		if _, held := b.state.Held[owner]; !held {
			if err := os.Remove(f); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("open simulated board: %w", err)
			}
		}
	}
	return nil
}

func (b *Board) specPath(owner string) string {
	return filepath.Join(b.cfg.CDIDir, "tenon.sim-gpu-"+b.cfg.CloudID+"-"+owner+".json")
}

// spec describes one owner's devices to the container engine: the numbers are
// here, making the nodes is the engine's business. A slice has a number of its
// own and not its card's, so nothing is shared between tenants.
func (b *Board) spec(h hold) specs.Spec {
	spec := specs.Spec{Version: "0.6.0", Kind: cdiKind}
	var ids []string
	for i, d := range h.Devices {
		id := b.deviceUUID(*b.card(d.GPUUUID), d)
		ids = append(ids, id)
		paths := []string{fmt.Sprintf("/dev/nvidia%d", i)}
		if d.Mode == "mig" {
			paths = append(paths, fmt.Sprintf("/dev/nvidia-caps/nvidia-cap%d", h.Minors[i]))
		}
		dev := specs.Device{Name: id, Annotations: map[string]string{"tenon.sim/simulated": "true"}}
		for _, p := range paths {
			mode := os.FileMode(0o666)
			dev.ContainerEdits.DeviceNodes = append(dev.ContainerEdits.DeviceNodes, &specs.DeviceNode{
				Path: p, Type: "c", Major: major, Minor: int64(h.Minors[i]), FileMode: &mode, Permissions: "rw",
			})
		}
		spec.Devices = append(spec.Devices, dev)
	}
	spec.ContainerEdits.Env = []string{
		"TENON_GPU_DEVICES=" + strings.Join(ids, ","),
		"TENON_GPU_SIMULATED=true",
	}
	return spec
}
