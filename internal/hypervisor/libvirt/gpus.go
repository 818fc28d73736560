package libvirt

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/bits"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"libvirt.org/go/libvirtxml"

	"github.com/tenon-cloud/tenon/internal/device"
	"github.com/tenon-cloud/tenon/internal/device/pci"
	"github.com/tenon-cloud/tenon/internal/hypervisor"
	"github.com/tenon-cloud/tenon/internal/hypervisor/numa"
	"github.com/tenon-cloud/tenon/internal/nodewire"
)

const (
	// usualWindow is what a machine has for regions above 4 GiB without asking.
	usualWindow = 16 << 30
	// lockedBeside is what VFIO locks beside the memory and the regions: firmware,
	// video memory, QEMU's own tables.
	lockedBeside = 2 << 10 // MiB
	// firstExpander leaves the bus numbers below it to the root ports of bus 0.
	firstExpander = 0x40
	betweenBuses  = 0x20
)

// given is what a machine gets of the host's devices: one root port each.
type given struct {
	functions []device.Function // of one card, passed as they are
	mediated  string
	near      *int // NUMA node of a mediated device
	virtual   bool
}

func givenOf(grants []device.Grant) (out []given) {
	for _, g := range grants {
		switch {
		case len(g.Pass) > 0:
			out = append(out, given{functions: g.Pass})
		case g.Virtual != nil:
			out = append(out, given{functions: []device.Function{*g.Virtual}, virtual: true})
		case g.Mediated != "":
			out = append(out, given{mediated: g.Mediated, near: g.Near})
		}
	}
	return out
}

// node is the NUMA node of a device; -1: unknown, which is not node 0.
func (g given) node() int {
	switch {
	case len(g.functions) > 0:
		return g.functions[0].NUMANode
	case g.near != nil:
		return *g.near
	}
	return -1
}

func (d *Driver) sys() string {
	if d.cfg.SysDir != "" {
		return d.cfg.SysDir
	}
	return "/sys"
}

// checkGiven says which device is not there. A machine never starts with less
// than it was given.
func (d *Driver) checkGiven(grants []device.Grant) error {
	missing := func(what string) error {
		return &hypervisor.Failure{Reason: nodewire.ReasonDevice, Message: "its GPU is missing from the node: " + what}
	}
	for _, g := range givenOf(grants) {
		names := map[string]string{}
		for _, f := range g.functions {
			names["bus/pci/devices/"+f.Address] = "PCI function " + f.Address
		}
		if g.mediated != "" {
			names["bus/mdev/devices/"+g.mediated] = "mediated device " + g.mediated
		}
		for _, path := range slices.Sorted(maps.Keys(names)) {
			if _, err := os.Lstat(filepath.Join(d.sys(), path)); errors.Is(err, fs.ErrNotExist) {
				return missing(names[path])
			} else if err != nil {
				return fmt.Errorf("look for %s: %w", names[path], err)
			}
		}
	}
	return nil
}

// startTakes grows with what has to be pinned and mapped before a guest runs.
func startTakes(spec hypervisor.Spec) time.Duration {
	return slowly + device.Pinning(spec.Grants, spec.MemoryMiB)
}

