package pci

import (
	"fmt"
	"io/fs"
	"slices"
)

// offer says of every function that looks like a GPU whether it is a card, what
// goes with it, and why not.
func (inv *Inventory) offer(sys fs.FS, options Options) {
	var gpus []Function
	for _, f := range inv.Functions {
		if f.Class == classOtherBridge && f.ID.Vendor == VendorNVIDIA {
			inv.Switches = append(inv.Switches, f)
		}
		allowed := slices.Contains(options.Allow, f.ID)
		if !allowed && !looksLikeGPU(f.Class) {
			continue
		}
		if f.PF != nil {
			continue // its physical function's card has it, also while that can't be read
		}
		if u := f.unread("physfn"); u != "" {
			inv.Unknown = append(inv.Unknown, Unknown{f.Address, "whether it is a virtual function is unknown (" + u + ")", f.Group})
			continue
		}
		if why := inv.exclusion(f); why != "" && (!allowed || never(f)) {
			inv.Excluded = append(inv.Excluded, Excluded{f, why})
			continue
		}
		gpus = append(gpus, f)
	}
	for _, f := range gpus {
		inv.Cards = append(inv.Cards, inv.card(sys, f, gpus))
	}
}

func looksLikeGPU(class uint16) bool {
	return class == classVGA || class == class3D || class == classDisplay || class == classAccelerator
}

func (inv *Inventory) function(a Address) (Function, bool) {
	i, found := slices.BinarySearchFunc(inv.Functions, a, func(f Function, a Address) int { return f.Address.Compare(a) })
	if !found {
		return Function{}, false
	}
	return inv.Functions[i], true
}

// Vendors whose graphics are a server's own or an emulator's, for the reason.
var ownGraphics = map[uint16]string{
	0x1a03: "on-board graphics of the server's management controller (ASPEED)",
	0x102b: "on-board graphics of the server (Matrox)",
	0x1234: "an emulated display", 0x1af4: "an emulated display", 0x1b36: "an emulated display",
	0x1013: "an emulated display", 0x15ad: "an emulated display", 0x1414: "an emulated display",
}

// never: a server's own graphics are its console, and no list of an operator's
// makes them a tenant's.
func never(f Function) bool { return f.ID.Vendor == 0x1a03 || f.ID.Vendor == 0x102b }

// exclusion gives the reason why a function that looks like a GPU is none that
// a tenant gets; empty: there is none.
func (inv *Inventory) exclusion(f Function) string {
	switch f.ID.Vendor {
	case VendorNVIDIA:
		return ""
	case VendorAMD:
		// A discrete card's slot is the card's alone; an integrated one shares its
		// slot with functions of the processor.
		for _, s := range inv.Functions {
			if s.Address.SameSlot(f.Address) && s.ID.Vendor != VendorAMD {
				return fmt.Sprintf("integrated graphics: its slot has functions of the processor, such as %s", s)
			}
		}
		return ""
	case VendorIntel:
		// Every integrated one is on the root bus, and no discrete one is: it comes
		// with a bridge of its own. It is the host's console or its management's,
		// and its memory is the host's. Whether the firmware booted on it
		// (boot_vga) changes with a monitor, so it decides nothing.
		if len(f.Above) == 0 {
			return "integrated graphics of the processor: its memory is the host's"
		}
		if f.Class == classAccelerator {
			return "an accelerator of Intel's that is no GPU"
		}
		return ""
	}
	if why, known := ownGraphics[f.ID.Vendor]; known {
		return why + ": never a tenant's GPU"
	}
	return fmt.Sprintf("vendor %04x is not among those that are offered (10de, 1002, 8086); it can be allowed as %s", f.ID.Vendor, f.ID)
}

// card puts together what there is to say about one GPU.
func (inv *Inventory) card(sys fs.FS, f Function, gpus []Function) Card {
	c := Card{Function: f}
	if id, err := LiveID(sys, f.Address); err != nil {
		c.Function.Unknown = append(c.Function.Unknown, "config: "+reason(err))
	} else if id.Vendor == 0xffff {
		c.Function.Dead = true
	}
	if f.BootVGA {
		c.Notes = append(c.Notes, "the host's boot console is on it and goes dark while a virtual machine has it")
	}
	c.Companions = inv.companions(f, gpus)
	c.Whole, c.Bundle = inv.whole(c, gpus)
	c.Reset, c.ResetFile = inv.reset(sys, c)
	// Both ends tell of virtual functions; one that can't be read doesn't hide them.
	virtual := len(f.Virtual)
	for _, v := range inv.Functions {
		if v.PF != nil && *v.PF == f.Address && !slices.Contains(f.Virtual, v.Address) {
			virtual++
		}
	}
	c.Partitioned = virtual > 0
	if c.Partitioned {
		c.Whole = no("it has %d virtual functions and is offered by them alone", virtual)
		c.Bundle = nil
	} else if u := f.unread("sriov_", "virtual function"); u != "" {
		c.Whole, c.Bundle = no("whether it has virtual functions is unknown (%s)", u), nil
	}
	c.Parents = inv.cardParents(sys, c.Function)
	return c
}

// Resettable says whether a function can be reset by itself. The kernel looks for
// ways when it finds the function, and it finds function 0 when it is still alone on
// its bus: a reset by the bus that is promised there is refused later.
func (inv *Inventory) Resettable(f Function) bool {
	byBus := len(f.Reset) > 0 && !slices.ContainsFunc(f.Reset, func(way string) bool { return way != "bus" && way != "cxl_bus" })
	return f.CanReset && !(byBus && slices.ContainsFunc(inv.Functions, func(o Function) bool {
		return o.Address != f.Address && o.Address.Domain == f.Address.Domain && o.Address.Bus == f.Address.Bus
	}))
}

