package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tenon-cloud/tenon/internal/agent/watchdog"
	"github.com/tenon-cloud/tenon/internal/nodewire"
	"github.com/tenon-cloud/tenon/internal/tunnel"
)

// port joins a port of an instance through the agent.
func (n *testNode) port(t *testing.T, id string, port int) (net.Conn, error) {
	t.Helper()
	conn, err := net.Dial("tcp", n.addr)
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, fmt.Sprintf("http://%s/instances/%s/ports/%d", n.addr, id, port), nil)
	return tunnel.Upgrade(t.Context(), conn, req, nodewire.UpgradePort)
}

func (n *testNode) volume(id string) nodewire.VolumeReport {
	n.door.mu.Lock()
	defer n.door.mu.Unlock()
	for _, v := range n.door.report.Volumes {
		if v.ID == id {
			return v
		}
	}
	return nodewire.VolumeReport{}
}

// TestANotebooksHomePortsAndActivity: a real container with a volume, a server on
// its loopback that plays a notebook's, and the lease that a watchdog would go by.
func TestANotebooksHomePortsAndActivity(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("not root: containers can't be made")
	}
	for _, program := range []string{"containerd", "runc", "nft", "dnsmasq", "mkfs.btrfs", "busybox"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("%s is not installed", program)
		}
	}
	c := startEngine(t)
	c.board = "none"
	n := startTestNode(t, c)
	const kernels = `[{"execution_state":"busy","last_activity":"2026-01-01T00:00:00Z"}]`
	nb := nodewire.Instance{
		ID: "inst_nb", Epoch: 1, Generation: 1, OrgID: "org_1", Kind: "notebook", Name: "nb", Desired: nodewire.DesiredRunning,
		Image: pushBusybox(t), VCPU: 1, MemoryMiB: 64, DiskMiB: 64, PidsMax: 64, StopGraceSeconds: 1, AppPort: 8888, StopAfterSeconds: 3600,
		Mounts: []nodewire.Mount{{VolumeID: "vol_1", Role: "home", Path: "/home/tenon"}},
		Command: []string{"sh", "-c", "w=/home/tenon/w; [ -d $w ] || { busybox mkdir -p $w/api; echo '" + kernels + "' >$w/api/kernels; echo '[]' >$w/api/terminals; }; " +
			"echo run >>/home/tenon/runs; httpd -p 127.0.0.1:8888 -h $w; exec sleep 1000"},
	}
	volumes := func(desired string) []nodewire.Volume {
		return []nodewire.Volume{{ID: "vol_1", OrgID: "org_1", Role: "home", SizeMiB: 64, Desired: desired}}
	}
	as := nodewire.Assignment{Version: nodewire.Version{Era: "e", Generation: 1}, Instances: []nodewire.Instance{nb}, Volumes: volumes(nodewire.VolumePresent)}
	n.push(t, as)
	n.await(t, nb.ID, nodewire.GuestRunning)
	if v := n.volume("vol_1"); v.State != nodewire.VolumePresent {
		t.Errorf("%+v", v)
	}

	var answer string
	eventually(t, "the server inside", func() bool {
		conn, err := n.port(t, nb.ID, 8888)
		if err != nil {
			return false
		}
		defer func() { _ = conn.Close() }()
		_, _ = io.WriteString(conn, "GET /api/kernels HTTP/1.0\r\n\r\n")
		raw, _ := io.ReadAll(conn)
		answer = string(raw)
		return true
	}, func() string { return "no stream" })
	if !strings.Contains(answer, "busy") {
		t.Errorf("through the port: %q", answer)
	}
	for id, want := range map[string]string{"inst_nb/ports/1": "502", "inst_nb/ports/70000": "400", "inst_other/ports/8888": "404", "inst_nb/console": "409"} {
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+n.addr+"/instances/"+id, nil)
		req.Header.Set("Connection", "Upgrade")
		req.Header.Set("Upgrade", nodewire.UpgradePort)
		resp, err := http.DefaultClient.Do(req)
		if err != nil || !strings.HasPrefix(resp.Status, want) {
			t.Errorf("%s: %v, %v; want %s", id, resp, err, want)
		}
	}
	eventually(t, "the kernel to be seen busy", func() bool {
		a := n.door.state(nb.ID).Activity
		return a != nil && a.BusyKernels == 1 && a.Kernels == 1 && a.Sessions == 0
	}, func() string { return fmt.Sprintf("%+v", n.door.state(nb.ID).Activity) })

	// The lease names the group that the container really is in.
	var lease watchdog.Lease
	raw, err := os.ReadFile(filepath.Join(watchdogDir(c), "lease.json"))
	if err == nil {
		err = json.Unmarshal(raw, &lease)
	}
	inside, _ := n.sh(t, nb.ID, "cat /proc/self/cgroup")
	if err != nil || len(lease.Guests) != 1 || lease.Guests[0].Cgroup != "/tenon-"+c.cloudID+"/inst_nb" || !leasedProcesses(lease.Guests[0].Cgroup) {
		t.Errorf("lease: %+v, %v; inside: %s", lease, err, inside)
	}

	nb.Desired, nb.Generation = nodewire.DesiredStopped, 2
	as.Generation, as.Instances = 2, []nodewire.Instance{nb}
	n.push(t, as)
	n.await(t, nb.ID, nodewire.GuestStopped)
	if _, err := n.port(t, nb.ID, 8888); err == nil || !strings.Contains(err.Error(), "409") {
		t.Errorf("a port of a stopped instance: %v", err)
	}
	nb.Desired, nb.Generation, nb.Epoch = nodewire.DesiredRunning, 3, 2
	as.Generation, as.Instances = 3, []nodewire.Instance{nb}
	n.push(t, as)
	n.await(t, nb.ID, nodewire.GuestRunning)
	eventually(t, "two runs in one home", func() bool {
		out, _ := n.sh(t, nb.ID, "cat /home/tenon/runs")
		return out == "run\nrun\n"
	}, func() string { return "" })

	nb.Desired, nb.Generation = nodewire.DesiredGone, 4
	n.push(t, nodewire.Assignment{Version: nodewire.Version{Era: "e", Generation: 4}, Instances: []nodewire.Instance{nb}, Volumes: volumes(nodewire.VolumeGone)})
	n.await(t, nb.ID, nodewire.GuestGone)
	eventually(t, "the volume to be gone", func() bool { return n.volume("vol_1").State == nodewire.VolumeGone }, func() string { return fmt.Sprintf("%+v", n.volume("vol_1")) })
	if left, _ := os.ReadDir(filepath.Join(c.engineDir, "disk", "pool", "volumes")); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

// leasedProcesses reports that somebody is in a control group.
func leasedProcesses(path string) bool {
	for _, root := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/pids"} {
		if raw, err := os.ReadFile(filepath.Join(root, path, "cgroup.procs")); err == nil && len(strings.Fields(string(raw))) > 0 {
			return true
		}
	}
	return false
}
