package main

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/tenon-cloud/tenon/internal/agent"
	"github.com/tenon-cloud/tenon/internal/agent/watchdog"
	"github.com/tenon-cloud/tenon/internal/hypervisor"
	"github.com/tenon-cloud/tenon/internal/hypervisor/containerd"
	"github.com/tenon-cloud/tenon/internal/nodewire"
	"github.com/tenon-cloud/tenon/internal/tunnel"
	"github.com/tenon-cloud/tenon/internal/volume"
)

// TestMain lets the test binary be its own log writer, as the agent is.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == containerd.LogWriterCommand {
		if err := containerd.LogWriter(os.Args[2]); err != nil {
			log.Fatal(err)
		}
		return
	}
	os.Exit(m.Run())
}

// localDoor is a control plane on a plain loopback listener.
type localDoor struct {
	mu     sync.Mutex
	report nodewire.Report
	addr   chan string
}

func (d *localDoor) Report(_ context.Context, r nodewire.Report) (nodewire.ReportAnswer, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.report = r
	return nodewire.ReportAnswer{NextSeconds: 1}, nil
}

func (d *localDoor) Serve(ctx context.Context, h http.Handler) error {
	srv := httptest.NewServer(h)
	d.addr <- strings.TrimPrefix(srv.URL, "http://")
	<-ctx.Done()
	srv.CloseClientConnections()
	srv.Close()
	return nil
}

func (d *localDoor) state(id string) nodewire.InstanceReport {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, i := range d.report.Instances {
		if i.ID == id {
			return i
		}
	}
	return nodewire.InstanceReport{}
}

// testNode is an agent with a real containerd and a simulated board.
type testNode struct {
	cfg  config
	door *localDoor
	addr string
	stop func()
}

func startTestNode(t *testing.T, c config) *testNode {
	t.Helper()
	logger := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelInfo}))
	board, err := openBoard(t.Context(), c, "boot", logger)
	if err != nil {
		t.Fatal(err)
	}
	pool := diskPool(c)
	net, err := openNetwork(c, logger)
	if err != nil {
		t.Fatal(err)
	}
	driver, err := openContainerd(c, nil, pool, net, logger)
	if err != nil {
		t.Fatal(err)
	}
	host, err := agent.ReadHost(0, agent.ReserveMemoryMiB)
	if err != nil {
		t.Fatal(err)
	}
	dog, err := watchdog.NewKeeper(watchdogDir(c), host.BootID, watchdog.SinceBoot)
	if err != nil {
		t.Fatal(err)
	}
	n := &testNode{cfg: c, door: &localDoor{addr: make(chan string, 1)}}
	a, err := agent.New(agent.Config{
		NodeID: "node_1", CloudID: c.cloudID, Door: n.door, Drivers: []hypervisor.Driver{driver}, Board: board, Host: host, Log: logger,
		Store:   agent.FileStore(filepath.Join(c.stateDir, "ledger.json")),
		Volumes: volume.NewStore(pool), Watchdog: dog,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = a.Run(ctx); _ = driver.Close() }()
	n.stop = sync.OnceFunc(func() { cancel(); <-done })
	t.Cleanup(n.stop)
	n.addr = <-n.door.addr
	return n
}

func (n *testNode) assign(t *testing.T, generation int64, instances ...nodewire.Instance) {
	t.Helper()
	n.push(t, nodewire.Assignment{Version: nodewire.Version{Era: "e", Generation: generation}, Instances: instances})
}

func (n *testNode) push(t *testing.T, as nodewire.Assignment) {
	t.Helper()
	as.NodeID, as.CloudID = "node_1", n.cfg.cloudID
	raw, _ := json.Marshal(as)
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://"+n.addr+nodewire.PathAssignment, bytes.NewReader(raw))
	resp, err := http.DefaultClient.Do(req)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("PUT assignment: %v, %v", resp, err)
	}
	_ = resp.Body.Close()
}

func (n *testNode) await(t *testing.T, id, state string) nodewire.InstanceReport {
	t.Helper()
	eventually(t, id+" "+state, func() bool {
		r := n.door.state(id)
		if r.State == nodewire.GuestFailed && state != nodewire.GuestFailed {
			t.Fatalf("%s failed: %s: %s", id, r.Reason, r.Message)
		}
		return r.State == state
	}, func() string { return fmt.Sprintf("%+v", n.door.state(id)) })
	return n.door.state(id)
}

