package pci_test

import (
	"regexp"
	"testing"

	"pgregory.net/rapid"

	"github.com/tenon-cloud/tenon/internal/device/pci"
)

// C3: three spellings are one device, and the domain counts.
func TestParseAddress(t *testing.T) {
	for spelling, want := range map[string]string{
		"00000000:42:00.0":  "0000:42:00.0",
		"0000:42:00.0":      "0000:42:00.0",
		"42:00.0":           "0000:42:00.0",
		"00000001:C8:00.0":  "0001:c8:00.0",
		"0001:c8:00.0":      "0001:c8:00.0",
		"10000:e1:1f.7":     "10000:e1:1f.7",
		"000f:01:00.0":      "000f:01:00.0",
		"FFFFFFFF:FF:1F.07": "",
		"00:1f.7":           "0000:00:1f.7",
	} {
		a, err := pci.ParseAddress(spelling)
		switch {
		case want == "" && err == nil:
			t.Errorf("%q is taken as %s", spelling, a)
		case want != "" && (err != nil || a.String() != want):
			t.Errorf("%q is %s, %v; want %s", spelling, a, err, want)
		}
	}
	if a, b := at(t, "00000001:C8:00.0"), at(t, "0000:c8:00.0"); a == b {
		t.Error("two domains are one")
	}
	for _, bad := range []string{"", "42:20.0", "0000:42:20.0", "42:00.8", "gg:00.0", "0000:gg:00.0", "42:00", "42.00.0", "4:00.0", "042:00.0",
		"0000:42:0.0", "000:42:00.0", "000000000:42:00.0", " 42:00.0", "42:00.0\n", "+1:00.0", "0x42:00.0", "0000:42:00.0.0", "0000:0000:42:00.0", "42:00.-1", "4２:00.0", "0_00:42:00.0"} {
		if a, err := pci.ParseAddress(bad); err == nil {
			t.Errorf("%q is taken as %s", bad, a)
		}
	}
}

// stored is the CHECK of gpu.pci_address.
var stored = regexp.MustCompile(`^([0-9a-f]{4}|[1-9a-f][0-9a-f]{4,7}):[0-9a-f]{2}:[01][0-9a-f]\.[0-7]$`)

func TestAddressIsStoredAndReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := pci.Address{Domain: rapid.Uint32().Draw(t, "domain"), Bus: rapid.Uint8().Draw(t, "bus"),
			Slot: rapid.Uint8Range(0, 31).Draw(t, "slot"), Function: rapid.Uint8Range(0, 7).Draw(t, "function")}
		if !stored.MatchString(a.String()) {
			t.Fatalf("the database refuses %s", a)
		}
		if b, err := pci.ParseAddress(a.String()); err != nil || a != b {
			t.Fatalf("%s reads back as %s, %v", a, b, err)
		}
	})
}
