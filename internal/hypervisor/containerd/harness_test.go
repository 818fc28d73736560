package containerd

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/tenon-cloud/tenon/internal/hypervisor"
	"github.com/tenon-cloud/tenon/internal/hypervisor/hvtest"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

// TestMain lets the test binary be its own log writer, as the agent is.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == LogWriterCommand {
		if err := LogWriter(os.Args[2]); err != nil {
			log.Fatal(err)
		}
		return
	}
	os.Exit(m.Run())
}

// cloudUnderTest is a private containerd with a driver on it.
type cloudUnderTest struct {
	*Driver
	id       string
	state    string
	run      string
	cdi      string
	registry string
	daemon   *exec.Cmd
}

func needsContainerd(t *testing.T) {
	t.Helper()
	hvtest.Needs(t, "containers", "containerd", "runc", "nft", "dnsmasq", "mkfs.btrfs", "btrfs", "busybox")
}

func newCloud(t *testing.T, resolvers ...string) *cloudUnderTest {
	t.Helper()
	needsContainerd(t)
	c := &cloudUnderTest{}
	c.id, c.state, c.run = hvtest.Node(t, 0o700)
	c.cdi = filepath.Join(c.state, "cdi")
	err := os.Mkdir(c.cdi, 0o700)
	if err != nil {
		t.Fatal(err)
	}
	c.startDaemon(t)
	cfg := Config{CloudID: c.id, StateDir: c.state, RunDir: c.run, CDISpecDirs: []string{c.cdi}, Network: hvtest.Network(t, c.id, c.state, c.run, resolvers...),
		PoolMiB: 1024, Logger: slog.New(slog.DiscardHandler)}
	if c.Driver, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		c.killDaemon()
		if err := Purge(context.Background(), cfg); err != nil {
			t.Errorf("purge: %v", err)
		}
		for _, dir := range []string{c.state, c.run} {
			if left, _ := mountsBelow(dir); len(left) > 0 {
				t.Errorf("still mounted: %v", left)
				continue
			}
			os.RemoveAll(dir)
		}
	})
	return c
}

// reopen is what a restarted agent does.
func (c *cloudUnderTest) reopen(t *testing.T) {
	t.Helper()
	c.Close()
	cfg := c.cfg
	cfg.Network = hvtest.Network(t, c.id, c.state, c.run)
	var err error
	if c.Driver, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Check(context.Background()); err != nil {
		t.Fatal(err)
	}
}

func (c *cloudUnderTest) startDaemon(t *testing.T) {
	t.Helper()
	config := filepath.Join(c.state, "containerd.toml")
	if err := os.WriteFile(config, []byte(DaemonConfig(c.state, c.run)), 0o600); err != nil {
		t.Fatal(err)
	}
	logs, err := os.OpenFile(filepath.Join(c.state, "containerd.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer logs.Close()
	c.daemon = exec.Command("containerd", "--config", config)
	c.daemon.Stdout, c.daemon.Stderr = logs, logs
	if err := c.daemon.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, 20*time.Second, "containerd's socket", func() bool {
		_, err := os.Stat(SocketPath(c.run))
		return err == nil
	})
}

func (c *cloudUnderTest) killDaemon() {
	_ = c.daemon.Process.Signal(syscall.SIGKILL)
	_ = c.daemon.Wait()
	_ = os.Remove(SocketPath(c.run))
}

func eventually(t *testing.T, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	hvtest.Eventually(t, limit, what, func() error {
		if !ok() {
			return errors.New("not so yet")
		}
		return nil
	})
}

// entry is one file of a test image.
type entry struct {
	name, body, link string
	kind             byte
	mode             int64
	owner            int
}

func layer(t *testing.T, entries ...entry) v1.Layer {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, e := range entries {
		if e.kind == 0 {
			e.kind = tar.TypeReg
		}
		if e.mode == 0 {
			e.mode = 0o755
		}
		h := &tar.Header{Name: e.name, Typeflag: e.kind, Mode: e.mode, Size: int64(len(e.body)), Linkname: e.link, Uid: e.owner, Gid: e.owner}
		if e.kind == tar.TypeChar {
			h.Devmajor, h.Devminor = 4, 42
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, e.body); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(buf.Bytes())), nil })
	if err != nil {
		t.Fatal(err)
	}
	return l
}

