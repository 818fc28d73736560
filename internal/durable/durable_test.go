package durable

import (
	"os"
	"path/filepath"
	"testing"
)

func TestWriteFileReplacesTheWhole(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "plan.json")
	for _, content := range []string{"a long first text", "short", ""} {
		if err := WriteFile(path, []byte(content), 0o640); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(path)
		if err != nil || string(got) != content {
			t.Errorf("it reads %q, %v; want %q", got, err, content)
		}
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	// One that can't be replaced stays, and nothing is left beside it.
	if err := os.Mkdir(filepath.Join(dir, "folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := WriteFile(filepath.Join(dir, "folder"), []byte("x"), 0o600); err == nil {
		t.Error("a folder was replaced by a file")
	}
	if err := WriteFile(filepath.Join(dir, "none", "x"), nil, 0o600); err == nil {
		t.Error("a file was written where there is no folder")
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 2 {
		t.Errorf("left: %v, %v", left, err)
	}
}
