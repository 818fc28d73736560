package main

import (
	"os"
	"path/filepath"
	"testing"
)

// TestTheHostLeavesOnlyWhenSystemdSaysSo: a restart of the agent must end no guest.
func TestTheHostLeavesOnlyWhenSystemdSaysSo(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	if hostLeaves() {
		t.Error("without systemd")
	}
	for says, want := range map[string]bool{"running": false, "degraded": false, "starting": false, "maintenance": false, "offline": false, "stopping": true} {
		script := "#!/bin/sh\n[ \"$*\" = is-system-running ] || exit 2\necho " + says + "\nexit 1\n"
		if err := os.WriteFile(filepath.Join(dir, "systemctl"), []byte(script), 0o700); err != nil { //nolint:gosec // a program
			t.Fatal(err)
		}
		if hostLeaves() != want {
			t.Errorf("%s: %v", says, !want)
		}
	}
}
