package network

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/containernetworking/cni/pkg/invoke"
	types100 "github.com/containernetworking/cni/pkg/types/100"
	"github.com/vishvananda/netlink"

	"github.com/tenon-cloud/tenon/internal/durable"
)

// A VM has no namespace of the host's: its place is a tap device on the bridge,
// with an address of the same pool, and pinned to it as a container's port is.

// AttachVM gives a VM a tap device and an address; it is idempotent. While the
// folder of its disk is there the address stays its own, even when it is detached.
func (n *Network) AttachVM(ctx context.Context, id, disk string) (Attachment, error) {
	if a, ok := n.LookupVM(id); ok {
		if _, held := n.reserved(id); held {
			return a, nil
		}
		return a, n.reserve(id, reservation{Address: a.Address, While: disk})
	}
	if err := n.DetachVM(ctx, id); err != nil { // what a crash left half made
		return Attachment{}, err
	}
	a := Attachment{ID: id, VM: true, Gateway: n.Gateway().String(), Port: n.TapName(id), MAC: n.vmMAC(id).String()}
	if err := n.plugVM(ctx, &a, disk); err != nil {
		return a, errors.Join(err, n.DetachVM(context.WithoutCancel(ctx), id))
	}
	return a, nil
}

func (n *Network) plugVM(ctx context.Context, a *Attachment, disk string) error {
	// Written first with no address: whatever a crash leaves is found by it.
	if err := n.writeAttachment(*a); err != nil {
		return err
	}
	address, err := n.lease(ctx, a.ID)
	if err != nil {
		return err
	}
	a.Address = address
	if err := n.reserve(a.ID, reservation{Address: address, While: disk}); err != nil {
		return err
	}
	bridge, err := netlink.LinkByName(n.bridge)
	if err != nil {
		return fmt.Errorf("find bridge %s: %w", n.bridge, err)
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = a.Port, bridge.Attrs().MTU
	if err := netlink.LinkAdd(&netlink.Tuntap{LinkAttrs: attrs, Mode: netlink.TUNTAP_MODE_TAP}); err != nil {
		return fmt.Errorf("make tap %s: %w", a.Port, err)
	}
	tap, err := netlink.LinkByName(a.Port)
	if err != nil {
		return fmt.Errorf("find tap %s: %w", a.Port, err)
	}
	_ = writeSysctl("ipv6/conf", a.Port, "disable_ipv6", "1")
	n.mu.Lock()
	err = n.allowPort(ctx, *a)
	n.mu.Unlock()
	if err != nil {
		return err
	}
	if err := netlink.LinkSetMaster(tap, bridge); err != nil {
		return fmt.Errorf("put tap %s on bridge %s: %w", a.Port, n.bridge, err)
	}
	if err := netlink.LinkSetIsolated(tap, true); err != nil {
		return fmt.Errorf("isolate port %s: %w", a.Port, err)
	}
	if err := netlink.LinkSetUp(tap); err != nil {
		return fmt.Errorf("set tap %s up: %w", a.Port, err)
	}
	return n.writeAttachment(*a)
}

// lease takes an address from the pool that containers use, or the one that is
// reserved.
func (n *Network) lease(ctx context.Context, id string) (string, error) {
	if err := n.settleReservations(); err != nil {
		return "", err
	}
	if r, ok := n.reserved(id); ok {
		return r.Address, nil
	}
	list, err := n.cniConfig()
	if err != nil {
		return "", err
	}
	exec := &invoke.DefaultExec{RawExec: &invoke.RawExec{Stderr: os.Stderr}}
	plugin, err := exec.FindInPath("host-local", n.cfg.CNIPluginDirs)
	if err != nil {
		return "", fmt.Errorf("find CNI plugin: %w", err)
	}
	// The pool goes by the network's name, which a plugin's own part lacks.
	var conf map[string]any
	if err := json.Unmarshal(list.Plugins[0].Bytes, &conf); err != nil {
		return "", fmt.Errorf("read CNI configuration: %w", err)
	}
	conf["cniVersion"], conf["name"] = list.CNIVersion, list.Name
	raw, err := json.Marshal(conf)
	if err != nil {
		return "", fmt.Errorf("write CNI configuration: %w", err)
	}
	args := &invoke.Args{Command: "ADD", ContainerID: id, NetNS: "-", IfName: guestInterface, Path: strings.Join(n.cfg.CNIPluginDirs, ":")}
	answer, err := invoke.ExecPluginWithResult(ctx, plugin, raw, args, exec)
	if err != nil {
		return "", fmt.Errorf("take an address: %w", err)
	}
	result, err := types100.NewResultFromResult(answer)
	if err != nil {
		return "", fmt.Errorf("read CNI result: %w", err)
	}
	if len(result.IPs) == 0 {
		return "", errors.New("take an address: the plugin gave none")
	}
	return result.IPs[0].Address.IP.String(), nil
}

// DetachVM takes back a VM's tap and address; it is idempotent. Its machine must
// have ended.
func (n *Network) DetachVM(ctx context.Context, id string) error {
	a, err := n.readAttachment(id)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		a = Attachment{} // torn: the names follow from the id
	}
	if a.ID != "" && !a.VM {
		return fmt.Errorf("detach %s: it is not a VM", id)
	}
	if err == nil && a.Address != "" {
		n.forgetPort(ctx, a)
	}
	if link, err := netlink.LinkByName(n.TapName(id)); err == nil {
		if err := ignoreGone(netlink.LinkDel(link)); err != nil {
			return fmt.Errorf("delete tap %s: %w", n.TapName(id), err)
		}
	}
	n.dropLease(id)
	n.dropPort(id)
	if err := os.RemoveAll(n.attachFile(id)); err != nil {
		return fmt.Errorf("forget attachment: %w", err)
	}
	return nil
}