// reset finds a way to reset the card: its function's own, or that of the bridge
// above where nothing but the card is below. A slot with several functions has
// no reset by its bus of its own.
func (inv *Inventory) reset(sys fs.FS, c Card) (Verdict, string) {
	f := c.Function
	if inv.Resettable(f) {
		return Verdict{OK: true}, DeviceFile(f.Address, "reset")
	}
	if u := f.unread("reset"); u != "" {
		return no("whether it can be reset is unknown (%s)", u), ""
	}
	if len(f.Above) == 0 {
		return no("the kernel knows no way to reset it"), ""
	}
	bridge := f.Above[len(f.Above)-1]
	file := DeviceFile(bridge, "reset_subordinate")
	if _, err := fs.Stat(sys, file); err != nil {
		return no("the kernel knows no way to reset it, nor to reset what is below bridge %s (since Linux 6.13)", bridge), ""
	}
	for _, o := range inv.Functions {
		if !slices.Contains(o.Above, bridge) || o.Address == f.Address ||
			slices.ContainsFunc(c.Companions, func(k Function) bool { return k.Address == o.Address }) {
			continue
		}
		return no("the kernel knows no way to reset it alone, and %s is below the same bridge", o), ""
	}
	return Verdict{OK: true}, file
}

// companions are the functions of the card besides its GPU: of its slot or, if
// the card has a bridge of its own, below that.
func (inv *Inventory) companions(gpu Function, gpus []Function) []Function {
	var out []Function
	for _, f := range inv.Functions {
		if f.Class != classAudio && f.Class != classUSB && f.Class != classUCSI || slices.ContainsFunc(gpus, func(g Function) bool { return g.Address == f.Address }) {
			continue
		}
		if !f.Address.SameSlot(gpu.Address) && !inv.sameBoard(gpu, f) {
			continue
		}
		// With a group of its own that others are in too it would cost those, and
		// the GPU works without it.
		if f.Group != gpu.Group && inv.stranger(f.Group, gpu, gpus, nil) != nil {
			continue
		}
		out = append(out, f)
	}
	return out
}

// sameBoard: the nearest bridge above both is of the GPU's own vendor and no
// port of the host, as on Intel's cards, whose audio has its own bus.
func (inv *Inventory) sameBoard(gpu, f Function) bool {
	if f.ID.Vendor != gpu.ID.Vendor || f.Group != gpu.Group {
		return false
	}
	n := 0
	for n < len(gpu.Above) && n < len(f.Above) && gpu.Above[n] == f.Above[n] {
		n++
	}
	if n < 2 { // the first bridge is the host's port
		return false
	}
	nearest, found := inv.function(gpu.Above[n-1])
	return found && nearest.ID.Vendor == gpu.ID.Vendor
}

// stranger finds a function in a group that keeps the GPU from going whole to a
// virtual machine: neither a bridge, nor a GPU, nor a companion of one.
func (inv *Inventory) stranger(group int, gpu Function, gpus, companions []Function) *Function {
	for i := range inv.Functions {
		f := &inv.Functions[i]
		has := func(list []Function) bool {
			return slices.ContainsFunc(list, func(g Function) bool { return g.Address == f.Address })
		}
		switch {
		case f.Group != group, has(gpus), has(companions):
		case f.Class == classPCIBridge, f.Class == classSemiBridge:
		case f.Class == classHostBridge && f.Driver == "":
		case f.PF != nil && *f.PF == gpu.Address:
		case f.Address.SameSlot(gpu.Address) && (f.Class == classAudio || f.Class == classUSB || f.Class == classUCSI):
		default:
			return f
		}
	}
	return nil
}

// whole judges the IOMMU group, since that is what a virtual machine gets.
func (inv *Inventory) whole(c Card, gpus []Function) (Verdict, []Address) {
	f := c.Function
	if c.Function.Dead {
		return no("it no longer answers: its configuration space reads as ones"), nil
	}
	if u := f.unread("iommu_group"); u != "" {
		return no("its IOMMU group is unknown (%s)", u), nil
	}
	if !inv.IOMMU {
		return no("the host has no IOMMU, or it is switched off in the firmware or on the kernel's command line (intel_iommu=on, amd_iommu=on)"), nil
	}
	if f.Group < 0 {
		return no("it is in no IOMMU group"), nil
	}
	for _, u := range inv.Unknown {
		if u.Group == f.Group {
			return no("IOMMU group %d also has %s, of which it is unknown what it is", f.Group, u.Address), nil
		}
	}
	companions := c.Companions
	var bundle []Address
	for _, g := range gpus {
		if g.Group == f.Group && g.Address != f.Address {
			bundle = append(bundle, g.Address)
			companions = append(slices.Clip(companions), inv.companions(g, gpus)...)
		}
	}
	if s := inv.stranger(f.Group, f, gpus, companions); s != nil {
		held := ""
		if s.Driver != "" {
			held = ", used by " + s.Driver
		}
		return no("IOMMU group %d also has %s%s", f.Group, s, held), nil
	}
	for _, other := range bundle {
		if g, _ := inv.function(other); len(g.Virtual) > 0 {
			return no("IOMMU group %d also has %s, which is cut into virtual functions", f.Group, g), nil
		}
	}
	return Verdict{OK: true}, bundle
}
