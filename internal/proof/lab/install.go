package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tenon-cloud/tenon/api"
)

const nodeName = "lab"

// gateway is where QEMU's user network shows this machine to the host.
const gateway = "10.0.2.2"

// deliver makes the disk by which the operator of the host gets what is to be
// installed: the agent, its units, its settings, and the sample driver.
func (l *lab) deliver(ctx context.Context) error {
	token, err := l.cloud.Client.JoinTokenCreate(ctx, api.JoinTokenCreate{ExpiresInMinutes: 120})
	if err != nil {
		return fmt.Errorf("make join token: %w", err)
	}
	folder := filepath.Join(l.host.work, "delivery")
	if err := os.RemoveAll(folder); err != nil {
		return err
	}
	for _, d := range []string{"bin", "units", "etc"} {
		if err := os.MkdirAll(filepath.Join(folder, d), 0o700); err != nil {
			return err
		}
	}
	units, err := filepath.Glob(filepath.Join(l.units, "tenon-*.service"))
	if err != nil || len(units) == 0 {
		return fmt.Errorf("find units in %s: %v", l.units, err)
	}
	files := map[string]string{
		filepath.Join(l.programs, "tenon-agent"):               "bin/tenon-agent",
		filepath.Join(l.host.images, "mtty.ko"):                "mtty.ko",
		filepath.Join(l.cloud.State, "secrets", "node-ca.pem"): "etc/node-ca.pem",
	}
	for _, u := range units {
		if name := filepath.Base(u); name != "tenon-backup.service" {
			files[u] = "units/" + name
		}
	}
	for from, to := range files {
		raw, err := os.ReadFile(from)
		if err != nil {
			return fmt.Errorf("deliver %s: %w", to, err)
		}
		if err := os.WriteFile(filepath.Join(folder, to), raw, 0o755); err != nil {
			return err
		}
	}
	settings := strings.Join([]string{
		"TENON_AGENT_DOOR_URL=https://" + gateway + ":" + l.cloud.NodePorts[0],
		"TENON_AGENT_NAME=" + nodeName,
		"TENON_AGENT_JOIN_TOKEN_FILE=/etc/tenon/join-token",
		"TENON_AGENT_CA_FILE=/etc/tenon/node-ca.pem",
		"TENON_AGENT_BOARD=host",
		"TENON_AGENT_GPU_ALLOW=" + allow,
		"TENON_AGENT_DISK_POOL_MIB=12288",
		// KVM works here, but it is emulated too, and too slow for the 5 s that the
		// agent's own probe waits.
		"TENON_VIRT=kvm",
		"",
	}, "\n")
	err = errors.Join(
		os.WriteFile(filepath.Join(folder, "etc/agent.env"), []byte(settings), 0o600),
		os.WriteFile(filepath.Join(folder, "etc/join-token"), []byte(token.JoinToken+"\n"), 0o600),
		os.Remove(l.host.delivery()),
	)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	f, err := os.Create(l.host.delivery())
	if err != nil {
		return err
	}
	if err := errors.Join(f.Truncate(160<<20), f.Close()); err != nil {
		return err
	}
	return command("mke2fs", "-q", "-F", "-t", "ext2", "-d", folder, l.host.delivery())
}

// install does on the host what web/docs/nodes.md tells an operator to do.
func (l *lab) install(ctx context.Context) error {
	_, err := l.host.do(ctx, `set -e
mkdir -p /mnt/delivery
mount -o ro /dev/vdb /mnt/delivery
cd /mnt/delivery
install -m 755 bin/tenon-agent /usr/local/bin/tenon-agent
install -d -m 700 /etc/tenon
install -m 600 etc/* /etc/tenon/
install -m 644 units/*.service /etc/systemd/system/
install -D -m 644 mtty.ko "/lib/modules/$(uname -r)/extra/mtty.ko"
depmod
echo mtty >/etc/modules-load.d/mtty.conf
modprobe mtty
systemctl daemon-reload
systemctl enable --now tenon-containerd tenon-virtlogd tenon-libvirtd tenon-watchdog tenon-agent
cd /
umount /mnt/delivery`)
	return err
}

// node reads the host as the control plane knows it.
func (l *lab) node(ctx context.Context) (*api.Node, error) {
	return l.cloud.Client.NodeGet(ctx, nodeName)
}

// ready waits until the node reports and can run VMs.
func (l *lab) ready(ctx context.Context, within time.Duration) error {
	return until(ctx, within, func() error {
		n, err := l.node(ctx)
		switch {
		case err != nil:
			return err
		case n.State != "ready":
			return fmt.Errorf("the node is %s", n.State)
		case n.AckGeneration < n.Generation:
			return fmt.Errorf("the node holds assignment %d of %d", n.AckGeneration, n.Generation)
		case !strings.Contains(strings.Join(n.Kinds, " "), "vm"):
			return fmt.Errorf("the node runs %v, no VMs: %v", n.Kinds, n.Drivers)
		case len(n.GPUs) == 0:
			return errors.New("the node reports no GPUs")
		}
		return nil
	})
}