// LookupVM finds a VM's attachment if it is whole.
func (n *Network) LookupVM(id string) (Attachment, bool) {
	a, err := n.readAttachment(id)
	if err != nil || !a.VM || a.Address == "" {
		return Attachment{}, false
	}
	if _, err := net.InterfaceByName(a.Port); err != nil {
		return Attachment{}, false
	}
	return a, true
}

// AttachedVMs lists the VMs that hold a tap or an address.
func (n *Network) AttachedVMs() []string {
	entries, _ := os.ReadDir(n.attachDir())
	containers := map[string]bool{} // a VM has no namespace
	for _, id := range n.Attached() {
		containers[id] = true
	}
	var ids []string
	for _, e := range entries {
		id, ok := strings.CutSuffix(e.Name(), ".json")
		if !ok || containers[id] {
			continue
		}
		if a, err := n.readAttachment(id); err == nil && a.VM {
			ids = append(ids, id)
		}
	}
	return ids
}

// MTU is what fits through the bridge.
func (n *Network) MTU() int {
	if link, err := netlink.LinkByName(n.bridge); err == nil {
		return link.Attrs().MTU
	}
	return 1500
}

// PrefixBits is the size of the guests' subnet.
func (n *Network) PrefixBits() int { return subnetBits }

func (n *Network) writeAttachment(a Attachment) error {
	encoded, err := json.Marshal(a)
	if err != nil {
		return fmt.Errorf("encode attachment: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(n.attachFile(a.ID)), 0o700); err != nil {
		return fmt.Errorf("make network folder: %w", err)
	}
	return durable.WriteFile(n.attachFile(a.ID), encoded, 0o600)
}

// tapName and vmMAC follow from the cloud's and the instance's id, so that a VM
// keeps them for life.
func (n *Network) TapName(id string) string {
	sum := sha256.Sum256([]byte(n.cfg.CloudID + "/" + id))
	return fmt.Sprintf("tv%x", sum[:6])
}

func (n *Network) vmMAC(id string) net.HardwareAddr {
	sum := sha256.Sum256([]byte(n.cfg.CloudID + "/" + id))
	return net.HardwareAddr{0x02, 0x76, sum[6], sum[7], sum[8], sum[9]}
}
