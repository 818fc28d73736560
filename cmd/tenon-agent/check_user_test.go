package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/tenon-cloud/tenon/internal/hypervisor/libvirt"
	"github.com/tenon-cloud/tenon/internal/preflight"
)

// asUser has the test's own program check this machine as a user without rights; it
// names the state folder.
const asUser = "TENON_TEST_CHECK_AS_USER"

// TestCheckByAUserBlamesTheirRights: what only root may look at is said to be so, and
// is neither there nor missing.
func TestCheckByAUserBlamesTheirRights(t *testing.T) {
	if state := os.Getenv(asUser); state != "" {
		if err := check(t.Context(), []string{"-board", "host", "-state-dir", state, "-json"}, func(string) string { return "" }, os.Stdout); !errors.Is(err, errCheck) {
			t.Errorf("a user can be a node: %v", err)
		}
		return
	}
	dir := t.TempDir()
	hidden := filepath.Join(dir, "hidden")
	if err := os.Mkdir(hidden, 0o700); err != nil {
		t.Fatal(err)
	}
	me, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), me, "-test.run=^"+t.Name()+"$")
	if os.Geteuid() == 0 {
		cmd = exec.CommandContext(t.Context(), copied(t, me, dir), "-test.run=^"+t.Name()+"$")
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	} else if err := os.Chmod(hidden, 0); err != nil {
		t.Fatal(err)
	}
	cmd.Dir, cmd.Env = "/", []string{asUser + "=" + filepath.Join(hidden, "state"), "PATH=/usr/bin:/bin"} // a user's: no sbin
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var got struct{ Lines []preflight.Line }
	if err := json.NewDecoder(bytes.NewReader(out)).Decode(&got); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	lines := map[string]preflight.Line{}
	for _, l := range got.Lines {
		lines[l.Name] = l
	}
	if l := lines["rights"]; l.Level != preflight.Fail {
		t.Errorf("%+v", l)
	}
	denied := []string{"state folder", "disk room", "packet rules"}
	if _, there := lines["kvm"]; there && libvirt.HasKVM() {
		denied = append(denied, "kvm")
	}
	for _, name := range denied {
		if l := lines[name]; l.Level != preflight.Warn || !strings.Contains(l.Text, "only root can look") || !strings.Contains(l.Do, "as root") {
			t.Errorf("%s: %+v", name, l)
		}
	}
	// What root sees of the kernel's modules a user sees too.
	for name, is := range map[string]bool{"file systems": hasFileSystem("overlay") && hasFileSystem("btrfs"), "loop devices": exists("/dev/loop-control") || loadable("loop")} {
		if l := lines[name]; (l.Level == preflight.OK) != is {
			t.Errorf("%s: %+v", name, l)
		}
	}
}

// copied is a program where any user can run it.
func copied(t *testing.T, program, dir string) string {
	t.Helper()
	for _, d := range []string{filepath.Dir(dir), dir} {
		if err := os.Chmod(d, 0o755); err != nil { //nolint:gosec // the test's own folders
			t.Fatal(err)
		}
	}
	from, err := os.Open(program) //nolint:gosec // this program
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = from.Close() }()
	at := filepath.Join(dir, "program")
	to, err := os.OpenFile(at, os.O_CREATE|os.O_WRONLY, 0o755) //nolint:gosec // it is to be run by another
	if err != nil {
		t.Fatal(err)
	}
	if _, err = io.Copy(to, from); err != nil {
		t.Fatal(err)
	}
	if err := to.Close(); err != nil {
		t.Fatal(err)
	}
	return at
}
