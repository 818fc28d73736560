package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tenon-cloud/tenon/api"
)

// bootTakes is how long a machine inside an emulated host may take to say all.
const bootTakes = 8 * time.Minute

// startTakes is how long one may take to start, and to end with its cards cleaned.
const startTakes = 5 * time.Minute

// inventory compares what the control plane knows with what the kernel shows.
func (l *lab) inventory(ctx context.Context) error {
	all, err := l.functions(ctx)
	if err == nil {
		l.addresses, err = find(all)
	}
	if err == nil {
		l.original, err = l.drivers(ctx)
	}
	if err != nil {
		return l.ok(ctx, "the kernel shows the devices", func(context.Context) (string, error) { return "", err })
	}
	first, second, noway, shared := l.addresses[portFirst], l.addresses[portSecond], l.addresses[portNoWay], l.addresses[portShared]
	err = l.ok(ctx, "two cards are offered whole, each on its NUMA node", func(ctx context.Context) (string, error) {
		for i, address := range []string{first, second} {
			g, err := l.cardIs(ctx, address, "ready", 30*time.Second)
			switch {
			case err != nil:
				return "", err
			case g.Model != eduModel || !slices.Equal(g.Modes, []string{"whole"}) || g.Mode != "whole" || g.NUMANode != i || len(g.Companions)+len(g.Bundle) > 0:
				return "", fmt.Errorf("card %s: model %s, modes %v, mode %s, NUMA node %d, companions %v, bundle %v", address, g.Model, g.Modes, g.Mode, g.NUMANode, g.Companions, g.Bundle)
			}
		}
		return first + " and " + second, nil
	})
	_ = l.ok(ctx, "a card with a companion is offered with it", func(ctx context.Context) (string, error) {
		g, err := l.cardIs(ctx, noway, "ready", 30*time.Second)
		if err != nil {
			return "", err
		}
		if !slices.Equal(g.Companions, []string{sibling(noway)}) || l.original[sibling(noway)] != hdaDriver {
			return "", fmt.Errorf("card %s has companions %v; %s has driver %q", noway, g.Companions, sibling(noway), l.original[sibling(noway)])
		}
		return fmt.Sprintf("%s with %s, which %s has", noway, sibling(noway), hdaDriver), nil
	})
	_ = l.ok(ctx, "a card that shares its group with a network card is not offered, and says why", func(ctx context.Context) (string, error) {
		n, err := l.node(ctx)
		if err != nil {
			return "", err
		}
		if i := slices.IndexFunc(n.GPUs, func(g api.GPU) bool { return g.PCIAddress == shared }); i >= 0 {
			return "", fmt.Errorf("card %s is listed as %s, modes %v", shared, n.GPUs[i].State, n.GPUs[i].Modes)
		}
		i := slices.IndexFunc(n.Excluded, func(e api.ExcludedDevice) bool { return e.PCIAddress == shared })
		if i < 0 {
			return "", fmt.Errorf("%s is not among the excluded: %v", shared, n.Excluded)
		}
		reason := n.Excluded[i].Reason
		if !strings.Contains(reason, sibling(shared)) || !strings.Contains(reason, "group "+all[shared].group) {
			return "", fmt.Errorf("the reason names neither the other function nor the group: %s", reason)
		}
		return reason, nil
	})
	_ = l.ok(ctx, "a parent of mediated devices is offered in mode vgpu", func(ctx context.Context) (string, error) {
		g, err := l.mtty(ctx)
		if err != nil {
			return "", err
		}
		if !slices.Contains(g.Modes, "vgpu") || len(g.VGPUTypes) != 2 {
			return "", fmt.Errorf("modes %v, types %v", g.Modes, g.VGPUTypes)
		}
		return fmt.Sprintf("%s, %d × %s, %d × %s", g.Model, g.VGPUTypes[0].Available, g.VGPUTypes[0].ID, g.VGPUTypes[1].Available, g.VGPUTypes[1].ID), nil
	})
	return err
}