// shape adds the host's devices to a machine, and makes the machine fit them.
func (d *Driver) shape(dom *libvirtxml.Domain, spec hypervisor.Spec, v virt) error {
	list := givenOf(spec.Grants)
	if d.cfg.HugePages {
		dom.MemoryBacking = &libvirtxml.DomainMemoryBacking{MemoryHugePages: &libvirtxml.DomainMemoryHugepages{}}
	}
	if len(list) == 0 {
		return nil
	}
	window, bars := uint64(0), uint64(0)
	known := map[int]bool{}
	for _, g := range list {
		for _, f := range g.functions {
			bars += f.BARBytes
			window += ceilPower(f.BARBytes) // each region lies at a multiple of its size
		}
		if n := g.node(); n >= 0 {
			known[n] = true
		}
	}
	root := libvirtxml.DomainController{Type: "pci", Index: number(0), Model: "pcie-root"}
	if window > usualWindow {
		root.PCI = &libvirtxml.DomainControllerPCI{Hole64: &libvirtxml.DomainControllerPCIHole64{Size: ceilPower(window) >> 10, Unit: "KiB"}}
		if v.mode == virtKVM {
			dom.CPU.MaxPhysAddr = &libvirtxml.DomainCPUMaxPhysAddr{Mode: "passthrough"} // or the window isn't reached
		}
	}
	dom.Devices.Controllers = append(dom.Devices.Controllers, root)
	if slices.ContainsFunc(list, func(g given) bool { return len(g.functions) > 0 }) {
		lock := uint64(spec.MemoryMiB) + bars>>20 + lockedBeside //nolint:gosec // checked to be positive
		dom.MemoryTune = &libvirtxml.DomainMemoryTune{HardLimit: &libvirtxml.DomainMemoryTuneLimit{Value: lock, Unit: "MiB"}}
	}
	buses, err := d.follow(dom, spec, slices.Sorted(maps.Keys(known)))
	if err != nil {
		return err
	}
	next := uint(len(dom.Devices.Controllers)) - 1 //nolint:gosec // a handful; the first is USB's
	ports := map[uint]uint{}                       // of each expander
	for _, g := range list {
		port := libvirtxml.DomainController{Type: "pci", Index: number(next), Model: "pcie-root-port"}
		if bus, ok := buses[g.node()]; ok {
			port.Address = pciAddress(pci.Address{Bus: uint8(bus), Slot: uint8(ports[bus])}, "") //nolint:gosec // a handful
			ports[bus]++
		}
		dom.Devices.Controllers = append(dom.Devices.Controllers, port)
		devices, err := g.hostdevs(next)
		if err != nil {
			return err
		}
		dom.Devices.Hostdevs = append(dom.Devices.Hostdevs, devices...)
		next++
	}
	return nil
}

// hostdevs puts a card behind its root port, its functions together in slot 0.
// Nothing is managed by libvirt: the board has bound what had to be bound, and an
// SR-IOV function with a vGPU type keeps its driver.
func (g given) hostdevs(bus uint) (out []libvirtxml.DomainHostdev, err error) {
	at := func(function int, multi string) *libvirtxml.DomainAddress {
		a := pciAddress(pci.Address{Bus: uint8(bus), Function: uint8(function)}, multi) //nolint:gosec // a handful
		return a
	}
	if g.mediated != "" {
		return []libvirtxml.DomainHostdev{{Managed: "no", Address: at(0, ""), SubsysMDev: &libvirtxml.DomainHostdevSubsysMDev{
			Model: "vfio-pci", Source: &libvirtxml.DomainHostdevSubsysMDevSource{Address: &libvirtxml.DomainAddressMDev{UUID: g.mediated}},
		}}}, nil
	}
	if len(g.functions) > 8 {
		return nil, fmt.Errorf("a card has %d functions; a slot has room for 8", len(g.functions))
	}
	for i, f := range g.functions {
		a, err := pci.ParseAddress(f.Address)
		if err != nil {
			return nil, err
		}
		multi := ""
		if i == 0 && len(g.functions) > 1 {
			multi = "on"
		}
		out = append(out, libvirtxml.DomainHostdev{Managed: "no", Address: at(i, multi), SubsysPCI: &libvirtxml.DomainHostdevSubsysPCI{
			Driver: &libvirtxml.DomainHostdevSubsysPCIDriver{Name: "vfio"},
			Source: &libvirtxml.DomainHostdevSubsysPCISource{Address: pciAddress(a, "").PCI},
		}})
	}
	return out, nil
}

