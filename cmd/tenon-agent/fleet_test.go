package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tenon-cloud/tenon/internal/nodewire"
)

func TestFleetConfig(t *testing.T) {
	t.Parallel()
	env := map[string]string{"TENON_AGENT_DOOR_URL": "https://door:1/", "TENON_AGENT_NODES": "40"}
	c, err := readFleetConfig(nil, func(k string) string { return env[k] })
	if err != nil || c.nodes != 40 || c.doorURL != "https://door:1" {
		t.Errorf("%+v, %v", c, err)
	}
	for args, want := range map[string]string{"-nodes=1001": "1 to 1000", "-nodes=0": "1 to 1000", "stray": "unexpected"} {
		if _, err := readFleetConfig([]string{args}, func(k string) string { return env[k] }); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", args, err)
		}
	}
	if _, err := readFleetConfig(nil, func(string) string { return "" }); err == nil || !strings.Contains(err.Error(), "door") {
		t.Errorf("no door: %v", err)
	}
}

func TestJoinTokensFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "tokens")
	if got, err := (fleetConfig{joinTokensFile: path}).joinTokens(); err != nil || len(got) != 0 {
		t.Errorf("no file: %v, %v", got, err)
	}
	if err := os.WriteFile(path, []byte("sim-h100-01 tenon_join_1\n\nsim-a30-01 tenon_join_2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := (fleetConfig{joinTokensFile: path}).joinTokens()
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(map[string]string{"sim-h100-01": "tenon_join_1", "sim-a30-01": "tenon_join_2"}, got); d != "" {
		t.Error(d)
	}
	if err := os.WriteFile(path, []byte("only-a-name\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := (fleetConfig{joinTokensFile: path}).joinTokens(); err == nil || !strings.Contains(err.Error(), "line 1") {
		t.Errorf("a damaged file: %v", err)
	}
}

func TestBookedVolumesOutliveTheProcess(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "volumes.json")
	open := func() *bookedVolumes {
		b, err := openBookedVolumes(path)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	b := open()
	for _, id := range []string{"vol_1", "vol_2"} {
		if _, err := b.Ensure(t.Context(), nodewire.Volume{ID: id, Role: "root", SizeMiB: 4096}); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Remove(t.Context(), "vol_1"); err != nil {
		t.Fatal(err)
	}
	list, err := open().List(t.Context())
	if err != nil || len(list) != 1 || list[0].ID != "vol_2" || list[0].SizeMiB != 4096 {
		t.Errorf("after a restart: %+v, %v", list, err)
	}
}
