package pci_test

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/tenon-cloud/tenon/internal/device/pci"
	"github.com/tenon-cloud/tenon/internal/device/pci/recorded"
)

// A card is known by its class and its vendor's number, and by nothing else.
func TestClassAndVendorMakeACard(t *testing.T) {
	t.Parallel()
	scanned := func(class, id string) pci.Inventory {
		return scan(t, host(t, "00:01.1 class=060400 id=1022:14ab driver=pcieport group=1",
			fmt.Sprintf("01:00.0 under=00:01.1 class=%s id=%s group=2 reset=flr", class, id)), pci.Options{})
	}
	for _, class := range []string{"030000", "030200", "038000", "120000"} {
		for _, vendor := range []string{"10de", "1002", "8086"} {
			inv := scanned(class, vendor+":3d3d")
			if intel := class == "120000" && vendor == "8086"; intel {
				if len(inv.Cards) != 0 || len(inv.Excluded) != 1 {
					t.Errorf("an accelerator of Intel's: %s", table(inv))
				}
				continue
			}
			if len(inv.Cards) != 1 || len(inv.Excluded) != 0 || !inv.Cards[0].Whole.OK {
				t.Errorf("class %s of %s: %s", class, vendor, table(inv))
			}
		}
		for _, vendor := range []string{"1ed5", "1d17", "1a03", "102b", "1234", "15b3"} {
			inv := scanned(class, vendor+":0001")
			if len(inv.Cards) != 0 || len(inv.Excluded) != 1 || inv.Excluded[0].Reason == "" {
				t.Errorf("class %s of %s: %s", class, vendor, table(inv))
			}
		}
	}
	for _, class := range []string{"030100", "040300", "060400", "068000", "088000", "0b4000", "0c0330", "118000", "ff0000", "003d00"} {
		if inv := scanned(class, "10de:3d3d"); len(inv.Cards) != 0 || len(inv.Excluded) != 0 {
			t.Errorf("class %s: %s", class, table(inv))
		}
	}
}

// A server's own graphics are no tenant's, whatever an operator lists.
func TestTheServersOwnGraphicsAreNeverATenants(t *testing.T) {
	t.Parallel()
	for name, id := range map[string]pci.ID{"onboard-aspeed": {Vendor: 0x1a03, Device: 0x2000}, "onboard-matrox": {Vendor: 0x102b, Device: 0x0538}} {
		inv := scan(t, tree(t, name), pci.Options{Allow: []pci.ID{id}})
		if len(inv.Excluded) != 1 || inv.Excluded[0].Function.ID != id || slices.ContainsFunc(inv.Cards, func(c pci.Card) bool { return c.Function.ID == id }) {
			t.Errorf("%s: %s", name, table(inv))
		}
	}
}

// C4: never 17. A virtual function is no card, and its card is not whole, also
// while one of the two ends can't be read.
func TestWhatCanNotBeReadHidesNoVirtualFunction(t *testing.T) {
	t.Parallel()
	cut := func() *recorded.Model {
		return host(t, "driver nvidia sriov",
			"16:02.0 class=060400 id=8086:347a driver=pcieport group=1",
			"17:00.0 under=16:02.0 class=030200 id=10de:20f1 driver=nvidia group=2 vfs=16/4/1/20f1 vgpu=vendor numvfs=16 reset=flr",
			"type 17:00.0 471 16 2048 GRID A100-2C")
	}
	for _, c := range []struct {
		file    string
		unknown int // functions of which nothing is known
		cards   int
	}{
		{"0000:17:00.0/class", 1, 0}, {"0000:17:00.0/vendor", 1, 0}, // the card itself
		{"0000:17:00.0/sriov_numvfs", 0, 1}, {"0000:17:00.0/sriov_totalvfs", 0, 1}, {"0000:17:00.0/virtfn0", 0, 1},
		{"0000:17:00.4/physfn", 1, 1},
	} {
		m := cut()
		m.Unreadable("bus/pci/devices/"+c.file, syscall.EIO)
		inv := scan(t, m, pci.Options{})
		if len(inv.Cards) != c.cards || len(inv.Unknown) != c.unknown || slices.ContainsFunc(inv.Cards, func(c pci.Card) bool { return c.Whole.OK }) {
			t.Errorf("%s unreadable: %s", c.file, table(inv))
		}
		if c.cards == 1 && !inv.Cards[0].Partitioned {
			t.Errorf("%s unreadable: the card passes for one that is not cut", c.file)
		}
	}
	m := host(t, "16:02.0 class=060400 id=8086:347a driver=pcieport group=1",
		"17:00.0 under=16:02.0 class=030200 id=10de:20f1 group=2 vfs=16/4/1/20f1 reset=flr")
	m.Unreadable("bus/pci/devices/0000:17:00.0/sriov_numvfs", syscall.EIO)
	if c := card(t, scan(t, m, pci.Options{}), "17:00.0"); c.Whole.OK || !strings.Contains(c.Whole.Reason, "unknown") {
		t.Errorf("whether it is cut is unknown: %+v", c.Whole)
	}
}

