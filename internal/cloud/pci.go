package cloud

import (
	"fmt"
	"strconv"
	"strings"
)

// PCIAddress is where a device sits on a machine's buses. Tools spell one address
// in several ways, so addresses are compared as values, or in String's spelling.
type PCIAddress struct {
	Domain   uint32
	Bus      uint8
	Slot     uint8 // below 32
	Function uint8 // below 8
}

// ParsePCIAddress reads [domain:]bus:slot.function, all hexadecimal, a domain of
// up to eight digits in either case; without one it is domain 0.
func ParsePCIAddress(s string) (PCIAddress, error) {
	bad := func(what string) (PCIAddress, error) {
		return PCIAddress{}, fmt.Errorf("%q is no PCI address: %s", s, what)
	}
	parts := strings.Split(s, ":")
	if len(parts) == 2 {
		parts = append([]string{"0"}, parts...)
	}
	slot, function, dotted := strings.Cut(parts[len(parts)-1], ".")
	if len(parts) != 3 || !dotted {
		return bad("want domain:bus:slot.function")
	}
	var a PCIAddress
	domain, ok := hexadecimal(parts[0], 8, 0xffffffff)
	if !ok {
		return bad("the domain is not up to eight hexadecimal digits")
	}
	bus, ok := hexadecimal(parts[1], 2, 0xff)
	if !ok {
		return bad("the bus is not two hexadecimal digits")
	}
	n, ok := hexadecimal(slot, 2, 0x1f)
	if !ok {
		return bad("the slot is not from 0 to 1f")
	}
	f, ok := hexadecimal(function, 1, 7)
	if !ok {
		return bad("the function is not from 0 to 7")
	}
	a.Domain, a.Bus, a.Slot, a.Function = uint32(domain), uint8(bus), uint8(n), uint8(f)
	return a, nil
}

// String is the one spelling that is stored: a domain of at least four digits,
// lower case.
func (a PCIAddress) String() string {
	return fmt.Sprintf("%04x:%02x:%02x.%x", a.Domain, a.Bus, a.Slot, a.Function)
}

func hexadecimal(s string, digits int, most uint64) (uint64, bool) {
	if s == "" || len(s) > digits {
		return 0, false
	}
	n, err := strconv.ParseUint(s, 16, 32)
	return n, err == nil && n <= most
}
