package numa

import (
	"os"
	"path/filepath"
	"testing"
)

func TestANodeAsTheKernelTellsIt(t *testing.T) {
	t.Parallel()
	sys := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(sys, "devices/system/node", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if Several(sys) {
		t.Error("a host without nodes has several")
	}
	write("node0/cpulist", "0-15,32-47\n")
	write("node0/meminfo", "Node 0 MemTotal:  268435456 kB\nNode 0 MemFree:   134217728 kB\n")
	write("node1/cpulist", "\n")
	write("node1/meminfo", "Node 1 MemFree: 1024 kB\n")
	if n, err := Read(sys, 0); err != nil || n.CPUs != "0-15,32-47" || n.FreeMiB != 128<<10 {
		t.Errorf("%+v, %v", n, err)
	}
	for _, n := range []int{1, 2, -1} { // without CPUs, not there, unknown
		if got, err := Read(sys, n); err == nil {
			t.Errorf("node %d is %+v", n, got)
		}
	}
	if !Several(sys) {
		t.Error("two nodes are not several")
	}
	for list, want := range map[string]int{"": 0, "3": 1, "0-15,32-47": 32, "0,2,4-5": 4, "x,5-2,7": 1} {
		if got := Count(list); got != want {
			t.Errorf("%q has %d CPUs, want %d", list, got, want)
		}
	}
}