// follow has vCPUs and memory stay where the GPUs are. With GPUs on several nodes
// the guest sees as many, each with a bus of its own; buses gives those by node.
func (d *Driver) follow(dom *libvirtxml.Domain, spec hypervisor.Spec, nodes []int) (buses map[int]uint, err error) {
	if len(nodes) == 0 {
		return nil, nil //nolint:nilnil // nothing is known, so nothing is pinned
	}
	cells := len(nodes)
	if spec.VCPU < cells {
		cells = 1 // too few vCPUs for a guest node each
	}
	var info []numa.Node
	var cpus []string
	mode := "strict"
	for _, n := range nodes {
		at, err := numa.Read(d.sys(), n)
		if err != nil {
			return nil, err
		}
		if at.FreeMiB < spec.MemoryMiB/int64(len(nodes)) {
			mode = "preferred" // strictly, the guest would be killed for memory
		}
		info, cpus = append(info, at), append(cpus, at.CPUs)
	}
	dom.VCPU.CPUSet = strings.Join(cpus, ",")
	dom.NUMATune = &libvirtxml.DomainNUMATune{Memory: &libvirtxml.DomainNUMATuneMemory{Mode: mode, Nodeset: join(nodes)}}
	if mode == "preferred" && len(nodes) > 1 {
		dom.NUMATune.Memory.Mode = "interleave" // preferred takes one node alone
	}
	if cells < 2 {
		return nil, nil //nolint:nilnil // one node needs no bus of its own
	}
	buses = map[int]uint{}
	dom.CPU.Numa = &libvirtxml.DomainNuma{}
	dom.NUMATune.Memory = nil // each guest node has its own
	vcpu, memory := 0, spec.MemoryMiB
	for i, n := range nodes {
		count, mib := (spec.VCPU-vcpu)/(cells-i), memory/int64(cells-i)
		dom.CPU.Numa.Cell = append(dom.CPU.Numa.Cell, libvirtxml.DomainCell{
			ID: number(i), CPUs: fmt.Sprintf("%d-%d", vcpu, vcpu+count-1), Memory: uint(mib), Unit: "MiB", //nolint:gosec // checked to be positive
		})
		dom.NUMATune.MemNodes = append(dom.NUMATune.MemNodes, libvirtxml.DomainNUMATuneMemNode{CellID: uint(i), Mode: mode, Nodeset: strconv.Itoa(n)}) //nolint:gosec // a handful
		for k := range count {
			dom.CPUTune.VCPUPin = append(dom.CPUTune.VCPUPin, libvirtxml.DomainCPUTuneVCPUPin{VCPU: uint(vcpu + k), CPUSet: info[i].CPUs}) //nolint:gosec // a handful
		}
		vcpu, memory = vcpu+count, memory-mib
		index := uint(i + 1) //nolint:gosec // a handful
		buses[n] = index
		dom.Devices.Controllers = append(dom.Devices.Controllers, libvirtxml.DomainController{
			Type: "pci", Index: &index, Model: "pcie-expander-bus",
			PCI: &libvirtxml.DomainControllerPCI{Target: &libvirtxml.DomainControllerPCITarget{BusNr: number(firstExpander + betweenBuses*i), NUMANode: number(i)}},
		})
	}
	return buses, nil
}

func ceilPower(n uint64) uint64 {
	if n == 0 {
		return 0
	}
	return 1 << bits.Len64(n-1)
}

func number[N int | uint](n N) *uint {
	u := uint(n) //nolint:gosec // never negative
	return &u
}

func join(list []int) string {
	var out []string
	for _, n := range list {
		out = append(out, strconv.Itoa(n))
	}
	return strings.Join(out, ",")
}

func pciAddress(a pci.Address, multi string) *libvirtxml.DomainAddress {
	domain, bus, slot, function := uint(a.Domain), uint(a.Bus), uint(a.Slot), uint(a.Function)
	return &libvirtxml.DomainAddress{PCI: &libvirtxml.DomainAddressPCI{Domain: &domain, Bus: &bus, Slot: &slot, Function: &function, MultiFunction: multi}}
}