var busyboxLayer = sync.OnceValue(func() []entry {
	path, err := exec.LookPath("busybox")
	if err != nil {
		return nil
	}
	body, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	entries := []entry{
		{name: "bin/", kind: tar.TypeDir}, {name: "etc/", kind: tar.TypeDir}, {name: "tmp/", kind: tar.TypeDir, mode: 0o1777}, {name: "root/", kind: tar.TypeDir},
		{name: "proc/", kind: tar.TypeDir}, {name: "dev/", kind: tar.TypeDir}, {name: "sys/", kind: tar.TypeDir},
		{name: "bin/busybox", body: string(body)},
		{name: "etc/passwd", body: "root:x:0:0:root:/root:/bin/sh\napp:x:1000:1000::/tmp:/bin/sh\n", mode: 0o644},
		{name: "etc/group", body: "root:x:0:\napp:x:1000:\n", mode: 0o644},
	}
	for _, applet := range []string{"sh", "cat", "echo", "ls", "id", "env", "dd", "df", "mknod", "sleep", "kill", "ps", "wget", "nc", "nslookup", "ping", "ip", "true", "false", "stty", "tail", "head", "yes", "touch", "stat", "hostname", "mkdir", "httpd", "grep", "seq", "wc", "trap", "printf", "setsid", "mount", "mv", "rm", "tr"} {
		entries = append(entries, entry{name: "bin/" + applet, kind: tar.TypeSymlink, link: "busybox"})
	}
	return entries
})

// push makes an image of busybox and more layers and serves it.
func (c *cloudUnderTest) push(t *testing.T, config v1.Config, more ...v1.Layer) nodewire.Image {
	t.Helper()
	if c.registry == "" {
		c.registry = hvtest.Registry(t)
	}
	img, err := mutate.AppendLayers(empty.Image, append([]v1.Layer{layer(t, busyboxLayer()...)}, more...)...)
	if err != nil {
		t.Fatal(err)
	}
	if img, err = mutate.ConfigFile(img, &v1.ConfigFile{Architecture: "amd64", OS: "linux", RootFS: must(img.ConfigFile()).RootFS, Config: config}); err != nil {
		t.Fatal(err)
	}
	ref, err := name.ParseReference(c.registry+"/test/busybox:latest", name.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(ref, img); err != nil {
		t.Fatal(err)
	}
	return nodewire.Image{Ref: c.registry + "/test/busybox", Digest: must(img.Digest()).String()}
}

// listenOnHost is a port that the host's own loopback serves.
func listenOnHost(t *testing.T) int {
	t.Helper()
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	return ln.Addr().(*net.TCPAddr).Port
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func spec(id string, img nodewire.Image, command ...string) hypervisor.Spec {
	return hypervisor.Spec{Instance: nodewire.Instance{
		ID: id, Epoch: 1, Generation: 1, OrgID: "org-1", Kind: "container", Name: "web-1", Desired: nodewire.DesiredRunning,
		Image: img, Command: command, VCPU: 1, MemoryMiB: 64, DiskMiB: 64, PidsMax: 64,
	}}
}

// start prepares and starts a guest.
func (c *cloudUnderTest) start(t *testing.T, s hypervisor.Spec) hypervisor.Guest {
	t.Helper()
	ctx := context.Background()
	if err := c.Prepare(ctx, s, nil); err != nil {
		t.Fatalf("prepare: %v", err)
	}
	g, err := c.Driver.Start(ctx, s)
	if err != nil {
		t.Fatalf("start: %v", err)
	}
	return g
}

// sh runs a shell script inside and returns what it printed and its exit code.
func (c *cloudUnderTest) sh(t *testing.T, id, script string) (string, int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var out lockedBuffer
	code, err := c.Exec(ctx, id, nodewire.ExecRequest{Command: []string{"sh", "-c", script}}, hypervisor.ExecIO{Stdout: &out, Stderr: &out})
	if err != nil {
		t.Fatalf("exec %q: %v\n%s", script, err, out.String())
	}
	return out.String(), code
}

type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func (c *cloudUnderTest) grant(t *testing.T, device string, minor int) string {
	t.Helper()
	body := fmt.Sprintf(`{"cdiVersion":"0.6.0","kind":"tenon.test/gpu","devices":[{"name":%q,"containerEdits":{"env":["GPU=%s"],"deviceNodes":[{"path":"/dev/tenon-gpu","hostPath":"/dev/tty%d","type":"c","major":4,"minor":%d}]}}]}`,
		device, device, minor, minor)
	if err := os.WriteFile(filepath.Join(c.cdi, "test-"+device+".json"), []byte(body), 0o600); err != nil {
		t.Fatal(err)
	}
	return "tenon.test/gpu=" + device
}
