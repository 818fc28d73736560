package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestABackupIsNotWrittenOverAnother(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tenon.tar")
	if err := os.WriteFile(path, []byte("the only good one"), 0o600); err != nil {
		t.Fatal(err)
	}
	backup := func(args ...string) string {
		cmd := backupCommand()
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		cmd.SetArgs(args)
		t.Setenv("TENON_DATABASE_URL", "") // it can't come further than its configuration
		if err := cmd.ExecuteContext(t.Context()); err != nil {
			return err.Error()
		}
		return ""
	}
	if got := backup(path); !strings.Contains(got, "--force") {
		t.Errorf("a file that is there: %q", got)
	}
	for _, args := range [][]string{{"--force", path}, {filepath.Join(t.TempDir(), "new.tar")}} {
		if got := backup(args...); !strings.Contains(got, "configuration") {
			t.Errorf("%q: %q, want it to go on to the configuration", args, got)
		}
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "the only good one" {
		t.Errorf("the file is %q (%v)", text, err)
	}
}
