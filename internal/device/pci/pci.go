// Package pci reads a host's GPUs from sysfs: which functions are a card, what
// goes to a virtual machine with it, and why another is not offered. It decides
// by class codes and ids, never by names, and writes nothing.
package pci

import (
	"fmt"
	"strings"
)

// Vendors of which a GPU is offered.
const (
	VendorNVIDIA = 0x10de
	VendorAMD    = 0x1002
	VendorIntel  = 0x8086
)

// Class codes without their programming interface.
const (
	classVGA         = 0x0300
	class3D          = 0x0302
	classDisplay     = 0x0380
	classAccelerator = 0x1200
	classAudio       = 0x0403
	classUSB         = 0x0c03
	classUCSI        = 0x0c80
	classHostBridge  = 0x0600
	classPCIBridge   = 0x0604
	classSemiBridge  = 0x0609
	classOtherBridge = 0x0680
)

// ID is a vendor and device number.
type ID struct{ Vendor, Device uint16 }

func (id ID) String() string { return fmt.Sprintf("%04x:%04x", id.Vendor, id.Device) }

// ParseID reads vendor:device, four hexadecimal digits each.
func ParseID(s string) (ID, error) {
	if len(s) == 9 && s[4] == ':' {
		vendor, okV := hex(s[:4])
		device, okD := hex(s[5:])
		if okV && okD {
			return ID{uint16(vendor), uint16(device)}, nil //nolint:gosec // four digits each
		}
	}
	return ID{}, fmt.Errorf("%q is not vendor:device, four hexadecimal digits each", s)
}

// Function is one PCI function as read. What couldn't be read is in Unknown.
type Function struct {
	Address  Address
	ID       ID
	Class    uint16 // base class and subclass
	Revision uint8

	Driver   string // "": none
	Override string // driver_override; "": none
	NUMANode int    // -1: unknown, which is not node 0
	BARs     []BAR

	// Reset names the ways to reset it in the order in which the kernel tries
	// them. CanReset without a name is a kernel before 5.15.
	Reset    []string
	CanReset bool

	Group   int       // of the IOMMU; -1: none
	Above   []Address // the bridges between it and the host, from the host's side
	PF      *Address  // the function of which it is a virtual one
	Total   int       // virtual functions that it can have
	Virtual []Address // those that it has, by number
	BootVGA bool      // the host's boot console is on it

	// Dead: its configuration space reads as ones. The file "vendor" doesn't tell,
	// since the kernel keeps what it read at the start.
	Dead    bool
	Unknown []string
}

// BAR is one memory or I/O region.
type BAR struct {
	Index    int
	Start    uint64
	Bytes    uint64
	Memory   bool // false: I/O ports
	Prefetch bool
	Wide     bool // 64 bits
}

// MemoryBytes is the sum of its memory regions.
func (f Function) MemoryBytes() (sum uint64) {
	for _, b := range f.BARs {
		if b.Memory {
			sum += b.Bytes
		}
	}
	return sum
}

func (f Function) String() string {
	return fmt.Sprintf("%s (%s, %s)", f.Address, kind(f.Class), f.ID)
}

// unread finds what of a function could not be read, among what begins so.
func (f Function) unread(prefixes ...string) string {
	for _, u := range f.Unknown {
		for _, p := range prefixes {
			if strings.HasPrefix(u, p) {
				return u
			}
		}
	}
	return ""
}

// Verdict is an answer with the reason for a no.
type Verdict struct {
	OK     bool
	Reason string
}

func no(format string, args ...any) Verdict { return Verdict{Reason: fmt.Sprintf(format, args...)} }

// Card is a GPU that is offered in some way.
type Card struct {
	Function   Function
	Companions []Function // functions that go to a virtual machine with it
	Bundle     []Address  // cards that a virtual machine can only get together with it
	// Whole: a virtual machine can get it as it is. Containers need no IOMMU and
	// no group of its own, but its vendor's driver.
	Whole Verdict
	// Reset: it can be reset, by writing 1 to ResetFile.
	Reset     Verdict
	ResetFile string
	// Parents are where its vGPUs are made: itself or its virtual functions.
	Parents []Parent
	// Partitioned: it has virtual functions, so it is offered by them alone.
	Partitioned bool
	Notes       []string
}

// Functions are all that a virtual machine gets with the card.
func (c Card) Functions() []Function { return append([]Function{c.Function}, c.Companions...) }

// Parent is what a vGPU is made on.
type Parent struct {
	Name    string   // as in /sys/class/mdev_bus: "0000:41:00.4", "mtty"
	Address *Address // nil: no PCI function
	Path    string   // of its folder in /sys
	Backend Backend
	Types   []Type  // that can be made now, and of mediated ones also those that can't
	Current string  // Vendor: the number of the type that is set; "": none
	Whole   Verdict // Vendor, Plain: its IOMMU group lets a virtual machine have it
	Unknown []string
}

// Backend is the way by which vGPUs are made, as sysfs shows it.
type Backend string

// The ways.
const (
	Mediated Backend = "mediated" // mdev_supported_types
	Vendor   Backend = "vendor"   // nvidia/current_vgpu_type
	Plain    Backend = "plain"    // a virtual function as it is
)

// Type is a vGPU type that a parent offers.
type Type struct {
	ID        string // what is written, or the folder's name
	Name      string
	Available int
	MemoryMiB int64 // 0: not said
}

// MediatedDevice is one that exists.
type MediatedDevice struct {
	UUID    string
	Parent  string // Parent.Name
	Type    string // Type.ID
	Driver  string
	Group   int // -1: none, or unknown
	Unknown []string
}

// Excluded looks like a GPU and is not offered.
type Excluded struct {
	Function Function
	Reason   string
}

// Unknown is a function of which too little could be read to say what it is.
// It is neither absent nor free.
type Unknown struct {
	Address Address
	Reason  string
	Group   int // of the IOMMU; -1: none, or unknown
}

// Inventory is one reading of a host.
type Inventory struct {
	Functions []Function // all of them, by address
	Cards     []Card
	Excluded  []Excluded
	Unknown   []Unknown
	Switches  []Function // NVSwitches
	Mediated  []MediatedDevice
	Parents   []Parent // mediated ones that are no PCI functions
	IOMMU     bool
	Unread    []string // lists that are there and couldn't be read: what they hold is unknown
}

// Card finds a card by its address.
func (inv Inventory) Card(a Address) (Card, bool) {
	for _, c := range inv.Cards {
		if c.Function.Address == a {
			return c, true
		}
	}
	return Card{}, false
}

// kind says in words what a class is.
func kind(class uint16) string {
	switch class {
	case classVGA, class3D, classDisplay, classAccelerator:
		return "GPU"
	case classAudio:
		return "audio"
	case classUSB:
		return "USB"
	case classUCSI:
		return "serial bus"
	case classOtherBridge:
		return "bridge device"
	case 0x0108:
		return "NVMe"
	case 0x0280, 0x0207, 0x0200:
		return "network"
	}
	switch class >> 8 {
	case 0x01:
		return "storage"
	case 0x02:
		return "network"
	case 0x06:
		return "bridge"
	case 0x10:
		return "encryption"
	}
	return fmt.Sprintf("class %04x", class)
}
