package preflight

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
)

// devices judges what concerns the host's own cards.
func (j *judge) devices(f Facts) {
	if f.ScanErr != nil {
		do := "mount /sys"
		if errors.Is(f.ScanErr, fs.ErrPermission) {
			do = asRoot
		}
		j.say("PCI", Fail, do, "it can't be read: %v", f.ScanErr)
		return
	}
	if len(f.Cards) == 0 && len(f.Unknown) == 0 && len(f.Parents) == 0 {
		j.say("cards", Warn, "see the lines below for what was left out; another device is allowed with -gpu-allow VENDOR:DEVICE", "no GPU is offered")
	}
	j.passing(f)
	for _, c := range f.Cards {
		j.card(f, c)
	}
	for _, name := range f.Parents {
		j.say("parent "+name, OK, "", "makes mediated devices")
	}
	for _, d := range f.Unknown {
		do := "look at the kernel's log (dmesg) for it; it is not offered until it can be read"
		if !f.Root {
			do = asRoot + "; if it can't be read then either, " + do
		}
		j.say("card "+d.Address, Warn, do, "unknown: %s", d.Reason)
	}
	for _, d := range f.Excluded {
		j.say("not offered "+d.Address, OK, "", "%s: %s", d.Name, d.Reason)
	}
	j.drivers(f)
}

// passing judges whether functions can be given to virtual machines.
func (j *judge) passing(f Facts) {
	nobody := Warn // gets the cards
	if f.NVIDIACards == 0 && len(f.Cards) > 0 {
		nobody = Fail
	}
	j.must("iommu", f.IOMMUGroups > 0, nobody, fmt.Sprintf("on, %d groups", f.IOMMUGroups), "off: no virtual machine gets a card",
		"switch it on in the firmware (VT-d, AMD-Vi) and boot with intel_iommu=on or amd_iommu=on, iommu=pt")
	if f.IOMMUGroups > 0 {
		j.must("interrupt remapping", f.Remapping, Warn, "on", "off: the kernel refuses to pass functions on unless unsafe interrupts are allowed",
			"switch it on in the firmware (x2APIC, interrupt remapping), and take intremap=off from the kernel's command line")
	}
	switch {
	case f.VFIO.Loaded:
		j.say("vfio-pci", OK, "", "loaded")
	case f.VFIO.Available:
		j.say("vfio-pci", Warn, "modprobe vfio-pci, and write vfio-pci into /etc/modules-load.d/tenon.conf", "not loaded: no virtual machine gets a card until it is")
	default:
		j.say("vfio-pci", Warn, "install the kernel's modules that have it (linux-modules-extra on Ubuntu)", "the kernel has none: no virtual machine gets a card")
	}
}

func (j *judge) card(f Facts, c Card) {
	name := "card " + c.Address
	var with, problems, todo []string
	switch {
	case c.Whole == "":
		with = append(with, "whole for virtual machines")
	case f.IOMMUGroups > 0:
		problems = append(problems, "not whole for virtual machines: "+c.Whole)
		todo = append(todo, "move it to a slot with an IOMMU group of its own, or use it for containers")
	}
	if c.NVIDIA && f.NVIDIA == nil && c.Driver == "nvidia" {
		with = append(with, "containers")
	}
	switch c.VGPU {
	case "":
	case "vendor":
		with = append(with, "vGPUs on virtual functions")
		if f.Libvirt.Version != "" && !atLeast(f.Libvirt.Version, vgpuVirt) {
			problems = append(problems, fmt.Sprintf("libvirt %s can't pass on a virtual function that keeps its vendor's driver", f.Libvirt.Version))
			todo = append(todo, "upgrade libvirt to "+vgpuVirt+" or newer for vGPUs")
		}
	default:
		with = append(with, "vGPUs ("+c.VGPU+")")
	}
	if c.Reset != "" {
		problems = append(problems, "it can't be reset, so it is quarantined after each tenant: "+c.Reset)
		todo = append(todo, "boot Linux 6.13 or newer, which resets what is below a bridge, or recover it by hand each time")
	}
	text := c.Name
	if t := c.Told; t != nil {
		if t.Name != "" {
			text += ", " + t.Name
		}
		if t.MIG != "" {
			with = append(with, "MIG ("+t.MIG+")")
		}
		if len(t.Users) > 0 {
			problems = append(problems, "it is used by "+strings.Join(t.Users, ", "))
			todo = append(todo, "end that before the node joins: a card in use is not given to anybody else")
		}
		switch {
		case t.RowFailure:
			problems = append(problems, "a row of its memory could not be replaced")
			todo = append(todo, "have the card replaced")
		case t.RowPending:
			problems = append(problems, "a row of its memory waits to be replaced")
			todo = append(todo, "reset it (nvidia-smi --gpu-reset), or boot the host again")
		}
	}
	if len(with) > 0 {
		text += "; for " + strings.Join(with, ", ")
	}
	if len(c.Companions) > 0 {
		text += "; with " + strings.Join(c.Companions, ", ")
	}
	if len(c.Bundle) > 0 {
		text += "; only together with " + strings.Join(c.Bundle, ", ")
	}
	if c.Reset == "" && len(c.Resets) > 0 {
		text += "; reset by " + c.Resets[0]
	}
	for _, n := range c.Notes {
		text += "; " + n
	}
	if len(problems) == 0 {
		j.say(name, OK, "", "%s", text)
		return
	}
	j.say(name, Warn, strings.Join(todo, "; "), "%s; %s", text, strings.Join(problems, "; "))
}

// drivers judges the vendor's own software.
func (j *judge) drivers(f Facts) {
	nvidia := 0
	for _, c := range f.Cards {
		if c.NVIDIA {
			nvidia++
		}
	}
	if nvidia > 0 {
		switch {
		case f.NVIDIA != nil:
			j.say("nvidia driver", Warn, "install NVIDIA's driver on the host for containers, MIG and measurements; virtual machines need none",
				"it can't be asked (%v): virtual machines get whole cards, containers none", f.NVIDIA)
		case f.NVIDIACards == 0:
			j.say("nvidia driver", Warn, "see whether the cards are bound to another driver (lspci -k)", "it answers and has none of the %d cards", nvidia)
		default:
			j.say("nvidia driver", OK, "", "it has %d of the %d cards", f.NVIDIACards, nvidia)
		}
	}
	if f.Switches > 0 {
		j.must("fabric manager", f.Fabric == nil, Warn, fmt.Sprintf("it answers, for %d NVSwitches", f.Switches),
			fmt.Sprintf("there are %d NVSwitches and it can't be asked (%v): no virtual machine gets their cards", f.Switches, f.Fabric),
			"install and start Fabric Manager in shared mode (FABRIC_MODE=1), and its client fmpm")
	}
}
