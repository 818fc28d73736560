package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/tenon-cloud/tenon/internal/proof/target"
)

// byHand starts containers the way an engineer with a shell would.
type byHand struct {
	cloud  *target.Target
	spec   map[string]any // of the model, to be changed a little for each
	socket string
	lower  string // the image's layers
	disk   string // a btrfs of its own, for the size limit
	work   string
	bridge string
}

func newByHand(ctx context.Context, cloud *target.Target, model string) (*byHand, error) {
	socket, err := cloud.ContainerdSocket()
	if err != nil {
		return nil, err
	}
	h := &byHand{cloud: cloud, socket: socket, bridge: "th" + cloud.ID}
	if h.work, err = os.MkdirTemp("/run", "tenon-hand-"); err != nil {
		return nil, fmt.Errorf("make a folder: %w", err)
	}
	if err := os.Chmod(h.work, 0o711); err != nil { // a guest's root must pass through to its own
		return nil, err
	}
	text, err := cloud.Ctr(ctx, "containers", "info", model)
	if err != nil {
		return nil, err
	}
	var held struct{ Spec map[string]any }
	if err := json.Unmarshal(text, &held); err != nil || held.Spec == nil {
		return nil, fmt.Errorf("read the model's specification: %v", err)
	}
	h.spec = held.Spec
	if err := h.findLayers(ctx); err != nil {
		return nil, err
	}
	h.disk = filepath.Join(h.work, "disk")
	return h, sh(ctx, fmt.Sprintf(`set -e
mkdir -p %[1]s/disk && truncate -s 4G %[2]s && mkfs.btrfs -q %[2]s && mount -o loop %[2]s %[1]s/disk && btrfs quota enable %[1]s/disk`, h.work, h.image()))
}

// image is the file behind the size-limited folders: next to the cloud's own.
func (h *byHand) image() string { return filepath.Join(h.cloud.State, "hand.img") }

// findLayers asks containerd where the unpacked image lies.
func (h *byHand) findLayers(ctx context.Context) error {
	list, err := h.cloud.Ctr(ctx, "snapshots", "list")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(list)) {
		f := strings.Fields(line)
		if len(f) == 0 || f[len(f)-1] != "Committed" {
			continue
		}
		out, err := h.cloud.Ctr(ctx, "snapshots", "view", "--mounts", "hand-view-"+h.cloud.ID, f[0])
		_, _ = h.cloud.Ctr(ctx, "snapshots", "remove", "hand-view-"+h.cloud.ID)
		if err != nil {
			return err
		}
		for word := range strings.FieldsSeq(strings.ReplaceAll(string(out), ",", " ")) {
			word = strings.Trim(word, `"[]`)
			if layers, ok := strings.CutPrefix(word, "lowerdir="); ok {
				h.lower = layers
			} else if strings.HasSuffix(word, "/fs") {
				h.lower = word
			}
		}
		if h.lower != "" {
			return nil
		}
	}
	return fmt.Errorf("no unpacked image to start from")
}

// start makes one container, times it, and takes it away again.
func (h *byHand) start(ctx context.Context, id string) (time.Duration, error) {
	if err := h.writeSpec(id); err != nil {
		return 0, err
	}
	script := fmt.Sprintf(`set -e
btrfs subvolume create %[1]s/%[2]s >/dev/null
btrfs qgroup limit 1G %[1]s/%[2]s
mkdir -p %[1]s/%[2]s/upper/etc %[1]s/%[2]s/work %[3]s/%[2]s
touch %[1]s/%[2]s/upper/etc/hosts %[1]s/%[2]s/upper/etc/resolv.conf %[1]s/%[2]s/upper/etc/hostname
mount -t overlay overlay -o lowerdir=%[4]s,upperdir=%[1]s/%[2]s/upper,workdir=%[1]s/%[2]s/work %[3]s/%[2]s
ip netns add %[2]s
echo '{"cniVersion":"1.0.0","name":"hand","type":"bridge","bridge":"%[5]s","ipam":{"type":"host-local","dataDir":"%[3]s/leases","subnet":"10.213.77.0/24"}}' |
  CNI_COMMAND=ADD CNI_CONTAINERID=%[2]s CNI_NETNS=/run/netns/%[2]s CNI_IFNAME=eth0 CNI_PATH=/usr/lib/cni /usr/lib/cni/bridge >/dev/null
ctr -a %[6]s -n hand run -d --config %[3]s/%[2]s.json %[2]s`, h.disk, id, h.work, h.lower, h.bridge, h.socket)
	began := time.Now()
	err := sh(ctx, script)
	took := time.Since(began)
	undo := fmt.Sprintf(`ctr -a %[1]s -n hand task rm -f %[2]s; ctr -a %[1]s -n hand c rm %[2]s; ip netns del %[2]s; umount %[3]s/%[2]s; btrfs subvolume delete %[4]s/%[2]s`,
		h.socket, id, h.work, h.disk)
	undone := sh(context.WithoutCancel(ctx), undo)
	if err != nil {
		return 0, fmt.Errorf("by hand: %w", err)
	}
	return took, undone
}

// writeSpec is the model's specification with a root, a network and a cgroup of
// its own.
func (h *byHand) writeSpec(id string) error {
	text, err := json.Marshal(h.spec)
	if err != nil {
		return err
	}
	var spec map[string]any
	if err := json.Unmarshal(text, &spec); err != nil {
		return err
	}
	spec["hostname"] = id
	spec["process"].(map[string]any)["cwd"] = "/" // by hand nobody maps the layers' owners, so /root is closed
	spec["root"].(map[string]any)["path"] = filepath.Join(h.work, id)
	linux := spec["linux"].(map[string]any)
	linux["cgroupsPath"] = "/tenon-hand/" + id
	for _, n := range linux["namespaces"].([]any) {
		switch ns := n.(map[string]any); ns["type"] {
		case "network":
			ns["path"] = "/run/netns/" + id
		case "user":
			delete(ns, "path")
		}
	}
	// A namespace of `ip netns` belongs to the host, which forbids a sysfs of it.
	var mounts []any
	for _, m := range spec["mounts"].([]any) {
		if m.(map[string]any)["destination"] != "/sys" {
			mounts = append(mounts, m)
		}
	}
	spec["mounts"] = mounts
	if text, err = json.Marshal(spec); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(h.work, id+".json"), text, 0o600)
}

func (h *byHand) close() {
	_ = sh(context.Background(), fmt.Sprintf(`umount %[1]s/disk; rm -f %[2]s; ip link del %[3]s; rm -rf %[1]s`, h.work, h.image(), h.bridge))
}

func sh(ctx context.Context, script string) error {
	out, err := exec.CommandContext(ctx, "sh", "-c", script).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}
