package network

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/containernetworking/cni/libcni"
	types100 "github.com/containernetworking/cni/pkg/types/100"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"github.com/tenon-cloud/tenon/internal/durable"
	"github.com/tenon-cloud/tenon/internal/kernelfile"
)

// Attachment is one guest's place on the bridge.
type Attachment struct {
	ID      string `json:"id"`
	NetNS   string `json:"netns"`  // pinned network namespace
	UserNS  string `json:"userns"` // pinned user namespace that owns it; empty when it is the host's
	Address string `json:"address"`
	Gateway string `json:"gateway"`
	MAC     string `json:"mac"`
	Port    string `json:"port"` // the host's end of the pair, or the VM's tap
	VM      bool   `json:"vm,omitempty"`
	Group   string `json:"group,omitempty"` // of guests that reach each other; empty: it reaches none
}

// guestInterface is what the guest sees.
const guestInterface = "eth0"

// Attach gives a guest namespaces of its own and an address; it is idempotent.
// The network namespace belongs to the guest's user namespace, since a service
// in it could not bind a low port otherwise.
func (n *Network) Attach(ctx context.Context, id string, ids IDRange) (Attachment, error) {
	return n.AttachIn(ctx, id, ids, "")
}

// AttachIn is Attach for a guest of a group, whose guests reach each other.
func (n *Network) AttachIn(ctx context.Context, id string, ids IDRange, group string) (Attachment, error) {
	if a, ok := n.Lookup(id); ok && a.Group == group {
		return a, nil
	}
	if err := n.Detach(ctx, id); err != nil { // what a crash left half made
		return Attachment{}, err
	}
	a := Attachment{ID: id, Gateway: n.Gateway().String(), Group: group}
	var err error
	if a.NetNS, a.UserNS, err = makeNamespaces(filepath.Join(n.nsDir(), id), ids); err != nil {
		return a, err
	}
	if err := n.plug(ctx, &a); err != nil {
		return a, errors.Join(err, n.Detach(context.WithoutCancel(ctx), id))
	}
	return a, nil
}

