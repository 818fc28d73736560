package devcloud

import (
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

func roots(t *testing.T) Roots {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "tn-") // t.TempDir's paths are too long for sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	r := rootsIn(dir)
	for _, dir := range []string{r.Run, r.Lib} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

func TestPartsThatCannotLiveInTheCheckoutGoElsewhereForGood(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("not root: no other user's view of a folder can be tried")
	}
	r := roots(t)
	// t.TempDir's parents are closed to others: a user postgres can't pass.
	closed := filepath.Join(t.TempDir(), "closed")
	if err := os.Mkdir(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	state := filepath.Join(closed, "var")
	l, err := openLayout(state, r, 65534)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := l.Folder(partPostgres), filepath.Join(r.Lib, l.ID, partPostgres); got != want {
		t.Errorf("Postgres lives in %s, want %s", got, want)
	}
	if id, err := readIdentity(filepath.Join(r.Lib, l.ID)); err != nil || id.State != state {
		t.Errorf("the far folder's marker says %+v (%v), want the state folder %s", id, err, state)
	}
	// Opening the door later must not make an empty database appear here.
	if err := os.Chmod(closed, 0o755); err != nil {
		t.Fatal(err)
	}
	again, err := openLayout(state, r, 65534)
	if err != nil || again.Folder(partPostgres) != l.Folder(partPostgres) {
		t.Errorf("the second run looks in %s (%v), the data is in %s", again.Folder(partPostgres), err, l.Folder(partPostgres))
	}
}

func TestACopyIsNotTheSameCloud(t *testing.T) {
	t.Parallel()
	r, dir := roots(t), t.TempDir()
	first := filepath.Join(dir, "one", "var")
	l, err := openLayout(first, r, os.Geteuid())
	if err != nil {
		t.Fatal(err)
	}
	second := filepath.Join(dir, "two", "var")
	if err := os.CopyFS(second, os.DirFS(first)); err != nil {
		t.Fatal(err)
	}
	if _, err := openLayout(second, r, os.Geteuid()); err == nil || !strings.Contains(err.Error(), "copy") {
		t.Errorf("a copy beside its original: %v, want a refusal", err)
	}
	if err := os.RemoveAll(filepath.Join(dir, "one")); err != nil {
		t.Fatal(err)
	}
	moved, err := openLayout(second, r, os.Geteuid())
	if err != nil || moved.ID != l.ID || moved.State != second {
		t.Errorf("a moved folder: %+v, %v; want the same id in its new place", moved.Identity, err)
	}
}

func TestPortsOfTwoCloudsDiffer(t *testing.T) {
	t.Parallel()
	r, dir := roots(t), t.TempDir()
	var clouds []Layout
	for _, name := range []string{"one", "two"} {
		l, err := openLayout(filepath.Join(dir, name), r, os.Geteuid())
		if err != nil {
			t.Fatal(err)
		}
		if err := l.choosePorts(r, false); err != nil {
			t.Fatal(err)
		}
		clouds = append(clouds, l)
	}
	if a, b := clouds[0], clouds[1]; a.ConsolePort == b.ConsolePort || a.NodePort == b.NodePort || a.NodePort == b.ConsolePort {
		t.Fatalf("ports %d, %d and %d, %d meet, although nobody listens yet", a.ConsolePort, a.NodePort, b.ConsolePort, b.NodePort)
	}
	again := clouds[0]
	if err := again.choosePorts(r, false); err != nil || again.ConsolePort != clouds[0].ConsolePort {
		t.Errorf("the next run has port %d (%v), was %d", again.ConsolePort, err, clouds[0].ConsolePort)
	}
	// A stranger on the remembered port is avoided; our own survivor is not.
	stranger, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(clouds[0].ConsolePort)))
	if err != nil {
		t.Skipf("port %d is in use by another: %v", clouds[0].ConsolePort, err)
	}
	defer func() { _ = stranger.Close() }()
	ours := clouds[0]
	if err := ours.choosePorts(r, true); err != nil || ours.ConsolePort != clouds[0].ConsolePort {
		t.Errorf("our own server's port was given up: %d, %v", ours.ConsolePort, err)
	}
	if err := again.choosePorts(r, false); err != nil || again.ConsolePort == clouds[0].ConsolePort {
		t.Errorf("port %d is a stranger's and was kept (%v)", again.ConsolePort, err)
	}
}

func TestADamagedIdentityIsNotReplaced(t *testing.T) {
	t.Parallel()
	r, state := roots(t), t.TempDir()
	if err := os.WriteFile(filepath.Join(state, identityFile), []byte(`{"id": "../../etc"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := openLayout(state, r, os.Geteuid()); err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("a damaged identity: %v", err)
	}
}

func TestRotationKeepsTheWriterAndThreeOldFiles(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "serve.log")
	writer, err := openLog(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = writer.Close() }()
	for _, text := range []string{"one\n", "two\n", "three\n", "four\n", "five\n"} {
		if _, err := writer.WriteString(text); err != nil {
			t.Fatal(err)
		}
		if err := rotate(path); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := writer.WriteString("now\n"); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"serve.log": "now\n", "serve.log.1": "five\n", "serve.log.2": "four\n", "serve.log.3": "three\n"} {
		got, err := os.ReadFile(filepath.Join(filepath.Dir(path), name))
		if err != nil || string(got) != want {
			t.Errorf("%s holds %q (%v), want %q", name, got, err, want)
		}
	}
	if exists(path + ".4") {
		t.Error("a fourth old file is kept")
	}
}

func TestPasswordsAreLongAndDiffer(t *testing.T) {
	t.Parallel()
	a, b := newPassword(), newPassword()
	if len(a) != 23 || a == b || strings.ContainsAny(a, "01io") {
		t.Errorf("passwords %q and %q", a, b)
	}
}
