package network

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// watchInterval is how soon what others took away is put back: the forwarder, the
// bridge, the rules.
const watchInterval = time.Second

// watch looks at what is cheap to look at, and has all put right if it is not as
// it was left.
func (n *Network) watch(ctx context.Context) {
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	said := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if n.seemsRight() {
			said = ""
			continue
		}
		switch err := n.mend(ctx); {
		case ctx.Err() != nil:
			return
		case err == nil:
			said = ""
		case err.Error() != said:
			said = err.Error()
			n.log.Error("the guests' network is not right", "bridge", n.bridge, "error", err)
		}
	}
}

func (n *Network) mend(ctx context.Context) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return n.putRight(ctx)
}

func (n *Network) seemsRight() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	generation := rulesGeneration()
	return generation != 0 && generation == n.generation && n.standing != "" && (n.bridgeAnswers() || n.bridgeStands()) && n.dnsPID() != 0
}

// bridgeAnswers is bridgeStands by three questions to the kernel, since it is asked
// every second; a bridge whose own address is not its first is looked at in full.
func (n *Network) bridgeAnswers() bool {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer func() { _ = unix.Close(fd) }()
	ask := func(what uint) (*unix.Ifreq, error) {
		r, err := unix.NewIfreq(n.bridge)
		if err == nil {
			err = unix.IoctlIfreq(fd, what, r)
		}
		return r, err
	}
	flags, err := ask(unix.SIOCGIFFLAGS)
	if err != nil || flags.Uint16()&unix.IFF_UP == 0 || !n.plan.Subnet.IsValid() {
		return false
	}
	address, err := ask(unix.SIOCGIFADDR)
	if err != nil {
		return false
	}
	mask, err := ask(unix.SIOCGIFNETMASK)
	if err != nil {
		return false
	}
	at, aerr := address.Inet4Addr()
	of, merr := mask.Inet4Addr()
	ip, ok := netip.AddrFromSlice(at)
	ones, _ := net.IPMask(of).Size()
	if aerr != nil || merr != nil || !ok || ip != n.Gateway() || ones != subnetBits {
		return false
	}
	_, err = os.Stat(filepath.Join("/sys/class/net", n.bridge, "bridge"))
	return err == nil
}

// bridgeStands reports a bridge that is up and has its address.
func (n *Network) bridgeStands() bool {
	link, err := netlink.LinkByName(n.bridge)
	if err != nil || link.Type() != "bridge" || link.Attrs().Flags&net.FlagUp == 0 || !n.plan.Subnet.IsValid() {
		return false
	}
	addrs, err := netlink.AddrList(link, netlink.FAMILY_V4)
	if err != nil {
		return false
	}
	for _, a := range addrs {
		ip, ok := netip.AddrFromSlice(a.IP)
		if ones, _ := a.Mask.Size(); ok && ip.Unmap() == n.Gateway() && ones == subnetBits {
			return true
		}
	}
	return false
}

// putRight makes everything be as it must. What is right is not touched.
func (n *Network) putRight(ctx context.Context) error {
	if !n.bridgeStands() {
		if n.up {
			n.log.Error("the guests' bridge was gone or changed by somebody else; it is made anew", "bridge", n.bridge)
		}
		if err := n.ensureBridge(); err != nil {
			return err
		}
		if n.up { // it listens on an address that was away
			if err := n.stopDNS(); err != nil {
				return err
			}
		}
	}
	if err := n.enableForwarding(); err != nil {
		return err
	}
	// The rules before the ports: none is on the bridge without being held.
	if err := n.ensureFirewall(ctx); err != nil {
		return err
	}
	if err := n.ensurePorts(); err != nil {
		return err
	}
	return n.ensureDNS(ctx)
}

// allJoined reports that every guest's port is on the bridge, which is one look
// into a folder.
func (n *Network) allJoined() bool {
	entries, err := os.ReadDir(filepath.Join("/sys/class/net", n.bridge, "brif"))
	if err != nil {
		return false
	}
	joined := make(map[string]bool, len(entries))
	for _, e := range entries {
		joined[e.Name()] = true
	}
	for _, a := range n.pinned {
		if !joined[a.Port] {
			return false
		}
	}
	return true
}

// ensurePorts puts guests' ports back on the bridge, each apart from the others.
func (n *Network) ensurePorts() error {
	if n.allJoined() {
		return nil
	}
	bridge, err := netlink.LinkByName(n.bridge)
	if err != nil {
		return fmt.Errorf("find bridge %s: %w", n.bridge, err)
	}
	links, err := netlink.LinkList()
	if err != nil {
		return fmt.Errorf("list links: %w", err)
	}
	held, grouped := map[string]bool{}, map[string]bool{}
	for _, a := range n.pinned {
		held[a.Port], grouped[a.Port] = true, a.Group != ""
	}
	var errs []error
	for _, l := range links {
		if !held[l.Attrs().Name] || l.Attrs().MasterIndex == bridge.Attrs().Index {
			continue
		}
		err := netlink.LinkSetMaster(l, bridge)
		if err == nil {
			err = netlink.LinkSetIsolated(l, !grouped[l.Attrs().Name])
		}
		if err == nil {
			err = netlink.LinkSetUp(l)
		}
		if err = ignoreGone(err); err != nil {
			errs = append(errs, fmt.Errorf("put port %s on bridge %s: %w", l.Attrs().Name, n.bridge, err))
		}
	}
	return errors.Join(errs...)
}
