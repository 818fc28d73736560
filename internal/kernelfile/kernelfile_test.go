package kernelfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestReadsWhatFilesHold(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "stat")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f, err := Open(path + ".none")
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an absent file: %v", err)
	}
	if _, err := f.Int(); err == nil { // nobody need ask whether there is one
		t.Error("no file holds a number")
	}
	f.Close()
	write("")
	if f, err = Open(path); err != nil {
		t.Fatal(err)
	}
	write("inactive 7\ninactive_file 12\ntotal_inactive_file 13\nlast 14")
	for key, want := range map[string]int64{"inactive": 7, "inactive_file": 12, "total_inactive_file": 13, "last": 14, "inact": 0, "none": 0} {
		if got, err := f.Key(key); got != want || err != nil {
			t.Errorf("%s is %d, %v; want %d", key, got, err, want)
		}
	}
	write("9007199254740993\n")
	if got, err := f.Int(); got != 9007199254740993 || err != nil {
		t.Errorf("the number is %d, %v", got, err)
	}
	write("max\n")
	if got, err := f.Int(); err == nil {
		t.Errorf("no number was read as %d", got)
	}
	write(strings.Repeat("x", Most+1))
	if err := With(path, func(text []byte) {
		if len(text) != Most {
			t.Errorf("%d bytes were read, want %d", len(text), Most)
		}
	}); err != nil {
		t.Error(err)
	}
	// The kernel's own say no size.
	if err := With("/proc/self/cmdline", func(text []byte) {
		if len(text) == 0 {
			t.Error("this process has no command line")
		}
	}); err != nil {
		t.Error(err)
	}
	f.Close()
	f.Close()
	if _, err := f.Key("last"); err == nil {
		t.Error("a closed file was read")
	}
}