func (n *Network) plug(ctx context.Context, a *Attachment) error {
	if err := n.settleReservations(); err != nil {
		return err
	}
	list, err := n.cniConfig()
	if err != nil {
		return err
	}
	raw, err := n.cni().AddNetworkList(ctx, list, n.cniRuntime(a.ID, a.NetNS))
	if err != nil {
		return fmt.Errorf("attach to bridge %s: %w", n.bridge, err)
	}
	result, err := types100.NewResultFromResult(raw)
	if err != nil {
		return fmt.Errorf("read CNI result: %w", err)
	}
	for _, i := range result.Interfaces {
		switch {
		case i.Sandbox != "":
			a.MAC = i.Mac
		case i.Name != n.bridge:
			a.Port = i.Name
		}
	}
	if len(result.IPs) == 0 || a.Port == "" || a.MAC == "" {
		return fmt.Errorf("attach to bridge %s: the plugin gave no address", n.bridge)
	}
	a.Address = result.IPs[0].Address.IP.String()
	port, err := netlink.LinkByName(a.Port)
	if err != nil {
		return fmt.Errorf("find port %s: %w", a.Port, err)
	}
	if err := netlink.LinkSetIsolated(port, true); err != nil {
		return fmt.Errorf("isolate port %s: %w", a.Port, err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.allowPort(ctx, *a); err != nil {
		return err
	}
	if a.Group != "" { // from here on the rules alone keep it from others
		if err := netlink.LinkSetIsolated(port, false); err != nil {
			return fmt.Errorf("open port %s to its group: %w", a.Port, err)
		}
	}
	if err := loopbackUp(a.NetNS); err != nil {
		return err
	}
	encoded, err := json.Marshal(a)
	if err != nil {
		return fmt.Errorf("encode attachment: %w", err)
	}
	return durable.WriteFile(n.attachFile(a.ID), encoded, 0o600)
}

// Detach takes back a guest's address and namespaces; it is idempotent.
func (n *Network) Detach(ctx context.Context, id string) error {
	dir := filepath.Join(n.nsDir(), id)
	_, nerr := os.Stat(dir)
	_, aerr := os.Stat(n.attachFile(id))
	if errors.Is(nerr, fs.ErrNotExist) && errors.Is(aerr, fs.ErrNotExist) {
		n.forgetLease(id) // a reboot may have taken all but the address
		return nil
	}
	if a, err := n.readAttachment(id); err == nil && a.Group != "" {
		n.leaveGroup(ctx, a) // before its address can be another's
	}
	// The plugins give back the address; a missing cache entry or namespace is fine.
	if list, err := n.cniConfig(); err == nil && n.plan.Subnet.IsValid() {
		if err := n.cni().DelNetworkList(ctx, list, n.cniRuntime(id, filepath.Join(dir, "net"))); err != nil {
			n.log.Warn("give back address", "instance", id, "error", err)
			n.forgetLease(id)
		}
	}
	if a, err := n.readAttachment(id); err == nil {
		if link, err := netlink.LinkByName(a.Port); err == nil {
			if err := ignoreGone(netlink.LinkDel(link)); err != nil {
				return fmt.Errorf("delete port %s: %w", a.Port, err)
			}
		}
		n.forgetPort(ctx, a)
	}
	if err := removeNamespaces(dir); err != nil {
		return err
	}
	n.dropPort(id)
	return os.RemoveAll(n.attachFile(id))
}

// forgetLease drops the address files that host-local keeps for a guest.
func (n *Network) forgetLease(id string) {
	dir := filepath.Join(n.leaseDir(), n.cniNetwork())
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		raw, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err == nil && strings.HasPrefix(string(raw), id+"\r\n") {
			_ = os.Remove(filepath.Join(dir, e.Name()))
		}
	}
}

// Lookup finds a guest's attachment if it is whole.
func (n *Network) Lookup(id string) (Attachment, bool) {
	a, err := n.readAttachment(id)
	if err != nil || !isNamespace(a.NetNS) || (a.UserNS != "" && !isNamespace(a.UserNS)) {
		return Attachment{}, false
	}
	if _, err := net.InterfaceByName(a.Port); err != nil {
		return Attachment{}, false
	}
	return a, true
}

// portFiles are the counters of one guest's port, kept open: they are read every
// few seconds.
type portFiles struct{ sent, received *kernelfile.File }

// read turns a port round: what the host's end sends the guest receives.
func (p portFiles) read() (rxBytes, txBytes int64, err error) {
	rxBytes, rerr := p.sent.Int()
	txBytes, terr := p.received.Int()
	return rxBytes, txBytes, errors.Join(rerr, terr)
}

func (p portFiles) close() {
	p.sent.Close()
	p.received.Close()
}

// Counters are the bytes that a guest received and sent.
func (n *Network) Counters(id string) (rxBytes, txBytes int64, err error) {
	if kept, known := n.ports.Load(id); known {
		if rxBytes, txBytes, err = kept.(portFiles).read(); err == nil {
			return rxBytes, txBytes, nil
		}
		n.dropPort(id) // it has gone, or is another by now
	}
	a, err := n.readAttachment(id)
	if err != nil {
		return 0, 0, err
	}
	dir := filepath.Join("/sys/class/net", a.Port, "statistics")
	var p portFiles
	if p.sent, err = kernelfile.Open(filepath.Join(dir, "tx_bytes")); err == nil {
		p.received, err = kernelfile.Open(filepath.Join(dir, "rx_bytes"))
	}
	if err != nil {
		p.close()
		return 0, 0, fmt.Errorf("read counters of %s: %w", a.Port, err)
	}
	if other, loaded := n.ports.LoadOrStore(id, p); loaded {
		p.close()
		p = other.(portFiles)
	}
	return p.read()
}

func (n *Network) dropPort(id string) {
	if kept, ok := n.ports.LoadAndDelete(id); ok {
		kept.(portFiles).close()
	}
}

// Attached lists the ids that hold a namespace or an address.
func (n *Network) Attached() []string {
	entries, _ := os.ReadDir(n.nsDir())
	var ids []string
	for _, e := range entries {
		ids = append(ids, e.Name())
	}
	return ids
}

func (n *Network) attachFile(id string) string { return filepath.Join(n.attachDir(), id+".json") }

func (n *Network) readAttachment(id string) (Attachment, error) {
	var a Attachment
	raw, err := os.ReadFile(n.attachFile(id))
	if err != nil {
		return a, fmt.Errorf("read attachment: %w", err)
	}
	if err := json.Unmarshal(raw, &a); err != nil {
		return a, fmt.Errorf("read attachment: %w", err)
	}
	return a, nil
}

func (n *Network) cni() *libcni.CNIConfig {
	return libcni.NewCNIConfigWithCacheDir(n.cfg.CNIPluginDirs, n.cniCache(), nil)
}

func (n *Network) cniRuntime(id, netNS string) *libcni.RuntimeConf {
	return &libcni.RuntimeConf{ContainerID: id, NetNS: netNS, IfName: guestInterface}
}

func (n *Network) cniConfig() (*libcni.NetworkConfigList, error) {
	raw, err := json.Marshal(map[string]any{
		"cniVersion": "1.0.0", "name": n.cniNetwork(),
		"plugins": []any{map[string]any{
			// Not isGateway: the bridge has its address already, and the plugin would make
			// the whole host a router.
			"type": "bridge", "bridge": n.bridge, "isGateway": false, "ipMasq": false, "hairpinMode": false,
			"ipam": map[string]any{
				"type": "host-local", "dataDir": n.leaseDir(),
				"ranges": []any{[]any{map[string]any{"subnet": n.plan.Subnet.String(), "gateway": n.Gateway().String()}}},
				"routes": []any{map[string]any{"dst": "0.0.0.0/0"}},
			},
		}},
	})
	if err != nil {
		return nil, fmt.Errorf("write CNI configuration: %w", err)
	}
	list, err := libcni.ConfListFromBytes(raw)
	if err != nil {
		return nil, fmt.Errorf("read CNI configuration: %w", err)
	}
	return list, nil
}

func loopbackUp(netNS string) error {
	ns, err := netns.GetFromPath(netNS)
	if err != nil {
		return fmt.Errorf("open network namespace: %w", err)
	}
	defer ns.Close()
	h, err := netlink.NewHandleAt(ns)
	if err != nil {
		return fmt.Errorf("enter network namespace: %w", err)
	}
	defer h.Close()
	lo, err := h.LinkByName("lo")
	if err == nil {
		err = h.LinkSetUp(lo)
	}
	if err != nil {
		return fmt.Errorf("set loopback up: %w", err)
	}
	return nil
}
