// Package network gives each guest an address on this cloud's own bridge: NAT
// out, DNS, and no way to another guest but of its own group, to the host's
// services or to another cloud. Containers come in through a network namespace and CNI plugins.
//
// Everything it makes carries the cloud's id (bridge, nftables tables, CNI
// network, dnsmasq), so that several clouds share a host without meeting. It
// imports no package of Tenon.
package network

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"sync"

	"github.com/vishvananda/netlink"

	"github.com/tenon-cloud/tenon/internal/durable"
)

// Config says whose network this is and where it keeps things.
type Config struct {
	CloudID       string
	StateDir      string   // the remembered subnet and the address leases
	RunDir        string   // namespaces, attachments, dnsmasq's pid file
	CNIPluginDirs []string // default: /usr/lib/cni, /opt/cni/bin
	Resolvers     []string // DNS upstreams, "address" or "address#port"; default: the host's resolv.conf
	Logger        *slog.Logger
}

// Network is one cloud's bridge on this host.
type Network struct {
	cfg    Config
	bridge string
	log    *slog.Logger

	mu      sync.Mutex // Up, Down and the firewall's elements
	plan    plan
	uplinks []string // that only forward because of Tenon
	up      bool
	stop    context.CancelFunc // of the watch

	pinned     map[string]Attachment // whom the firewall holds to their addresses
	standing   string                // what the rules look like, without those; empty: not known
	generation uint32                // the kernel's, when the rules were last seen to stand
	closed     sync.WaitGroup

	ports sync.Map // portFiles by id of the guest
}

// plan is what is remembered between runs.
type plan struct {
	Subnet netip.Prefix `json:"subnet"`
}

// New reads what is remembered; it changes nothing on the host.
func New(cfg Config) (*Network, error) {
	if cfg.CloudID == "" || cfg.StateDir == "" || cfg.RunDir == "" {
		return nil, errors.New("network needs a cloud id, a state and a run folder")
	}
	if len(cfg.CNIPluginDirs) == 0 {
		cfg.CNIPluginDirs = []string{"/usr/lib/cni", "/opt/cni/bin"}
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	n := &Network{cfg: cfg, bridge: BridgeName(cfg.CloudID), log: cfg.Logger, pinned: map[string]Attachment{}}
	raw, err := os.ReadFile(n.planFile())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read network plan: %w", err)
	}
	if err == nil {
		// A damaged plan is chosen anew: it only remembers a preference.
		_ = json.Unmarshal(raw, &n.plan)
	}
	return n, nil
}

// BridgeName is the bridge of a cloud; interface names hold 15 bytes.
func BridgeName(cloudID string) string { return bridgePrefix + cloudID[:min(8, len(cloudID))] }

const bridgePrefix = "tn"

func (n *Network) planFile() string   { return filepath.Join(n.cfg.StateDir, "network.json") }
func (n *Network) leaseDir() string   { return filepath.Join(n.cfg.StateDir, "leases") }
func (n *Network) nsDir() string      { return filepath.Join(n.cfg.RunDir, "netns") }
func (n *Network) attachDir() string  { return filepath.Join(n.cfg.RunDir, "attached") }
func (n *Network) cniCache() string   { return filepath.Join(n.cfg.RunDir, "cni") }
func (n *Network) tableName() string  { return "tenon_" + n.cfg.CloudID }
func (n *Network) cniNetwork() string { return "tenon-" + n.cfg.CloudID }

// Subnet is the guests' subnet; it is valid once Up has been called.
func (n *Network) Subnet() netip.Prefix { return n.plan.Subnet }

// Gateway is the bridge's own address, which also answers DNS.
func (n *Network) Gateway() netip.Addr { return n.plan.Subnet.Masked().Addr().Next() }

// Up makes the bridge, the firewall and the DNS forwarder. It is level-triggered:
// called again, it compares what is there with what must be, adopts what an
// earlier run left, and puts right what somebody else took away.
func (n *Network) Up(ctx context.Context) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.up {
		return n.putRight(ctx)
	}
	for _, dir := range []string{n.cfg.StateDir, n.leaseDir(), n.cniCache(), n.attachDir(), n.nsDir()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("make network folder: %w", err)
		}
	}
	n.pinned = map[string]Attachment{}
	for _, id := range append(n.Attached(), n.AttachedVMs()...) {
		if a, err := n.readAttachment(id); err == nil && a.Address != "" {
			n.pinned[id] = a
		}
	}
	n.standing = "" // written anew, since this program may have other rules
	if err := n.putRight(ctx); err != nil {
		return err
	}
	n.holdReservations()
	watch, cancel := context.WithCancel(context.Background())
	n.stop = cancel
	n.closed.Go(func() { n.watch(watch) })
	n.up = true
	return nil
}

// Close stops watching; guests, bridge and DNS go on.
func (n *Network) Close() {
	n.mu.Lock()
	stop := n.stop
	n.stop, n.up = nil, false
	n.mu.Unlock()
	if stop != nil {
		stop()
	}
	n.closed.Wait()
}

// Down removes everything of this cloud from the host's network; the subnet and
// the addresses of disks that are there stay remembered. It works without Up and after a crash.
func (n *Network) Down(ctx context.Context) error {
	n.Close()
	errs := []error{n.stopDNS()}
	for _, id := range n.Attached() {
		errs = append(errs, n.Detach(ctx, id))
	}
	for _, id := range n.AttachedVMs() {
		errs = append(errs, n.DetachVM(ctx, id))
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if link, err := netlink.LinkByName(n.bridge); err == nil {
		errs = append(errs, n.removePorts(link))
		if err := netlink.LinkDel(link); err != nil {
			errs = append(errs, fmt.Errorf("delete bridge %s: %w", n.bridge, err))
		}
	}
	errs = append(errs, n.removeFirewall(ctx), n.restoreForwarding())
	for _, dir := range []string{n.cniCache(), n.attachDir(), n.nsDir(), n.leaseDir()} {
		errs = append(errs, os.RemoveAll(dir))
	}
	return errors.Join(errs...)
}

func (n *Network) savePlan() error {
	raw, err := json.Marshal(n.plan)
	if err != nil {
		return fmt.Errorf("encode network plan: %w", err)
	}
	return durable.WriteFile(n.planFile(), raw, 0o600)
}