// sh runs a script inside through the agent's exec path.
func (n *testNode) sh(t *testing.T, id, script string) (string, int) {
	t.Helper()
	conn, err := net.Dial("tcp", n.addr)
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
	raw, _ := json.Marshal(nodewire.ExecRequest{Command: []string{"sh", "-c", script}})
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+n.addr+"/instances/"+id+"/exec", nil)
	req.Header.Set("Tenon-Exec", base64.StdEncoding.EncodeToString(raw))
	stream, err := tunnel.Upgrade(t.Context(), conn, req, nodewire.UpgradeExec)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stream.Close() }()
	var out strings.Builder
	for {
		kind, p, err := nodewire.ReadFrame(stream)
		if err != nil {
			t.Fatalf("%s: %v", script, err)
		}
		switch kind {
		case nodewire.FrameStdout, nodewire.FrameStderr:
			out.Write(p)
		case nodewire.FrameExit:
			return out.String(), int(int32(binary.BigEndian.Uint32(p)))
		case nodewire.FrameError:
			t.Fatalf("%s: %s", script, p)
		}
	}
}

func eventually(t *testing.T, what string, ok func() bool, detail func() string) {
	t.Helper()
	deadline := time.After(60 * time.Second)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("not within 60 s: %s; %s", what, detail())
		}
	}
}

// TestContainersWithSimulatedGPUs runs real containers through the agent: a
// slice is there and another's is not, the agent may die meanwhile, and in the
// end nothing is left.
func TestContainersWithSimulatedGPUs(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("not root: containers can't be made")
	}
	for _, program := range []string{"containerd", "runc", "nft", "dnsmasq", "mkfs.btrfs", "busybox"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("%s is not installed", program)
		}
	}
	c := startEngine(t)
	img := pushBusybox(t)
	n := startTestNode(t, c)

	board, err := openBoard(t.Context(), c, "boot", slog.Default())
	if err != nil {
		t.Fatal(err)
	}
	inv, _ := board.Inventory(t.Context())
	mig := inv.GPUs[1]
	inst := func(id string, start int) nodewire.Instance {
		return nodewire.Instance{
			ID: id, Epoch: 1, Generation: 1, OrgID: "org_1", Kind: "container", Name: strings.ReplaceAll(id, "_", "-"), Desired: nodewire.DesiredRunning,
			Image: img, Command: []string{"sh", "-c", "echo hello; exec sleep 1000"}, VCPU: 1, MemoryMiB: 64, DiskMiB: 64, PidsMax: 64, StopGraceSeconds: 1,
			Devices: []nodewire.Device{{GPUUUID: mig.UUID, Mode: "mig", Profile: "1g", SlotStart: start, SlotEnd: start + 1}},
		}
	}
	a, b := inst("inst_a", 0), inst("inst_b", 1)
	n.assign(t, 1, a, b)
	n.await(t, "inst_a", nodewire.GuestRunning)
	n.await(t, "inst_b", nodewire.GuestRunning)

	out, code := n.sh(t, "inst_a", `ls /dev | grep nvidia; env | grep TENON; sh -c ': < /dev/nvidia0' && echo opened`)
	for _, want := range []string{"nvidia0\n", "TENON_GPU_SIMULATED=true", "TENON_GPU_DEVICES=MIG-SIM-", "opened"} {
		if !strings.Contains(out, want) {
			t.Errorf("inside inst_a there is no %q (exit code %d):\n%s", want, code, out)
		}
	}
	capsA, _ := n.sh(t, "inst_a", "ls /dev/nvidia-caps")
	capsB, _ := n.sh(t, "inst_b", "ls /dev/nvidia-caps")
	if strings.Count(capsA+capsB, "nvidia-cap") != 2 || capsA == capsB {
		t.Errorf("inst_a sees %q and inst_b %q: each must see its own alone", capsA, capsB)
	}
	if _, code := n.sh(t, "inst_b", "exit 7"); code != 7 {
		t.Errorf("exit code %d, want 7", code)
	}

	// The agent dies; the containers don't notice.
	before, _ := n.sh(t, "inst_a", "cat /proc/1/stat")
	n.stop()
	n = startTestNode(t, c)
	if r := n.await(t, "inst_a", nodewire.GuestRunning); r.RanForSeconds < 1 && r.Address == "" {
		t.Errorf("after a restart: %+v", r)
	}
	if after, _ := n.sh(t, "inst_a", "cat /proc/1/stat"); strings.Fields(before)[21] != strings.Fields(after)[21] {
		t.Error("the container was started anew")
	}

	// A third one ends by itself; its image is here, so this is a warm start.
	d := inst("inst_d", 2)
	d.Command = []string{"sh", "-c", "echo last words; sleep 1; exit 3"}
	asked := time.Now()
	n.assign(t, 2, a, b, d)
	n.await(t, "inst_d", nodewire.GuestRunning)
	t.Logf("assignment to running report, image cached: %v", time.Since(asked).Round(time.Millisecond))
	if r := n.await(t, "inst_d", nodewire.GuestFailed); r.ExitCode == nil || *r.ExitCode != 3 || !strings.Contains(r.LastLines, "last words") {
		t.Errorf("inst_d: %+v", r)
	}

	b.Desired, b.Generation = nodewire.DesiredStopped, 2
	a.Desired, a.Generation = nodewire.DesiredGone, 2
	n.assign(t, 3, a, b)
	n.await(t, "inst_a", nodewire.GuestGone)
	if r := n.await(t, "inst_b", nodewire.GuestStopped); !strings.Contains(r.LastLines, "hello") {
		t.Errorf("last lines: %+v", r)
	}
	n.assign(t, 4)
	eventually(t, "nothing is left", func() bool {
		n.door.mu.Lock()
		defer n.door.mu.Unlock()
		return len(n.door.report.Instances) == 0 && len(n.door.report.Orphans) == 0 && n.door.report.Generation == 4
	}, func() string { return fmt.Sprintf("%+v", n.door.report) })
	if specs, _ := os.ReadDir(cdiDir(c)); len(specs) != 0 {
		t.Errorf("CDI specs left: %v", specs)
	}
}

