package cloud

import "testing"

// C3. slot 20 (hexadecimal), function 8 and bus "gg" are no addresses.
func TestC3PCIAddressesAreComparedByValue(t *testing.T) {
	for spelling, want := range map[string]string{
		"00000000:42:00.0": "0000:42:00.0",
		"0000:42:00.0":     "0000:42:00.0",
		"42:00.0":          "0000:42:00.0",
		"00000001:C8:00.0": "0001:c8:00.0",
		"0001:c8:00.0":     "0001:c8:00.0",
		"0000:C8:00.0":     "0000:c8:00.0",
		"00010000:03:1f.7": "10000:03:1f.7", // a VMD's domain has five digits
		"ffffffff:ff:1f.7": "ffffffff:ff:1f.7",
	} {
		got, err := ParsePCIAddress(spelling)
		if err != nil || got.String() != want {
			t.Errorf("%q is %q, %v; want %q", spelling, got, err, want)
		}
		if again, err := ParsePCIAddress(got.String()); err != nil || again != got {
			t.Errorf("%q does not stand for itself: %v, %v", got, again, err)
		}
	}
	for _, not := range []string{
		"0000:42:20.0", "0000:42:00.8", "0000:gg:00.0", "", "42", "42:00", "00.0", ":42:00.0", "0000:42:00.", "0000:42:.0", "0000::00.0",
		"000000000:42:00.0", "0000:042:00.0", "0000:42:000.0", "0000:42:00.00", "0:0000:42:00.0", "+000:42:00.0", "0x00:42:00.0", " 0000:42:00.0",
		"0000:42:00.0\n", "0000:42:0_.0", "0000:-1:00.0",
	} {
		if got, err := ParsePCIAddress(not); err == nil {
			t.Errorf("%q is read as %q", not, got)
		}
	}
}
