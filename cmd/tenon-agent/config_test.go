package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
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
