package libvirt

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/tenon-cloud/tenon/internal/hypervisor"
	"github.com/tenon-cloud/tenon/internal/hypervisor/hvtest"
	"github.com/tenon-cloud/tenon/internal/imagebuild"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

const daemonEnv = "TENON_TEST_LIBVIRT_DAEMON"

// TestMain lets the test binary become a daemon, as the agent does.
func TestMain(m *testing.M) {
	if raw := os.Getenv(daemonEnv); raw != "" {
		var as struct{ Name, Cloud, State, Run string }
		if err := json.Unmarshal([]byte(raw), &as); err != nil {
			log.Fatal(err)
		}
		os.Unsetenv(daemonEnv)
		log.Fatal(RunDaemon(Config{CloudID: as.Cloud, StateDir: as.State, RunDir: as.Run}, as.Name))
	}
	os.Exit(m.Run())
}

// cloudUnderTest is a private libvirt with a driver on it.
type cloudUnderTest struct {
	*Driver
	id, state, run string
	daemons        map[string]*exec.Cmd
	registry       string
}

func needsLibvirt(t *testing.T) {
	t.Helper()
	hvtest.Needs(t, "virtual machines", "libvirtd", "virtlogd", "qemu-system-x86_64", "qemu-img", "genisoimage", "nft", "dnsmasq")
}

func newCloud(t *testing.T) *cloudUnderTest {
	t.Helper()
	needsLibvirt(t)
	id, state, run := hvtest.Node(t, 0o711)
	c := &cloudUnderTest{id: id, state: state, run: run, daemons: map[string]*exec.Cmd{}}
	t.Cleanup(func() {
		if c.Driver != nil {
			c.Close()
		}
		if err := Purge(context.Background(), c.config(t)); err != nil {
			t.Errorf("purge: %v", err)
		}
		if err := hvtest.Network(t, id, state, run).Down(context.Background()); err != nil {
			t.Errorf("take the network down: %v", err)
		}
		if left := Processes(id); len(left) > 0 {
			t.Errorf("machines are left: %v", left)
		}
		if left, _ := filepath.Glob("/sys/fs/cgroup/*/machine*/*tenon-" + id + "-*"); len(left) > 0 {
			t.Errorf("control groups are left: %v", left)
		}
		raw, _ := os.ReadFile("/proc/self/mountinfo")
		if strings.Contains(string(raw), id) {
			t.Errorf("mounts are left:\n%s", raw)
			return
		}
		_ = os.RemoveAll(c.state)
		_ = os.RemoveAll(c.run)
	})
	for _, name := range Daemons {
		c.startDaemon(t, name)
	}
	c.open(t)
	return c
}

func (c *cloudUnderTest) config(t *testing.T) Config {
	t.Helper()
	return Config{CloudID: c.id, StateDir: c.state, RunDir: c.run, Network: hvtest.Network(t, c.id, c.state, c.run), Logger: slog.New(slog.DiscardHandler)}
}

// open is what a started agent does.
func (c *cloudUnderTest) open(t *testing.T) {
	t.Helper()
	if c.Driver != nil {
		c.Close()
	}
	var err error
	if c.Driver, err = New(c.config(t)); err != nil {
		t.Fatal(err)
	}
	hvtest.Eventually(t, 20*time.Second, "libvirt answers", func() error {
		_, err := c.Check(t.Context())
		return err
	})
}

