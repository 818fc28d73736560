package pci

import (
	"cmp"
	"fmt"
	"strings"
)

// Address names one PCI function of a host. Two functions that differ in their
// domain alone are two functions.
type Address struct {
	Domain   uint32
	Bus      uint8
	Slot     uint8 // 0 to 31
	Function uint8 // 0 to 7
}

// ParseAddress reads the spellings of the kernel (0000:42:00.0), of NVIDIA's
// tools (00000000:42:00.0, in capitals too) and the short one without a domain
// (42:00.0), which is in domain 0.
func ParseAddress(s string) (Address, error) {
	bad := func(why string) (Address, error) {
		return Address{}, fmt.Errorf("PCI address %q: %s", s, why)
	}
	parts := strings.Split(s, ":")
	var domain uint64
	ok := true
	switch len(parts) {
	case 2:
	case 3:
		if n := len(parts[0]); n < 4 || n > 8 {
			return bad("a domain has 4 to 8 hexadecimal digits")
		}
		if domain, ok = hex(parts[0]); !ok {
			return bad("its domain is no hexadecimal number")
		}
		parts = parts[1:]
	default:
		return bad("it is not domain:bus:slot.function")
	}
	bus, ok := hex(parts[0])
	if !ok || len(parts[0]) != 2 {
		return bad("a bus is two hexadecimal digits")
	}
	slotText, functionText, found := strings.Cut(parts[1], ".")
	if !found {
		return bad("it is not domain:bus:slot.function")
	}
	slot, ok := hex(slotText)
	if !ok || len(slotText) != 2 || slot > 0x1f {
		return bad("a slot is 00 to 1f")
	}
	function, ok := hex(functionText)
	if !ok || len(functionText) != 1 || function > 7 {
		return bad("a function is 0 to 7")
	}
	return Address{uint32(domain), uint8(bus), uint8(slot), uint8(function)}, nil //nolint:gosec // lengths are checked above
}

// hex reads digits alone: no sign, no 0x, no underscore.
func hex(s string) (n uint64, ok bool) {
	for _, c := range []byte(s) {
		switch {
		case c >= '0' && c <= '9':
			n = n<<4 | uint64(c-'0')
		case c >= 'a' && c <= 'f':
			n = n<<4 | uint64(c-'a'+10)
		case c >= 'A' && c <= 'F':
			n = n<<4 | uint64(c-'A'+10)
		default:
			return 0, false
		}
	}
	return n, s != ""
}

// String prints as the kernel does, which is also how the database keeps it.
func (a Address) String() string {
	return fmt.Sprintf("%04x:%02x:%02x.%x", a.Domain, a.Bus, a.Slot, a.Function)
}

func (a Address) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

func (a *Address) UnmarshalText(text []byte) (err error) {
	*a, err = ParseAddress(string(text))
	return err
}

// SameSlot says whether two functions are of one slot, and so of one card.
func (a Address) SameSlot(b Address) bool {
	return a.Domain == b.Domain && a.Bus == b.Bus && a.Slot == b.Slot
}

// Compare orders by domain, bus, slot and function.
func (a Address) Compare(b Address) int {
	return cmp.Or(cmp.Compare(a.Domain, b.Domain), cmp.Compare(a.Bus, b.Bus), cmp.Compare(a.Slot, b.Slot), cmp.Compare(a.Function, b.Function))
}
