package main

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tenon-cloud/tenon/internal/device/pci"
)

func TestConfig(t *testing.T) {
	t.Parallel()
	env := map[string]string{
		"TENON_AGENT_STATE_DIR": "/s", "TENON_AGENT_DOOR_URL": "https://door:1/", "TENON_AGENT_GPU_MODES": "0=whole, 2=mig",
		"TENON_AGENT_RESERVE_MEMORY_MIB": "2048",
	}
	get := func(k string) string { return env[k] }
	c, err := readConfig([]string{"-board", "sim:local", "-state-dir", "/t"}, get)
	if err != nil {
		t.Fatal(err)
	}
	if c.stateDir != "/t" || c.engineDir != "/t/containerd" || c.doorURL != "https://door:1" || c.reserveMiB != 2048 || c.board != "sim:local" {
		t.Errorf("%+v", c)
	}
	if d := cmp.Diff(map[int]string{0: "whole", 2: "mig"}, c.gpuModes); d != "" {
		t.Error(d)
	}
	env["TENON_AGENT_RESERVE_MEMORY_MIB"] = "much"
	if _, err := readConfig([]string{"-gpu-modes", "whole", "-log-format", "xml", "extra"}, get); err == nil ||
		!strings.Contains(err.Error(), "RESERVE") || !strings.Contains(err.Error(), "0=whole,1=mig") || !strings.Contains(err.Error(), "xml") || !strings.Contains(err.Error(), "extra") {
		t.Errorf("all mistakes at once: %v", err)
	}
}

func TestGPUsToAllow(t *testing.T) {
	t.Parallel()
	none := func(string) string { return "" }
	c, err := readConfig([]string{"-board", "host", "-gpu-allow", "1234:11E8, mdev:mtty", "-vm-hugepages", "true"}, none)
	want := gpuAllow{ids: []pci.ID{{Vendor: 0x1234, Device: 0x11e8}}, parents: []string{"mtty"}}
	if err != nil || !c.hugePages || cmp.Diff(want, c.gpuAllow, cmp.AllowUnexported(gpuAllow{})) != "" {
		t.Errorf("%+v, %v", c, err)
	}
	for _, bad := range []string{"1234", "mdev:", "mdev:../x", "1234:11e8,", "10de:20b5:1"} {
		if _, err := readConfig([]string{"-gpu-allow", bad}, none); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

// TestTheHostsOwnBoard opens on this machine, whatever it has.
func TestTheHostsOwnBoard(t *testing.T) {
	t.Parallel()
	b, err := openHostBoard(config{stateDir: t.TempDir(), runDir: t.TempDir()}, "boot", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	inv, err := b.Inventory(t.Context())
	t.Logf("this machine: %d cards, %d not offered, %v", len(inv.GPUs), len(b.Excluded()), err)
	if _, held := b.Held(t.Context()); err == nil && held != nil {
		t.Error(held)
	}
}

func TestOneAgentAStateFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	unlock, err := lockState(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lockState(dir); err == nil || !strings.Contains(err.Error(), "another agent") {
		t.Errorf("a second agent: %v", err)
	}
	unlock()
	if unlock, err = lockState(dir); err != nil {
		t.Fatal(err)
	}
	unlock()
}