// What can't be read may be anything, so its whole group goes to nobody.
func TestAnUnreadableNeighbourKeepsItsGroup(t *testing.T) {
	t.Parallel()
	m := tree(t, "shared-gpus")
	m.Unreadable("bus/pci/devices/0000:02:00.1/class", syscall.EIO)
	c := card(t, scan(t, m, pci.Options{}), "01:00.0")
	if c.Whole.OK || !strings.Contains(c.Whole.Reason, "0000:02:00.1") {
		t.Errorf("%+v", c.Whole)
	}
}

// The tables in testdata can be written anew; what they must say can't.
func TestRecordedHostsOfferWhatTheyShould(t *testing.T) {
	t.Parallel()
	type want struct {
		cards      int            // of which
		whole      int            // go to a VM as they are,
		reset      int            // can be reset,
		companions map[string]int // have functions that go along,
		bundled    int            // go only with others,
		places     int            // and so many places for vGPUs are on them
		switches   int
		excluded   map[string]string // address: a word of the reason
		refused    map[string]string // cards that no VM can have whole
	}
	vfs := "virtual functions"
	wants := map[string]want{
		"hgx-h100": {cards: 8, whole: 8, reset: 8, switches: 4},
		"a100":     {cards: 2, whole: 2, reset: 2},
		"a100-vgpu": {cards: 2, whole: 1, reset: 2, places: 20,
			refused: map[string]string{"0000:17:00.0": vfs}},
		"a100-mdev": {cards: 2, whole: 1, reset: 2, places: 20,
			refused: map[string]string{"0000:17:00.0": vfs}},
		"l40s":   {cards: 2, whole: 2, reset: 2, excluded: map[string]string{"0000:62:00.0": "ASPEED"}},
		"mi300x": {cards: 8, whole: 8, reset: 8},
		"mi325x-noiommu": {cards: 2, reset: 2,
			refused: map[string]string{"0000:05:00.0": "no IOMMU", "0000:15:00.0": "no IOMMU"}},
		"workstation": {cards: 1, whole: 1, reset: 1, companions: map[string]int{"0000:01:00.0": 3},
			excluded: map[string]string{"0000:00:02.0": "integrated"}},
		"onboard-aspeed": {cards: 1, whole: 1, reset: 1, companions: map[string]int{"0000:c1:00.0": 1},
			excluded: map[string]string{"0000:45:00.0": "ASPEED"}},
		"onboard-matrox": {cards: 2, whole: 2, reset: 2, places: 2, excluded: map[string]string{"0000:01:00.1": "Matrox"}},
		"arc": {cards: 1, whole: 1, reset: 1, companions: map[string]int{"0000:09:00.0": 1},
			excluded: map[string]string{"0000:0c:00.0": "ASPEED"}},
		"shared-nic": {cards: 1, companions: map[string]int{"0000:01:00.0": 1},
			refused: map[string]string{"0000:01:00.0": "network"}, excluded: map[string]string{"0000:00:02.0": "integrated"}},
		"shared-gpus": {cards: 2, whole: 2, bundled: 2, companions: map[string]int{"0000:01:00.0": 1, "0000:02:00.0": 1}},
		"lab":         {cards: 3, whole: 3, reset: 1, excluded: map[string]string{"0000:00:01.0": "emulated"}},
	}
	if len(wants) != len(recorded.Trees()) {
		t.Errorf("%d hosts are told of, and there are %v", len(wants), recorded.Trees())
	}
	for name, w := range wants {
		options := pci.Options{}
		if name == "lab" {
			options = lab
		}
		inv := scan(t, tree(t, name), options)
		got := want{cards: len(inv.Cards), switches: len(inv.Switches)}
		for _, c := range inv.Cards {
			a := c.Function.Address.String()
			got.places += len(c.Parents)
			if c.Whole.OK {
				got.whole++
			}
			if c.Reset.OK {
				got.reset++
			}
			if len(c.Bundle) > 0 {
				got.bundled++
			}
			if n := len(c.Companions); n != w.companions[a] {
				t.Errorf("%s: %d functions go with %s", name, n, a)
			}
			if word, refused := w.refused[a]; refused == c.Whole.OK || !strings.Contains(c.Whole.Reason, word) {
				t.Errorf("%s: %s whole to a VM: %+v", name, a, c.Whole)
			}
			if c.Function.Dead || len(c.Function.Unknown) > 0 {
				t.Errorf("%s: %s is not read: %v", name, a, c.Function.Unknown)
			}
		}
		for _, e := range inv.Excluded {
			if word := w.excluded[e.Function.Address.String()]; word == "" || !strings.Contains(e.Reason, word) {
				t.Errorf("%s: %s is left out: %s", name, e.Function, e.Reason)
			}
		}
		if len(inv.Excluded) != len(w.excluded) || len(inv.Unknown) > 0 ||
			got.cards != w.cards || got.whole != w.whole || got.reset != w.reset || got.bundled != w.bundled || got.places != w.places || got.switches != w.switches {
			t.Errorf("%s: %+v, want %+v:\n%s", name, got, w, table(inv))
		}
	}
}
