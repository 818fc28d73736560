package network

import (
	"bytes"
	"errors"
	"fmt"
	"hash/fnv"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// subnetBits gives 1,021 guests a node.
const subnetBits = 22

// pools are searched in this order; a host with a route for all of 10/8 falls
// through to the next.
var pools = []netip.Prefix{
	netip.MustParsePrefix("10.64.0.0/10"),
	netip.MustParsePrefix("172.16.0.0/12"),
	netip.MustParsePrefix("192.168.0.0/16"),
	netip.MustParsePrefix("100.64.0.0/10"),
}

// lockHost serialises the choice of a subnet among the clouds of one host.
func lockHost() (func(), error) {
	f, err := os.OpenFile("/run/tenon-network.lock", os.O_CREATE|os.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open host network lock: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		f.Close()
		return nil, fmt.Errorf("lock host network: %w", err)
	}
	return func() { f.Close() }, nil
}

func (n *Network) ensureBridge() error {
	unlock, err := lockHost()
	if err != nil {
		return err
	}
	defer unlock()
	taken, own, err := n.takenPrefixes()
	if err != nil {
		return err
	}
	switch {
	case own.IsValid():
		n.plan.Subnet = own // the bridge is there: guests may hold its addresses
	case n.plan.Subnet.IsValid() && overlaps(n.plan.Subnet, taken) && len(n.pinned) > 0:
		// Guests that run can't be given other addresses.
		return fmt.Errorf("bridge %s is gone, and its subnet %s is routed elsewhere on this host by now, while %d guests hold addresses of it", n.bridge, n.plan.Subnet, len(n.pinned))
	case !n.plan.Subnet.IsValid() || overlaps(n.plan.Subnet, taken):
		if n.plan.Subnet, err = chooseSubnet(n.cfg.CloudID, taken); err != nil {
			return err
		}
		// Leases of another subnet mean nothing in this one.
		if err := os.RemoveAll(n.leaseDir()); err != nil {
			return fmt.Errorf("clear address leases: %w", err)
		}
		if err := os.MkdirAll(n.leaseDir(), 0o700); err != nil {
			return fmt.Errorf("make lease folder: %w", err)
		}
	}
	if err := n.savePlan(); err != nil {
		return err
	}
	link, err := netlink.LinkByName(n.bridge)
	if err != nil {
		attrs := netlink.NewLinkAttrs()
		attrs.Name = n.bridge
		if err := netlink.LinkAdd(&netlink.Bridge{LinkAttrs: attrs}); err != nil && !errors.Is(err, unix.EEXIST) {
			return fmt.Errorf("add bridge %s: %w", n.bridge, err)
		}
		if link, err = netlink.LinkByName(n.bridge); err != nil {
			return fmt.Errorf("find bridge %s: %w", n.bridge, err)
		}
	}
	if mac := bridgeMAC(n.cfg.CloudID); !bytes.Equal(link.Attrs().HardwareAddr, mac) {
		// Fix the address: a bridge otherwise takes its lowest port's and changes it.
		if err := netlink.LinkSetHardwareAddr(link, mac); err != nil {
			return fmt.Errorf("set address of bridge %s: %w", n.bridge, err)
		}
	}
	// Guests have IPv4 only; without this the bridge would answer on fe80::.
	_ = writeSysctl("ipv6/conf", n.bridge, "disable_ipv6", "1")
	addr := &netlink.Addr{IPNet: &net.IPNet{IP: n.Gateway().AsSlice(), Mask: net.CIDRMask(subnetBits, 32)}}
	if err := netlink.AddrReplace(link, addr); err != nil {
		return fmt.Errorf("give bridge %s its address: %w", n.bridge, err)
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return fmt.Errorf("set bridge %s up: %w", n.bridge, err)
	}
	return nil
}

// takenPrefixes lists what the host routes already, and our own bridge's subnet.
func (n *Network) takenPrefixes() (taken []netip.Prefix, own netip.Prefix, err error) {
	ownIndex := -1
	if link, err := netlink.LinkByName(n.bridge); err == nil {
		ownIndex = link.Attrs().Index
	}
	addrs, err := netlink.AddrList(nil, netlink.FAMILY_V4)
	if err != nil {
		return nil, own, fmt.Errorf("list addresses: %w", err)
	}
	for _, a := range addrs {
		p, ok := toPrefix(a.IPNet)
		if !ok {
			continue
		}
		if a.LinkIndex == ownIndex {
			if p == n.plan.Subnet || !own.IsValid() {
				own = p
			}
			continue
		}
		taken = append(taken, p)
	}
	routes, err := netlink.RouteList(nil, netlink.FAMILY_V4)
	if err != nil {
		return nil, own, fmt.Errorf("list routes: %w", err)
	}
	for _, r := range routes {
		p, ok := toPrefix(r.Dst)
		if ok && p.Bits() > 0 && r.LinkIndex != ownIndex {
			taken = append(taken, p)
		}
	}
	return taken, own, nil
}

func toPrefix(n *net.IPNet) (netip.Prefix, bool) {
	if n == nil {
		return netip.Prefix{}, false
	}
	addr, ok := netip.AddrFromSlice(n.IP)
	ones, _ := n.Mask.Size()
	return netip.PrefixFrom(addr.Unmap(), ones).Masked(), ok && addr.Unmap().Is4()
}

func overlaps(p netip.Prefix, taken []netip.Prefix) bool {
	for _, t := range taken {
		if p.Overlaps(t) {
			return true
		}
	}
	return false
}

// chooseSubnet starts at a place that the cloud's id decides, so that two hosts
// of one cloud and two clouds of one host rarely compete for the same.
func chooseSubnet(cloudID string, taken []netip.Prefix) (netip.Prefix, error) {
	h := fnv.New64a()
	h.Write([]byte(cloudID))
	for _, pool := range pools {
		count := uint64(1) << (subnetBits - pool.Bits())
		base := pool.Addr().As4()
		first := uint64(base[0])<<24 | uint64(base[1])<<16 | uint64(base[2])<<8
		for i := range count {
			at := first + ((h.Sum64()+i)%count)<<(32-subnetBits)
			p := netip.PrefixFrom(netip.AddrFrom4([4]byte{byte(at >> 24), byte(at >> 16), byte(at >> 8), byte(at)}), subnetBits)
			if !overlaps(p, taken) {
				return p, nil
			}
		}
	}
	return netip.Prefix{}, errors.New("choose subnet: every private range is routed by this host")
}

func bridgeMAC(cloudID string) net.HardwareAddr {
	h := fnv.New64a()
	h.Write([]byte(cloudID))
	s := h.Sum64()
	return net.HardwareAddr{0x02, 0x74, byte(s), byte(s >> 8), byte(s >> 16), byte(s >> 24)} // 02: locally administered
}

// forwardingMarks names the uplinks whose forwarding a Tenon cloud of this host
// switched on, so that the last cloud to go switches it off again.
const forwardingMarks = "/run/tenon-forwarding"

// enableForwarding lets packets pass between the bridge and the uplinks only.
// The host as a whole is not made a router: see the uplink rule of the firewall.
func (n *Network) enableForwarding() error {
	unlock, err := lockHost()
	if err != nil {
		return err
	}
	defer unlock()
	if err := writeSysctl("ipv4/conf", n.bridge, "forwarding", "1"); err != nil {
		return fmt.Errorf("enable forwarding on %s: %w", n.bridge, err)
	}
	if err := os.MkdirAll(forwardingMarks, 0o700); err != nil {
		return fmt.Errorf("mark forwarding: %w", err)
	}
	var marked []string
	for _, uplink := range uplinks() {
		mark := filepath.Join(forwardingMarks, uplink)
		if readSysctl("ipv4/conf", uplink, "forwarding") != "1" {
			if err := os.WriteFile(mark, nil, 0o600); err != nil {
				return fmt.Errorf("mark forwarding: %w", err)
			}
			if err := writeSysctl("ipv4/conf", uplink, "forwarding", "1"); err != nil {
				return fmt.Errorf("enable forwarding on %s: %w", uplink, err)
			}
		}
		if _, err := os.Stat(mark); err == nil {
			marked = append(marked, uplink)
		}
	}
	slices.Sort(marked)
	marked = slices.Compact(marked)
	if !slices.Equal(marked, n.uplinks) {
		n.uplinks, n.standing = marked, "" // the rules name them
	}
	return nil
}

func (n *Network) restoreForwarding() error {
	unlock, err := lockHost()
	if err != nil {
		return err
	}
	defer unlock()
	links, err := netlink.LinkList()
	if err != nil {
		return fmt.Errorf("list links: %w", err)
	}
	for _, l := range links {
		if strings.HasPrefix(l.Attrs().Name, bridgePrefix) && l.Type() == "bridge" && l.Attrs().Name != n.bridge {
			return nil // another cloud still needs it
		}
	}
	marks, _ := os.ReadDir(forwardingMarks)
	for _, m := range marks {
		_ = writeSysctl("ipv4/conf", m.Name(), "forwarding", "0") // the device may be gone
	}
	return os.RemoveAll(forwardingMarks)
}

// uplinks are the devices of the default routes.
func uplinks() []string {
	routes, err := netlink.RouteList(nil, netlink.FAMILY_V4)
	if err != nil {
		return nil
	}
	var names []string
	for _, r := range routes {
		if p, ok := toPrefix(r.Dst); r.Dst != nil && (!ok || p.Bits() > 0) {
			continue
		}
		if link, err := netlink.LinkByIndex(r.LinkIndex); err == nil {
			names = append(names, link.Attrs().Name)
		}
	}
	return names
}

func sysctlPath(tree, device, key string) string {
	return filepath.Join("/proc/sys/net", tree, device, key)
}

func writeSysctl(tree, device, key, value string) error {
	return os.WriteFile(sysctlPath(tree, device, key), []byte(value), 0o644)
}

func readSysctl(tree, device, key string) string {
	raw, _ := os.ReadFile(sysctlPath(tree, device, key))
	return strings.TrimSpace(string(raw))
}

// removePorts deletes the host's ends that still hang on the bridge.
func (n *Network) removePorts(bridge netlink.Link) error {
	links, err := netlink.LinkList()
	if err != nil {
		return fmt.Errorf("list links: %w", err)
	}
	var errs []error
	for _, l := range links {
		if l.Attrs().MasterIndex == bridge.Attrs().Index && (l.Type() == "veth" || l.Type() == "tuntap") {
			errs = append(errs, ignoreGone(netlink.LinkDel(l)))
		}
	}
	return errors.Join(errs...)
}

func ignoreGone(err error) error {
	var missing netlink.LinkNotFoundError
	if errors.Is(err, unix.ENODEV) || errors.As(err, &missing) {
		return nil
	}
	return err
}
