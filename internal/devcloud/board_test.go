package devcloud

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tenon-cloud/tenon/internal/device"
	"github.com/tenon-cloud/tenon/internal/device/sim"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

// The agent keeps its board's state where the check before the start looks for it.
func TestAnotherBoardIsRefusedWhileACardIsHeld(t *testing.T) {
	t.Parallel()
	s := &Supervisor{}
	s.State = t.TempDir()
	dir := filepath.Join(s.Folder(partNode), "sim")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	b, err := sim.Open(sim.Config{Board: "hgx-h100", CloudID: "test", StateDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	inv, err := b.Inventory(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.boardFits(Options{Board: "a30"}); err != nil {
		t.Errorf("nothing is held: %v", err)
	}
	if _, err := b.Prepare(t.Context(), device.Request{InstanceID: "inst_a", Epoch: 1, Kind: "container",
		Devices: []nodewire.Device{{GPUUUID: inv.GPUs[7].UUID, Mode: "whole", Profile: "whole", SlotEnd: 8}}}); err != nil {
		t.Fatal(err)
	}
	if err := s.boardFits(Options{}); err == nil || !strings.Contains(err.Error(), `--board: inst_a holds card`) {
		t.Errorf("the default board while a card of another is held: %v", err)
	}
	if err := s.boardFits(Options{Board: "hgx-h100"}); err != nil {
		t.Errorf("its own board: %v", err)
	}
}
