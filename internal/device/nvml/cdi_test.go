//go:build cgo && linux

package nvml

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tenon-cloud/tenon/internal/device/host"
)

func TestCDISaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, err := (CDI{Kind: "gpu"}).Write(t.Context(), dir); err == nil || !strings.Contains(err.Error(), "vendor/class") {
		t.Error(err)
	}
	if _, err := (CDI{Kind: "tenon.nvidia/gpu", Hook: filepath.Join(dir, "none")}).Write(t.Context(), dir); !errors.Is(err, host.ErrNoDriver) || !strings.Contains(err.Error(), "nvidia-container-toolkit-base") {
		t.Error(err)
	}
	hook := filepath.Join(dir, "nvidia-cdi-hook")
	if err := os.WriteFile(hook, []byte("#!/bin/sh\n"), 0o755); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	names, err := CDI{Kind: "tenon.nvidia/gpu", Hook: hook}.Write(t.Context(), dir)
	if d, open := Open(); errors.Is(open, host.ErrNoDriver) {
		if err == nil || names != nil {
			t.Errorf("there is no driver, and the names are %v (%v)", names, err)
		}
		if list, err := filepath.Glob(filepath.Join(dir, "*.json")); err != nil || len(list) > 0 {
			t.Errorf("a spec of nothing was written: %v, %v", list, err)
		}
		return
	} else if open == nil {
		_ = d.Close()
	}
	t.Logf("%v, %v", names, err)
}
