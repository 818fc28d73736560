package containerd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tenon-cloud/tenon/internal/hypervisor"
)

func TestCountersOfBothCgroupVersions(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	write := func(path, text string) {
		t.Helper()
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	read := func(path string, v2 bool) (hypervisor.Stats, error) {
		c, err := openCounters(root, path, v2)
		if err != nil {
			return hypervisor.Stats{}, err
		}
		defer c.close()
		return c.read()
	}
	want := hypervisor.Stats{CPUNanoseconds: 5_000_000, MemoryBytes: 900, Pids: 7}
	write("g/two/cpu.stat", "usage_usec 5000\nuser_usec 1\n")
	write("g/two/memory.current", "1000\n")
	write("g/two/memory.stat", "anon 3\ninactive_file 100\n")
	write("g/two/pids.current", "7\n")
	got, err := read("/g/two", true)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("v2: %v %s", err, diff)
	}
	write("cpuacct/g/one/cpuacct.usage", "5000000\n")
	write("memory/g/one/memory.usage_in_bytes", "1000\n")
	write("memory/g/one/memory.stat", "inactive_file 1\ntotal_inactive_file 100\n")
	write("pids/g/one/pids.current", "7\n")
	got, err = read("/g/one", false)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("v1: %v %s", err, diff)
	}
	if _, err := read("/g/none", true); !isNoGuest(err) {
		t.Errorf("an absent cgroup: %v", err)
	}
}

func TestIDRangesAreRememberedAndApart(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("not root: the host's ledger can't be written")
	}
	a, b := t.TempDir(), t.TempDir()
	t.Cleanup(func() { releaseBlocks("aaaa0001"); releaseBlocks("aaaa0002") })
	seen := map[uint32]string{}
	for i := range rangesInBlock + 2 { // past the first block
		for cloud, dir := range map[string]string{"aaaa0001": a, "aaaa0002": b} {
			org := strings.Repeat("o", i+1)
			got, err := newIDRanges(cloud, dir).forOrg(org)
			if err != nil {
				t.Fatal(err)
			}
			if other, taken := seen[got.Base]; taken {
				t.Fatalf("%s of %s got the range of %s", org, cloud, other)
			}
			seen[got.Base] = cloud + "/" + org
			if got.Base < blockBase || uint64(got.Base)+uint64(got.Size) > 1<<32-1 || got.Size != rangeSize {
				t.Fatalf("range %+v", got)
			}
			if again, err := newIDRanges(cloud, dir).forOrg(org); err != nil || again != got {
				t.Fatalf("%+v, then %+v, %v", got, again, err)
			}
		}
	}
}

func TestLastLines(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		text string
		n    int
		want string
	}{
		{"a\nb\nc\n", 2, "b\nc\n"}, {"a\nb\nc", 2, "b\nc"}, {"a\n", 5, "a\n"}, {"", 1, ""}, {"\n\n", 1, "\n"},
	} {
		if got := string(lastLines([]byte(tc.text), tc.n)); got != tc.want {
			t.Errorf("last %d lines of %q: %q", tc.n, tc.text, got)
		}
	}
}

func TestRotatedLogKeepsTheNewest(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w, err := newRotated(dir, 100)
	if err != nil {
		t.Fatal(err)
	}
	line := strings.Repeat("x", 29) + "\n"
	for range 50 {
		if _, err := w.Write([]byte(line)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Write([]byte("end\n")); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	current, kept, err := readLogs(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer current.Close()
	if len(kept) > 200 || len(kept) < 100 || !strings.HasSuffix(string(kept), line+"end\n") {
		t.Errorf("%d bytes are kept: %q", len(kept), kept)
	}
}

func TestMergeReplacesByName(t *testing.T) {
	t.Parallel()
	got := merge([]string{"A=1", "B=2", "AB=3"}, []string{"A=9", "C=4"})
	if diff := cmp.Diff([]string{"B=2", "AB=3", "A=9", "C=4"}, got); diff != "" {
		t.Error(diff)
	}
}