// passthrough gives two cards to a machine and takes them back.
func (l *lab) passthrough(ctx context.Context) error {
	const name = "lab-pass"
	first, second := l.addresses[portFirst], l.addresses[portSecond]
	err := l.ok(ctx, "a machine with two cards starts", func(ctx context.Context) (string, error) {
		if err := l.create(ctx, name, flavorTwo); err != nil {
			return "", err
		}
		i, err := l.await(ctx, name, api.StateRunning, startTakes)
		if err != nil {
			return "", err
		}
		if len(i.GPUs) != 2 || i.Node != nodeName {
			return "", fmt.Errorf("it has %d cards on node %q", len(i.GPUs), i.Node)
		}
		return "", nil
	})
	if err != nil {
		return err
	}
	_ = l.ok(ctx, "inside it both cards are there and work by their own registers", func(ctx context.Context) (string, error) { return l.insideEDU(ctx, name, 2) })
	_ = l.ok(ctx, "on the host exactly these two are with vfio-pci, and QEMU has their groups", func(ctx context.Context) (string, error) {
		if err := l.bound(ctx, portFirst, portSecond); err != nil {
			return "", err
		}
		return l.heldBy(ctx, name, first, second)
	})
	_ = l.ok(ctx, "QEMU is pinned to the NUMA nodes of its cards", func(ctx context.Context) (string, error) { return l.pinned(ctx) })
	return l.ok(ctx, "deleted, each function is back as it was and both cards are ready", func(ctx context.Context) (string, error) {
		if err := l.remove(ctx, name); err != nil {
			return "", err
		}
		for _, a := range []string{first, second} {
			if _, err := l.cardIs(ctx, a, "ready", time.Minute); err != nil {
				return "", err
			}
		}
		return "", l.bound(ctx)
	})
}

// insideEDU reads what the system in a machine found out about its edu devices.
func (l *lab) insideEDU(ctx context.Context, name string, want int) (string, error) {
	lines, err := l.said(ctx, name, bootTakes)
	if err != nil {
		return "", err
	}
	found := starting(lines, "edu")
	buses := map[string]bool{}
	for _, f := range found {
		address, rest, _ := strings.Cut(f, " ")
		if rest != "id=0x010000ED inverse=0xEDCBA987 factorial=3628800" {
			return "", fmt.Errorf("the device at %s answers wrongly: %s", address, rest)
		}
		if !strings.HasSuffix(address, ":00.0") {
			return "", fmt.Errorf("the device at %s has no port to itself", address)
		}
		buses[address] = true
	}
	if len(buses) != want {
		return "", fmt.Errorf("%d devices there, not %d: %s", len(buses), want, strings.Join(starting(lines, "pci"), ", "))
	}
	return strings.Join(found, "; ") + "; up after " + strings.Join(starting(lines, "up"), " ") + " s", nil
}

// heldBy checks that one QEMU process has the groups of these functions open, and
// no other process has.
func (l *lab) heldBy(ctx context.Context, name string, addresses ...string) (string, error) {
	i, err := l.get(ctx, name)
	if err != nil {
		return "", err
	}
	seen, err := l.look(ctx, l.host.shell)
	if err != nil {
		return "", err
	}
	var groups []string
	for _, a := range addresses {
		group := seen.groups[a]
		if group == "" {
			return "", fmt.Errorf("%s has no IOMMU group", a)
		}
		owners := seen.open[group]
		if len(owners) != 1 || owners[0].instance != i.ID {
			return "", fmt.Errorf("group %s of %s is open in %v, not in the machine of %s", group, a, owners, i.ID)
		}
		groups = append(groups, group)
	}
	return "groups " + strings.Join(groups, " and "), nil
}

// pinned reads where the kernel lets QEMU run.
func (l *lab) pinned(ctx context.Context) (string, error) {
	text, err := l.host.do(ctx, `p=$(pgrep -f 'qemu-system-x86_64 -name guest=tenon'); grep -h -e Mems_allowed_list -e Cpus_allowed_list /proc/$p/task/*/status | sort | uniq -c | tr -s ' \t' ' ' | tr '\n' ';'; virsh -c "qemu+unix:///system?socket=/run/tenon-agent/libvirt/libvirt-sock" dumpxml --domain $(virsh -c "qemu+unix:///system?socket=/run/tenon-agent/libvirt/libvirt-sock" list --name | head -n 1) | grep -e nodeset -e cpuset | tr -s ' ' | tr '\n' ' '`)
	if err != nil {
		return "", err
	}
	if !strings.Contains(text, "nodeset='0-1'") && !strings.Contains(text, "nodeset='0,1'") || !strings.Contains(text, "cpuset='0-1'") && !strings.Contains(text, "cpuset='0,1'") {
		return "", fmt.Errorf("the machine is not pinned: %s", text)
	}
	return text, nil
}