// startEngine runs a private containerd until the test ends and purges after it.
func startEngine(t *testing.T) config {
	t.Helper()
	id := hex.EncodeToString(binary.BigEndian.AppendUint32(nil, rand.Uint32()))
	c := config{
		cloudID: id, board: "sim:local", poolMiB: 2048, stateDir: filepath.Join("/var/tmp", "tenon-test-"+id), runDir: filepath.Join("/run", "tenon-test-"+id),
	}
	c.engineDir = filepath.Join(c.stateDir, "containerd")
	for _, dir := range []string{c.engineDir, c.runDir} {
		if err := os.MkdirAll(dir, 0o711); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(c.stateDir, "containerd.toml")
	if err := os.WriteFile(file, []byte(containerd.DaemonConfig(c.engineDir, c.runDir)), 0o600); err != nil {
		t.Fatal(err)
	}
	daemon := exec.Command("containerd", "--config", file)
	daemon.Stderr, _ = os.Create(filepath.Join(c.stateDir, "containerd.log"))
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = daemon.Process.Signal(syscall.SIGKILL)
		_ = daemon.Wait()
		if err := purge(context.Background(), c); err != nil {
			t.Errorf("purge: %v", err)
			return
		}
		_ = os.RemoveAll(c.stateDir)
		_ = os.RemoveAll(c.runDir)
	})
	eventually(t, "containerd", func() bool {
		_, err := os.Stat(containerd.SocketPath(c.runDir))
		return err == nil
	}, func() string { return "its socket" })
	return c
}

// pushBusybox serves an image of the host's static busybox.
func pushBusybox(t *testing.T) nodewire.Image {
	t.Helper()
	path, err := exec.LookPath("busybox")
	if err != nil {
		t.Fatal(err)
	}
	body, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	put := func(h tar.Header, body string) {
		h.Size = int64(len(body))
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(w, body)
	}
	for _, dir := range []string{"bin/", "dev/", "proc/", "sys/", "tmp/", "etc/"} {
		put(tar.Header{Name: dir, Typeflag: tar.TypeDir, Mode: 0o755}, "")
	}
	put(tar.Header{Name: "bin/busybox", Typeflag: tar.TypeReg, Mode: 0o755}, string(body))
	for _, applet := range []string{"sh", "cat", "echo", "ls", "env", "sleep", "grep", "kill", "nc", "httpd"} {
		put(tar.Header{Name: "bin/" + applet, Typeflag: tar.TypeSymlink, Linkname: "busybox", Mode: 0o755}, "")
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(buf.Bytes())), nil })
	if err != nil {
		t.Fatal(err)
	}
	img, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		t.Fatal(err)
	}
	file, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	file.OS, file.Architecture = "linux", "amd64"
	file.Config = v1.Config{Env: []string{"PATH=/bin"}}
	if img, err = mutate.ConfigFile(img, file); err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(srv.Close)
	host := strings.TrimPrefix(srv.URL, "http://")
	ref, err := name.ParseReference(host+"/test/busybox:latest", name.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(ref, img); err != nil {
		t.Fatal(err)
	}
	digest, err := img.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return nodewire.Image{Ref: host + "/test/busybox", Digest: digest.String()}
}
