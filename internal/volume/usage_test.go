package volume

import (
	"context"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestUseIsWhatBtrfsSays: the kernel's own answer is that of the program that
// engineers ask, for each of several, and there is none for what is not there.
func TestUseIsWhatBtrfsSays(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s, p := newStore(t, 512)
	ids := []string{"vol_a", "vol_b", "vol_c"}
	for i, id := range ids {
		folder, err := s.Ensure(ctx, home(id, 64))
		if err != nil {
			t.Fatal(err)
		}
		if took := fill(t, filepath.Join(folder, "big"), 8*(i+1)); took != 8*(i+1) {
			t.Fatalf("%s took %d MiB", id, took)
		}
	}
	if _, err := tool(ctx, "btrfs", "filesystem", "sync", p.Path(volumes, "")); err != nil {
		t.Fatal(err)
	}
	for i, id := range ids {
		got, err := p.UsedBytes(ctx, volumes, id)
		if err != nil {
			t.Fatal(err)
		}
		out, err := tool(ctx, "btrfs", "qgroup", "show", "--raw", "-f", p.Path(volumes, id))
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSpace(out), "\n")
		want, err := strconv.ParseInt(strings.Fields(lines[len(lines)-1])[1], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		if got != want || got < int64(8*(i+1))<<20 {
			t.Errorf("%s holds %d bytes, btrfs says %d", id, got, want)
		}
	}
	if _, err := p.UsedBytes(ctx, volumes, "vol_none"); err == nil {
		t.Error("what is not there has a size")
	}
}