func (c *cloudUnderTest) startDaemon(t *testing.T, name string) {
	t.Helper()
	as, err := json.Marshal(map[string]string{"Name": name, "Cloud": c.id, "State": c.state, "Run": c.run})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), daemonEnv+"="+string(as))
	out, err := os.OpenFile(filepath.Join(c.state, name+".out"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c.daemons[name] = cmd
	go func() { _ = cmd.Wait() }()
	socket := map[string]string{"libvirtd": SocketPath(c.run), "virtlogd": LogSocketPath(c.run)}[name]
	hvtest.Eventually(t, 20*time.Second, name+" listens", func() error {
		conn, err := net.Dial("unix", socket)
		if err == nil {
			conn.Close()
		}
		return err
	})
}

// killDaemon is kill -9.
func (c *cloudUnderTest) killDaemon(t *testing.T, name string) {
	t.Helper()
	gone := watchProcess(c.daemons[name].Process.Pid)
	if err := c.daemons[name].Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-gone
}

// pushDisk offers a file as a VM image at a registry of the test's own.
func (c *cloudUnderTest) pushDisk(t *testing.T, path string) nodewire.Image {
	t.Helper()
	if c.registry == "" {
		c.registry = hvtest.Registry(t)
	}
	ref := c.registry + "/test/disk:latest"
	digest, err := imagebuild.PushDisk(t.Context(), path, nil, imagebuild.Options{Target: ref, Insecure: true})
	if err != nil {
		t.Fatal(err)
	}
	return nodewire.Image{Ref: ref, Digest: digest}
}

// emptyDisk is a small disk with nothing on it: a machine that stays in its BIOS.
func emptyDisk(t *testing.T, size string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "empty.qcow2")
	if err := tool(t.Context(), "qemu-img", "create", "-q", "-f", "qcow2", path, size); err != nil {
		t.Fatal(err)
	}
	return path
}

func (c *cloudUnderTest) spec(t *testing.T, id string, img nodewire.Image) hypervisor.Spec {
	t.Helper()
	dir := filepath.Join(c.state, "volumes", "vol_"+id)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return hypervisor.Spec{
		Instance: nodewire.Instance{
			ID: id, Epoch: 1, Generation: 1, OrgID: "org_1", Kind: "vm", Name: strings.ReplaceAll(id, "_", "-"), Desired: nodewire.DesiredRunning, Image: img,
			VCPU: 1, MemoryMiB: 512, DiskMiB: 4096, StopGraceSeconds: 30, Mounts: []nodewire.Mount{{VolumeID: "vol_" + id, Role: "root"}},
		},
		Folders: map[string]string{"vol_" + id: dir},
	}
}

// key is an SSH key pair.
func key(t *testing.T) (ssh.Signer, string) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	line, err := ssh.NewPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	return signer, strings.TrimSpace(string(ssh.MarshalAuthorizedKey(line)))
}

// login waits until the machine takes the key; user is the one that every image gets.
func (c *cloudUnderTest) login(t *testing.T, id string, signer ssh.Signer, limit time.Duration) *ssh.Client {
	t.Helper()
	var client *ssh.Client
	hvtest.Eventually(t, limit, "SSH into "+id, func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		conn, err := c.Dial(ctx, id, 22)
		if err != nil {
			return err
		}
		_ = conn.SetDeadline(time.Now().Add(60 * time.Second))
		raw, chans, reqs, err := ssh.NewClientConn(conn, id, &ssh.ClientConfig{
			User: vmUser, Auth: []ssh.AuthMethod{ssh.PublicKeys(signer)}, HostKeyCallback: ssh.InsecureIgnoreHostKey(),
		})
		if err != nil {
			conn.Close()
			return err
		}
		_ = conn.SetDeadline(time.Time{})
		client = ssh.NewClient(raw, chans, reqs)
		return nil
	})
	t.Cleanup(func() { client.Close() })
	return client
}

func shell(t *testing.T, client *ssh.Client, command string) string {
	t.Helper()
	s, err := client.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var said bytes.Buffer
	s.Stderr = &said
	out, err := s.Output(command)
	if err != nil {
		t.Fatalf("%s: %v: %s", command, err, said.String())
	}
	return string(out)
}

// waitState waits for what the driver says of a machine.
func (c *cloudUnderTest) waitState(t *testing.T, id string, want hypervisor.State, limit time.Duration) hypervisor.Guest {
	t.Helper()
	var g hypervisor.Guest
	hvtest.Eventually(t, limit, fmt.Sprintf("%s is %s", id, want), func() error {
		list, err := c.List(t.Context())
		if err != nil {
			return err
		}
		for _, one := range list {
			if one.ID == id {
				if g = one; one.State == want {
					return nil
				}
				return fmt.Errorf("it is %s", one.State)
			}
		}
		return errors.New("it is not there")
	})
	return g
}
